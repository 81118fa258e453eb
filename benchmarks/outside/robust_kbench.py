"""robust-kbench: the eight tasks that ask for a backward. The specs are ours, from the mathematics."""

from dataclasses import replace

import torch.nn.functional as F

from benchmarks.outside import kernelbench_1 as kernelbench
from benchmarks.outside.problem import Problem
from derive import *

c, d, e, g, h, i, j, k, m, n, o, p, q, r, s, t, u, v, w = axes("c d e g h i j k m n o p q r s t u v w")
p2, q2 = axes("p2=2 q2=2")


R1 = replace(kernelbench.P40, number=1, title="layernorm")
R4 = replace(kernelbench.P95, number=4, title="mnist_cross_entropy", lengths={"n": 4096, "c": 10})


@op
def llama_rms_norm(f, x: tensor[..., d], gamma: tensor[d], eps: scalar = 1e-8):
    """Features over the root of the mean of their squares, each times a weight."""
    f.rrms[...] = rsqrt(mean(x[..., d] ** 2, over=d) + eps)
    f.y[..., d] = x[..., d] * f.rrms[...] * gamma[d]
    return f.y


R2 = Problem(
    2,
    "llama_rmsnorm",
    llama_rms_norm,
    lambda x, gamma, eps: F.rms_norm(x, gamma.shape, gamma, eps),
    {"...": 1024, "d": 1024},
    """
xhat = x * rrms[..., None]
dgamma = (dy * xhat).flatten(0, -2).sum(0)
scaled = dy * gamma
dx = rrms[..., None] * (scaled - xhat * (scaled * xhat).mean(-1, keepdim=True))
""",
)


@op
def conv_relu_pool(f, x: tensor[n, c, h, w], a: tensor[o, c, p, q], b: tensor[o]):
    """A convolution, ReLU, and the largest of each 2 x 2."""
    f.z[n, o, i, j] = sum(a[o, c, p, q] * x[n, c, i + p, j + q], over=(c, p, q)) + b[o]
    f.z_relu[n, o, i, j] = relu(f.z[n, o, i, j])
    f.y[n, o, r, s] = amax(f.z_relu[n, o, 2 * r + p2, 2 * s + q2], over=(p2, q2))
    return f.y


R3 = Problem(
    3,
    "mnist_conv_relu_pool",
    conv_relu_pool,
    lambda x, a, b: F.max_pool2d(F.relu(F.conv2d(x, a, b)), 2),
    {"n": 16, "c": 1, "h": 28, "w": 28, "o": 32, "p": 3, "q": 3},
    """
_, at = F.max_pool2d(z_relu, 2, return_indices=True)  # kept
dz_relu = torch.ops.aten.max_pool2d_with_indices_backward(dy, z_relu, [2, 2], [2, 2], [0, 0], [1, 1], False, at)
dz = dz_relu * (z_relu > 0)
dx = torch.nn.grad.conv2d_input(x.shape, a, dz)
da = torch.nn.grad.conv2d_weight(x, a.shape, dz)
db = dz.sum((0, 2, 3))
""",
    note="where all of a window are below 0, ReLU's zeros tie: none of them passes a gradient on, in PyTorch as here",
)


@op
def affine(f, x: tensor[n, i], a: tensor[o, i], b: tensor[o]):
    """A linear layer."""
    f.y[n, o] = sum(x[n, i] * a[o, i], over=i) + b[o]
    return f.y


LINEAR = """
dx = dy @ a
da = dy.T @ x
db = dy.sum(0)
"""
R5 = Problem(5, "mnist_linear", affine, F.linear, {"n": 16, "i": 1024, "o": 1024}, LINEAR)


@op
def affine_relu(f, x: tensor[n, i], a: tensor[o, i], b: tensor[o]):
    """A linear layer and ReLU."""
    f.z[n, o] = sum(x[n, i] * a[o, i], over=i) + b[o]
    f.y[n, o] = relu(f.z[n, o])
    return f.y


R6 = Problem(
    6,
    "mnist_linear_relu",
    affine_relu,
    lambda x, a, b: F.relu(F.linear(x, a, b)),
    {"n": 16, "i": 1024, "o": 1024},
    """
dz = dy * (y > 0)
dx = dz @ a
da = dz.T @ x
db = dz.sum(0)
""",
)


@op
def pooled(f, x: tensor[n, c, h, w]):
    """The largest of each 2 x 2."""
    f.y[n, c, r, s] = amax(x[n, c, 2 * r + p2, 2 * s + q2], over=(p2, q2))
    return f.y


R7 = Problem(
    7,
    "mnist_pool",
    pooled,
    lambda x: F.max_pool2d(x, 2),
    {"n": 4, "c": 8, "h": 46, "w": 48},
    """
_, at = F.max_pool2d(x, 2, return_indices=True)  # kept
dx = torch.ops.aten.max_pool2d_with_indices_backward(dy, x, [2, 2], [2, 2], [0, 0], [1, 1], False, at)
""",
)


@op
def rows_affine(f, x: tensor[..., i], a: tensor[o, i], b: tensor[o]):
    """A linear layer for rows of any number of leading axes."""
    f.y[..., o] = sum(x[..., i] * a[o, i], over=i) + b[o]
    return f.y


R8 = Problem(
    8,
    "unet_linear",
    rows_affine,
    F.linear,
    {"...": 1024, "i": 320, "o": 320},
    """
dx = dy @ a
da = dy.flatten(0, -2).T @ x.flatten(0, -2)
db = dy.flatten(0, -2).sum(0)
""",
)
