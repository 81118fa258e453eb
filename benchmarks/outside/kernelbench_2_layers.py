"""Layers that the problems of level 2 are made of: each is an op, which theirs call and which is inlined there.

Beside them their backwards by hand, as text that a problem's own is put together from: to the gradient `into`, from the
gradient `of` what is computed.
"""

from derive import *

n, c, i, o, s, g, k = axes("n c i o s g k")
d, h, w, r, p, q, l, u, v = axes("d h w r p q l u v")
two, pair, half = axes("two=2 pair=2 half=2")

EPS = 1e-5


# --- element by element -----------------------------------------------------------------------------------


@op
def mish(f, x: tensor[...]):
    """Mish (Misra, 2019)."""
    f.y[...] = x[...] * tanh(softplus(x[...]))
    return f.y


def mish_back(into: str, of: str, x: str) -> str:
    return f"""
omega = torch.tanh(F.softplus({x}))
{into} = {of} * (omega + {x} * torch.sigmoid({x}) * (1 - omega * omega))
"""


def silu_back(into: str, of: str, x: str, y: str) -> str:
    return f"""
sigma = torch.sigmoid({x})
{into} = {of} * (sigma + {y} * (1 - sigma))
"""


def gelu_back(into: str, of: str, x: str, phi: str) -> str:
    return f"""
{into} = {of} * ({phi} + {x} * torch.exp(-{x} * {x} / 2) / math.sqrt(2 * math.pi))
"""


@op
def clamped(f, x: tensor[...], low: scalar = 0.0, high: scalar = 1.0):
    """An element, no less than one number and no more than another; at them its derivative is 1."""
    f.y[...] = where(x[...] < low, low, where(x[...] > high, high, x[...]))
    return f.y


@op
def hardtanh(f, x: tensor[...], low: scalar = -1.0, high: scalar = 1.0):
    """An element, no less than one number and no more than another; at them its derivative is 0."""
    f.y[...] = where(x[...] <= low, low, where(x[...] >= high, high, x[...]))
    return f.y


@op
def hardswish(f, x: tensor[...]):
    """An element times a piece of a line that runs from 0 to 1 (Howard et al., 2019)."""
    f.y[...] = where((x[...] > -3) & (x[...] < 3), x[...] * (x[...] + 3) / 6, relu(x[...]))
    return f.y


def hardswish_back(into: str, of: str, x: str) -> str:
    return f"""
{into} = {of} * torch.where({x}.abs() < 3, {x} / 3 + 0.5, ({x} > 0).to({x}.dtype))
"""


# --- linear -----------------------------------------------------------------------------------------------


@op
def linear(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    """An affine map of the features."""
    f.y[n, o] = sum(x[n, i] * weight[o, i], over=i) + bias[o]
    return f.y


_LINEAR = """
dx = dz @ weight
dweight = dz.T @ x
"""
LINEAR = _LINEAR + "dbias = dz.sum(0)"
LINEAR_NO_SHIFT = _LINEAR + "dbias = torch.zeros_like(bias)"
"""Where what follows takes off a mean, so that a shift has no effect."""


@op
def conv2d(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    """A convolution of images."""
    f.y[n, o, u, v] = sum(x[n, c, u + p, v + q] * weight[o, c, p, q], over=(c, p, q)) + bias[o]
    return f.y


_CONV2D = """
dx = torch.nn.grad.conv2d_input(x.shape, weight, dz)
dweight = torch.nn.grad.conv2d_weight(x, weight.shape, dz)
"""
CONV2D = _CONV2D + "dbias = dz.sum((0, 2, 3))"
CONV2D_NO_SHIFT = _CONV2D + "dbias = torch.zeros_like(bias)"


@op
def conv3d(f, x: tensor[n, c, d, h, w], weight: tensor[o, c, r, p, q], bias: tensor[o]):
    """A convolution of volumes."""
    taps = x[n, c, l + r, u + p, v + q] * weight[o, c, r, p, q]
    f.y[n, o, l, u, v] = sum(taps, over=(c, r, p, q)) + bias[o]
    return f.y


_CONV3D = """
dx = torch.nn.grad.conv3d_input(x.shape, weight, dz)
dweight = torch.nn.grad.conv3d_weight(x, weight.shape, dz)
"""
CONV3D = _CONV3D + "dbias = dz.sum((0, 2, 3, 4))"
CONV3D_NO_SHIFT = _CONV3D + "dbias = torch.zeros_like(bias)"


@op
def conv3d_padded(f, x: tensor[n, c, d, h, w], weight: tensor[o, c, r, p, q], bias: tensor[o]):
    """A convolution of volumes with one place of zeros around."""
    deep = (l + r >= 1) & (l + r <= size(d))
    inside = deep & (u + p >= 1) & (u + p <= size(h)) & (v + q >= 1) & (v + q <= size(w))
    taps = x[n, c, l + r - 1, u + p - 1, v + q - 1] * weight[o, c, r, p, q]
    f.y[n, o, l, u, v] = sum(where(inside, taps, 0), over=(c, r, p, q)) + bias[o]
    return f.y


CONV3D_PADDED = """
dx = torch.nn.grad.conv3d_input(x.shape, weight, dz, padding=1)
dweight = torch.nn.grad.conv3d_weight(x, weight.shape, dz, padding=1)
dbias = dz.sum((0, 2, 3, 4))
"""


# --- transposed convolutions, each of a stride and of a number of places cut off at each end ---------------


@op
def transposed2d(
    f, x: tensor[n, c, h, w], weight: tensor[c, o, p, q], bias: tensor[o], high: length(u), wide: length(v)
):
    """Of stride 2, one place cut off."""
    met = eq(2 * h + p - 1, u) & eq(2 * w + q - 1, v)
    f.y[n, o, u, v] = sum(where(met, x[n, c, h, w] * weight[c, o, p, q], 0), over=(c, h, w, p, q)) + bias[o]
    return f.y


@op
def transposed2d_whole(
    f, x: tensor[n, c, h, w], weight: tensor[c, o, p, q], bias: tensor[o], high: length(u), wide: length(v)
):
    """Of stride 2, nothing cut off."""
    met = eq(2 * h + p, u) & eq(2 * w + q, v)
    f.y[n, o, u, v] = sum(where(met, x[n, c, h, w] * weight[c, o, p, q], 0), over=(c, h, w, p, q)) + bias[o]
    return f.y


@op
def transposed2d_dense(
    f, x: tensor[n, c, h, w], weight: tensor[c, o, p, q], bias: tensor[o], high: length(u), wide: length(v)
):
    """Of stride 1, one place cut off."""
    met = eq(h + p - 1, u) & eq(w + q - 1, v)
    f.y[n, o, u, v] = sum(where(met, x[n, c, h, w] * weight[c, o, p, q], 0), over=(c, h, w, p, q)) + bias[o]
    return f.y


@op
def transposed2d_dense_whole(
    f, x: tensor[n, c, h, w], weight: tensor[c, o, p, q], bias: tensor[o], high: length(u), wide: length(v)
):
    """Of stride 1, nothing cut off."""
    met = eq(h + p, u) & eq(w + q, v)
    f.y[n, o, u, v] = sum(where(met, x[n, c, h, w] * weight[c, o, p, q], 0), over=(c, h, w, p, q)) + bias[o]
    return f.y


@op
def transposed3d(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    """Of stride 2, one place cut off."""
    met = eq(2 * d + r - 1, l) & eq(2 * h + p - 1, u) & eq(2 * w + q - 1, v)
    parts = where(met, x[n, c, d, h, w] * weight[c, o, r, p, q], 0)
    f.y[n, o, l, u, v] = sum(parts, over=(c, d, h, w, r, p, q)) + bias[o]
    return f.y


@op
def transposed3d_cut(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    """Of stride 2, two places cut off."""
    met = eq(2 * d + r - 2, l) & eq(2 * h + p - 2, u) & eq(2 * w + q - 2, v)
    parts = where(met, x[n, c, d, h, w] * weight[c, o, r, p, q], 0)
    f.y[n, o, l, u, v] = sum(parts, over=(c, d, h, w, r, p, q)) + bias[o]
    return f.y


@op
def transposed3d_dense(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    """Of stride 1, one place cut off."""
    met = eq(d + r - 1, l) & eq(h + p - 1, u) & eq(w + q - 1, v)
    parts = where(met, x[n, c, d, h, w] * weight[c, o, r, p, q], 0)
    f.y[n, o, l, u, v] = sum(parts, over=(c, d, h, w, r, p, q)) + bias[o]
    return f.y


@op
def transposed3d_dense_whole(
    f, x: tensor[n, c, d, h, w], weight: tensor[c, o, r, p, q], deep: length(l), high: length(u), wide: length(v)
):
    """Of stride 1, nothing cut off, no bias."""
    met = eq(d + r, l) & eq(h + p, u) & eq(w + q, v)
    parts = where(met, x[n, c, d, h, w] * weight[c, o, r, p, q], 0)
    f.y[n, o, l, u, v] = sum(parts, over=(c, d, h, w, r, p, q))
    return f.y


def transposed_back(rank: int, stride: int, cut: int, dbias: str = "") -> str:
    """By the convolution that is transposed; `dbias` where the gradient of the bias is no sum."""
    how = f"stride={stride}, padding={cut}"
    return f"""
dx = F.conv{rank}d(dz, weight, {how})
dweight = torch.nn.grad.conv{rank}d_weight(dz, weight.shape, x, {how})
dbias = {dbias or f"dz.sum({(0, *range(2, rank + 2))})"}
"""


NO_SHIFT = "torch.zeros_like(bias)"


# --- over channels ----------------------------------------------------------------------------------------


@op
def softmax2d(f, x: tensor[n, c, h, w]):
    """Shares of the channels at each place of an image."""
    f.m[n, h, w] = amax(x[n, c, h, w], over=c)
    f.e[n, c, h, w] = exp(x[n, c, h, w] - f.m[n, h, w])
    f.y[n, c, h, w] = f.e[n, c, h, w] / sum(f.e[n, c, h, w], over=c)
    return f.y


@op
def softmax3d(f, x: tensor[n, c, d, h, w]):
    """Shares of the channels at each place of a volume."""
    f.m[n, d, h, w] = amax(x[n, c, d, h, w], over=c)
    f.e[n, c, d, h, w] = exp(x[n, c, d, h, w] - f.m[n, d, h, w])
    f.y[n, c, d, h, w] = f.e[n, c, d, h, w] / sum(f.e[n, c, d, h, w], over=c)
    return f.y


def softmax_back(into: str, of: str, y: str, axis: int = 1) -> str:
    return f"""
{into} = {y} * ({of} - ({of} * {y}).sum({axis}, True))
"""


# --- pools ------------------------------------------------------------------------------------------------


@op
def max_pool2d(f, x: tensor[n, c, h, w]):
    """The maximum of every window of 2 by 2."""
    f.y[n, c, u, v] = amax(x[n, c, 2 * u + two, 2 * v + pair], over=(two, pair))
    return f.y


@op
def max_pool3d(f, x: tensor[n, c, d, h, w]):
    """The maximum of every window of 2 by 2 by 2."""
    f.y[n, c, l, u, v] = amax(x[n, c, 2 * l + half, 2 * u + two, 2 * v + pair], over=(half, two, pair))
    return f.y


def max_pool_back(into: str, of: str, x: str, rank: int, size: int = 2) -> str:
    """By the places that the pool returns beside its values."""
    return f"""
places = F.max_pool{rank}d({x}, {size}, return_indices=True)[1]
{into} = F.max_unpool{rank}d({of}, places, {size}, output_size={x}.shape)
"""


@op
def avg_pool2d(f, x: tensor[n, c, h, w]):
    """The mean of every window of 2 by 2."""
    f.y[n, c, u, v] = mean(x[n, c, 2 * u + two, 2 * v + pair], over=(two, pair))
    return f.y


@op
def avg_pool3d(f, x: tensor[n, c, d, h, w]):
    """The mean of every window of 2 by 2 by 2."""
    f.y[n, c, l, u, v] = mean(x[n, c, 2 * l + half, 2 * u + two, 2 * v + pair], over=(half, two, pair))
    return f.y


def avg_pool_back(into: str, of: str, x: str, rank: int, size: int = 2) -> str:
    """Each window's gradient at all its places, and zeros where a side is no whole number of windows."""
    rest = ", ".join(f"0, {x}.shape[-{a}] % {size}" for a in range(1, rank + 1))
    return f"""
shares = F.interpolate({of} / {size**rank}, scale_factor={size}, mode="nearest")
{into} = F.pad(shares, ({rest}))
"""


# --- norms ------------------------------------------------------------------------------------------------


@op
def batch_norm1d(f, x: tensor[n, c], gamma: tensor[c], beta: tensor[c]):
    """Batch normalisation of features by the statistics of the batch."""
    f.mu[c] = mean(x[n, c], over=n)
    f.rstd[c] = rsqrt(mean((x[n, c] - f.mu[c]) ** 2, over=n) + EPS)
    f.xhat[n, c] = (x[n, c] - f.mu[c]) * f.rstd[c]
    f.y[n, c] = f.xhat[n, c] * gamma[c] + beta[c]
    return f.y


@op
def batch_norm2d(f, x: tensor[n, c, h, w], gamma: tensor[c], beta: tensor[c]):
    """Batch normalisation of images by the statistics of the batch."""
    f.mu[c] = mean(x[n, c, h, w], over=(n, h, w))
    f.rstd[c] = rsqrt(mean((x[n, c, h, w] - f.mu[c]) ** 2, over=(n, h, w)) + EPS)
    f.xhat[n, c, h, w] = (x[n, c, h, w] - f.mu[c]) * f.rstd[c]
    f.y[n, c, h, w] = f.xhat[n, c, h, w] * gamma[c] + beta[c]
    return f.y


@op
def batch_norm3d(f, x: tensor[n, c, d, h, w], gamma: tensor[c], beta: tensor[c]):
    """Batch normalisation of volumes by the statistics of the batch."""
    f.mu[c] = mean(x[n, c, d, h, w], over=(n, d, h, w))
    f.rstd[c] = rsqrt(mean((x[n, c, d, h, w] - f.mu[c]) ** 2, over=(n, d, h, w)) + EPS)
    f.xhat[n, c, d, h, w] = (x[n, c, d, h, w] - f.mu[c]) * f.rstd[c]
    f.y[n, c, d, h, w] = f.xhat[n, c, d, h, w] * gamma[c] + beta[c]
    return f.y


def batch_norm_back(into: str, of: str, name: str, rank: int, gain: str = "gamma", shift: str = "beta") -> str:
    """Of the norm whose equations begin with `name`, over all axes but the second of a tensor of that rank."""
    over, along = _besides_channels(rank)
    count = f"({of}.numel() // {of}.shape[1])"
    return f"""
d{gain} = ({of} * {name}_xhat).sum({over})
d{shift} = {of}.sum({over})
centred = {of} - d{shift}{along} / {count} - {name}_xhat * d{gain}{along} / {count}
{into} = ({gain} * {name}_rstd){along} * centred
"""


@op
def instance_norm2d(f, x: tensor[n, c, h, w]):
    """Every channel of every image by its own statistics."""
    f.mu[n, c] = mean(x[n, c, h, w], over=(h, w))
    f.rstd[n, c] = rsqrt(mean((x[n, c, h, w] - f.mu[n, c]) ** 2, over=(h, w)) + EPS)
    f.y[n, c, h, w] = (x[n, c, h, w] - f.mu[n, c]) * f.rstd[n, c]
    return f.y


@op
def instance_norm3d(f, x: tensor[n, c, d, h, w]):
    """Every channel of every volume by its own statistics."""
    f.mu[n, c] = mean(x[n, c, d, h, w], over=(d, h, w))
    f.rstd[n, c] = rsqrt(mean((x[n, c, d, h, w] - f.mu[n, c]) ** 2, over=(d, h, w)) + EPS)
    f.y[n, c, d, h, w] = (x[n, c, d, h, w] - f.mu[n, c]) * f.rstd[n, c]
    return f.y


def instance_norm_back(into: str, of: str, name: str, rank: int) -> str:
    """Of the norm that is called `name`."""
    over, along = tuple(range(2, rank)), "[..." + ", None" * (rank - 2) + "]"
    return f"""
means = {of}.mean({over}, True) + {name} * ({of} * {name}).mean({over}, True)
{into} = {name}_rstd{along} * ({of} - means)
"""


@op
def group_norm1d(f, x: tensor[n, c], gamma: tensor[c], beta: tensor[c], groups: length(g)):
    """Groups of features by the statistics of each row."""
    f.z[n, g, k] = x[n, (g, k)]
    f.mu[n, g] = mean(f.z[n, g, k], over=k)
    f.rstd[n, g] = rsqrt(mean((f.z[n, g, k] - f.mu[n, g]) ** 2, over=k) + EPS)
    f.xhat[n, (g, k)] = (f.z[n, g, k] - f.mu[n, g]) * f.rstd[n, g]
    f.y[n, c] = f.xhat[n, c] * gamma[c] + beta[c]
    return f.y


@op
def group_norm2d(f, x: tensor[n, c, h, w], gamma: tensor[c], beta: tensor[c], groups: length(g)):
    """Groups of channels by the statistics of each image."""
    f.z[n, g, k, h, w] = x[n, (g, k), h, w]
    f.mu[n, g] = mean(f.z[n, g, k, h, w], over=(k, h, w))
    f.rstd[n, g] = rsqrt(mean((f.z[n, g, k, h, w] - f.mu[n, g]) ** 2, over=(k, h, w)) + EPS)
    f.xhat[n, (g, k), h, w] = (f.z[n, g, k, h, w] - f.mu[n, g]) * f.rstd[n, g]
    f.y[n, c, h, w] = f.xhat[n, c, h, w] * gamma[c] + beta[c]
    return f.y


@op
def group_norm3d(f, x: tensor[n, c, d, h, w], gamma: tensor[c], beta: tensor[c], groups: length(g)):
    """Groups of channels by the statistics of each volume."""
    f.z[n, g, k, d, h, w] = x[n, (g, k), d, h, w]
    f.mu[n, g] = mean(f.z[n, g, k, d, h, w], over=(k, d, h, w))
    f.rstd[n, g] = rsqrt(mean((f.z[n, g, k, d, h, w] - f.mu[n, g]) ** 2, over=(k, d, h, w)) + EPS)
    f.xhat[n, (g, k), d, h, w] = (f.z[n, g, k, d, h, w] - f.mu[n, g]) * f.rstd[n, g]
    f.y[n, c, d, h, w] = f.xhat[n, c, d, h, w] * gamma[c] + beta[c]
    return f.y


def group_norm_back(into: str, of: str, name: str, rank: int) -> str:
    """Of the norm whose equations begin with `name`, of a tensor of that rank."""
    over, along = _besides_channels(rank)
    return f"""
dgamma = ({of} * {name}_xhat).sum({over})
dbeta = {of}.sum({over})
dxhat = ({of} * gamma{along}).view({name}_z.shape[:2] + (-1,))
xhat = {name}_xhat.reshape(dxhat.shape)  # view
means = dxhat.mean(2, True) + xhat * (dxhat * xhat).mean(2, True)
{into} = ({name}_rstd[..., None] * (dxhat - means)).view({of}.shape)
"""


def _besides_channels(rank: int) -> tuple[tuple[int, ...], str]:
    """All axes but the second, and what puts a vector of channels beside them."""
    return (0, *range(2, rank)), "[:" + ", None" * (rank - 2) + "]"
