"""Specs whose saved tensors are the question, and two where an elimination or a mask once went wrong."""

from sympy import Piecewise

from derive import amax, amin, axes, concat, exp, index, mean, op, rsqrt, sum, tanh, tensor

n, c, d, a, b = axes("n c d a b")


@op
def spread_and_variance(f, x: tensor[n, d]):
    """The comparisons of `amax` and `amin` must see the very values that the forward compared."""
    f.mu[n] = mean(x[n, d], over=d)
    f.v[n] = mean((x[n, d] - f.mu[n]) ** 2, over=d)
    f.y[n] = amax(x[n, d], over=d) - amin(x[n, d], over=d)
    return f.y, f.v


@op
def mean_times_maximum(f, z: tensor[n, c]):
    """A mask that is subtracted is a number, not a truth value."""
    f.m[n] = amax(z[n, c], over=c)
    f.u[n, c] = exp(z[n, c] - f.m[n])
    f.p[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    f.y[n] = mean(f.p[n, c], over=c) * amax(f.p[n, c], over=c)
    return f.y


@op
def in_cases(f, x: tensor[n, d]):
    """SymPy's own cases."""
    f.y[n, d] = Piecewise((x[n, d] ** 2, x[n, d] > 1), (exp(x[n, d]), x[n, d] > 0), (2 * x[n, d], True))
    return f.y


@op
def joined(f, x: tensor[..., a], z: tensor[..., b], w: tensor[d]):
    """A piece's derivative reads the output at the piece's own place."""
    f.y[..., d] = concat(2 * x[..., a], tanh(z[..., b]), along=d)
    f.o[..., d] = f.y[..., d] * w[d]
    return f.o


@op
def norm_with_gain(f, x: tensor[n, d], gain: tensor[d]):
    f.ms[n] = mean(x[n, d] ** 2, over=d)
    f.r[n] = rsqrt(f.ms[n] + 1)
    f.xhat[n, d] = x[n, d] * f.r[n]
    f.y[n, d] = gain[d] * f.xhat[n, d]
    return f.y


@op
def norm_with_nonzero_gain(f, x: tensor[n, d], gain: tensor[d].nonzero):
    f.ms[n] = mean(x[n, d] ** 2, over=d)
    f.r[n] = rsqrt(f.ms[n] + 1)
    f.xhat[n, d] = x[n, d] * f.r[n]
    f.y[n, d] = gain[d] * f.xhat[n, d]
    return f.y


@op
def joined_from_one(f, x: tensor[..., a]):
    """Work that two pieces share is done once, outside the concatenation."""
    f.y[..., d] = concat(exp(x[..., a]), 2 * exp(x[..., a]), along=d)
    return f.y


@op
def product_and_its_transpose(f, x: tensor[n, c], w: tensor[c, d]):
    """A matrix product of which a view is returned may not be written over."""
    f.s[n, d] = sum(x[n, c] * w[c, d], over=c)
    f.t[d, n] = f.s[n, d]
    f.y[n, d] = 2 * f.s[n, d]
    return f.t, f.y


@op
def squares_of_rows(f, ix: index(c)[n], table: tensor[c, d]):
    """An integer input that comes first hides no half precision behind it."""
    f.y[()] = sum(table[ix[n], d] ** 2 - 1, over=(n, d))
    return f.y


@op
def one_head(f, q: tensor[n, d], k: tensor[c, d], v: tensor[c, a]):
    """Scores that no batch has: what they are made of is as likely to be a layer's weights."""
    f.s[n, c] = sum(q[n, d] * k[c, d], over=d)
    f.u[n, c] = exp(f.s[n, c] - amax(f.s[n, c], over=c))
    f.p[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    f.o[n, a] = sum(f.p[n, c] * v[c, a], over=c)
    return f.o


@op
def two_layers(f, x: tensor[n, d], w: tensor[d, c], z: tensor[c, a]):
    f.h[n, c] = tanh(sum(x[n, d] * w[d, c], over=d))
    f.y[n, a] = sum(f.h[n, c] * z[c, a], over=c)
    return f.y
