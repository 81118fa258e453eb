"""Layers with parameters: linear, bilinear, embedding, convolutions; pooling and dropout."""

from derive import *

n, t, e, v, i, j, o = axes("n t e v i j o")
c, l, k, p, q, h, w = axes("c l k p q h w")


@op
def linear(f, x: tensor[..., i], w: tensor[i, o], b: tensor[o]):
    """An affine map of the last axis."""
    f.y[..., o] = sum(x[..., i] * w[i, o], over=i) + b[o]
    return f.y


@op
def bilinear(f, x: tensor[..., i], z: tensor[..., j], w: tensor[o, i, j], b: tensor[o]):
    """A map of two inputs, affine in each of them."""
    f.y[..., o] = sum(x[..., i] * w[o, i, j] * z[..., j], over=(i, j)) + b[o]
    return f.y


@op
def embedding(f, C: tensor[v, e], ix: index(v)[...]):
    """Rows of a table; the gradients of repeated rows accumulate."""
    f.emb[..., e] = C[ix[...], e]
    return f.emb


@op
def conv1d(f, x: tensor[n, c, l], w: tensor[o, c, k], b: tensor[o]):
    """A convolution along one axis, without padding (Waibel et al., 1989)."""
    f.y[n, o, t] = sum(x[n, c, t + k] * w[o, c, k], over=(c, k)) + b[o]
    return f.y


@op
def conv1d_stride2_dilation3(f, x: tensor[n, c, l], w: tensor[o, c, k], b: tensor[o]):
    """A convolution along one axis whose windows start at every second place and take every third element."""
    f.y[n, o, t] = sum(x[n, c, 2 * t + 3 * k] * w[o, c, k], over=(c, k)) + b[o]
    return f.y


@op
def conv2d(f, x: tensor[n, c, h, w], k: tensor[o, c, p, q], b: tensor[o]):
    """A convolution of images, without padding (LeCun et al., 1989)."""
    f.y[n, o, i, j] = sum(x[n, c, i + p, j + q] * k[o, c, p, q], over=(c, p, q)) + b[o]
    return f.y


@op
def conv2d_stride2_dilation2(f, x: tensor[n, c, h, w], k: tensor[o, c, p, q], b: tensor[o]):
    """A convolution of images with stride 2 and dilation 2 (Yu & Koltun, 2016)."""
    f.y[n, o, i, j] = sum(x[n, c, 2 * i + 2 * p, 2 * j + 2 * q] * k[o, c, p, q], over=(c, p, q)) + b[o]
    return f.y


@op
def depthwise_conv2d(f, x: tensor[n, c, h, w], k: tensor[c, p, q], b: tensor[c]):
    """A convolution of each channel by itself, without padding (Chollet, 2017)."""
    f.y[n, c, i, j] = sum(x[n, c, i + p, j + q] * k[c, p, q], over=(p, q)) + b[c]
    return f.y


# --- pooling ----------------------------------------------------------------------------------------------


@op
def avg_pool2d(f, x: tensor[n, c, h, w], height: length(p) = 2, width: length(q) = 2):
    """The mean of every window; the windows start at every second place."""
    f.y[n, c, i, j] = mean(x[n, c, 2 * i + p, 2 * j + q], over=(p, q))
    return f.y


@op
def max_pool2d(f, x: tensor[n, c, h, w], height: length(p) = 2, width: length(q) = 2):
    """The maximum of every window; the windows start at every second place, and ties share the gradient evenly."""
    f.y[n, c, i, j] = amax(x[n, c, 2 * i + p, 2 * j + q], over=(p, q))
    return f.y


@op
def global_avg_pool(f, x: tensor[n, c, h, w]):
    """The mean of each channel over all places (Lin, Chen & Yan, 2014)."""
    f.y[n, c] = mean(x[n, c, h, w], over=(h, w))
    return f.y


# --- and the rest -----------------------------------------------------------------------------------------


@op
def dropout(f, x: tensor[...], mask: constant[...], rate: scalar = 0.5):
    """Elements kept where the mask is 1, and scaled up for those dropped (Srivastava et al., 2014)."""
    f.y[...] = x[...] * mask[...] / (1 - rate)
    return f.y


@op
def flatten(f, x: tensor[n, t, e]):
    """The last two axes as one, the first of them slowest."""
    f.y[n, (t, e)] = x[n, t, e]
    return f.y
