"""Activations, softmax and its logarithm among them."""

from derive import *

d = axes("d")


@op
def leaky_relu(f, x: tensor[...], slope: scalar = 0.01):
    """The identity above 0, a small slope below it (Maas, Hannun & Ng, 2013)."""
    f.y[...] = where(x[...] > 0, x[...], slope * x[...])
    return f.y


@op
def elu(f, x: tensor[...], alpha: scalar = 1.0):
    """The identity above 0, a saturating exponential below it (Clevert, Unterthiner & Hochreiter, 2016)."""
    f.y[...] = where(x[...] > 0, x[...], alpha * (exp(x[...]) - 1))
    return f.y


@op
def silu(f, x: tensor[...]):
    """An element times its own sigmoid (Hendrycks & Gimpel, 2016; swish: Ramachandran, Zoph & Le, 2017)."""
    f.y[...] = x[...] * sigmoid(x[...])
    return f.y


@op
def gelu(f, x: tensor[...]):
    """An element times the normal distribution function of it (Hendrycks & Gimpel, 2016)."""
    f.phi[...] = (1 + erf(x[...] / sqrt(2))) / 2
    f.y[...] = x[...] * f.phi[...]
    return f.y


@op
def gelu_tanh(f, x: tensor[...]):
    """GELU by way of the hyperbolic tangent (Hendrycks & Gimpel, 2016)."""
    f.t[...] = tanh(sqrt(2 / pi) * (x[...] + 0.044715 * x[...] ** 3))
    f.y[...] = x[...] * (1 + f.t[...]) / 2
    return f.y


@op
def bias_gelu(f, x: tensor[..., d], b: tensor[d]):
    """A bias, then GELU: what follows the first projection of a transformer's block (Radford et al., 2018)."""
    f.h[..., d] = x[..., d] + b[d]
    f.y = gelu(f.h)
    return f.y


@op
def swiglu(f, gate: tensor[...], up: tensor[...]):
    """The gated unit between two projections: silu of the gate times the other (Shazeer, 2020)."""
    f.y[...] = gate[...] * sigmoid(gate[...]) * up[...]
    return f.y


@op
def softmax(f, x: tensor[..., d]):
    """Exponentials over their sum, along the last axis (Bridle, 1990)."""
    f.m[...] = amax(x[..., d], over=d)
    f.u[..., d] = exp(x[..., d] - f.m[...])
    f.p[..., d] = f.u[..., d] / sum(f.u[..., d], over=d)
    return f.p


@op
def log_softmax(f, x: tensor[..., d]):
    """The logarithm of softmax, along the last axis."""
    f.m[...] = amax(x[..., d], over=d)
    f.s[...] = sum(exp(x[..., d] - f.m[...]), over=d)
    f.y[..., d] = x[..., d] - f.m[...] - log(f.s[...])
    return f.y


@op
def logsumexp(f, x: tensor[..., d]):
    """The logarithm of the sum of exponentials, along the last axis."""
    f.m[...] = amax(x[..., d], over=d)
    f.s[...] = sum(exp(x[..., d] - f.m[...]), over=d)
    f.y[...] = f.m[...] + log(f.s[...])
    return f.y


# --- the words of the notation, each as an op of its own --------------------------------------------------
# They stand last: from its definition on, such a name is the op.


@op
def relu(f, x: tensor[...]):
    """The positive part (Nair & Hinton, 2010)."""
    f.y[...] = relu(x[...])
    return f.y


@op
def sigmoid(f, x: tensor[...]):
    """The logistic function."""
    f.y[...] = sigmoid(x[...])
    return f.y


@op
def softplus(f, x: tensor[...]):
    """The smooth positive part (Dugas et al., 2001)."""
    f.y[...] = softplus(x[...])
    return f.y


@op
def tanh(f, x: tensor[...]):
    """The hyperbolic tangent."""
    f.y[...] = tanh(x[...])
    return f.y
