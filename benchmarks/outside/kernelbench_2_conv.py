"""KernelBench, level 2: the problems that begin with a convolution."""

import torch
import torch.nn.functional as F

from benchmarks.outside.kernelbench_2_layers import (
    CONV2D,
    CONV2D_NO_SHIFT,
    CONV3D,
    CONV3D_NO_SHIFT,
    CONV3D_PADDED,
    avg_pool2d,
    avg_pool_back,
    batch_norm2d,
    batch_norm_back,
    clamped,
    conv2d,
    conv3d,
    conv3d_padded,
    gelu_back,
    group_norm2d,
    group_norm3d,
    group_norm_back,
    hardswish,
    hardswish_back,
    instance_norm2d,
    instance_norm3d,
    instance_norm_back,
    max_pool2d,
    max_pool3d,
    max_pool_back,
    mish,
    mish_back,
    softmax2d,
    softmax3d,
    softmax_back,
)
from benchmarks.outside.problem import Problem
from derive import *
from derive.ops.activations import gelu, leaky_relu

n, c, o, d, h, w, r, p, q, l, u, v = axes("n c o d h w r p q l u v")
e, i, j = axes("e i j")  # of pools
one, once, other = axes("one=1 once=1 other=1")
four, quad = axes("four=4 quad=4")

IMAGES = {"n": 8, "c": 8, "h": 32, "w": 32, "o": 16, "p": 3, "q": 3}
VOLUMES = {"n": 4, "c": 3, "d": 10, "h": 18, "w": 18, "o": 16, "r": 3, "p": 3, "q": 3}


# --- of images --------------------------------------------------------------------------------------------


@op
def conv2d_relu_bias_add(
    f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o], shift: tensor[o, one, once]
):
    f.z = conv2d(x, weight, bias)
    f.y[n, o, u, v] = relu(f.z[n, o, u, v]) + shift[o, 0, 0]
    return f.y


P1 = Problem(
    1,
    "Conv2D ReLU BiasAdd",
    conv2d_relu_bias_add,
    lambda x, weight, bias, shift: F.relu(F.conv2d(x, weight, bias)) + shift,
    IMAGES,
    """
dz = dy * (z > 0)
dshift = dy.sum((0, 2, 3))[:, None, None]
"""
    + CONV2D,
)


@op
def conv2d_mish_mish(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.m = mish(f.z)
    f.y = mish(f.m)
    return f.y


P4 = Problem(
    4,
    "Conv2d Mish Mish",
    conv2d_mish_mish,
    lambda x, weight, bias: F.mish(F.mish(F.conv2d(x, weight, bias))),
    IMAGES,
    mish_back("dm", "dy", "m") + mish_back("dz", "dm", "z") + CONV2D,
)


@op
def conv2d_instance_norm_divide(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.m = instance_norm2d(f.z)
    f.y[n, o, u, v] = f.m[n, o, u, v] / 2
    return f.y


P17 = Problem(
    17,
    "Conv2d InstanceNorm Divide",
    conv2d_instance_norm_divide,
    lambda x, weight, bias: F.instance_norm(F.conv2d(x, weight, bias)) / 2.0,
    IMAGES,
    "dm = 0.5 * dy" + instance_norm_back("dz", "dm", "m", 4) + CONV2D_NO_SHIFT,
)


@op
def conv2d_add_scale_sigmoid_group_norm(
    f,
    x: tensor[n, c, h, w],
    weight: tensor[o, c, p, q],
    bias: tensor[o],
    shift: tensor[o, one, once],
    scale: tensor[o, one, once],
    gamma: tensor[o],
    beta: tensor[o],
):
    f.z = conv2d(x, weight, bias)
    f.a[n, o, u, v] = f.z[n, o, u, v] + shift[o, 0, 0]
    f.s[n, o, u, v] = sigmoid(f.a[n, o, u, v] * scale[o, 0, 0])
    f.y = group_norm2d(f.s, gamma, beta, 4)
    return f.y


def _add_scale_sigmoid_group_norm(x, weight, bias, shift, scale, gamma, beta):
    z = torch.sigmoid((F.conv2d(x, weight, bias) + shift) * scale)
    return F.group_norm(z, 4, gamma, beta)


P21 = Problem(
    21,
    "Conv2d Add Scale Sigmoid GroupNorm",
    conv2d_add_scale_sigmoid_group_norm,
    _add_scale_sigmoid_group_norm,
    IMAGES,
    group_norm_back("ds", "dy", "y", 4)
    + """
dt = ds * s * (1 - s)
dscale = (dt * a).sum((0, 2, 3))[:, None, None]
dz = dt * scale
"""
    + CONV2D
    + "\ndshift = dbias[:, None, None]  # view",
)


@op
def conv2d_min_tanh_tanh(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.m[n, one, u, v] = amin(f.z[n, o, u, v], over=o)
    f.t[n, one, u, v] = tanh(f.m[n, one, u, v])
    f.y[n, one, u, v] = tanh(f.t[n, one, u, v])
    return f.y


P25 = Problem(
    25,
    "Conv2d Min Tanh Tanh",
    conv2d_min_tanh_tanh,
    lambda x, weight, bias: torch.tanh(torch.tanh(F.conv2d(x, weight, bias).min(1, keepdim=True).values)),
    IMAGES,
    """
dm = dy * (1 - y * y) * (1 - t * t)
dz = dm * (z == m)
"""
    + CONV2D,
)


@op
def conv2d_min_add_multiply(
    f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o], shift: tensor[o, one, once]
):
    f.z = conv2d(x, weight, bias)
    f.y[n, o, u, v] = (minimum(f.z[n, o, u, v], 0.5) + shift[o, 0, 0]) * 2
    return f.y


P31 = Problem(
    31,
    "Conv2d Min Add Multiply",
    conv2d_min_add_multiply,
    lambda x, weight, bias, shift: (torch.clamp(F.conv2d(x, weight, bias), max=0.5) + shift) * 2.0,
    IMAGES,
    """
dz = 2 * dy * (z < 0.5)
dshift = 2 * dy.sum((0, 2, 3))[:, None, None]
"""
    + CONV2D,
)


@op
def conv2d_scaling_min(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.y[n, one, u, v] = amin(f.z[n, o, u, v] * 2, over=o)
    return f.y


P32 = Problem(
    32,
    "Conv2d Scaling Min",
    conv2d_scaling_min,
    lambda x, weight, bias: (F.conv2d(x, weight, bias) * 2.0).min(1, keepdim=True).values,
    IMAGES,
    "dz = 2 * dy * (2 * z == y)" + CONV2D,
)


@op
def conv2d_subtract_hardswish_max_pool_mish(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.s[n, o, u, v] = f.z[n, o, u, v] - 0.5
    f.a = hardswish(f.s)
    f.m = max_pool2d(f.a)
    f.y = mish(f.m)
    return f.y


P35 = Problem(
    35,
    "Conv2d Subtract HardSwish MaxPool Mish",
    conv2d_subtract_hardswish_max_pool_mish,
    lambda x, weight, bias: F.mish(F.max_pool2d(F.hardswish(F.conv2d(x, weight, bias) - 0.5), 2)),
    IMAGES,
    mish_back("dm", "dy", "m") + max_pool_back("da", "dm", "a", 2) + hardswish_back("dz", "da", "s") + CONV2D,
)


@op
def conv2d_subtract_tanh_subtract_avg_pool(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.t[n, o, u, v] = tanh(f.z[n, o, u, v] - 0.5)
    f.s[n, o, u, v] = f.t[n, o, u, v] - 0.2
    f.y = avg_pool2d(f.s)
    return f.y


P46 = Problem(
    46,
    "Conv2d Subtract Tanh Subtract AvgPool",
    conv2d_subtract_tanh_subtract_avg_pool,
    lambda x, weight, bias: F.avg_pool2d(torch.tanh(F.conv2d(x, weight, bias) - 0.5) - 0.2, 2),
    IMAGES,
    avg_pool_back("dt", "dy", "t", 2) + "dz = dt * (1 - t * t)" + CONV2D,
)


@op
def conv2d_activation_batch_norm(
    f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = conv2d(x, weight, bias)
    f.m = mish(f.z)
    f.y = batch_norm2d(f.m, gamma, beta)
    return f.y


def _activation_batch_norm(x, weight, bias, gamma, beta):
    z = F.conv2d(x, weight, bias)
    return F.batch_norm(torch.tanh(F.softplus(z)) * z, None, None, gamma, beta, training=True)


P52 = Problem(
    52,
    "Conv2d Activation BatchNorm",
    conv2d_activation_batch_norm,
    _activation_batch_norm,
    IMAGES,
    batch_norm_back("dm", "dy", "y", 4) + mish_back("dz", "dm", "z") + CONV2D,
)


@op
def conv2d_multiply_leaky_relu_gelu(
    f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o], scale: tensor[o, one, once]
):
    f.z = conv2d(x, weight, bias)
    f.m[n, o, u, v] = f.z[n, o, u, v] * scale[o, 0, 0]
    f.a = leaky_relu(f.m)
    f.y = gelu(f.a)
    return f.y


P54 = Problem(
    54,
    "Conv2d Multiply LeakyReLU GELU",
    conv2d_multiply_leaky_relu_gelu,
    lambda x, weight, bias, scale: F.gelu(F.leaky_relu(F.conv2d(x, weight, bias) * scale)),
    IMAGES,
    gelu_back("da", "dy", "a", "y_phi")
    + """
dm = torch.where(m > 0, da, 0.01 * da)
dscale = (dm * z).sum((0, 2, 3))[:, None, None]
dz = dm * scale
"""
    + CONV2D,
)


@op
def conv2d_relu_hardswish(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.r[n, o, u, v] = relu(f.z[n, o, u, v])
    f.t[n, o, u, v] = (f.r[n, o, u, v] + 3) / 6
    f.k = clamped(f.t)
    f.y[n, o, u, v] = f.r[n, o, u, v] * f.k[n, o, u, v]
    return f.y


def _relu_hardswish(x, weight, bias):
    z = F.relu(F.conv2d(x, weight, bias))
    return z * torch.clamp((z + 3) / 6, 0, 1)


P57 = Problem(
    57,
    "Conv2d ReLU HardSwish",
    conv2d_relu_hardswish,
    _relu_hardswish,
    IMAGES,
    """
slope = torch.clamp(z / 3 + 0.5, max=1.5)
dz = dy * torch.where(z > 3, 1, slope) * (z > 0)
"""
    + CONV2D,
)


@op
def conv2d_avg_pool_sigmoid_sum(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.m[n, o, i, j] = mean(f.z[n, o, 4 * i + four, 4 * j + quad], over=(four, quad))
    f.s[n, o, i, j] = sigmoid(f.m[n, o, i, j])
    f.y[n] = sum(f.s[n, o, i, j], over=(o, i, j))
    return f.y


P65 = Problem(
    65,
    "Conv2d AvgPool Sigmoid Sum",
    conv2d_avg_pool_sigmoid_sum,
    lambda x, weight, bias: torch.sigmoid(F.avg_pool2d(F.conv2d(x, weight, bias), 4)).sum((1, 2, 3)),
    IMAGES,
    "dm = dy[:, None, None, None] * s * (1 - s)" + avg_pool_back("dz", "dm", "z", 2, 4) + CONV2D,
)


@op
def conv2d_gelu_global_avg_pool(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.g = gelu(f.z)
    f.y[n, o] = mean(f.g[n, o, u, v], over=(u, v))
    return f.y


P67 = Problem(
    67,
    "Conv2d GELU GlobalAvgPool",
    conv2d_gelu_global_avg_pool,
    lambda x, weight, bias: F.adaptive_avg_pool2d(F.gelu(F.conv2d(x, weight, bias)), 1).squeeze(-1).squeeze(-1),
    IMAGES,
    "dg = dy[:, :, None, None] / g[0, 0].numel()" + gelu_back("dz", "dg", "z", "g_phi") + CONV2D,
)


@op
def conv2d_hardswish_relu(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.s = hardswish(f.z)
    f.y[n, o, u, v] = relu(f.s[n, o, u, v])
    return f.y


P69 = Problem(
    69,
    "Conv2d HardSwish ReLU",
    conv2d_hardswish_relu,
    lambda x, weight, bias: F.relu(F.hardswish(F.conv2d(x, weight, bias))),
    IMAGES,
    "dz = torch.where(z < 3, dy * (z / 3 + 0.5), dy) * (z > 0)" + CONV2D,
)


@op
def conv2d_divide_leaky_relu(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.m[n, o, u, v] = f.z[n, o, u, v] / 2
    f.y = leaky_relu(f.m)
    return f.y


P71 = Problem(
    71,
    "Conv2d Divide LeakyReLU",
    conv2d_divide_leaky_relu,
    lambda x, weight, bias: F.leaky_relu(F.conv2d(x, weight, bias) / 2, 0.01),
    IMAGES,
    "dz = torch.where(z > 0, 0.5 * dy, 0.005 * dy)" + CONV2D,
)


@op
def conv2d_batch_norm_scaling(
    f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = conv2d(x, weight, bias)
    f.m = batch_norm2d(f.z, gamma, beta)
    f.y[n, o, u, v] = f.m[n, o, u, v] * 2
    return f.y


P73 = Problem(
    73,
    "Conv2d BatchNorm Scaling",
    conv2d_batch_norm_scaling,
    lambda x, weight, bias, gamma, beta: (
        F.batch_norm(F.conv2d(x, weight, bias), None, None, gamma, beta, training=True) * 2.0
    ),
    IMAGES,
    "dm = 2 * dy" + batch_norm_back("dz", "dm", "m", 4) + CONV2D_NO_SHIFT,
)


@op
def conv2d_tanh_scaling_bias_add_max(
    f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o], shift: tensor[o, one, once]
):
    f.z = conv2d(x, weight, bias)
    f.t[n, o, u, v] = tanh(f.z[n, o, u, v])
    f.s[n, o, u, v] = f.t[n, o, u, v] * 2 + shift[o, 0, 0]
    f.y[n, o, i, j] = amax(f.s[n, o, 4 * i + four, 4 * j + quad], over=(four, quad))
    return f.y


P82 = Problem(
    82,
    "Conv2d Tanh Scaling BiasAdd Max",
    conv2d_tanh_scaling_bias_add_max,
    lambda x, weight, bias, shift: F.max_pool2d(torch.tanh(F.conv2d(x, weight, bias)) * 2.0 + shift, 4),
    IMAGES,
    max_pool_back("ds", "dy", "s", 2, 4)
    + """
dshift = dy.sum((0, 2, 3))[:, None, None]
dz = 2 * ds * (1 - t * t)
"""
    + CONV2D,
)


@op
def conv2d_group_norm_scale_max_pool_clamp(
    f,
    x: tensor[n, c, h, w],
    weight: tensor[o, c, p, q],
    bias: tensor[o],
    gamma: tensor[o],
    beta: tensor[o],
    scale: tensor[o, one, once],
):
    f.z = conv2d(x, weight, bias)
    f.m = group_norm2d(f.z, gamma, beta, 4)
    f.s[n, o, u, v] = f.m[n, o, u, v] * scale[o, 0, 0]
    f.k[n, o, i, j] = amax(f.s[n, o, 4 * i + four, 4 * j + quad], over=(four, quad))
    f.y = clamped(f.k)
    return f.y


def _group_norm_scale_max_pool_clamp(x, weight, bias, gamma, beta, scale):
    z = F.group_norm(F.conv2d(x, weight, bias), 4, gamma, beta) * scale
    return torch.clamp(F.max_pool2d(z, 4), 0.0, 1.0)


P85 = Problem(
    85,
    "Conv2d GroupNorm Scale MaxPool Clamp",
    conv2d_group_norm_scale_max_pool_clamp,
    _group_norm_scale_max_pool_clamp,
    IMAGES,
    "dk = dy * ((k >= 0) & (k <= 1))"
    + max_pool_back("ds", "dk", "s", 2, 4)
    + """
dscale = (ds * m).sum((0, 2, 3))[:, None, None]
dm = ds * scale
"""
    + group_norm_back("dz", "dm", "m", 4)
    + CONV2D,
)


@op
def conv2d_subtract_subtract_mish(f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o]):
    f.z = conv2d(x, weight, bias)
    f.s[n, o, u, v] = f.z[n, o, u, v] - 0.5 - 0.2
    f.y = mish(f.s)
    return f.y


P87 = Problem(
    87,
    "Conv2d Subtract Subtract Mish",
    conv2d_subtract_subtract_mish,
    lambda x, weight, bias: F.mish(F.conv2d(x, weight, bias) - 0.5 - 0.2),
    IMAGES,
    mish_back("dz", "dy", "s") + CONV2D,
)


@op
def conv2d_group_norm_tanh_hardswish_residual_lse(
    f, x: tensor[n, c, h, w], weight: tensor[o, c, p, q], bias: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = conv2d(x, weight, bias)
    f.m = group_norm2d(f.z, gamma, beta, 4)
    f.t[n, o, u, v] = tanh(f.m[n, o, u, v])
    f.s = hardswish(f.t)
    f.a[n, o, u, v] = f.z[n, o, u, v] + f.s[n, o, u, v]
    f.y[n, one, u, v] = log(sum(exp(f.a[n, o, u, v]), over=o))
    return f.y


def _group_norm_tanh_hardswish_residual_lse(x, weight, bias, gamma, beta):
    z = F.conv2d(x, weight, bias)
    return (z + F.hardswish(torch.tanh(F.group_norm(z, 4, gamma, beta)))).logsumexp(1, keepdim=True)


P92 = Problem(
    92,
    "Conv2d GroupNorm Tanh HardSwish ResidualAdd LogSumExp",
    conv2d_group_norm_tanh_hardswish_residual_lse,
    _group_norm_tanh_hardswish_residual_lse,
    IMAGES,
    """
da = dy * torch.exp(a - y)
dm = da * (t / 3 + 0.5) * (1 - t * t)
"""
    + group_norm_back("dz", "dm", "m", 4)
    + "dz += da"
    + CONV2D,
)


# --- of volumes -------------------------------------------------------------------------------------------


@op
def conv3d_softmax_max_pool_max_pool(f, x: tensor[n, c, d, h, w], weight: tensor[o, c, r, p, q], bias: tensor[o]):
    f.z = conv3d(x, weight, bias)
    f.s = softmax3d(f.z)
    f.m = max_pool3d(f.s)
    f.y = max_pool3d(f.m)
    return f.y


P6 = Problem(
    6,
    "Conv3d Softmax MaxPool MaxPool",
    conv3d_softmax_max_pool_max_pool,
    lambda x, weight, bias: F.max_pool3d(F.max_pool3d(F.softmax(F.conv3d(x, weight, bias), 1), 2), 2),
    VOLUMES,
    max_pool_back("dm", "dy", "m", 3) + max_pool_back("ds", "dm", "s", 3) + softmax_back("dz", "ds", "s") + CONV3D,
)


@op
def conv3d_relu_leaky_relu_gelu_sigmoid_bias_add(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[o, c, r, p, q],
    bias: tensor[o],
    shift: tensor[o, one, once, other],
):
    f.z = conv3d(x, weight, bias)
    f.a[n, o, l, u, v] = relu(f.z[n, o, l, u, v])
    f.b = leaky_relu(f.a)
    f.g = gelu(f.b)
    f.s[n, o, l, u, v] = sigmoid(f.g[n, o, l, u, v])
    f.y[n, o, l, u, v] = f.s[n, o, l, u, v] + shift[o, 0, 0, 0]
    return f.y


P7 = Problem(
    7,
    "Conv3d ReLU LeakyReLU GELU Sigmoid BiasAdd",
    conv3d_relu_leaky_relu_gelu_sigmoid_bias_add,
    lambda x, weight, bias, shift: torch.sigmoid(F.gelu(F.leaky_relu(F.relu(F.conv3d(x, weight, bias)), 0.01))) + shift,
    VOLUMES,
    "dshift = dy.sum((0, 2, 3, 4))[:, None, None, None]"
    + gelu_back("da", "dy * s * (1 - s)", "a", "g_phi")
    + "dz = da * (z > 0)"
    + CONV3D,
)


@op
def conv3d_divide_max_global_avg_pool_bias_add_sum(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[o, c, r, p, q],
    bias: tensor[o],
    shift: tensor[o, one, once, other],
):
    f.z = conv3d(x, weight, bias)
    f.a[n, o, l, u, v] = f.z[n, o, l, u, v] / 2
    f.m = max_pool3d(f.a)
    f.g[n, o] = mean(f.m[n, o, e, i, j], over=(e, i, j))
    f.y[n, one, once, other] = sum(f.g[n, o] + shift[o, one, once, other], over=o)
    return f.y


P8 = Problem(
    8,
    "Conv3d Divide Max GlobalAvgPool BiasAdd Sum",
    conv3d_divide_max_global_avg_pool_bias_add_sum,
    lambda x, weight, bias, shift: (
        F.adaptive_avg_pool3d(F.max_pool3d(F.conv3d(x, weight, bias) / 2.0, 2), 1) + shift
    ).sum(1),
    VOLUMES,
    "dm = (dy[:, None] / (2 * m[0, 0].numel())).expand_as(m)"
    + max_pool_back("dz", "dm", "z", 3)
    + "dshift = dy.sum(0).expand_as(shift)"
    + CONV3D,
)


@op
def conv3d_group_norm_mean(
    f, x: tensor[n, c, d, h, w], weight: tensor[o, c, r, p, q], bias: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = conv3d(x, weight, bias)
    f.m = group_norm3d(f.z, gamma, beta, 4)
    f.y[n] = mean(f.m[n, o, l, u, v], over=(o, l, u, v))
    return f.y


P23 = Problem(
    23,
    "Conv3d GroupNorm Mean",
    conv3d_group_norm_mean,
    lambda x, weight, bias, gamma, beta: F.group_norm(F.conv3d(x, weight, bias), 4, gamma, beta).mean((1, 2, 3, 4)),
    VOLUMES,
    "dm = (dy / m[0].numel())[:, None, None, None, None].expand_as(m)" + group_norm_back("dz", "dm", "m", 5) + CONV3D,
)


@op
def conv3d_min_softmax(f, x: tensor[n, c, d, h, w], weight: tensor[o, c, r, p, q], bias: tensor[o]):
    f.z = conv3d(x, weight, bias)
    f.m[n, o, u, v] = amin(f.z[n, o, l, u, v], over=l)
    f.y = softmax2d(f.m)
    return f.y


P24 = Problem(
    24,
    "Conv3d Min Softmax",
    conv3d_min_softmax,
    lambda x, weight, bias: F.softmax(F.conv3d(x, weight, bias).min(2).values, 1),
    VOLUMES,
    softmax_back("dm", "dy", "y") + "dz = dm[:, :, None] * (z == m[:, :, None])" + CONV3D,
)


@op
def conv3d_hardswish_group_norm_mean(
    f, x: tensor[n, c, d, h, w], weight: tensor[o, c, r, p, q], bias: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = conv3d(x, weight, bias)
    f.s = hardswish(f.z)
    f.m = group_norm3d(f.s, gamma, beta, 4)
    f.y[n, o] = mean(f.m[n, o, l, u, v], over=(l, u, v))
    return f.y


P27 = Problem(
    27,
    "Conv3d HardSwish GroupNorm Mean",
    conv3d_hardswish_group_norm_mean,
    lambda x, weight, bias, gamma, beta: F.group_norm(F.hardswish(F.conv3d(x, weight, bias)), 4, gamma, beta).mean(
        (2, 3, 4)
    ),
    VOLUMES,
    "dm = (dy / m[0, 0].numel())[:, :, None, None, None].expand_as(m)"
    + group_norm_back("ds", "dm", "m", 5)
    + hardswish_back("dz", "ds", "z")
    + CONV3D,
)


@op
def conv3d_max_lse_relu(f, x: tensor[n, c, d, h, w], weight: tensor[o, c, r, p, q], bias: tensor[o]):
    f.z = conv3d_padded(x, weight, bias)
    f.m = max_pool3d(f.z)
    f.k[n, one, e, i, j] = log(sum(exp(f.m[n, o, e, i, j]), over=o))
    f.y[n, one, e, i, j] = relu(f.k[n, one, e, i, j])
    return f.y


P43 = Problem(
    43,
    "Conv3d Max LogSumExp ReLU",
    conv3d_max_lse_relu,
    lambda x, weight, bias: F.relu(F.max_pool3d(F.conv3d(x, weight, bias, padding=1), 2).logsumexp(1, keepdim=True)),
    VOLUMES,
    "dm = dy * (k > 0) * torch.exp(m - k)" + max_pool_back("dz", "dm", "z", 3) + CONV3D_PADDED,
)


@op
def conv3d_mish_tanh(f, x: tensor[n, c, d, h, w], weight: tensor[o, c, r, p, q], bias: tensor[o]):
    f.z = conv3d(x, weight, bias)
    f.m = mish(f.z)
    f.y[n, o, l, u, v] = tanh(f.m[n, o, l, u, v])
    return f.y


P47 = Problem(
    47,
    "Conv3d Mish Tanh",
    conv3d_mish_tanh,
    lambda x, weight, bias: torch.tanh(F.mish(F.conv3d(x, weight, bias))),
    VOLUMES,
    mish_back("dz", "dy * (1 - y * y)", "z") + CONV3D,
)


@op
def conv3d_scaling_tanh_multiply_sigmoid(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[o, c, r, p, q],
    bias: tensor[o],
    scale: tensor[o, one, once, other],
    gain: tensor[o, one, once, other],
):
    f.z = conv3d(x, weight, bias)
    f.t[n, o, l, u, v] = tanh(f.z[n, o, l, u, v] * scale[o, 0, 0, 0])
    f.y[n, o, l, u, v] = sigmoid(f.t[n, o, l, u, v] * gain[o, 0, 0, 0])
    return f.y


P48 = Problem(
    48,
    "Conv3d Scaling Tanh Multiply Sigmoid",
    conv3d_scaling_tanh_multiply_sigmoid,
    lambda x, weight, bias, scale, gain: torch.sigmoid(torch.tanh(F.conv3d(x, weight, bias) * scale) * gain),
    VOLUMES,
    """
ds = dy * y * (1 - y)
dgain = (ds * t).sum((0, 2, 3, 4))[:, None, None, None]
dm = ds * gain * (1 - t * t)
dscale = (dm * z).sum((0, 2, 3, 4))[:, None, None, None]
dz = dm * scale
"""
    + CONV3D,
)


@op
def conv3d_multiply_instance_norm_clamp_multiply_max(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[o, c, r, p, q],
    bias: tensor[o],
    scale: tensor[o, one, once, other],
):
    f.z = conv3d(x, weight, bias)
    f.a[n, o, l, u, v] = f.z[n, o, l, u, v] * scale[o, 0, 0, 0]
    f.m = instance_norm3d(f.a)
    f.k = clamped(f.m, -1, 1)
    f.s[n, o, l, u, v] = f.k[n, o, l, u, v] * scale[o, 0, 0, 0]
    f.y[n, l, u, v] = amax(f.s[n, o, l, u, v], over=o)
    return f.y


def _multiply_instance_norm_clamp_multiply_max(x, weight, bias, scale):
    z = F.instance_norm(F.conv3d(x, weight, bias) * scale)
    return (torch.clamp(z, -1.0, 1.0) * scale).max(1).values


P79 = Problem(
    79,
    "Conv3d Multiply InstanceNorm Clamp Multiply Max",
    conv3d_multiply_instance_norm_clamp_multiply_max,
    _multiply_instance_norm_clamp_multiply_max,
    VOLUMES,
    """
ds = dy[:, None] * (s == y[:, None])
dm = ds * scale * (m.abs() <= 1)
"""
    + instance_norm_back("da", "dm", "m", 5)
    + """
dscale = (ds * k + da * z).sum((0, 2, 3, 4))[:, None, None, None]
dz = da * scale
"""
    + CONV3D_NO_SHIFT,
)


@op
def conv3d_group_norm_min_clamp_dropout(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[o, c, r, p, q],
    bias: tensor[o],
    gamma: tensor[o],
    beta: tensor[o],
    mask: constant[n, o, l, u, v],
):
    f.z = conv3d(x, weight, bias)
    f.m = group_norm3d(f.z, gamma, beta, 4)
    f.a[n, o, l, u, v] = minimum(f.m[n, o, l, u, v], 0)
    f.k = clamped(f.a)
    f.y[n, o, l, u, v] = f.k[n, o, l, u, v] * mask[n, o, l, u, v] / 0.8
    return f.y


def _group_norm_min_clamp_dropout(x, weight, bias, gamma, beta, mask):
    z = F.group_norm(F.conv3d(x, weight, bias), 4, gamma, beta)
    z = torch.clamp(torch.min(z, torch.tensor(0.0, dtype=z.dtype)), 0.0, 1.0)
    return z * mask / 0.8


P83 = Problem(
    83,
    "Conv3d GroupNorm Min Clamp Dropout",
    conv3d_group_norm_min_clamp_dropout,
    _group_norm_min_clamp_dropout,
    {**VOLUMES, "l": 8, "u": 16, "v": 16},
    """
dx = torch.zeros_like(x)
dweight = torch.zeros_like(weight)
dbias = torch.zeros_like(bias)
dgamma = torch.zeros_like(gamma)
dbeta = torch.zeros_like(beta)
""",
    odd={"n": 3, "c": 2, "d": 5, "h": 7, "w": 6, "o": 8, "r": 3, "p": 2, "q": 3, "l": 3, "u": 6, "v": 4},
    long={"n": 1, "c": 1, "d": 4, "h": 3, "w": 131, "o": 4, "r": 2, "p": 3, "q": 3, "l": 3, "u": 1, "v": 129},
    note="what is no more than 0 is clamped to 0 and more, so that all is 0; the mask of dropout is an input",
)


@op
def conv3d_leaky_relu_sum_clamp_gelu(
    f,
    x: tensor[n, c, d, h, w],
    weight: tensor[o, c, r, p, q],
    bias: tensor[o],
    shift: tensor[o, one, once, other],
):
    f.z = conv3d(x, weight, bias)
    f.r = leaky_relu(f.z, 0.2)
    f.s[n, o, l, u, v] = f.r[n, o, l, u, v] + shift[o, 0, 0, 0]
    f.k = clamped(f.s, -1, 1)
    f.y = gelu(f.k)
    return f.y


P90 = Problem(
    90,
    "Conv3d LeakyReLU Sum Clamp GELU",
    conv3d_leaky_relu_sum_clamp_gelu,
    lambda x, weight, bias, shift: F.gelu(torch.clamp(F.leaky_relu(F.conv3d(x, weight, bias), 0.2) + shift, -1.0, 1.0)),
    VOLUMES,
    gelu_back("dk", "dy", "k", "y_phi")
    + """
ds = dk * (s.abs() <= 1)
dshift = ds.sum((0, 2, 3, 4))[:, None, None, None]
dz = torch.where(z > 0, ds, 0.2 * ds)
"""
    + CONV3D,
)
