"""Layers that many problems of level 2 are made of: each is an op, which theirs call and which is inlined there."""

# ruff: noqa: F403, F405
from derive import *

n, c, i, o, s, g, k = axes("n c i o s g k")
d, h, w, r, p, q, l, u, v = axes("d h w r p q l u v")  # noqa: E741
two, pair, half = axes("two=2 pair=2 half=2")

# --- element by element -----------------------------------------------------------------------------------


@op
def mish(f, x: tensor[...]):
    """Mish (Misra, 2019)."""
    f.y[...] = x[...] * tanh(softplus(x[...]))
    return f.y


@op
def hardtanh(f, x: tensor[...], low: scalar = -1.0, high: scalar = 1.0):
    """An element, no less than one number and no more than another."""
    f.y[...] = minimum(maximum(x[...], low), high)
    return f.y


@op
def hardswish(f, x: tensor[...]):
    """An element times a piece of a line that runs from 0 to 1 (Howard et al., 2019)."""
    f.y[...] = x[...] * minimum(maximum(x[...] + 3, 0), 6) / 6
    return f.y


# --- linear -----------------------------------------------------------------------------------------------


@op
def linear(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    """An affine map of the features."""
    f.y[n, o] = sum(x[n, i] * weight[o, i], over=i) + bias[o]
    return f.y


@op
def conv2d(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    """A convolution of images."""
    f.y[n, o, u, v] = sum(x[n, c, u + p, v + q] * weight[o, c, p, q], over=(c, p, q)) + bias[o]
    return f.y


@op
def conv3d(f, x: tensor[n, c, d, h, w], weight: tensor[o, c, r, p, q], bias: tensor[o]):
    """A convolution of volumes."""
    taps = x[n, c, l + r, u + p, v + q] * weight[o, c, r, p, q]
    f.y[n, o, l, u, v] = sum(taps, over=(c, r, p, q)) + bias[o]
    return f.y


# --- pools ------------------------------------------------------------------------------------------------


@op
def max_pool2d(f, x: tensor[n, c, h, w]):
    """The maximum of every window of 2 by 2."""
    f.y[n, c, u, v] = amax(x[n, c, 2 * u + two, 2 * v + pair], over=(two, pair))
    return f.y


@op
def avg_pool2d(f, x: tensor[n, c, h, w]):
    """The mean of every window of 2 by 2."""
    f.y[n, c, u, v] = mean(x[n, c, 2 * u + two, 2 * v + pair], over=(two, pair))
    return f.y


@op
def max_pool3d(f, x: tensor[n, c, d, h, w]):
    """The maximum of every window of 2 by 2 by 2."""
    f.y[n, c, l, u, v] = amax(x[n, c, 2 * l + half, 2 * u + two, 2 * v + pair], over=(half, two, pair))
    return f.y


@op
def avg_pool3d(f, x: tensor[n, c, d, h, w]):
    """The mean of every window of 2 by 2 by 2."""
    f.y[n, c, l, u, v] = mean(x[n, c, 2 * l + half, 2 * u + two, 2 * v + pair], over=(half, two, pair))
    return f.y


# --- norms ------------------------------------------------------------------------------------------------


@op
def batch_norm1d(f, x: tensor[n, c], gamma: tensor[c], beta: tensor[c]):
    """Batch normalisation of features by the statistics of the batch."""
    f.mu[c] = mean(x[n, c], over=n)
    f.var[c] = mean((x[n, c] - f.mu[c]) ** 2, over=n)
    f.y[n, c] = (x[n, c] - f.mu[c]) * rsqrt(f.var[c] + 1e-5) * gamma[c] + beta[c]
    return f.y


@op
def batch_norm2d(f, x: tensor[n, c, h, w], gamma: tensor[c], beta: tensor[c]):
    """Batch normalisation of images by the statistics of the batch."""
    f.mu[c] = mean(x[n, c, h, w], over=(n, h, w))
    f.var[c] = mean((x[n, c, h, w] - f.mu[c]) ** 2, over=(n, h, w))
    f.y[n, c, h, w] = (x[n, c, h, w] - f.mu[c]) * rsqrt(f.var[c] + 1e-5) * gamma[c] + beta[c]
    return f.y


@op
def batch_norm3d(f, x: tensor[n, c, d, h, w], gamma: tensor[c], beta: tensor[c]):
    """Batch normalisation of volumes by the statistics of the batch."""
    f.mu[c] = mean(x[n, c, d, h, w], over=(n, d, h, w))
    f.var[c] = mean((x[n, c, d, h, w] - f.mu[c]) ** 2, over=(n, d, h, w))
    f.y[n, c, d, h, w] = (x[n, c, d, h, w] - f.mu[c]) * rsqrt(f.var[c] + 1e-5) * gamma[c] + beta[c]
    return f.y


@op
def instance_norm2d(f, x: tensor[n, c, h, w]):
    """Every channel of every image by its own statistics."""
    f.mu[n, c] = mean(x[n, c, h, w], over=(h, w))
    f.var[n, c] = mean((x[n, c, h, w] - f.mu[n, c]) ** 2, over=(h, w))
    f.y[n, c, h, w] = (x[n, c, h, w] - f.mu[n, c]) * rsqrt(f.var[n, c] + 1e-5)
    return f.y


@op
def instance_norm3d(f, x: tensor[n, c, d, h, w]):
    """Every channel of every volume by its own statistics."""
    f.mu[n, c] = mean(x[n, c, d, h, w], over=(d, h, w))
    f.var[n, c] = mean((x[n, c, d, h, w] - f.mu[n, c]) ** 2, over=(d, h, w))
    f.y[n, c, d, h, w] = (x[n, c, d, h, w] - f.mu[n, c]) * rsqrt(f.var[n, c] + 1e-5)
    return f.y


@op
def group_norm1d(f, x: tensor[n, c], gamma: tensor[c], beta: tensor[c], groups: length(g)):
    """Groups of features by the statistics of each row."""
    f.z[n, g, k] = x[n, (g, k)]
    f.mu[n, g] = mean(f.z[n, g, k], over=k)
    f.var[n, g] = mean((f.z[n, g, k] - f.mu[n, g]) ** 2, over=k)
    f.xhat[n, (g, k)] = (f.z[n, g, k] - f.mu[n, g]) * rsqrt(f.var[n, g] + 1e-5)
    f.y[n, c] = f.xhat[n, c] * gamma[c] + beta[c]
    return f.y


@op
def group_norm2d(f, x: tensor[n, c, h, w], gamma: tensor[c], beta: tensor[c], groups: length(g)):
    """Groups of channels by the statistics of each image."""
    f.z[n, g, k, h, w] = x[n, (g, k), h, w]
    f.mu[n, g] = mean(f.z[n, g, k, h, w], over=(k, h, w))
    f.var[n, g] = mean((f.z[n, g, k, h, w] - f.mu[n, g]) ** 2, over=(k, h, w))
    f.xhat[n, (g, k), h, w] = (f.z[n, g, k, h, w] - f.mu[n, g]) * rsqrt(f.var[n, g] + 1e-5)
    f.y[n, c, h, w] = f.xhat[n, c, h, w] * gamma[c] + beta[c]
    return f.y


@op
def group_norm3d(f, x: tensor[n, c, d, h, w], gamma: tensor[c], beta: tensor[c], groups: length(g)):
    """Groups of channels by the statistics of each volume."""
    f.z[n, g, k, d, h, w] = x[n, (g, k), d, h, w]
    f.mu[n, g] = mean(f.z[n, g, k, d, h, w], over=(k, d, h, w))
    f.var[n, g] = mean((f.z[n, g, k, d, h, w] - f.mu[n, g]) ** 2, over=(k, d, h, w))
    f.xhat[n, (g, k), d, h, w] = (f.z[n, g, k, d, h, w] - f.mu[n, g]) * rsqrt(f.var[n, g] + 1e-5)
    f.y[n, c, d, h, w] = f.xhat[n, c, d, h, w] * gamma[c] + beta[c]
    return f.y
