"""KernelBench, level 2: the problems that begin with a product of matrices."""

# ruff: noqa: F403, F405
from torch import Tensor
from torch.nn import functional
import torch

from benchmarks.outside.kernelbench_2_layers import batch_norm1d, group_norm1d, hardtanh, linear, mish
from derive import *
from derive.ops.activations import gelu, leaky_relu, logsumexp, silu, softmax

n, i, j, o, u, k = axes("n i j o u k")
one, once, other = axes("one=1 once=1 other=1")
two, few = axes("two=2 few=16")


@op
def matmul_subtract_multiply_relu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.y[n, o] = relu((f.z[n, o] - 2) * 1.5)
    return f.y


def matmul_subtract_multiply_relu_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.relu((functional.linear(x, weight, bias) - 2.0) * 1.5)


@op
def gemm_multiply_leaky_relu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m[n, o] = f.z[n, o] * 2
    f.y = leaky_relu(f.m, 0.1)
    return f.y


def gemm_multiply_leaky_relu_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.leaky_relu(functional.linear(x, weight, bias) * 2.0, 0.1)


@op
def gemm_divide_sum_scaling(f, x: tensor[n, i], weight: tensor[o, i]):
    f.z[n, o] = sum(x[n, i] * weight[o, i], over=i) / 2
    f.y[n, one] = sum(f.z[n, o], over=o) * 1.5
    return f.y


def gemm_divide_sum_scaling_torch(x: Tensor, weight: Tensor) -> Tensor:
    return (torch.matmul(x, weight.T) / 2).sum(1, keepdim=True) * 1.5


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


def matmul_sum_max_avg_pool_lse_lse_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    total = functional.linear(x, weight, bias).sum(1, keepdim=True)
    middle = total.max(1, keepdim=True).values.mean(1, keepdim=True)
    return middle.logsumexp(1, keepdim=True).logsumexp(1, keepdim=True)


@op
def matmul_scale_residual_clamp_lse_mish(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m[n, o] = f.z[n, o] * 2
    f.t[n, o] = f.m[n, o] + f.m[n, o]
    f.k = hardtanh(f.t, -10, 10)
    f.l = logsumexp(f.k)
    f.s = mish(f.l)
    f.y[n, one] = f.l[n] * f.s[n]
    return f.y


def matmul_scale_residual_clamp_lse_mish_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    z = functional.linear(x, weight, bias) * 2.0
    z = torch.clamp(z + z, -10.0, 10.0).logsumexp(1, keepdim=True)
    return z * functional.mish(z)


@op
def bmm_instance_norm_sum_residual_multiply(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], other: tensor[n, o]
):
    f.z = linear(x, weight, bias)
    f.mu[n] = mean(f.z[n, o], over=o)
    f.var[n] = mean((f.z[n, o] - f.mu[n]) ** 2, over=o)
    f.zhat[n, o] = (f.z[n, o] - f.mu[n]) * rsqrt(f.var[n] + 1e-5)
    f.y[n, o] = (f.zhat[n, o] + other[n, o]) * other[n, o]
    return f.y


def bmm_instance_norm_sum_residual_multiply_torch(x: Tensor, weight: Tensor, bias: Tensor, other: Tensor) -> Tensor:
    z = functional.linear(x, weight, bias)
    z = functional.instance_norm(z[:, None, None]).squeeze(1).squeeze(1)
    return (z + other) * other


@op
def matmul_mish_mish(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m = mish(f.z)
    f.y = mish(f.m)
    return f.y


def matmul_mish_mish_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.mish(functional.mish(functional.linear(x, weight, bias)))


@op
def gemm_group_norm_hardtanh(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.m = group_norm1d(f.z, gamma, beta, 4)
    f.y = hardtanh(f.m, -2, 2)
    return f.y


def gemm_group_norm_hardtanh_torch(x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    z = functional.group_norm(functional.linear(x, weight, bias), 4, gamma, beta)
    return functional.hardtanh(z, -2.0, 2.0)


@op
def gemm_scale_batch_norm(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], scale: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.m[n, o] = f.z[n, o] * scale[o]
    f.y = batch_norm1d(f.m, gamma, beta)
    return f.y


def gemm_scale_batch_norm_torch(
    x: Tensor, weight: Tensor, bias: Tensor, scale: Tensor, gamma: Tensor, beta: Tensor
) -> Tensor:
    z = functional.linear(x, weight, bias) * scale
    return functional.batch_norm(z, None, None, gamma, beta, training=True)


@op
def matmul_swish_sum_group_norm(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], shift: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.s = silu(f.z)
    f.t[n, o] = f.s[n, o] + shift[o]
    f.y = group_norm1d(f.t, gamma, beta, 4)
    return f.y


def matmul_swish_sum_group_norm_torch(
    x: Tensor, weight: Tensor, bias: Tensor, shift: Tensor, gamma: Tensor, beta: Tensor
) -> Tensor:
    z = functional.linear(x, weight, bias)
    return functional.group_norm(torch.sigmoid(z) * z + shift, 4, gamma, beta)


@op
def gemm_batch_norm_gelu_relu(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.m = batch_norm1d(f.z, gamma, beta)
    f.a = gelu(f.m)
    f.y[n, o] = relu(f.a[n, o])
    return f.y


def gemm_batch_norm_gelu_relu_torch(x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    z = functional.batch_norm(functional.linear(x, weight, bias), None, None, gamma, beta, training=True)
    return functional.relu(functional.gelu(z))


@op
def gemm_sigmoid_lse(
    f, x: tensor[n, i], weight: tensor[j, i], bias: tensor[j], weight2: tensor[o, j], bias2: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.s[n, j] = sigmoid(f.z[n, j])
    f.t = linear(f.s, weight2, bias2)
    f.y = logsumexp(f.t)
    return f.y


def gemm_sigmoid_lse_torch(x: Tensor, weight: Tensor, bias: Tensor, weight2: Tensor, bias2: Tensor) -> Tensor:
    z = torch.sigmoid(functional.linear(x, weight, bias))
    return functional.linear(z, weight2, bias2).logsumexp(1)


@op
def gemm_subtract_avg_pool_lse_gelu_residual(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], subtract: tensor[o], original: constant[n, i]
):
    """The residual is the input detached, which the caller gives."""
    f.z = linear(x, weight, bias)
    f.m[n, one] = mean(f.z[n, o] - subtract[o], over=o)
    f.l = logsumexp(f.m)
    f.g = gelu(f.l)
    f.y[n, i] = f.g[n] + original[n, i]
    return f.y


def gemm_subtract_avg_pool_lse_gelu_residual_torch(
    x: Tensor, weight: Tensor, bias: Tensor, subtract: Tensor, original: Tensor
) -> Tensor:
    z = (functional.linear(x, weight, bias) - subtract).mean(1, keepdim=True)
    return functional.gelu(z.logsumexp(1, keepdim=True)) + original


@op
def gemm_scaling_hardtanh_gelu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m[n, o] = f.z[n, o] * 0.5
    f.t = hardtanh(f.m, -2, 2)
    f.y = gelu(f.t)
    return f.y


def gemm_scaling_hardtanh_gelu_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.gelu(functional.hardtanh(functional.linear(x, weight, bias) * 0.5, -2.0, 2.0))


@op
def matmul_max_pool_sum_scale(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m[n, u] = amax(f.z[n, 2 * u + two], over=two)
    f.y[n] = sum(f.m[n, u], over=u) * 0.5
    return f.y


def matmul_max_pool_sum_scale_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    z = functional.linear(x, weight, bias)
    return functional.max_pool1d(z[:, None], 2).squeeze(1).sum(1) * 0.5


@op
def matmul_sigmoid_sum(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.y[n, one] = sum(sigmoid(f.z[n, o]), over=o)
    return f.y


def matmul_sigmoid_sum_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.sigmoid(functional.linear(x, weight, bias)).sum(1, keepdim=True)


@op
def matmul_swish_scaling(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.s = silu(f.z)
    f.y[n, o] = f.s[n, o] * 2
    return f.y


def matmul_swish_scaling_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    z = functional.linear(x, weight, bias)
    return z * torch.sigmoid(z) * 2.0


@op
def matmul_group_norm_leaky_relu_sum(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], gamma: tensor[o], beta: tensor[o]
):
    f.z = linear(x, weight, bias)
    f.m = group_norm1d(f.z, gamma, beta, 4)
    f.r = leaky_relu(f.m)
    f.y[n, o] = f.r[n, o] + f.r[n, o]
    return f.y


def matmul_group_norm_leaky_relu_sum_torch(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor
) -> Tensor:
    z = functional.leaky_relu(functional.group_norm(functional.linear(x, weight, bias), 4, gamma, beta))
    return z + z


@op
def gemm_relu_divide(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.y[n, o] = relu(f.z[n, o]) / 2
    return f.y


def gemm_relu_divide_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.relu(functional.linear(x, weight, bias)) / 2.0


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


def gemm_lse_leaky_leaky_gelu_gelu_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    z = functional.linear(x, weight, bias).logsumexp(1, keepdim=True)
    return functional.gelu(functional.gelu(functional.leaky_relu(functional.leaky_relu(z))))


@op
def matmul_dropout_softmax(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], mask: constant[n, o]):
    """Dropout by a mask that the caller gives."""
    f.z = linear(x, weight, bias)
    f.d[n, o] = f.z[n, o] * mask[n, o] / 0.8
    f.y = softmax(f.d)
    return f.y


def matmul_dropout_softmax_torch(x: Tensor, weight: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
    return functional.softmax(functional.linear(x, weight, bias) * mask / 0.8, 1)


@op
def matmul_min_subtract(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], bound: tensor[()]):
    f.z = linear(x, weight, bias)
    f.y[n, o] = minimum(f.z[n, o], bound[()]) - bound[()]
    return f.y


def matmul_min_subtract_torch(x: Tensor, weight: Tensor, bias: Tensor, bound: Tensor) -> Tensor:
    return torch.min(functional.linear(x, weight, bias), bound) - bound


@op
def gemm_sigmoid_scaling_residual(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.y[n, o] = sigmoid(f.z[n, o]) * 2 + f.z[n, o]
    return f.y


def gemm_sigmoid_scaling_residual_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    z = functional.linear(x, weight, bias)
    return torch.sigmoid(z) * 2.0 + z


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
    """A column of minima and a shift of rank 4 make a table of rank 4."""
    f.z = linear(x, weight, bias)
    f.m = group_norm1d(f.z, gamma, beta, 4)
    f.least[n] = amin(f.m[n, o], over=o)
    f.y[one, o, n, other] = f.least[n] + shift[one, o, 0, other]
    return f.y


def gemm_group_norm_min_bias_add_torch(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, shift: Tensor
) -> Tensor:
    z = functional.group_norm(functional.linear(x, weight, bias), 4, gamma, beta)
    return z.min(1, keepdim=True).values + shift


@op
def gemm_add_relu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.y[n, o] = relu(f.z[n, o])
    return f.y


def gemm_add_relu_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.relu(functional.linear(x, weight) + bias)


@op
def gemm_max_subtract_gelu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    """A mean of one place is that place, so that all is 0."""
    f.z = linear(x, weight, bias)
    f.m[n, one] = amax(f.z[n, o], over=o)
    f.s[n, one] = f.m[n, one] - mean(f.m[n, once], over=once)
    f.y = gelu(f.s)
    return f.y


def gemm_max_subtract_gelu_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    z = functional.linear(x, weight, bias).max(1, keepdim=True).values
    return functional.gelu(z - z.mean(1, keepdim=True))


@op
def gemm_swish_divide_clamp_tanh_clamp(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.s = silu(f.z)
    f.h[n, o] = f.s[n, o] / 2
    f.a = hardtanh(f.h)
    f.t[n, o] = tanh(f.a[n, o])
    f.y = hardtanh(f.t)
    return f.y


def gemm_swish_divide_clamp_tanh_clamp_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    z = functional.linear(x, weight, bias)
    z = torch.tanh(torch.clamp(z * torch.sigmoid(z) / 2.0, -1.0, 1.0))
    return torch.clamp(z, -1.0, 1.0)


@op
def gemm_batch_norm_scaling_softmax(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], gamma: tensor[o], beta: tensor[o], scale: tensor[one]
):
    f.z = linear(x, weight, bias)
    f.m = batch_norm1d(f.z, gamma, beta)
    f.s[n, o] = f.m[n, o] * scale[0]
    f.y = softmax(f.s)
    return f.y


def gemm_batch_norm_scaling_softmax_torch(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, scale: Tensor
) -> Tensor:
    z = functional.batch_norm(functional.linear(x, weight, bias), None, None, gamma, beta, training=True)
    return functional.softmax(scale * z, 1)


@op
def matmul_divide_gelu(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.s[n, o] = f.z[n, o] / 10
    f.y = gelu(f.s)
    return f.y


def matmul_divide_gelu_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.gelu(functional.linear(x, weight, bias) / 10.0)


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


def gemm_group_norm_swish_multiply_swish_torch(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, scale: Tensor
) -> Tensor:
    z = functional.group_norm(functional.linear(x, weight, bias), 4, gamma, beta)
    z = z * torch.sigmoid(z) * scale
    return z * torch.sigmoid(z)


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


def gemm_bias_add_hardtanh_mish_group_norm_torch(
    x: Tensor, weight: Tensor, bias: Tensor, shift: Tensor, gamma: Tensor, beta: Tensor
) -> Tensor:
    z = functional.mish(functional.hardtanh(functional.linear(x, weight, bias) + shift))
    return functional.group_norm(z, 4, gamma, beta)


@op
def matmul_add_swish_tanh_gelu_hardtanh(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], shift: tensor[o]):
    f.z = linear(x, weight, bias)
    f.t[n, o] = f.z[n, o] + shift[o]
    f.s = silu(f.t)
    f.a[n, o] = tanh(f.s[n, o])
    f.g = gelu(f.a)
    f.y = hardtanh(f.g)
    return f.y


def matmul_add_swish_tanh_gelu_hardtanh_torch(x: Tensor, weight: Tensor, bias: Tensor, shift: Tensor) -> Tensor:
    z = functional.linear(x, weight, bias) + shift
    return functional.hardtanh(functional.gelu(torch.tanh(torch.sigmoid(z) * z)))


@op
def matmul_batch_norm_bias_add_divide_swish(
    f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o], gamma: tensor[o], beta: tensor[o], shift: tensor[one]
):
    f.z = linear(x, weight, bias)
    f.m = batch_norm1d(f.z, gamma, beta)
    f.s[n, o] = (f.m[n, o] + shift[0]) / 1.0
    f.y = silu(f.s)
    return f.y


def matmul_batch_norm_bias_add_divide_swish_torch(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, shift: Tensor
) -> Tensor:
    z = functional.batch_norm(functional.linear(x, weight, bias), None, None, gamma, beta, training=True)
    z = (z + shift) / 1.0
    return z * torch.sigmoid(z)


@op
def matmul_avg_pool_gelu_scale_max(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.m[n, u] = mean(f.z[n, 16 * u + few], over=few)
    f.g = gelu(f.m)
    f.y[n] = amax(f.g[n, u] * 2, over=u)
    return f.y


def matmul_avg_pool_gelu_scale_max_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    z = functional.avg_pool1d(functional.linear(x, weight, bias)[:, None], 16).squeeze(1)
    return (functional.gelu(z) * 2.0).max(1).values


@op
def matmul_gelu_softmax(f, x: tensor[n, i], weight: tensor[o, i], bias: tensor[o]):
    f.z = linear(x, weight, bias)
    f.g = gelu(f.z)
    f.y = softmax(f.g)
    return f.y


def matmul_gelu_softmax_torch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.softmax(functional.gelu(functional.linear(x, weight, bias)), 1)
