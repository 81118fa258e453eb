"""KernelBench, level 2: the problems that begin with a product of matrices."""

import torch
import torch.nn.functional as F

from benchmarks.outside.kernelbench_2_layers import (
    LINEAR,
    LINEAR_NO_SHIFT,
    batch_norm1d,
    batch_norm_back,
    clamped,
    gelu_back,
    group_norm1d,
    group_norm_back,
    hardtanh,
    linear,
    mish,
    mish_back,
    silu_back,
    softmax_back,
)
from benchmarks.outside.problem import Problem
from derive import *
from derive.ops.activations import gelu, leaky_relu, logsumexp, silu, softmax

n, i, j, o, u, k = axes("n i j o u k")
one, once, other = axes("one=1 once=1 other=1")
two, few = axes("two=2 few=16")

LENGTHS = {"n": 128, "i": 512, "o": 512}


@op
def matmul_subtract_multiply_relu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.y[n, o] = relu((f.z[n, o] - 2) * 1.5)
    return f.y


P9 = Problem(
    9,
    "Matmul Subtract Multiply ReLU",
    matmul_subtract_multiply_relu,
    lambda x, weight, bias: F.relu((F.linear(x, weight, bias) - 2.0) * 1.5),
    LENGTHS,
    "dz = 1.5 * dy * (y > 0)" + LINEAR,
)


@op
def gemm_multiply_leaky_relu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m[n, o] = f.z[n, o] * 2
    f.y = leaky_relu(f.m, 0.1)
    return f.y


P12 = Problem(
    12,
    "Gemm Multiply LeakyReLU",
    gemm_multiply_leaky_relu,
    lambda x, weight, bias: F.leaky_relu(F.linear(x, weight, bias) * 2.0, 0.1),
    LENGTHS,
    "dz = torch.where(z > 0, 2 * dy, 0.2 * dy)" + LINEAR,
)


@op
def gemm_divide_sum_scaling(f, x: tensor[n, i], weight: tensor[o, i]):
    f.z[n, o] = sum(x[n, i] * weight[o, i], over=i) / 2
    f.y[n, one] = sum(f.z[n, o], over=o) * 1.5
    return f.y


P14 = Problem(
    14,
    "Gemm Divide Sum Scaling",
    gemm_divide_sum_scaling,
    lambda x, weight: (torch.matmul(x, weight.T) / 2).sum(1, keepdim=True) * 1.5,
    LENGTHS,
    """
dx = 0.75 * dy * weight.sum(0)
dweight = (0.75 * (dy.T @ x)).expand_as(weight)
""",
)


@op
def matmul_sum_max_avg_pool_lse_lse(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.total[n, one] = sum(f.z[n, o], over=o)
    f.top[n, one] = amax(f.total[n, once], over=once)
    f.middle[n, one] = mean(f.top[n, once], over=once)
    f.a = logsumexp(f.middle)
    f.b[n, one] = f.a[n]
    f.c = logsumexp(f.b)
    f.y[n, one] = f.c[n]
    return f.y


def _sum_max_avg_pool_lse_lse(x, weight, bias):
    total = F.linear(x, weight, bias).sum(1, keepdim=True)
    middle = total.max(1, keepdim=True).values.mean(1, keepdim=True)
    return middle.logsumexp(1, keepdim=True).logsumexp(1, keepdim=True)


P18 = Problem(
    18,
    "Matmul Sum Max AvgPool LogSumExp LogSumExp",
    matmul_sum_max_avg_pool_lse_lse,
    _sum_max_avg_pool_lse_lse,
    LENGTHS,
    """
dx = dy * weight.sum(0)
dweight = (dy.T @ x).expand_as(weight)
dbias = dy.sum(0).expand_as(bias)
""",
    note="all that follows the sum is of one place",
)


@op
def matmul_scale_residual_clamp_lse_mish(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m[n, o] = f.z[n, o] * 2
    f.t[n, o] = f.m[n, o] + f.m[n, o]
    f.k = clamped(f.t, -10, 10)
    f.l = logsumexp(f.k)
    f.s = mish(f.l)
    f.y[n, one] = f.l[n] * f.s[n]
    return f.y


def _scale_residual_clamp_lse_mish(x, weight, bias):
    z = F.linear(x, weight, bias) * 2.0
    z = torch.clamp(z + z, -10.0, 10.0).logsumexp(1, keepdim=True)
    return z * F.mish(z)


P22 = Problem(
    22,
    "Matmul Scale ResidualAdd Clamp LogSumExp Mish",
    matmul_scale_residual_clamp_lse_mish,
    _scale_residual_clamp_lse_mish,
    LENGTHS,
    """
t_l = torch.tanh(F.softplus(l))
dl = dy[:, 0] * (2 * s + l * l * torch.sigmoid(l) * (1 - t_l * t_l))
dz = 4 * dl[:, None] * torch.exp(k - l[:, None]) * (t.abs() <= 10)
"""
    + LINEAR,
)


@op
def bmm_instance_norm_sum_residual_multiply(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], other: tensor[n, o]
):
    f.z = linear(x, weight, bias)
    f.mu[n] = mean(f.z[n, o], over=o)
    f.rstd[n] = rsqrt(mean((f.z[n, o] - f.mu[n]) ** 2, over=o) + 1e-5)
    f.zhat[n, o] = (f.z[n, o] - f.mu[n]) * f.rstd[n]
    f.y[n, o] = (f.zhat[n, o] + other[n, o]) * other[n, o]
    return f.y


def _instance_norm_sum_residual_multiply(x, weight, bias, other):
    z = F.linear(x, weight, bias)
    z = F.instance_norm(z.unsqueeze(1).unsqueeze(1)).squeeze(1).squeeze(1)
    return (z + other) * other


P28 = Problem(
    28,
    "BMM InstanceNorm Sum ResidualAdd Multiply",
    bmm_instance_norm_sum_residual_multiply,
    _instance_norm_sum_residual_multiply,
    LENGTHS,
    """
dother = dy * (zhat + 2 * other)
dzhat = dy * other
means = dzhat.mean(1, True) + zhat * (dzhat * zhat).mean(1, True)
dz = rstd[:, None] * (dzhat - means)
"""
    + LINEAR,
)


@op
def matmul_mish_mish(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m = mish(f.z)
    f.y = mish(f.m)
    return f.y


P29 = Problem(
    29,
    "Matmul Mish Mish",
    matmul_mish_mish,
    lambda x, weight, bias: F.mish(F.mish(F.linear(x, weight, bias))),
    LENGTHS,
    mish_back("dm", "dy", "m") + mish_back("dz", "dm", "z") + LINEAR,
)


@op
def gemm_group_norm_hardtanh(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.m = group_norm1d(f.z, gamma, beta, 4)
    f.y = hardtanh(f.m, -2, 2)
    return f.y


P30 = Problem(
    30,
    "Gemm GroupNorm Hardtanh",
    gemm_group_norm_hardtanh,
    lambda x, weight, bias, gamma, beta: F.hardtanh(
        F.group_norm(F.linear(x, weight, bias), 4, gamma, beta), min_val=-2.0, max_val=2.0
    ),
    LENGTHS,
    "dm = dy * (m.abs() < 2)" + group_norm_back("dz", "dm", "m", 2) + LINEAR,
)


@op
def gemm_scale_batch_norm(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], scale: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.m[n, o] = f.z[n, o] * scale[o]
    f.y = batch_norm1d(f.m, gamma, beta)
    return f.y


def _scale_batch_norm(x, weight, bias, scale, gamma, beta):
    return F.batch_norm(F.linear(x, weight, bias) * scale, None, None, gamma, beta, training=True)


_SCALE_BATCH_NORM = (
    batch_norm_back("dm", "dy", "y", 2)
    + """
dz = dm * scale
dscale = (dm * z).sum(0)
"""
    + LINEAR_NO_SHIFT
)
P33 = Problem(33, "Gemm Scale BatchNorm", gemm_scale_batch_norm, _scale_batch_norm, LENGTHS, _SCALE_BATCH_NORM)
P39 = Problem(39, "Gemm Scale BatchNorm", gemm_scale_batch_norm, _scale_batch_norm, LENGTHS, _SCALE_BATCH_NORM)


@op
def matmul_swish_sum_group_norm(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], shift: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.s = silu(f.z)
    f.t[n, o] = f.s[n, o] + shift[o]
    f.y = group_norm1d(f.t, gamma, beta, 4)
    return f.y


def _swish_sum_group_norm(x, weight, bias, shift, gamma, beta):
    z = F.linear(x, weight, bias)
    return F.group_norm(torch.sigmoid(z) * z + shift, 4, gamma, beta)


P37 = Problem(
    37,
    "Matmul Swish Sum GroupNorm",
    matmul_swish_sum_group_norm,
    _swish_sum_group_norm,
    LENGTHS,
    group_norm_back("dt", "dy", "y", 2) + "dshift = dt.sum(0)" + silu_back("dz", "dt", "z", "s") + LINEAR,
)

P40 = Problem(
    40,
    "Matmul Scaling ResidualAdd",
    missing="detach: a copy of the product without gradient is added to it, and no word stops a gradient within an op",
)


@op
def gemm_batch_norm_gelu_relu(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.m = batch_norm1d(f.z, gamma, beta)
    f.a = gelu(f.m)
    f.y[n, o] = relu(f.a[n, o])
    return f.y


def _batch_norm_gelu_relu(x, weight, bias, gamma, beta):
    z = F.batch_norm(F.linear(x, weight, bias), None, None, gamma, beta, training=True)
    return F.relu(F.gelu(z))


P41 = Problem(
    41,
    "Gemm BatchNorm GELU ReLU",
    gemm_batch_norm_gelu_relu,
    _batch_norm_gelu_relu,
    LENGTHS,
    "da = dy * (a > 0)" + gelu_back("dm", "da", "m", "a_phi") + batch_norm_back("dz", "dm", "m", 2) + LINEAR_NO_SHIFT,
)


@op
def gemm_sigmoid_lse(
    f, x: tensor[n, i], weight: tensor[j, i], bias: tensor[j], weight2: tensor[o, j], bias2: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.s[n, j] = sigmoid(f.z[n, j])
    f.t = linear(f.s, weight2, bias2)
    f.y = logsumexp(f.t)
    return f.y


P45 = Problem(
    45,
    "Gemm Sigmoid LogSumExp",
    gemm_sigmoid_lse,
    lambda x, weight, bias, weight2, bias2: F.linear(
        torch.sigmoid(F.linear(x, weight, bias)), weight2, bias2
    ).logsumexp(1),
    {"n": 128, "i": 256, "j": 512, "o": 256},
    """
dt = dy[:, None] * torch.exp(t - y[:, None])
dweight2 = dt.T @ s
dbias2 = dt.sum(0)
dz = (dt @ weight2) * s * (1 - s)
"""
    + LINEAR,
)


@op
def gemm_subtract_avg_pool_lse_gelu_residual(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], subtract: tensor[o], original: constant[n, i]
):
    f.z = linear(x, weight, bias)
    f.m[n, one] = mean(f.z[n, o] - subtract[o], over=o)
    f.l = logsumexp(f.m)
    f.g = gelu(f.l)
    f.y[n, i] = f.g[n] + original[n, i]
    return f.y


def _subtract_avg_pool_lse_gelu_residual(x, weight, bias, subtract, original):
    z = (F.linear(x, weight, bias) - subtract).mean(1, keepdim=True)
    return F.gelu(z.logsumexp(1, keepdim=True)) + original


P51 = Problem(
    51,
    "Gemm Subtract GlobalAvgPool LogSumExp GELU ResidualAdd",
    gemm_subtract_avg_pool_lse_gelu_residual,
    _subtract_avg_pool_lse_gelu_residual,
    LENGTHS,
    gelu_back("dl", "dy.sum(1)", "l", "g_phi")
    + """
dm = dl[:, None] / weight.shape[0]
dx = dm * weight.sum(0)
dweight = (dm.T @ x).expand_as(weight)
dbias = dm.sum(0).expand_as(bias)
dsubtract = -dbias
""",
    note="the residual is the input detached, which the caller gives",
)


@op
def gemm_scaling_hardtanh_gelu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m[n, o] = f.z[n, o] * 0.5
    f.t = hardtanh(f.m, -2, 2)
    f.y = gelu(f.t)
    return f.y


P53 = Problem(
    53,
    "Gemm Scaling Hardtanh GELU",
    gemm_scaling_hardtanh_gelu,
    lambda x, weight, bias: F.gelu(F.hardtanh(F.linear(x, weight, bias) * 0.5, min_val=-2.0, max_val=2.0)),
    LENGTHS,
    gelu_back("dt", "dy", "t", "y_phi") + "dz = 0.5 * dt * (m.abs() < 2)" + LINEAR,
)


@op
def matmul_max_pool_sum_scale(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m[n, u] = amax(f.z[n, 2 * u + two], over=two)
    f.y[n] = sum(f.m[n, u], over=u) * 0.5
    return f.y


P55 = Problem(
    55,
    "Matmul MaxPool Sum Scale",
    matmul_max_pool_sum_scale,
    lambda x, weight, bias: F.max_pool1d(F.linear(x, weight, bias).unsqueeze(1), 2).squeeze(1).sum(1) * 0.5,
    LENGTHS,
    """
pairs = z[:, : 2 * m.shape[1]].view(m.shape + (2,))  # view
dpairs = 0.5 * dy[:, None, None] * (pairs == m[:, :, None])
dz = F.pad(dpairs.flatten(1), (0, z.shape[1] % 2))
"""
    + LINEAR,
)


@op
def matmul_sigmoid_sum(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.s[n, o] = sigmoid(f.z[n, o])
    f.y[n, one] = sum(f.s[n, o], over=o)
    return f.y


P56 = Problem(
    56,
    "Matmul Sigmoid Sum",
    matmul_sigmoid_sum,
    lambda x, weight, bias: torch.sigmoid(F.linear(x, weight, bias)).sum(1, keepdim=True),
    LENGTHS,
    "dz = dy * s * (1 - s)" + LINEAR,
)


@op
def matmul_swish_scaling(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.s = silu(f.z)
    f.y[n, o] = f.s[n, o] * 2
    return f.y


def _swish_scaling(x, weight, bias):
    z = F.linear(x, weight, bias)
    return z * torch.sigmoid(z) * 2.0


P59 = Problem(
    59,
    "Matmul Swish Scaling",
    matmul_swish_scaling,
    _swish_scaling,
    LENGTHS,
    silu_back("dz", "2 * dy", "z", "s") + LINEAR,
)


@op
def matmul_group_norm_leaky_relu_sum(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.m = group_norm1d(f.z, gamma, beta, 4)
    f.r = leaky_relu(f.m)
    f.y[n, o] = f.r[n, o] + f.r[n, o]
    return f.y


def _group_norm_leaky_relu_sum(x, weight, bias, gamma, beta):
    z = F.leaky_relu(F.group_norm(F.linear(x, weight, bias), 4, gamma, beta))
    return z + z


P62 = Problem(
    62,
    "Matmul GroupNorm LeakyReLU Sum",
    matmul_group_norm_leaky_relu_sum,
    _group_norm_leaky_relu_sum,
    LENGTHS,
    "dm = torch.where(m > 0, 2 * dy, 0.02 * dy)" + group_norm_back("dz", "dm", "m", 2) + LINEAR,
)


@op
def gemm_relu_divide(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.y[n, o] = relu(f.z[n, o]) / 2
    return f.y


P63 = Problem(
    63,
    "Gemm ReLU Divide",
    gemm_relu_divide,
    lambda x, weight, bias: F.relu(F.linear(x, weight, bias)) / 2.0,
    LENGTHS,
    "dz = 0.5 * dy * (y > 0)" + LINEAR,
)


@op
def gemm_lse_leaky_leaky_gelu_gelu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.l = logsumexp(f.z)
    f.a = leaky_relu(f.l)
    f.b = leaky_relu(f.a)
    f.g = gelu(f.b)
    f.h = gelu(f.g)
    f.y[n, one] = f.h[n]
    return f.y


P64 = Problem(
    64,
    "Gemm LogSumExp LeakyReLU LeakyReLU GELU GELU",
    gemm_lse_leaky_leaky_gelu_gelu,
    lambda x, weight, bias: F.gelu(
        F.gelu(F.leaky_relu(F.leaky_relu(F.linear(x, weight, bias).logsumexp(1, keepdim=True))))
    ),
    LENGTHS,
    gelu_back("dg", "dy[:, 0]", "g", "h_phi")
    + gelu_back("db", "dg", "b", "g_phi")
    + """
dl = torch.where(l > 0, db, 0.0001 * db)
dz = dl[:, None] * torch.exp(z - l[:, None])
"""
    + LINEAR,
)


@op
def matmul_dropout_softmax(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], mask: constant[n, o]):
    f.z = linear(x, weight, bias)
    f.d[n, o] = f.z[n, o] * mask[n, o] / 0.8
    f.y = softmax(f.d)
    return f.y


P66 = Problem(
    66,
    "Matmul Dropout Softmax",
    matmul_dropout_softmax,
    lambda x, weight, bias, mask: F.softmax(F.linear(x, weight, bias) * mask / 0.8, 1),
    LENGTHS,
    softmax_back("dd", "dy", "y") + "dz = dd * mask / 0.8" + LINEAR,
    note="the mask of dropout is an input",
)


@op
def matmul_min_subtract(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], bound: tensor[()]):
    f.z = linear(x, weight, bias)
    f.y[n, o] = minimum(f.z[n, o], bound[()]) - bound[()]
    return f.y


P68 = Problem(
    68,
    "Matmul Min Subtract",
    matmul_min_subtract,
    lambda x, weight, bias, bound: torch.min(F.linear(x, weight, bias), bound) - bound,
    LENGTHS,
    """
dz = dy * (z < bound)
dbound = -dz.sum()
"""
    + LINEAR,
)


@op
def gemm_sigmoid_scaling_residual(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.s[n, o] = sigmoid(f.z[n, o])
    f.y[n, o] = f.s[n, o] * 2 + f.z[n, o]
    return f.y


def _sigmoid_scaling_residual(x, weight, bias):
    z = F.linear(x, weight, bias)
    return torch.sigmoid(z) * 2.0 + z


P70 = Problem(
    70,
    "Gemm Sigmoid Scaling ResidualAdd",
    gemm_sigmoid_scaling_residual,
    _sigmoid_scaling_residual,
    LENGTHS,
    "dz = dy * (1 + 2 * s * (1 - s))" + LINEAR,
)


@op
def gemm_group_norm_min_bias_add(
    f,
    x: tensor[n, i],
    weight: tensor[o, i],
    bias: tensor[o],
    gamma: tensor[o],
    beta: tensor[o],
    shift: tensor[one, o, once, other],
):
    f.z = linear(x, weight, bias)
    f.m = group_norm1d(f.z, gamma, beta, 4)
    f.least[n] = amin(f.m[n, o], over=o)
    f.y[one, o, n, other] = f.least[n] + shift[one, o, 0, other]
    return f.y


P75 = Problem(
    75,
    "Gemm GroupNorm Min BiasAdd",
    gemm_group_norm_min_bias_add,
    lambda x, weight, bias, gamma, beta, shift: (
        F.group_norm(F.linear(x, weight, bias), 4, gamma, beta).min(1, keepdim=True).values + shift
    ),
    LENGTHS,
    """
dshift = dy.sum(2, True)
dm = dy.sum((0, 1, 3))[:, None] * (m == least[:, None])
"""
    + group_norm_back("dz", "dm", "m", 2)
    + LINEAR,
    note="a column of minima and a shift of rank 4 make a table of rank 4",
)


@op
def gemm_add_relu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.y[n, o] = relu(f.z[n, o])
    return f.y


P76 = Problem(
    76,
    "Gemm Add ReLU",
    gemm_add_relu,
    lambda x, weight, bias: F.relu(F.linear(x, weight) + bias),
    LENGTHS,
    "dz = dy * (y > 0)" + LINEAR,
)


@op
def gemm_max_subtract_gelu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m[n, one] = amax(f.z[n, o], over=o)
    f.s[n, one] = f.m[n, one] - mean(f.m[n, once], over=once)
    f.y = gelu(f.s)
    return f.y


def _max_subtract_gelu(x, weight, bias):
    z = F.linear(x, weight, bias).max(1, keepdim=True).values
    return F.gelu(z - z.mean(1, keepdim=True))


P80 = Problem(
    80,
    "Gemm Max Subtract GELU",
    gemm_max_subtract_gelu,
    _max_subtract_gelu,
    LENGTHS,
    """
dx = torch.zeros_like(x)
dweight = torch.zeros_like(weight)
dbias = torch.zeros_like(bias)
""",
    note="the mean of one place is that place, so that all is 0",
)


@op
def gemm_swish_divide_clamp_tanh_clamp(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.s = silu(f.z)
    f.h[n, o] = f.s[n, o] / 2
    f.a = clamped(f.h, -1, 1)
    f.t[n, o] = tanh(f.a[n, o])
    f.y = clamped(f.t, -1, 1)
    return f.y


def _swish_divide_clamp_tanh_clamp(x, weight, bias):
    z = F.linear(x, weight, bias)
    z = torch.tanh(torch.clamp(z * torch.sigmoid(z) / 2.0, -1.0, 1.0))
    return torch.clamp(z, -1.0, 1.0)


P81 = Problem(
    81,
    "Gemm Swish Divide Clamp Tanh Clamp",
    gemm_swish_divide_clamp_tanh_clamp,
    _swish_divide_clamp_tanh_clamp,
    LENGTHS,
    "ds = 0.5 * dy * (1 - t * t) * (h.abs() <= 1)" + silu_back("dz", "ds", "z", "s") + LINEAR,
)


@op
def gemm_batch_norm_scaling_softmax(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], gamma: tensor[o], beta: tensor[o], scale: tensor[one]
):
    f.z = linear(x, weight, bias)
    f.m = batch_norm1d(f.z, gamma, beta)
    f.s[n, o] = f.m[n, o] * scale[0]
    f.y = softmax(f.s)
    return f.y


def _batch_norm_scaling_softmax(x, weight, bias, gamma, beta, scale):
    z = F.batch_norm(F.linear(x, weight, bias), None, None, gamma, beta, training=True)
    return F.softmax(scale * z, 1)


P84 = Problem(
    84,
    "Gemm BatchNorm Scaling Softmax",
    gemm_batch_norm_scaling_softmax,
    _batch_norm_scaling_softmax,
    LENGTHS,
    softmax_back("ds", "dy", "y")
    + """
dscale = (ds * m).sum()[None]
dm = ds * scale
"""
    + batch_norm_back("dz", "dm", "m", 2)
    + LINEAR_NO_SHIFT,
)


@op
def matmul_divide_gelu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.s[n, o] = f.z[n, o] / 10
    f.y = gelu(f.s)
    return f.y


P86 = Problem(
    86,
    "Matmul Divide GELU",
    matmul_divide_gelu,
    lambda x, weight, bias: F.gelu(F.linear(x, weight, bias) / 10.0),
    LENGTHS,
    gelu_back("dz", "0.1 * dy", "s", "y_phi") + LINEAR,
)


@op
def gemm_group_norm_swish_multiply_swish(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], gamma: tensor[o], beta: tensor[o], scale: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.m = group_norm1d(f.z, gamma, beta, 4)
    f.s = silu(f.m)
    f.t[n, o] = f.s[n, o] * scale[o]
    f.y = silu(f.t)
    return f.y


def _group_norm_swish_multiply_swish(x, weight, bias, gamma, beta, scale):
    z = F.group_norm(F.linear(x, weight, bias), 4, gamma, beta)
    z = z * torch.sigmoid(z) * scale
    return z * torch.sigmoid(z)


P88 = Problem(
    88,
    "Gemm GroupNorm Swish Multiply Swish",
    gemm_group_norm_swish_multiply_swish,
    _group_norm_swish_multiply_swish,
    LENGTHS,
    silu_back("dt", "dy", "t", "y")
    + "dscale = (dt * s).sum(0)"
    + silu_back("dm", "dt * scale", "m", "s")
    + group_norm_back("dz", "dm", "m", 2)
    + LINEAR,
)


@op
def gemm_bias_add_hardtanh_mish_group_norm(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], shift: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.s[n, o] = f.z[n, o] + shift[o]
    f.t = hardtanh(f.s)
    f.m = mish(f.t)
    f.y = group_norm1d(f.m, gamma, beta, 4)
    return f.y


P94 = Problem(
    94,
    "Gemm BiasAdd Hardtanh Mish GroupNorm",
    gemm_bias_add_hardtanh_mish_group_norm,
    lambda x, weight, bias, shift, gamma, beta: F.group_norm(
        F.mish(F.hardtanh(F.linear(x, weight, bias) + shift)), 4, gamma, beta
    ),
    LENGTHS,
    group_norm_back("dm", "dy", "y", 2) + mish_back("dz", "dm * (s.abs() < 1)", "t") + LINEAR + "\ndshift = dbias",
)


@op
def matmul_add_swish_tanh_gelu_hardtanh(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], shift: tensor[o]):
    f.z = linear(x, weight, bias)
    f.t[n, o] = f.z[n, o] + shift[o]
    f.s = silu(f.t)
    f.a[n, o] = tanh(f.s[n, o])
    f.g = gelu(f.a)
    f.y = hardtanh(f.g)
    return f.y


def _add_swish_tanh_gelu_hardtanh(x, weight, bias, shift):
    z = F.linear(x, weight, bias) + shift
    return F.hardtanh(F.gelu(torch.tanh(torch.sigmoid(z) * z)), min_val=-1, max_val=1)


P95 = Problem(
    95,
    "Matmul Add Swish Tanh GELU Hardtanh",
    matmul_add_swish_tanh_gelu_hardtanh,
    _add_swish_tanh_gelu_hardtanh,
    LENGTHS,
    gelu_back("da", "dy", "a", "g_phi") + silu_back("dz", "da * (1 - a * a)", "t", "s") + LINEAR + "\ndshift = dbias",
    note="beyond tanh GELU is below 1, so that its bounds are never met",
)


@op
def matmul_batch_norm_bias_add_divide_swish(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], gamma: tensor[o], beta: tensor[o], shift: tensor[one]
):
    f.z = linear(x, weight, bias)
    f.m = batch_norm1d(f.z, gamma, beta)
    f.s[n, o] = (f.m[n, o] + shift[0]) / 1.0
    f.y = silu(f.s)
    return f.y


def _batch_norm_bias_add_divide_swish(x, weight, bias, gamma, beta, shift):
    z = F.batch_norm(F.linear(x, weight, bias), None, None, gamma, beta, training=True)
    z = (z + shift) / 1.0
    return z * torch.sigmoid(z)


P97 = Problem(
    97,
    "Matmul BatchNorm BiasAdd Divide Swish",
    matmul_batch_norm_bias_add_divide_swish,
    _batch_norm_bias_add_divide_swish,
    LENGTHS,
    silu_back("dm", "dy", "s", "y")
    + batch_norm_back("dz", "dm", "m", 2)
    + "dshift = dbeta.sum()[None]"
    + LINEAR_NO_SHIFT,
)


@op
def matmul_avg_pool_gelu_scale_max(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m[n, u] = mean(f.z[n, 16 * u + few], over=few)
    f.g = gelu(f.m)
    f.y[n] = amax(f.g[n, u] * 2, over=u)
    return f.y


def _avg_pool_gelu_scale_max(x, weight, bias):
    z = F.avg_pool1d(F.linear(x, weight, bias).unsqueeze(1), 16).squeeze(1)
    return (F.gelu(z) * 2.0).max(1).values


P98 = Problem(
    98,
    "Matmul AvgPool GELU Scale Max",
    matmul_avg_pool_gelu_scale_max,
    _avg_pool_gelu_scale_max,
    LENGTHS,
    "dg = 2 * dy[:, None] * (2 * g == y[:, None])"
    + gelu_back("dm", "dg", "m", "g_phi")
    + """
dz = F.pad(torch.repeat_interleave(dm / 16, 16, dim=1), (0, z.shape[1] % 16))
"""
    + LINEAR,
    odd={"n": 7, "i": 5, "o": 67},
    long={"n": 3, "i": 33, "o": 517},
)


@op
def matmul_gelu_softmax(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.g = gelu(f.z)
    f.y = softmax(f.g)
    return f.y


P99 = Problem(
    99,
    "Matmul GELU Softmax",
    matmul_gelu_softmax,
    lambda x, weight, bias: F.softmax(F.gelu(F.linear(x, weight, bias)), 1),
    LENGTHS,
    softmax_back("dg", "dy", "y") + gelu_back("dz", "dg", "z", "g_phi") + LINEAR,
)
