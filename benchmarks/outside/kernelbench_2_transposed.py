"""KernelBench, level 2: the problems that begin with a transposed convolution."""

import torch
import torch.nn.functional as F

from benchmarks.outside.kernelbench_2_layers import (
    NO_SHIFT,
    avg_pool3d,
    avg_pool_back,
    batch_norm2d,
    batch_norm3d,
    batch_norm_back,
    clamped,
    gelu_back,
    group_norm2d,
    group_norm3d,
    group_norm_back,
    hardswish,
    hardswish_back,
    hardtanh,
    max_pool2d,
    max_pool3d,
    max_pool_back,
    mish,
    mish_back,
    silu_back,
    softmax2d,
    softmax3d,
    softmax_back,
    transposed2d,
    transposed2d_dense,
    transposed2d_dense_whole,
    transposed2d_whole,
    transposed3d,
    transposed3d_cut,
    transposed3d_dense,
    transposed3d_dense_whole,
    transposed_back,
)
from benchmarks.outside.problem import Problem
from derive import *
from derive.ops.activations import gelu, leaky_relu, silu

n, c, o, d, h, w, r, p, q, l, u, v = axes("n c o d h w r p q l u v")
e, i, j, t = axes("e i j t")  # of pools
one, once, other, again = axes("one=1 once=1 other=1 again=1")
third, trio, three = axes("third=3 trio=3 three=3")

IMAGES = {"n": 8, "c": 8, "h": 16, "w": 16, "o": 16}
VOLUMES = {"n": 4, "c": 4, "d": 6, "h": 10, "w": 10, "o": 8}
ODD_IMAGES = {"n": 3, "c": 2, "h": 5, "w": 4, "o": 8}
ODD_VOLUMES = {"n": 3, "c": 2, "d": 4, "h": 3, "w": 5, "o": 8}
LONG_IMAGES = {"n": 1, "c": 2, "h": 3, "w": 131, "o": 4}
LONG_VOLUMES = {"n": 1, "c": 2, "d": 3, "h": 4, "w": 67, "o": 4}


def sides(size: int, stride: int, cut: int, more: int = 0):
    """The lengths that a problem is timed and tried at, those of the output as PyTorch has them, by their names.

    All sides of the filter are `size` long.
    """

    def with_output(lengths):
        taps = {"d": ("r", "l"), "h": ("p", "u"), "w": ("q", "v")}
        found = dict(lengths)
        for side, (tap, out) in taps.items():
            if side in lengths:
                found |= {tap: size, out: (lengths[side] - 1) * stride - 2 * cut + size + more}
        return found

    return with_output


def of_images(size: int, stride: int, cut: int, more: int = 0):
    """The keywords of a problem of images."""
    made = sides(size, stride, cut, more)
    return {"lengths": made(IMAGES), "odd": made(ODD_IMAGES), "long": made(LONG_IMAGES)}


def of_volumes(size: int, stride: int, cut: int, more: int = 0):
    """The keywords of a problem of volumes."""
    made = sides(size, stride, cut, more)
    return {"lengths": made(VOLUMES), "odd": made(ODD_VOLUMES), "long": made(LONG_VOLUMES)}


# --- of images --------------------------------------------------------------------------------------------


@op
def transposed2d_bias_add_clamp_scaling_clamp_divide(
    f,
    x: tensor[n, c, h, w],
    weight: tensor[c, o, p, q],
    bias: tensor[o],
    shift: tensor[o, one, once],
    high: length(u),
    wide: length(v),
):
    f.z = transposed2d(x, weight, bias, high, wide)
    f.s[n, o, u, v] = f.z[n, o, u, v] + shift[o, 0, 0]
    f.a = clamped(f.s)
    f.b[n, o, u, v] = f.a[n, o, u, v] * 2
    f.k = clamped(f.b)
    f.y[n, o, u, v] = f.k[n, o, u, v] / 2
    return f.y


def _bias_add_clamp_scaling_clamp_divide(x, weight, bias, shift, high, wide):
    z = F.conv_transpose2d(x, weight, bias, stride=2, padding=1, output_padding=1) + shift
    return torch.clamp(torch.clamp(z, 0.0, 1.0) * 2.0, 0.0, 1.0) / 2.0


P2 = Problem(
    2,
    "ConvTranspose2d BiasAdd Clamp Scaling Clamp Divide",
    transposed2d_bias_add_clamp_scaling_clamp_divide,
    _bias_add_clamp_scaling_clamp_divide,
    by_hand="dz = dy * ((s >= 0) & (s <= 0.5))" + transposed_back(2, 2, 1) + "dshift = dbias[:, None, None]  # view",
    **of_images(3, 2, 1, 1),
)


@op
def transposed2d_subtract_tanh(
    f,
    x: tensor[n, c, h, w],
    weight: tensor[c, o, p, q],
    bias: tensor[o],
    shift: tensor[o, one, once],
    high: length(u),
    wide: length(v),
):
    f.z = transposed2d(x, weight, bias, high, wide)
    f.y[n, o, u, v] = tanh(f.z[n, o, u, v] - shift[o, 0, 0])
    return f.y


P5 = Problem(
    5,
    "ConvTranspose2d Subtract Tanh",
    transposed2d_subtract_tanh,
    lambda x, weight, bias, shift, high, wide: torch.tanh(
        F.conv_transpose2d(x, weight, bias, stride=2, padding=1, output_padding=1) - shift
    ),
    by_hand="dz = dy * (1 - y * y)" + transposed_back(2, 2, 1) + "dshift = -dbias[:, None, None]",
    **of_images(4, 2, 1, 1),
)


@op
def transposed2d_max_pool_hardtanh_mean_tanh(
    f, x: tensor[n, c, h, w], weight: tensor[c, o, p, q], bias: tensor[o], high: length(u), wide: length(v)
):
    f.z = transposed2d_dense(x, weight, bias, high, wide)
    f.m = max_pool2d(f.z)
    f.k = hardtanh(f.m)
    f.y[n, o, one, once] = tanh(mean(f.k[n, o, i, j], over=(i, j)))
    return f.y


def _max_pool_hardtanh_mean_tanh(x, weight, bias, high, wide):
    z = F.max_pool2d(F.conv_transpose2d(x, weight, bias, stride=1, padding=1), 2, stride=2)
    return torch.tanh(F.hardtanh(z, min_val=-1, max_val=1).mean((2, 3), keepdim=True))


P10 = Problem(
    10,
    "ConvTranspose2d MaxPool Hardtanh Mean Tanh",
    transposed2d_max_pool_hardtanh_mean_tanh,
    _max_pool_hardtanh_mean_tanh,
    by_hand="dm = dy * (1 - y * y) / m[0, 0].numel() * (m.abs() < 1)"
    + max_pool_back("dz", "dm", "z", 2)
    + transposed_back(2, 1, 1),
    **of_images(3, 1, 1),
)


@op
def transposed2d_batch_norm_tanh_max_pool_group_norm(
    f,
    x: tensor[n, c, h, w],
    weight: tensor[c, o, p, q],
    bias: tensor[o],
    gain: tensor[o],
    shift: tensor[o],
    gamma: tensor[o],
    beta: tensor[o],
    high: length(u),
    wide: length(v),
):
    f.z = transposed2d_dense(x, weight, bias, high, wide)
    f.b = batch_norm2d(f.z, gain, shift)
    f.t[n, o, u, v] = tanh(f.b[n, o, u, v])
    f.m = max_pool2d(f.t)
    f.y = group_norm2d(f.m, gamma, beta, 4)
    return f.y


def _batch_norm_tanh_max_pool_group_norm(x, weight, bias, gain, shift, gamma, beta, high, wide):
    z = F.conv_transpose2d(x, weight, bias, stride=1, padding=1)
    z = torch.tanh(F.batch_norm(z, None, None, gain, shift, training=True))
    return F.group_norm(F.max_pool2d(z, 2, stride=2), 4, gamma, beta)


P11 = Problem(
    11,
    "ConvTranspose2d BatchNorm Tanh MaxPool GroupNorm",
    transposed2d_batch_norm_tanh_max_pool_group_norm,
    _batch_norm_tanh_max_pool_group_norm,
    by_hand=group_norm_back("dm", "dy", "y", 4)
    + max_pool_back("dt", "dm", "t", 2)
    + "db = dt * (1 - t * t)"
    + batch_norm_back("dz", "db", "b", 4, "gain", "shift")
    + transposed_back(2, 1, 1, NO_SHIFT),
    **of_images(5, 1, 1),
)


@op
def transposed2d_mish_add_hardtanh_scaling(
    f, x: tensor[n, c, h, w], weight: tensor[c, o, p, q], bias: tensor[o], high: length(u), wide: length(v)
):
    f.z = transposed2d(x, weight, bias, high, wide)
    f.m = mish(f.z)
    f.s[n, o, u, v] = f.m[n, o, u, v] + 0.5
    f.k = hardtanh(f.s)
    f.y[n, o, u, v] = f.k[n, o, u, v] * 2
    return f.y


def _mish_add_hardtanh_scaling(x, weight, bias, high, wide):
    z = F.mish(F.conv_transpose2d(x, weight, bias, stride=2, padding=1, output_padding=1)) + 0.5
    return F.hardtanh(z, min_val=-1, max_val=1) * 2.0


P16 = Problem(
    16,
    "ConvTranspose2d Mish Add Hardtanh Scaling",
    transposed2d_mish_add_hardtanh_scaling,
    _mish_add_hardtanh_scaling,
    by_hand="dm = 2 * dy * (s.abs() < 1)" + mish_back("dz", "dm", "z") + transposed_back(2, 2, 1),
    **of_images(3, 2, 1, 1),
)


@op
def transposed2d_gelu_group_norm(
    f,
    x: tensor[n, c, h, w],
    weight: tensor[c, o, p, q],
    bias: tensor[o],
    gamma: tensor[o],
    beta: tensor[o],
    high: length(u),
    wide: length(v),
):
    f.z = transposed2d_dense_whole(x, weight, bias, high, wide)
    f.g = gelu(f.z)
    f.y = group_norm2d(f.g, gamma, beta, 4)
    return f.y


P19 = Problem(
    19,
    "ConvTranspose2d GELU GroupNorm",
    transposed2d_gelu_group_norm,
    lambda x, weight, bias, gamma, beta, high, wide: F.group_norm(
        F.gelu(F.conv_transpose2d(x, weight, bias, stride=1)), 4, gamma, beta
    ),
    by_hand=group_norm_back("dg", "dy", "y", 4) + gelu_back("dz", "dg", "z", "g_phi") + transposed_back(2, 1, 0),
    **of_images(3, 1, 0),
)


@op
def transposed2d_min_sum_gelu_add(
    f,
    x: tensor[n, c, h, w],
    weight: tensor[c, o, p, q],
    bias: tensor[o],
    shift: tensor[one, once, other],
    high: length(u),
    wide: length(v),
):
    f.z = transposed2d(x, weight, bias, high, wide)
    f.m[n, u, v] = amin(f.z[n, o, u, v], over=o)
    f.s[n, one, once, v] = sum(f.m[n, u, v], over=u)
    f.g = gelu(f.s)
    f.y[n, one, once, v] = f.g[n, one, once, v] + shift[one, once, 0]
    return f.y


def _min_sum_gelu_add(x, weight, bias, shift, high, wide):
    z = F.conv_transpose2d(x, weight, bias, stride=2, padding=1, output_padding=1)
    return F.gelu(z.min(1, keepdim=True).values.sum(2, keepdim=True)) + shift


P36 = Problem(
    36,
    "ConvTranspose2d Min Sum GELU Add",
    transposed2d_min_sum_gelu_add,
    _min_sum_gelu_add,
    by_hand="dshift = dy.sum()[None, None, None]"
    + gelu_back("ds", "dy", "s", "g_phi")
    + "dz = ds * (z == m[:, None])"
    + transposed_back(2, 2, 1),
    **of_images(3, 2, 1, 1),
)


@op
def transposed2d_global_avg_pool_bias_add_lse_sum_multiply(
    f,
    x: tensor[n, c, h, w],
    weight: tensor[c, o, p, q],
    bias: tensor[o],
    shift: tensor[o, one, once],
    high: length(u),
    wide: length(v),
):
    f.z = transposed2d_dense_whole(x, weight, bias, high, wide)
    f.m[n, o, one, once] = mean(f.z[n, o, u, v], over=(u, v)) + shift[o, one, once]
    f.k[n, one, once] = log(sum(exp(f.m[n, o, one, once]), over=o))
    f.y[n, other] = sum(f.k[n, one, once], over=(one, once)) * 10
    return f.y


def _global_avg_pool_bias_add_lse_sum_multiply(x, weight, bias, shift, high, wide):
    z = F.conv_transpose2d(x, weight, bias).mean((2, 3), keepdim=True) + shift
    return z.logsumexp(1, keepdim=True).sum((2, 3)) * 10.0


P42 = Problem(
    42,
    "ConvTranspose2d GlobalAvgPool BiasAdd LogSumExp Sum Multiply",
    transposed2d_global_avg_pool_bias_add_lse_sum_multiply,
    _global_avg_pool_bias_add_lse_sum_multiply,
    by_hand="""
dm = 10 * dy * torch.exp(m - k[:, None])[..., 0, 0]
dbias = dm.sum(0)
dshift = dbias[:, None, None]  # view
dsum = dm / z[0, 0].numel()
dx = (dsum @ weight.sum((2, 3)).T)[:, :, None, None].expand_as(x)
dweight = (x.sum((2, 3)).T @ dsum)[:, :, None, None].expand_as(weight)
""",
    note="by hand: all windows are whole, so that the mean is one of the filter's sums",
    **of_images(3, 1, 0),
)


@op
def transposed2d_multiply_global_avg_pool_global_avg_pool_mean(
    f, x: tensor[n, c, h, w], weight: tensor[c, o, p, q], bias: tensor[o], high: length(u), wide: length(v)
):
    f.z = transposed2d(x, weight, bias, high, wide)
    f.m[n, o, one, once] = mean(f.z[n, o, u, v] * 0.5, over=(u, v))
    f.y[n, o, one, once] = mean(f.m[n, o, other, again], over=(other, again))
    return f.y


def _multiply_global_avg_pool_global_avg_pool_mean(x, weight, bias, high, wide):
    z = F.conv_transpose2d(x, weight, bias, stride=2, padding=1, output_padding=1) * 0.5
    return z.mean((2, 3), keepdim=True).mean((2, 3), keepdim=True)


P44 = Problem(
    44,
    "ConvTranspose2d Multiply GlobalAvgPool GlobalAvgPool Mean",
    transposed2d_multiply_global_avg_pool_global_avg_pool_mean,
    _multiply_global_avg_pool_global_avg_pool_mean,
    by_hand="dz = (0.5 * dy / z[0, 0].numel()).expand_as(z)" + transposed_back(2, 2, 1, "0.5 * dy.sum((0, 2, 3))"),
    **of_images(3, 2, 1, 1),
)


@op
def transposed2d_softmax_bias_add_scaling_sigmoid(
    f,
    x: tensor[n, c, h, w],
    weight: tensor[c, o, p, q],
    bias: tensor[o],
    shift: tensor[o, one, once],
    high: length(u),
    wide: length(v),
):
    f.z = transposed2d(x, weight, bias, high, wide)
    f.s = softmax2d(f.z)
    f.y[n, o, u, v] = sigmoid((f.s[n, o, u, v] + shift[o, 0, 0]) * 2)
    return f.y


def _softmax_bias_add_scaling_sigmoid(x, weight, bias, shift, high, wide):
    z = F.conv_transpose2d(x, weight, bias, stride=2, padding=1, output_padding=1)
    return torch.sigmoid((F.softmax(z, 1) + shift) * 2.0)


P91 = Problem(
    91,
    "ConvTranspose2d Softmax BiasAdd Scaling Sigmoid",
    transposed2d_softmax_bias_add_scaling_sigmoid,
    _softmax_bias_add_scaling_sigmoid,
    by_hand="""
ds = 2 * dy * y * (1 - y)
dshift = ds.sum((0, 2, 3))[:, None, None]
"""
    + softmax_back("dz", "ds", "s")
    + transposed_back(2, 2, 1),
    **of_images(4, 2, 1, 1),
)


@op
def transposed2d_add_min_gelu_multiply(
    f, x: tensor[n, c, h, w], weight: tensor[c, o, p, q], bias: tensor[o], high: length(u), wide: length(v)
):
    f.z = transposed2d_whole(x, weight, bias, high, wide)
    f.m[n, o, u, v] = minimum(f.z[n, o, u, v] + 0.5, 0)
    f.g = gelu(f.m)
    f.y[n, o, u, v] = f.g[n, o, u, v] * 2
    return f.y


def _add_min_gelu_multiply(x, weight, bias, high, wide):
    z = F.conv_transpose2d(x, weight, bias, stride=2) + 0.5
    return F.gelu(torch.min(z, torch.tensor(0.0, dtype=z.dtype))) * 2.0


P93 = Problem(
    93,
    "ConvTranspose2d Add Min GELU Multiply",
    transposed2d_add_min_gelu_multiply,
    _add_min_gelu_multiply,
    by_hand=gelu_back("dm", "2 * dy", "m", "g_phi") + "dz = dm * (m < 0)" + transposed_back(2, 2, 0),
    **of_images(4, 2, 0),
)


# --- of volumes -------------------------------------------------------------------------------------------


@op
def transposed3d_sum_layer_norm_avg_pool_gelu(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    shift: tensor[()],
    gamma: tensor[v],
    beta: tensor[v],
    deep: length(l),
    high: length(u),
):
    f.z = transposed3d(x, weight, bias, deep, high, size(v))
    f.s[n, o, l, u, v] = f.z[n, o, l, u, v] + shift[()]
    f.mu[n, o, l, u] = mean(f.s[n, o, l, u, v], over=v)
    f.rstd[n, o, l, u] = rsqrt(mean((f.s[n, o, l, u, v] - f.mu[n, o, l, u]) ** 2, over=v) + 1e-5)
    f.xhat[n, o, l, u, v] = (f.s[n, o, l, u, v] - f.mu[n, o, l, u]) * f.rstd[n, o, l, u]
    f.m[n, o, l, u, v] = f.xhat[n, o, l, u, v] * gamma[v] + beta[v]
    f.a = avg_pool3d(f.m)
    f.y = gelu(f.a)
    return f.y


def _sum_layer_norm_avg_pool_gelu(x, weight, bias, shift, gamma, beta, deep, high):
    z = F.conv_transpose3d(x, weight, bias, stride=2, padding=1, output_padding=1) + shift
    return F.gelu(F.avg_pool3d(F.layer_norm(z, gamma.shape, gamma, beta), 2))


_LAYER_NORM_BACK = """
dgamma = (dm * xhat).sum((0, 1, 2, 3))
dbeta = dm.sum((0, 1, 2, 3))
dxhat = dm * gamma
means = dxhat.mean(-1, True) + xhat * (dxhat * xhat).mean(-1, True)
dz = rstd[..., None] * (dxhat - means)
"""

P3 = Problem(
    3,
    "ConvTranspose3d Sum LayerNorm AvgPool GELU",
    transposed3d_sum_layer_norm_avg_pool_gelu,
    _sum_layer_norm_avg_pool_gelu,
    by_hand=gelu_back("da", "dy", "a", "y_phi")
    + avg_pool_back("dm", "da", "m", 3)
    + _LAYER_NORM_BACK
    + transposed_back(3, 2, 1, NO_SHIFT)
    + "dshift = torch.zeros_like(shift)",
    note="the norm is over the last axis, as there",
    **of_volumes(3, 2, 1, 1),
)


@op
def transposed3d_mean_add_softmax_tanh_scaling(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    shift: tensor[one, o, once, other, again],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d_dense(x, weight, bias, deep, high, wide)
    f.m[n, o, once, u, v] = mean(f.z[n, o, l, u, v], over=l) + shift[0, o, once, 0, 0]
    f.s = softmax3d(f.m)
    f.t[n, o, once, u, v] = tanh(f.s[n, o, once, u, v])
    f.y[n, o, once, u, v] = f.t[n, o, once, u, v] * 2
    return f.y


def _mean_add_softmax_tanh_scaling(x, weight, bias, shift, deep, high, wide):
    z = F.conv_transpose3d(x, weight, bias, stride=1, padding=1).mean(2, keepdim=True) + shift
    return torch.tanh(F.softmax(z, 1)) * 2.0


P13 = Problem(
    13,
    "ConvTranspose3d Mean Add Softmax Tanh Scaling",
    transposed3d_mean_add_softmax_tanh_scaling,
    _mean_add_softmax_tanh_scaling,
    by_hand="ds = 2 * dy * (1 - t * t)"
    + softmax_back("dm", "ds", "s")
    + "dz = (dm / z.shape[2]).expand_as(z)"
    + transposed_back(3, 1, 1, "dm.sum((0, 2, 3, 4))")
    + "dshift = dbias[None, :, None, None, None]  # view",
    **of_volumes(3, 1, 1),
)


@op
def transposed3d_batch_norm_subtract(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    gamma: tensor[o],
    beta: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d(x, weight, bias, deep, high, wide)
    f.m = batch_norm3d(f.z, gamma, beta)
    f.y[n, o, l, u, v] = f.m[n, o, l, u, v] - mean(f.m[n, o, l, u, v], over=(l, u, v))
    return f.y


def _batch_norm_subtract(x, weight, bias, gamma, beta, deep, high, wide):
    z = F.conv_transpose3d(x, weight, bias, stride=2, padding=1)
    z = F.batch_norm(z, None, None, gamma, beta, training=True)
    return z - z.mean((2, 3, 4), keepdim=True)


P15 = Problem(
    15,
    "ConvTranspose3d BatchNorm Subtract",
    transposed3d_batch_norm_subtract,
    _batch_norm_subtract,
    by_hand="dm = dy - dy.mean((2, 3, 4), True)"
    + """
dgamma = (dm * m_xhat).sum((0, 2, 3, 4))
dbeta = torch.zeros_like(beta)
centred = dm - m_xhat * dgamma[:, None, None, None] / (dy.numel() // dy.shape[1])
dz = (gamma * m_rstd)[:, None, None, None] * centred
"""
    + transposed_back(3, 2, 1, NO_SHIFT),
    **of_volumes(3, 2, 1),
)

P20 = Problem(
    20,
    "ConvTranspose3d Sum ResidualAdd Multiply ResidualAdd",
    missing="detach: a copy of the convolution without gradient is added to it and multiplied with it, and no word "
    "stops a gradient within an op",
)


@op
def transposed3d_add_hardswish(
    f, x: tensor[n, c, d, h, w], more: tensor[n, o, l, u, v], weight: tensor[c, o, r, p, q], bias: tensor[o]
):
    f.z = transposed3d(x, weight, bias, size(l), size(u), size(v))
    f.s[n, o, l, u, v] = f.z[n, o, l, u, v] + more[n, o, l, u, v]
    f.a = hardswish(f.s)
    f.y[n, o, l, u, v] = f.s[n, o, l, u, v] * f.a[n, o, l, u, v]
    return f.y


def _add_hardswish(x, more, weight, bias):
    z = F.conv_transpose3d(x, weight, bias, stride=2, padding=1, output_padding=1) + more
    return z * F.hardswish(z)


P26 = Problem(
    26,
    "ConvTranspose3d Add HardSwish",
    transposed3d_add_hardswish,
    _add_hardswish,
    by_hand="""
inside = s * s / 2 + s
dz = dy * torch.where(s.abs() < 3, inside, 2 * s * (s > 0))
dmore = dz
"""
    + transposed_back(3, 2, 1),
    **of_volumes(3, 2, 1, 1),
)


@op
def transposed3d_layer_norm_gelu_scaling(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    gamma: tensor[v],
    beta: tensor[v],
    deep: length(l),
    high: length(u),
):
    f.z = transposed3d(x, weight, bias, deep, high, size(v))
    f.mu[n, o, l, u] = mean(f.z[n, o, l, u, v], over=v)
    f.rstd[n, o, l, u] = rsqrt(mean((f.z[n, o, l, u, v] - f.mu[n, o, l, u]) ** 2, over=v) + 1e-5)
    f.xhat[n, o, l, u, v] = (f.z[n, o, l, u, v] - f.mu[n, o, l, u]) * f.rstd[n, o, l, u]
    f.m[n, o, l, u, v] = f.xhat[n, o, l, u, v] * gamma[v] + beta[v]
    f.g = gelu(f.m)
    f.y[n, o, l, u, v] = f.g[n, o, l, u, v] * 1.0
    return f.y


def _layer_norm_gelu_scaling(x, weight, bias, gamma, beta, deep, high):
    z = F.conv_transpose3d(x, weight, bias, stride=2, padding=1)
    return F.gelu(F.layer_norm(z, gamma.shape, gamma, beta)) * 1.0


P34 = Problem(
    34,
    "ConvTranspose3d LayerNorm GELU Scaling",
    transposed3d_layer_norm_gelu_scaling,
    _layer_norm_gelu_scaling,
    by_hand=gelu_back("dm", "dy", "m", "g_phi") + _LAYER_NORM_BACK + transposed_back(3, 2, 1, NO_SHIFT),
    note="the norm is over the last axis, as there",
    **of_volumes(4, 2, 1),
)


@op
def transposed3d_avg_pool_clamp_softmax_multiply(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    scale: tensor[one, o, once, other, again],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.a = avg_pool3d(x)
    f.z = transposed3d(f.a, weight, bias, deep, high, wide)
    f.k = clamped(f.z)
    f.top[n, o] = amax(f.k[n, o, l, u, v], over=(l, u, v))
    f.e[n, o, l, u, v] = exp(f.k[n, o, l, u, v] - f.top[n, o])
    f.s[n, o, l, u, v] = f.e[n, o, l, u, v] / sum(f.e[n, o, l, u, v], over=(l, u, v))
    f.y[n, o, l, u, v] = f.s[n, o, l, u, v] * scale[0, o, 0, 0, 0]
    return f.y


def _avg_pool_clamp_softmax_multiply(x, weight, bias, scale, deep, high, wide):
    z = F.conv_transpose3d(F.avg_pool3d(x, 2), weight, bias, stride=2, padding=1, output_padding=1)
    z = torch.clamp(z, 0.0, 1.0)
    return F.softmax(z.flatten(2), 2).view(z.shape) * scale


P38 = Problem(
    38,
    "ConvTranspose3d AvgPool Clamp Softmax Multiply",
    transposed3d_avg_pool_clamp_softmax_multiply,
    _avg_pool_clamp_softmax_multiply,
    {**VOLUMES, "r": 3, "p": 3, "q": 3, "l": 6, "u": 10, "v": 10},
    """
dscale = (dy * s).sum((0, 2, 3, 4))[None, :, None, None, None]
ds = dy * scale
dk = s * (ds - (ds * s).sum((2, 3, 4), True))
dz = dk * ((z >= 0) & (z <= 1))
da = F.conv3d(dz, weight, stride=2, padding=1)
dweight = torch.nn.grad.conv3d_weight(dz, weight.shape, a, stride=2, padding=1)
dbias = dz.sum((0, 2, 3, 4))
"""
    + avg_pool_back("dx", "da", "x", 3),
    odd={"n": 3, "c": 2, "d": 5, "h": 4, "w": 7, "o": 5, "r": 3, "p": 3, "q": 3, "l": 4, "u": 4, "v": 6},
    long={"n": 1, "c": 2, "d": 3, "h": 4, "w": 131, "o": 3, "r": 3, "p": 3, "q": 3, "l": 2, "u": 4, "v": 130},
)


@op
def transposed3d_softmax_sigmoid(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d(x, weight, bias, deep, high, wide)
    f.s = softmax3d(f.z)
    f.y[n, o, l, u, v] = sigmoid(f.s[n, o, l, u, v])
    return f.y


P49 = Problem(
    49,
    "ConvTranspose3d Softmax Sigmoid",
    transposed3d_softmax_sigmoid,
    lambda x, weight, bias, deep, high, wide: torch.sigmoid(
        F.softmax(F.conv_transpose3d(x, weight, bias, stride=2, padding=1, output_padding=1), 1)
    ),
    by_hand="ds = dy * y * (1 - y)" + softmax_back("dz", "ds", "s") + transposed_back(3, 2, 1),
    **of_volumes(3, 2, 1, 1),
)


@op
def transposed3d_scaling_avg_pool_bias_add_scaling(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    scale: tensor[()],
    shift: tensor[o, one, once, other],
    gain: tensor[()],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d(x, weight, bias, deep, high, wide)
    f.s[n, o, l, u, v] = f.z[n, o, l, u, v] * scale[()]
    f.a = avg_pool3d(f.s)
    f.b[n, o, e, i, j] = f.a[n, o, e, i, j] + shift[o, 0, 0, 0]
    f.y[n, o, e, i, j] = f.b[n, o, e, i, j] * gain[()]
    return f.y


def _scaling_avg_pool_bias_add_scaling(x, weight, bias, scale, shift, gain, deep, high, wide):
    z = F.avg_pool3d(F.conv_transpose3d(x, weight, bias, stride=2, padding=1) * scale, 2)
    return (z + shift) * gain


P50 = Problem(
    50,
    "ConvTranspose3d Scaling AvgPool BiasAdd Scaling",
    transposed3d_scaling_avg_pool_bias_add_scaling,
    _scaling_avg_pool_bias_add_scaling,
    by_hand="""
dgain = (dy * b).sum()
da = dy * gain
dshift = da.sum((0, 2, 3, 4))[:, None, None, None]
dscale = (da * a).sum() / scale
dc = da * scale
"""
    + avg_pool_back("dz", "dc", "z", 3)
    + transposed_back(3, 2, 1),
    **of_volumes(3, 2, 1),
)


@op
def transposed3d_lse_hardswish_subtract_clamp(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    shift: tensor[one, once, other, again],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d(x, weight, bias, deep, high, wide)
    f.k[n, one, l, u, v] = log(sum(exp(f.z[n, o, l, u, v]), over=o))
    f.s[n, one, l, u, v] = f.k[n, one, l, u, v] * sigmoid(f.k[n, one, l, u, v] + 3) / 6
    f.a[n, one, l, u, v] = f.s[n, one, l, u, v] - shift[one, 0, 0, 0]
    f.y = clamped(f.a, -1, 1)
    return f.y


def _lse_hardswish_subtract_clamp(x, weight, bias, shift, deep, high, wide):
    z = F.conv_transpose3d(x, weight, bias, stride=2, padding=1).logsumexp(1, keepdim=True)
    return torch.clamp(z * torch.sigmoid(z + 3) / 6 - shift, -1.0, 1.0)


P58 = Problem(
    58,
    "ConvTranspose3d LogSumExp HardSwish Subtract Clamp",
    transposed3d_lse_hardswish_subtract_clamp,
    _lse_hardswish_subtract_clamp,
    by_hand="""
da = dy * (a.abs() <= 1)
dshift = -da.sum()[None, None, None, None]
sigma = torch.sigmoid(k + 3)
dk = da * (sigma / 6 + s * (1 - sigma))
dz = dk * torch.exp(z - k)
"""
    + transposed_back(3, 2, 1),
    **of_volumes(3, 2, 1),
)


@op
def transposed3d_swish_group_norm_hardswish(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    gamma: tensor[o],
    beta: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d(x, weight, bias, deep, high, wide)
    f.s = silu(f.z)
    f.m = group_norm3d(f.s, gamma, beta, 4)
    f.y = hardswish(f.m)
    return f.y


def _swish_group_norm_hardswish(x, weight, bias, gamma, beta, deep, high, wide):
    z = F.conv_transpose3d(x, weight, bias, stride=2, padding=1)
    return F.hardswish(F.group_norm(torch.sigmoid(z) * z, 4, gamma, beta, 1e-5))


P60 = Problem(
    60,
    "ConvTranspose3d Swish GroupNorm HardSwish",
    transposed3d_swish_group_norm_hardswish,
    _swish_group_norm_hardswish,
    by_hand=hardswish_back("dm", "dy", "m")
    + group_norm_back("ds", "dm", "m", 5)
    + silu_back("dz", "ds", "z", "s")
    + transposed_back(3, 2, 1),
    **of_volumes(3, 2, 1),
)


@op
def transposed3d_relu_group_norm(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    gamma: tensor[o],
    beta: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d_dense_whole(x, weight, deep, high, wide)
    f.a[n, o, l, u, v] = relu(f.z[n, o, l, u, v])
    f.y = group_norm3d(f.a, gamma, beta, 4)
    return f.y


P61 = Problem(
    61,
    "ConvTranspose3d ReLU GroupNorm",
    transposed3d_relu_group_norm,
    lambda x, weight, gamma, beta, deep, high, wide: F.group_norm(
        F.relu(F.conv_transpose3d(x, weight)), 4, gamma, beta
    ),
    by_hand=group_norm_back("da", "dy", "y", 5)
    + """
dz = da * (a > 0)
dx = F.conv3d(dz, weight)
dweight = torch.nn.grad.conv3d_weight(dz, weight.shape, x)
""",
    **of_volumes(3, 1, 0),
)


@op
def transposed3d_batch_norm_avg_pool_avg_pool(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    gamma: tensor[o],
    beta: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d(x, weight, bias, deep, high, wide)
    f.m = batch_norm3d(f.z, gamma, beta)
    f.a = avg_pool3d(f.m)
    f.y = avg_pool3d(f.a)
    return f.y


def _batch_norm_avg_pool_avg_pool(x, weight, bias, gamma, beta, deep, high, wide):
    z = F.conv_transpose3d(x, weight, bias, stride=2, padding=1)
    return F.avg_pool3d(F.avg_pool3d(F.batch_norm(z, None, None, gamma, beta, training=True), 2), 2)


P72 = Problem(
    72,
    "ConvTranspose3d BatchNorm AvgPool AvgPool",
    transposed3d_batch_norm_avg_pool_avg_pool,
    _batch_norm_avg_pool_avg_pool,
    by_hand=avg_pool_back("dm", "dy", "m", 3, 4)
    + batch_norm_back("dz", "dm", "m", 5)
    + transposed_back(3, 2, 1, NO_SHIFT),
    note="by hand: two pools of 2 are one of 4",
    **of_volumes(3, 2, 1),
)


@op
def transposed3d_leaky_relu_multiply_leaky_relu_max(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    scale: tensor[o, one, once, other],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d(x, weight, bias, deep, high, wide)
    f.a = leaky_relu(f.z, 0.2)
    f.b[n, o, l, u, v] = f.a[n, o, l, u, v] * scale[o, 0, 0, 0]
    f.s = leaky_relu(f.b, 0.2)
    f.y = max_pool3d(f.s)
    return f.y


def _leaky_relu_multiply_leaky_relu_max(x, weight, bias, scale, deep, high, wide):
    z = F.leaky_relu(F.conv_transpose3d(x, weight, bias, stride=2, padding=1, output_padding=1), 0.2)
    return F.max_pool3d(F.leaky_relu(z * scale, 0.2), 2)


P74 = Problem(
    74,
    "ConvTranspose3d LeakyReLU Multiply LeakyReLU Max",
    transposed3d_leaky_relu_multiply_leaky_relu_max,
    _leaky_relu_multiply_leaky_relu_max,
    by_hand=max_pool_back("ds", "dy", "s", 3)
    + """
db = torch.where(b > 0, ds, 0.2 * ds)
dscale = (db * a).sum((0, 2, 3, 4))[:, None, None, None]
da = db * scale
dz = torch.where(z > 0, da, 0.2 * da)
"""
    + transposed_back(3, 2, 1),
    **of_volumes(3, 2, 1, 1),
)


@op
def transposed3d_scale_batch_norm_global_avg_pool(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    gamma: tensor[o],
    beta: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.t = transposed3d_dense_whole(x, weight, deep, high, wide)
    f.z[n, o, l, u, v] = (f.t[n, o, l, u, v] + bias[o]) * 2
    f.m = batch_norm3d(f.z, gamma, beta)
    f.y[n, o, one, once, other] = mean(f.m[n, o, l, u, v], over=(l, u, v))
    return f.y


def _scale_batch_norm_global_avg_pool(x, weight, bias, gamma, beta, deep, high, wide):
    z = F.conv_transpose3d(x, weight, bias) * 2.0
    return F.adaptive_avg_pool3d(F.batch_norm(z, None, None, gamma, beta, training=True), 1)


P77 = Problem(
    77,
    "ConvTranspose3d Scale BatchNorm GlobalAvgPool",
    transposed3d_scale_batch_norm_global_avg_pool,
    _scale_batch_norm_global_avg_pool,
    by_hand="""
spread = m_xhat.mean((2, 3, 4), True)
dgamma = (dy * spread).sum((0, 2, 3, 4))
dbeta = dy.sum((0, 2, 3, 4))
means = dy - dbeta[:, None, None, None] / dy.shape[0] - m_xhat * dgamma[:, None, None, None] / dy.shape[0]
dz = 2 * (gamma * m_rstd)[:, None, None, None] * means / m[0, 0].numel()
"""
    + transposed_back(3, 1, 0, NO_SHIFT),
    **of_volumes(5, 1, 0),
)


@op
def transposed3d_max_max_sum(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d_cut(x, weight, bias, deep, high, wide)
    f.m = max_pool3d(f.z)
    f.a[n, o, e, i, j] = amax(f.m[n, o, 3 * e + third, 3 * i + trio, 3 * j + three], over=(third, trio, three))
    f.y[n, one, e, i, j] = sum(f.a[n, o, e, i, j], over=o)
    return f.y


def _max_max_sum(x, weight, bias, deep, high, wide):
    z = F.conv_transpose3d(x, weight, bias, stride=2, padding=2)
    return F.max_pool3d(F.max_pool3d(z, 2), 3).sum(1, keepdim=True)


P78 = Problem(
    78,
    "ConvTranspose3d Max Max Sum",
    transposed3d_max_max_sum,
    _max_max_sum,
    by_hand="da = dy.expand_as(a)"
    + max_pool_back("dm", "da", "m", 3, 3)
    + max_pool_back("dz", "dm", "z", 3)
    + transposed_back(3, 2, 2),
    lengths=sides(5, 2, 2)(VOLUMES),
    odd=sides(5, 2, 2)({"n": 3, "c": 2, "d": 4, "h": 5, "w": 7, "o": 8}),
    long=sides(5, 2, 2)({"n": 1, "c": 2, "d": 4, "h": 5, "w": 67, "o": 4}),
)


@op
def transposed3d_max_pool_softmax_subtract_swish_max(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    shift: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d(x, weight, bias, deep, high, wide)
    f.m = max_pool3d(f.z)
    f.s = softmax3d(f.m)
    f.a[n, o, e, i, j] = f.s[n, o, e, i, j] - shift[o]
    f.b = silu(f.a)
    f.y[n, e, i, j] = amax(f.b[n, o, e, i, j], over=o)
    return f.y


def _max_pool_softmax_subtract_swish_max(x, weight, bias, shift, deep, high, wide):
    z = F.conv_transpose3d(x, weight, bias, stride=2, padding=1, output_padding=1)
    z = F.softmax(F.max_pool3d(z, 2, stride=2, padding=0), 1) - shift.view(1, -1, 1, 1, 1)
    return (torch.sigmoid(z) * z).max(1).values


P89 = Problem(
    89,
    "ConvTranspose3d MaxPool Softmax Subtract Swish Max",
    transposed3d_max_pool_softmax_subtract_swish_max,
    _max_pool_softmax_subtract_swish_max,
    by_hand="db = dy[:, None] * (b == y[:, None])"
    + silu_back("ds", "db", "a", "b")
    + "dshift = -ds.sum((0, 2, 3, 4))"
    + softmax_back("dm", "ds", "s")
    + max_pool_back("dz", "dm", "z", 3)
    + transposed_back(3, 2, 1),
    **of_volumes(3, 2, 1, 1),
)


@op
def transposed3d_multiply_max_global_avg_pool_clamp(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d(x, weight, bias, deep, high, wide)
    f.s[n, o, l, u, v] = f.z[n, o, l, u, v] * 0.5
    f.m = max_pool3d(f.s)
    f.g[n, o, one, once, other] = mean(f.m[n, o, e, i, j], over=(e, i, j))
    f.y = clamped(f.g)
    return f.y


def _multiply_max_global_avg_pool_clamp(x, weight, bias, deep, high, wide):
    z = F.conv_transpose3d(x, weight, bias, stride=2, padding=1) * 0.5
    return torch.clamp(F.adaptive_avg_pool3d(F.max_pool3d(z, 2), 1), 0, 1)


P96 = Problem(
    96,
    "ConvTranspose3d Multiply Max GlobalAvgPool Clamp",
    transposed3d_multiply_max_global_avg_pool_clamp,
    _multiply_max_global_avg_pool_clamp,
    by_hand="""
dg = dy * ((g >= 0) & (g <= 1))
dm = (0.5 * dg / m[0, 0].numel()).expand_as(m)
"""
    + max_pool_back("dz", "dm", "z", 3)
    + transposed_back(3, 2, 1),
    **of_volumes(3, 2, 1),
)


@op
def transposed3d_clamp_min_divide(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[c, o, r, p, q],
    bias: tensor[o],
    deep: length(l),
    high: length(u),
    wide: length(v),
):
    f.z = transposed3d(x, weight, bias, deep, high, wide)
    f.y[n, o, l, u, v] = where(f.z[n, o, l, u, v] < -1, -1, f.z[n, o, l, u, v]) / 2
    return f.y


P100 = Problem(
    100,
    "ConvTranspose3d Clamp Min Divide",
    transposed3d_clamp_min_divide,
    lambda x, weight, bias, deep, high, wide: (
        torch.clamp(F.conv_transpose3d(x, weight, bias, stride=2, padding=1), min=-1.0) / 2.0
    ),
    by_hand="dz = 0.5 * dy * (z >= -1)" + transposed_back(3, 2, 1),
    **of_volumes(3, 2, 1),
)
