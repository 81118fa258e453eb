"""KernelBench, level 1: single operators. The specs are ours, from the mathematics; lengths are shorter."""

import torch
import torch.nn.functional as F

from benchmarks.outside.problem import Problem
from derive import *

c, d, e, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w = axes("c d e g h i j k l m n o p q r s t u v w")
k3, p3, q3, r3, p4, q4, k8, p11, q11 = axes("k3=3 p3=3 q3=3 r3=3 p4=4 q4=4 k8=8 p11=11 q11=11")


# --- products of matrices -----------------------------------------------------------------------------------


@op
def matmul(f, a: tensor[i, k], b: tensor[k, j]):
    """A matrix product."""
    f.c[i, j] = sum(a[i, k] * b[k, j], over=k)
    return f.c


MATMUL = """
da = dc @ b.T
db = a.T @ dc
"""

P1 = Problem(1, "Square matrix multiplication", matmul, torch.matmul, {"i": 512, "k": 512, "j": 512}, MATMUL)
P2 = Problem(2, "Standard matrix multiplication", matmul, torch.matmul, {"i": 256, "k": 1024, "j": 256}, MATMUL)
P4 = Problem(4, "Matrix-vector multiplication", matmul, torch.matmul, {"i": 256, "k": 16384, "j": 1}, MATMUL)
P6 = Problem(6, "Matmul with large K", matmul, torch.matmul, {"i": 64, "k": 16384, "j": 64}, MATMUL)
P7 = Problem(7, "Matmul with small K", matmul, torch.matmul, {"i": 1024, "k": 64, "j": 1024}, MATMUL)
P8 = Problem(8, "Matmul with irregular shapes", matmul, torch.matmul, {"i": 513, "k": 369, "j": 741}, MATMUL)
P9 = Problem(9, "Tall skinny matrix multiplication", matmul, torch.matmul, {"i": 1024, "k": 32, "j": 1024}, MATMUL)
P13 = Problem(
    13,
    "Matmul of symmetric matrices",
    matmul,
    torch.matmul,
    {"i": 512, "k": 512, "j": 512},
    MATMUL,
    note="as in the suite, the gradients are those of all elements, not of one triangle",
)


@op
def batched_matmul(f, a: tensor[n, i, k], b: tensor[n, k, j]):
    """Products of many matrices."""
    f.c[n, i, j] = sum(a[n, i, k] * b[n, k, j], over=k)
    return f.c


P3 = Problem(
    3,
    "Batched matrix multiplication",
    batched_matmul,
    torch.bmm,
    {"n": 16, "i": 128, "k": 256, "j": 128},
    """
da = dc @ b.mT
db = a.mT @ dc
""",
)


@op
def times_number(f, a: tensor[i, j], s: scalar = 3.14):
    """A matrix times a number."""
    f.c[i, j] = a[i, j] * s
    return f.c


P5 = Problem(5, "Matrix-scalar multiplication", times_number, lambda a, s: a * s, {"i": 2048, "j": 1024}, "da = dc * s")


@op
def matmul_3d(f, a: tensor[n, m, k], b: tensor[k, l]):
    """Rows of a tensor of three axes times a matrix."""
    f.c[n, m, l] = sum(a[n, m, k] * b[k, l], over=k)
    return f.c


P10 = Problem(
    10,
    "3D tensor-matrix multiplication",
    matmul_3d,
    torch.matmul,
    {"n": 8, "m": 128, "k": 256, "l": 192},
    """
da = dc @ b.T
db = a.flatten(0, 1).T @ dc.flatten(0, 1)
""",
)


@op
def matmul_4d(f, a: tensor[n, i, j, l], b: tensor[l, k]):
    """Rows of a tensor of four axes times a matrix."""
    f.c[n, i, j, k] = sum(a[n, i, j, l] * b[l, k], over=l)
    return f.c


P11 = Problem(
    11,
    "4D tensor-matrix multiplication",
    matmul_4d,
    lambda a, b: torch.einsum("nijl,lk->nijk", a, b),
    {"n": 4, "i": 16, "j": 32, "l": 128, "k": 192},
    """
da = dc @ b.T
db = a.flatten(0, 2).T @ dc.flatten(0, 2)
""",
)


@op
def diagonal_matmul(f, a: tensor[n], b: tensor[n, m]):
    """A diagonal matrix times a matrix."""
    f.c[n, m] = a[n] * b[n, m]
    return f.c


P12 = Problem(
    12,
    "Matmul with a diagonal matrix",
    diagonal_matmul,
    lambda a, b: a.unsqueeze(1) * b,
    {"n": 2048, "m": 1024},
    """
da = (dc * b).sum(1)
db = a[:, None] * dc
""",
)


@op
def upper_matmul(f, a: tensor[i, k], b: tensor[k, j]):
    """The upper triangle of a product."""
    f.c[i, j] = where(j >= i, sum(a[i, k] * b[k, j], over=k), 0)
    return f.c


@op
def lower_matmul(f, a: tensor[i, k], b: tensor[k, j]):
    """The lower triangle of a product."""
    f.c[i, j] = where(j <= i, sum(a[i, k] * b[k, j], over=k), 0)
    return f.c


SQUARE = {"i": 512, "k": 512, "j": 512}
P14 = Problem(
    14,
    "Matmul of upper triangular matrices",
    upper_matmul,
    lambda a, b: torch.triu(a @ b),
    SQUARE,
    """
dp = dc.triu()
da = dp @ b.T
db = a.T @ dp
""",
)
P15 = Problem(
    15,
    "Matmul of lower triangular matrices",
    lower_matmul,
    lambda a, b: torch.tril(a @ b),
    SQUARE,
    """
dp = dc.tril()
da = dp @ b.T
db = a.T @ dp
""",
)


@op
def matmul_at(f, a: tensor[k, i], b: tensor[k, j]):
    """The transpose of a matrix times another."""
    f.c[i, j] = sum(a[k, i] * b[k, j], over=k)
    return f.c


@op
def matmul_bt(f, a: tensor[i, k], b: tensor[j, k]):
    """A matrix times the transpose of another."""
    f.c[i, j] = sum(a[i, k] * b[j, k], over=k)
    return f.c


@op
def matmul_at_bt(f, a: tensor[k, i], b: tensor[j, k]):
    """The product of two transposes."""
    f.c[i, j] = sum(a[k, i] * b[j, k], over=k)
    return f.c


OBLONG = {"i": 256, "k": 1024, "j": 384}
P16 = Problem(
    16,
    "Matmul with A transposed",
    matmul_at,
    lambda a, b: a.T @ b,
    OBLONG,
    """
da = b @ dc.T
db = a @ dc
""",
)
P17 = Problem(
    17,
    "Matmul with B transposed",
    matmul_bt,
    lambda a, b: a @ b.T,
    OBLONG,
    """
da = dc @ b
db = dc.T @ a
""",
)
P18 = Problem(
    18,
    "Matmul with both transposed",
    matmul_at_bt,
    lambda a, b: a.T @ b.T,
    OBLONG,
    """
da = b.T @ dc.T
db = dc.T @ a.T
""",
)


# --- activations --------------------------------------------------------------------------------------------

FLAT = {"...": 2**20}
ROWS = {"n": 1024, "d": 1024}


@op
def rectified(f, x: tensor[...]):
    """ReLU."""
    f.y[...] = relu(x[...])
    return f.y


P19 = Problem(19, "ReLU", rectified, F.relu, FLAT, "dx = dy * (y > 0)")


@op
def leaky(f, x: tensor[...], slope: scalar = 0.01):
    """Leaky ReLU."""
    f.y[...] = where(x[...] > 0, x[...], slope * x[...])
    return f.y


P20 = Problem(
    20, "LeakyReLU", leaky, lambda x, slope: F.leaky_relu(x, slope), FLAT, "dx = torch.where(x > 0, dy, slope * dy)"
)


@op
def logistic(f, x: tensor[...]):
    """The sigmoid."""
    f.y[...] = sigmoid(x[...])
    return f.y


P21 = Problem(21, "Sigmoid", logistic, torch.sigmoid, FLAT, "dx = dy * y * (1 - y)")


@op
def hyperbolic(f, x: tensor[...]):
    """The hyperbolic tangent."""
    f.y[...] = tanh(x[...])
    return f.y


P22 = Problem(22, "Tanh", hyperbolic, torch.tanh, FLAT, "dx = dy * (1 - y**2)")


@op
def shares(f, x: tensor[n, d]):
    """Softmax."""
    f.u[n, d] = exp(x[n, d])
    f.y[n, d] = f.u[n, d] / sum(f.u[n, d], over=d)
    return f.y


P23 = Problem(
    23,
    "Softmax",
    shares,
    lambda x: F.softmax(x, dim=1),
    ROWS,
    """
s = (dy * y).sum(1, keepdim=True)
dx = y * (dy - s)
""",
)


@op
def log_shares(f, x: tensor[n, d]):
    """The logarithm of softmax."""
    f.y[n, d] = x[n, d] - log(sum(exp(x[n, d]), over=d))
    return f.y


P24 = Problem(
    24,
    "LogSoftmax",
    log_shares,
    lambda x: F.log_softmax(x, dim=1),
    ROWS,
    """
s = dy.sum(1, keepdim=True)
dx = dy - y.exp() * s
""",
)


@op
def swish(f, x: tensor[...]):
    """Swish, with the sigmoid as the gate."""
    f.s[...] = sigmoid(x[...])
    f.y[...] = x[...] * f.s[...]
    return f.y


P25 = Problem(25, "Swish", swish, F.silu, FLAT, "dx = dy * s * (1 + x * (1 - s))")


@op
def gelu_by_erf(f, x: tensor[...]):
    """GELU by the error function."""
    f.cdf[...] = (1 + erf(x[...] / sqrt(2))) / 2
    f.y[...] = x[...] * f.cdf[...]
    return f.y


P26 = Problem(
    26,
    "GELU",
    gelu_by_erf,
    F.gelu,
    FLAT,
    "dx = dy * (cdf + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi))",
)


@op
def self_normalising(
    f, x: tensor[...], alpha: scalar = 1.6732632423543772, scale: scalar = 1.0507009873554805
):  # Klambauer et al., 2017
    """SELU."""
    f.y[...] = scale * where(x[...] > 0, x[...], alpha * (exp(x[...]) - 1))
    return f.y


P27 = Problem(
    27,
    "SELU",
    self_normalising,
    lambda x, alpha, scale: scale * F.elu(x, alpha),
    FLAT,
    "dx = torch.where(x > 0, scale * dy, dy * (y + scale * alpha))",
)


@op
def hard_logistic(f, x: tensor[...]):
    """A sigmoid of three straight lines."""
    f.y[...] = where(x[...] <= -3, 0, where(x[...] >= 3, 1, x[...] / 6 + 1 / 2))
    return f.y


P28 = Problem(
    28,
    "HardSigmoid",
    hard_logistic,
    lambda x: F.relu6(x + 3) / 6,
    FLAT,
    "dx = torch.where(x.abs() < 3, dy / 6, 0)",
    note="beside relu6(x + 3) / 6: the gradient of F.hardsigmoid is off by 3e-8 in float64 (PyTorch 2.13)",
)


@op
def soft_rectified(f, x: tensor[...]):
    """Softplus."""
    f.y[...] = log(1 + exp(x[...]))
    return f.y


P29 = Problem(29, "Softplus", soft_rectified, F.softplus, FLAT, "dx = dy * torch.sigmoid(x)")


@op
def softsign(f, x: tensor[...]):
    """Softsign."""
    f.a[...] = 1 + abs(x[...])
    f.y[...] = x[...] / f.a[...]
    return f.y


P30 = Problem(30, "Softsign", softsign, F.softsign, FLAT, "dx = dy / a**2")


@op
def exponential_linear(f, x: tensor[...], alpha: scalar = 1.0):
    """ELU."""
    f.y[...] = where(x[...] > 0, x[...], alpha * (exp(x[...]) - 1))
    return f.y


P31 = Problem(
    31,
    "ELU",
    exponential_linear,
    lambda x, alpha: F.elu(x, alpha),
    FLAT,
    "dx = torch.where(x > 0, dy, dy * (y + alpha))",
)


@op
def hard_hyperbolic(f, x: tensor[...]):
    """A hyperbolic tangent of three straight lines."""
    f.y[...] = where(x[...] <= -1, -1, where(x[...] >= 1, 1, x[...]))
    return f.y


P32 = Problem(32, "HardTanh", hard_hyperbolic, F.hardtanh, FLAT, "dx = torch.where(x.abs() < 1, dy, 0)")


@op
def new_gelu(f, x: tensor[...]):
    """GELU by the hyperbolic tangent."""
    f.t[...] = tanh(sqrt(2 / pi) * (x[...] + 0.044715 * x[...] ** 3))
    f.y[...] = x[...] * (1 + f.t[...]) / 2
    return f.y


P88 = Problem(
    88,
    "MinGPT's new GELU",
    new_gelu,
    lambda x: F.gelu(x, approximate="tanh"),
    FLAT,
    """
inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
dx = dy / 2 * (1 + t + x * (1 - t * t) * inner)
""",
)


# --- normalisation ------------------------------------------------------------------------------------------

IMAGES = {"n": 16, "c": 32, "h": 48, "w": 48}


@op
def batch_norm_images(f, x: tensor[n, c, h, w], gamma: tensor[c], beta: tensor[c], eps: scalar = 1e-5):
    """Batch normalisation of images, by the statistics of the batch."""
    f.mu[c] = mean(x[n, c, h, w], over=(n, h, w))
    f.var[c] = mean((x[n, c, h, w] - f.mu[c]) ** 2, over=(n, h, w))
    f.rstd[c] = rsqrt(f.var[c] + eps)
    f.xhat[n, c, h, w] = (x[n, c, h, w] - f.mu[c]) * f.rstd[c]
    f.y[n, c, h, w] = gamma[c] * f.xhat[n, c, h, w] + beta[c]
    return f.y


P33 = Problem(
    33,
    "BatchNorm",
    batch_norm_images,
    lambda x, gamma, beta, eps: F.batch_norm(x, None, None, gamma, beta, training=True, eps=eps),
    IMAGES,
    """
dbeta = dy.sum((0, 2, 3))
dgamma = (dy * xhat).sum((0, 2, 3))
count = dy.numel() // dy.shape[1]  # view
scale = gamma * rstd
dx = scale[:, None, None] * (dy - (dbeta / count)[:, None, None] - xhat * (dgamma / count)[:, None, None])
""",
)


@op
def instance_norm_images(f, x: tensor[n, c, h, w], eps: scalar = 1e-5):
    """Instance normalisation of images."""
    f.mu[n, c] = mean(x[n, c, h, w], over=(h, w))
    f.rstd[n, c] = rsqrt(mean((x[n, c, h, w] - f.mu[n, c]) ** 2, over=(h, w)) + eps)
    f.y[n, c, h, w] = (x[n, c, h, w] - f.mu[n, c]) * f.rstd[n, c]
    return f.y


P34 = Problem(
    34,
    "InstanceNorm",
    instance_norm_images,
    lambda x, eps: F.instance_norm(x, eps=eps),
    IMAGES,
    """
m = dy.mean((2, 3), keepdim=True)
my = (dy * y).mean((2, 3), keepdim=True)
dx = rstd[:, :, None, None] * (dy - m - y * my)
""",
)


@op
def group_norm_images(
    f, x: tensor[n, c, h, w], gamma: tensor[c], beta: tensor[c], groups: length(g), eps: scalar = 1e-5
):
    """Group normalisation of images."""
    f.z[n, g, k, h, w] = x[n, (g, k), h, w]
    f.mu[n, g] = mean(f.z[n, g, k, h, w], over=(k, h, w))
    f.rstd[n, g] = rsqrt(mean((f.z[n, g, k, h, w] - f.mu[n, g]) ** 2, over=(k, h, w)) + eps)
    f.xhat[n, (g, k), h, w] = (f.z[n, g, k, h, w] - f.mu[n, g]) * f.rstd[n, g]
    f.y[n, c, h, w] = gamma[c] * f.xhat[n, c, h, w] + beta[c]
    return f.y


P35 = Problem(
    35,
    "GroupNorm",
    group_norm_images,
    lambda x, gamma, beta, groups, eps: F.group_norm(x, groups, gamma, beta, eps),
    IMAGES | {"g": 8},
    """
dbeta = dy.sum((0, 2, 3))
dyx = dy * xhat
dgamma = dyx.sum((0, 2, 3))
scaled = gamma[:, None, None] * dy
n, c, h, w = dy.shape  # view
m = scaled.view(n, groups, -1).mean(2)
mx = (scaled * xhat).view(n, groups, -1).mean(2)
by_group = (n, groups, c // groups, h, w)  # view
inner = scaled.view(by_group) - m[:, :, None, None, None] - xhat.view(by_group) * mx[:, :, None, None, None]
dx = (rstd[:, :, None, None, None] * inner).view(dy.shape)
""",
)


@op
def rms_norm_channels(f, x: tensor[n, c, h, w], eps: scalar = 1e-5):
    """Channels over the root of the mean of their squares."""
    f.rms[n, h, w] = sqrt(mean(x[n, c, h, w] ** 2, over=c) + eps)
    f.y[n, c, h, w] = x[n, c, h, w] / f.rms[n, h, w]
    return f.y


P36 = Problem(
    36,
    "RMSNorm",
    rms_norm_channels,
    lambda x, eps: x / torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + eps),
    IMAGES,
    """
m = (dy * y).mean(1, keepdim=True)
dx = (dy - y * m) / rms[:, None]
""",
)


@op
def frobenius_norm(f, x: tensor[n, c, h, w]):
    """A tensor over its norm."""
    f.norm[()] = sqrt(sum(x[n, c, h, w] ** 2, over=(n, c, h, w)))
    f.y[n, c, h, w] = x[n, c, h, w] / f.norm[()]
    return f.y


P37 = Problem(
    37,
    "FrobeniusNorm",
    frobenius_norm,
    lambda x: x / torch.linalg.vector_norm(x),
    IMAGES,
    """
s = (dy * y).sum()
dx = (dy - y * s) / norm
""",
)


@op
def l1_norm(f, x: tensor[n, d]):
    """Rows over the mean of their magnitudes."""
    f.a[n] = mean(abs(x[n, d]), over=d)
    f.y[n, d] = x[n, d] / f.a[n]
    return f.y


P38 = Problem(
    38,
    "L1Norm",
    l1_norm,
    lambda x: x / torch.mean(torch.abs(x), dim=1, keepdim=True),
    ROWS,
    """
m = (dy * y).mean(1, keepdim=True)
dx = (dy - x.sign() * m) / a[:, None]
""",
)


@op
def l2_norm(f, x: tensor[n, d]):
    """Rows over their lengths."""
    f.a[n] = sqrt(sum(x[n, d] ** 2, over=d))
    f.y[n, d] = x[n, d] / f.a[n]
    return f.y


P39 = Problem(
    39,
    "L2Norm",
    l2_norm,
    lambda x: x / torch.linalg.vector_norm(x, dim=1, keepdim=True),
    ROWS,
    """
s = (dy * y).sum(1, keepdim=True)
dx = (dy - y * s) / a[:, None]
""",
)


@op
def layer_norm_images(f, x: tensor[n, c, h, w], gamma: tensor[c, h, w], beta: tensor[c, h, w], eps: scalar = 1e-5):
    """Layer normalisation over channels and places."""
    f.mu[n] = mean(x[n, c, h, w], over=(c, h, w))
    f.rstd[n] = rsqrt(mean((x[n, c, h, w] - f.mu[n]) ** 2, over=(c, h, w)) + eps)
    f.xhat[n, c, h, w] = (x[n, c, h, w] - f.mu[n]) * f.rstd[n]
    f.y[n, c, h, w] = gamma[c, h, w] * f.xhat[n, c, h, w] + beta[c, h, w]
    return f.y


P40 = Problem(
    40,
    "LayerNorm",
    layer_norm_images,
    lambda x, gamma, beta, eps: F.layer_norm(x, gamma.shape, gamma, beta, eps),
    IMAGES,
    """
dbeta = dy.sum(0)
dgamma = (dy * xhat).sum(0)
scaled = gamma * dy
m = scaled.mean((1, 2, 3), keepdim=True)
mx = (scaled * xhat).mean((1, 2, 3), keepdim=True)
dx = rstd[:, None, None, None] * (scaled - m - xhat * mx)
""",
)


# --- pools and reductions -----------------------------------------------------------------------------------


@op
def max_pool_1d(f, x: tensor[n, c, t]):
    """The largest of eight, every third place, with four places of padding."""
    inside = (u + 3 * k8 >= 4) & (u + 3 * k8 < size(t) + 4)
    f.y[n, c, u] = amax(where(inside, x[n, c, u + 3 * k8 - 4], -oo), over=k8)
    return f.y


P41 = Problem(
    41,
    "Max pooling 1D",
    max_pool_1d,
    lambda x: F.max_pool1d(x, 8, stride=1, padding=4, dilation=3),
    {"n": 8, "c": 16, "t": 2048},
    """
_, at = F.max_pool1d(x, 8, stride=1, padding=4, dilation=3, return_indices=True)  # kept
dx = torch.zeros_like(x).scatter_add_(2, at, dy)
""",
    odd={"n": 3, "c": 5, "t": 31},
    long={"n": 2, "c": 3, "t": 301},
)


@op
def max_pool_2d(f, x: tensor[n, c, h, w]):
    """The largest of 4 x 4, with a place of padding."""
    inside = (r + p4 >= 1) & (r + p4 < size(h) + 1) & (s + q4 >= 1) & (s + q4 < size(w) + 1)
    f.y[n, c, r, s] = amax(where(inside, x[n, c, r + p4 - 1, s + q4 - 1], -oo), over=(p4, q4))
    return f.y


P42 = Problem(
    42,
    "Max pooling 2D",
    max_pool_2d,
    lambda x: F.max_pool2d(x, 4, stride=1, padding=1),
    {"n": 4, "c": 8, "h": 48, "w": 48},
    """
_, at = F.max_pool2d(x, 4, stride=1, padding=1, return_indices=True)  # kept
dx = torch.ops.aten.max_pool2d_with_indices_backward(dy, x, [4, 4], [1, 1], [1, 1], [1, 1], False, at)
""",
)


@op
def max_pool_3d(f, x: tensor[n, c, d, h, w]):
    """The largest of 3 x 3 x 3, three places apart, at every second place, with a place of padding."""
    deep = (2 * u + 3 * p3 >= 1) & (2 * u + 3 * p3 < size(d) + 1)
    high = (2 * r + 3 * q3 >= 1) & (2 * r + 3 * q3 < size(h) + 1)
    wide = (2 * s + 3 * r3 >= 1) & (2 * s + 3 * r3 < size(w) + 1)
    here = x[n, c, 2 * u + 3 * p3 - 1, 2 * r + 3 * q3 - 1, 2 * s + 3 * r3 - 1]
    f.y[n, c, u, r, s] = amax(where(deep & high & wide, here, -oo), over=(p3, q3, r3))
    return f.y


P43 = Problem(
    43,
    "Max pooling 3D",
    max_pool_3d,
    lambda x: F.max_pool3d(x, 3, stride=2, padding=1, dilation=3),
    {"n": 4, "c": 8, "d": 33, "h": 33, "w": 33},
    """
_, at = F.max_pool3d(x, 3, stride=2, padding=1, dilation=3, return_indices=True)  # kept
dx = torch.zeros_like(x).flatten(2).scatter_add_(2, at.flatten(2), dy.flatten(2)).view_as(x)
""",
    odd={"n": 2, "c": 3, "d": 9, "h": 8, "w": 7},
    long={"n": 1, "c": 2, "d": 7, "h": 8, "w": 75},
)


@op
def mean_pool_1d(f, x: tensor[n, c, t]):
    """The mean of eight, with four places of zeros around."""
    inside = (u + k8 >= 4) & (u + k8 < size(t) + 4)
    f.y[n, c, u] = sum(where(inside, x[n, c, u + k8 - 4], 0), over=k8) / 8
    return f.y


P44 = Problem(
    44,
    "Average pooling 1D",
    mean_pool_1d,
    lambda x: F.avg_pool1d(x, 8, stride=1, padding=4),
    {"n": 16, "c": 32, "t": 2048},
    "dx = torch.ops.aten.avg_pool2d_backward(dy[:, :, None], x[:, :, None], [1, 8], [1, 1], [0, 4], False, True, None)"
    "[:, :, 0]",
)


@op
def mean_pool_2d(f, x: tensor[n, c, h, w]):
    """The means of tiles of 11 x 11."""
    f.y[n, c, r, s] = mean(x[n, c, 11 * r + p11, 11 * s + q11], over=(p11, q11))
    return f.y


P45 = Problem(
    45,
    "Average pooling 2D",
    mean_pool_2d,
    lambda x: F.avg_pool2d(x, 11),
    {"n": 8, "c": 16, "h": 128, "w": 128},
    "dx = torch.ops.aten.avg_pool2d_backward(dy, x, [11, 11], [11, 11], [0, 0], False, True, None)",
    odd={"n": 3, "c": 2, "h": 35, "w": 25},
    long={"n": 1, "c": 2, "h": 13, "w": 301},
)


@op
def mean_pool_3d(f, x: tensor[n, c, d, h, w]):
    """The mean of 3 x 3 x 3 at every second place, with a place of zeros around."""
    deep = (2 * u + p3 >= 1) & (2 * u + p3 < size(d) + 1)
    high = (2 * r + q3 >= 1) & (2 * r + q3 < size(h) + 1)
    wide = (2 * s + r3 >= 1) & (2 * s + r3 < size(w) + 1)
    here = x[n, c, 2 * u + p3 - 1, 2 * r + q3 - 1, 2 * s + r3 - 1]
    f.y[n, c, u, r, s] = sum(where(deep & high & wide, here, 0), over=(p3, q3, r3)) / 27
    return f.y


P46 = Problem(
    46,
    "Average pooling 3D",
    mean_pool_3d,
    lambda x: F.avg_pool3d(x, 3, stride=2, padding=1),
    {"n": 4, "c": 8, "d": 32, "h": 32, "w": 32},
    "dx = torch.ops.aten.avg_pool3d_backward(dy, x, [3, 3, 3], [2, 2, 2], [1, 1, 1], False, True, None)",
)

CUBE = {"n": 16, "i": 256, "j": 255}


@op
def sum_over_middle(f, x: tensor[n, i, j]):
    """The sum along the second axis."""
    f.y[n, j] = sum(x[n, i, j], over=i)
    return f.y


P47 = Problem(
    47,
    "Sum along an axis",
    sum_over_middle,
    lambda x: torch.sum(x, dim=1),
    CUBE,
    "dx = dy[:, None].expand_as(x)  # view",
)


@op
def mean_over_middle(f, x: tensor[n, i, j]):
    """The mean along the second axis."""
    f.y[n, j] = mean(x[n, i, j], over=i)
    return f.y


P48 = Problem(
    48,
    "Mean along an axis",
    mean_over_middle,
    lambda x: torch.mean(x, dim=1),
    CUBE,
    """
scaled = dy / x.shape[1]
dx = scaled[:, None].expand_as(x)  # view
""",
)


@op
def largest_over_middle(f, x: tensor[n, i, j]):
    """The largest along the second axis."""
    f.y[n, j] = amax(x[n, i, j], over=i)
    return f.y


@op
def least_over_middle(f, x: tensor[n, i, j]):
    """The least along the second axis."""
    f.y[n, j] = amin(x[n, i, j], over=i)
    return f.y


AT_ONE = """
at = x.{}(1)[1]  # kept
dx = torch.zeros_like(x).scatter_(1, at[:, None], dy[:, None])
"""
ONE_OF_TIES = "of several largest PyTorch gives one the gradient, ours each the same share; the draws hold none"
P49 = Problem(
    49, "Max along an axis", largest_over_middle, lambda x: torch.max(x, dim=1)[0], CUBE, AT_ONE.format("max")
)
P53 = Problem(53, "Min along an axis", least_over_middle, lambda x: torch.min(x, dim=1)[0], CUBE, AT_ONE.format("min"))
P51 = Problem(51, "Argmax along an axis", missing="argmax: its output is an integer, and nothing has a gradient")
P52 = Problem(52, "Argmin along an axis", missing="argmin: its output is an integer, and nothing has a gradient")


# --- convolutions -------------------------------------------------------------------------------------------


@op
def alexnet_conv(f, x: tensor[n, c, h, w], a: tensor[o, c, p, q], b: tensor[o]):
    """A convolution at every fourth place, with two places of zeros around, and a bias."""
    inside = (4 * r + p >= 2) & (4 * r + p < size(h) + 2) & (4 * s + q >= 2) & (4 * s + q < size(w) + 2)
    part = where(inside, a[o, c, p, q] * x[n, c, 4 * r + p - 2, 4 * s + q - 2], 0)
    f.y[n, o, r, s] = sum(part, over=(c, p, q)) + b[o]
    return f.y


P50 = Problem(
    50,
    "Convolution 2D, stride 4, padded, with bias",
    alexnet_conv,
    lambda x, a, b: F.conv2d(x, a, b, stride=4, padding=2),
    {"n": 4, "c": 3, "h": 112, "w": 112, "o": 96, "p": 11, "q": 11},
    """
dx = torch.nn.grad.conv2d_input(x.shape, a, dy, stride=4, padding=2)
da = torch.nn.grad.conv2d_weight(x, a.shape, dy, stride=4, padding=2)
db = dy.sum((0, 2, 3))
""",
    odd={"n": 2, "c": 3, "h": 17, "w": 13, "o": 5, "p": 3, "q": 5},
    long={"n": 1, "c": 2, "h": 7, "w": 301, "o": 3, "p": 4, "q": 11},
)


@op
def conv_1d(f, x: tensor[n, c, t], a: tensor[o, c, k]):
    """A convolution along a sequence."""
    f.y[n, o, u] = sum(a[o, c, k] * x[n, c, u + k], over=(c, k))
    return f.y


P67 = Problem(
    67,
    "Convolution 1D",
    conv_1d,
    F.conv1d,
    {"n": 4, "c": 32, "t": 2048, "o": 64, "k": 3},
    """
dx = torch.nn.grad.conv1d_input(x.shape, a, dy)
da = torch.nn.grad.conv1d_weight(x, a.shape, dy)
""",
)


@op
def conv_1d_dilated(f, x: tensor[n, c, t], a: tensor[o, c, k]):
    """A convolution whose taps are four places apart, at every third place."""
    f.y[n, o, u] = sum(a[o, c, k] * x[n, c, 3 * u + 4 * k], over=(c, k))
    return f.y


P76 = Problem(
    76,
    "Convolution 1D, dilated, stride 3",
    conv_1d_dilated,
    lambda x, a: F.conv1d(x, a, stride=3, dilation=4),
    {"n": 4, "c": 32, "t": 4096, "o": 64, "k": 3},
    """
dx = torch.nn.grad.conv1d_input(x.shape, a, dy, stride=3, dilation=4)
da = torch.nn.grad.conv1d_weight(x, a.shape, dy, stride=3, dilation=4)
""",
)


@op
def conv_2d(f, x: tensor[n, c, h, w], a: tensor[o, c, p, q]):
    """A convolution of images."""
    f.y[n, o, r, s] = sum(a[o, c, p, q] * x[n, c, r + p, s + q], over=(c, p, q))
    return f.y


CONV_2D = """
dx = torch.nn.grad.conv2d_input(x.shape, a, dy)
da = torch.nn.grad.conv2d_weight(x, a.shape, dy)
"""
SMALL_2D = {"n": 4, "c": 16, "o": 32}

P55 = Problem(
    55,
    "Convolution 2D, oblong images",
    conv_2d,
    F.conv2d,
    SMALL_2D | {"h": 32, "w": 64, "p": 3, "q": 3},
    CONV_2D,
)
P56 = Problem(
    56,
    "Convolution 2D, oblong images and kernel",
    conv_2d,
    F.conv2d,
    SMALL_2D | {"h": 48, "w": 24, "p": 5, "q": 7},
    CONV_2D,
)
P62 = Problem(
    62, "Convolution 2D, oblong kernel", conv_2d, F.conv2d, SMALL_2D | {"h": 32, "w": 32, "p": 5, "q": 9}, CONV_2D
)
P63 = Problem(63, "Convolution 2D", conv_2d, F.conv2d, SMALL_2D | {"h": 48, "w": 48, "p": 3, "q": 3}, CONV_2D)


@op
def conv_3d(f, x: tensor[n, c, d, h, w], a: tensor[o, c, k, p, q]):
    """A convolution of volumes."""
    f.y[n, o, u, r, s] = sum(a[o, c, k, p, q] * x[n, c, u + k, r + p, s + q], over=(c, k, p, q))
    return f.y


CONV_3D = """
dx = torch.nn.grad.conv3d_input(x.shape, a, dy)
da = torch.nn.grad.conv3d_weight(x, a.shape, dy)
"""
SMALL_3D = {"n": 2, "c": 3, "o": 16}
LONG_CONV_3D = {"n": 1, "c": 2, "o": 2, "d": 3, "h": 4, "w": 75, "k": 2, "p": 3, "q": 5}

P54 = Problem(
    54,
    "Convolution 3D",
    conv_3d,
    F.conv3d,
    SMALL_3D | {"d": 24, "h": 24, "w": 24, "k": 3, "p": 3, "q": 3},
    CONV_3D,
    long=LONG_CONV_3D,
)
P59 = Problem(
    59,
    "Convolution 3D, oblong volumes, flat kernel",
    conv_3d,
    F.conv3d,
    SMALL_3D | {"d": 32, "h": 32, "w": 10, "k": 3, "p": 3, "q": 1},
    CONV_3D,
    long=LONG_CONV_3D,
)
P60 = Problem(
    60,
    "Convolution 3D, oblong kernel",
    conv_3d,
    F.conv3d,
    SMALL_3D | {"d": 20, "h": 20, "w": 20, "k": 3, "p": 5, "q": 7},
    CONV_3D,
    long=LONG_CONV_3D,
)
P66 = Problem(
    66,
    "Convolution 3D, oblong volumes and kernel",
    conv_3d,
    F.conv3d,
    SMALL_3D | {"d": 8, "h": 32, "w": 32, "k": 3, "p": 5, "q": 7},
    CONV_3D,
    long=LONG_CONV_3D,
)


@op
def conv_2d_dilated(f, x: tensor[n, c, h, w], a: tensor[o, c, p, q]):
    """A convolution with taps 2 and 3 places apart, and 2 and 4 places of zeros around."""
    high = (r + 2 * p >= 2) & (r + 2 * p < size(h) + 2)
    wide = (s + 3 * q >= 4) & (s + 3 * q < size(w) + 4)
    part = where(high & wide, a[o, c, p, q] * x[n, c, r + 2 * p - 2, s + 3 * q - 4], 0)
    f.y[n, o, r, s] = sum(part, over=(c, p, q))
    return f.y


P80 = Problem(
    80,
    "Convolution 2D, oblong kernel, dilated, padded",
    conv_2d_dilated,
    lambda x, a: F.conv2d(x, a, padding=(2, 4), dilation=(2, 3)),
    SMALL_2D | {"h": 32, "w": 48, "p": 5, "q": 9},
    """
dx = torch.nn.grad.conv2d_input(x.shape, a, dy, padding=(2, 4), dilation=(2, 3))
da = torch.nn.grad.conv2d_weight(x, a.shape, dy, padding=(2, 4), dilation=(2, 3))
""",
    odd={"n": 3, "c": 2, "o": 5, "h": 11, "w": 13, "p": 5, "q": 3},
    long={"n": 1, "c": 2, "o": 3, "h": 7, "w": 151, "p": 3, "q": 9},
)


@op
def depthwise_conv(f, x: tensor[n, c, h, w], a: tensor[c, p, q]):
    """A convolution of each channel by a kernel of its own."""
    f.y[n, c, r, s] = sum(a[c, p, q] * x[n, c, r + p, s + q], over=(p, q))
    return f.y


DEPTHWISE = """
dx = torch.nn.grad.conv2d_input(x.shape, a[:, None], dy, groups=a.shape[0])
da = torch.nn.grad.conv2d_weight(x, a[:, None].shape, dy, groups=a.shape[0])[:, 0]
"""


def by_channel(x, a):
    """A person's depthwise convolution."""
    return F.conv2d(x, a[:, None], groups=a.shape[0])


P82 = Problem(
    82,
    "Depthwise convolution 2D",
    depthwise_conv,
    by_channel,
    {"n": 8, "c": 16, "h": 48, "w": 48, "p": 3, "q": 3},
    DEPTHWISE,
)
P83 = Problem(
    83,
    "Depthwise convolution 2D, oblong kernel",
    depthwise_conv,
    by_channel,
    {"n": 8, "c": 8, "h": 64, "w": 64, "p": 3, "q": 1},
    DEPTHWISE,
)
P84 = Problem(
    84,
    "Depthwise convolution 2D, oblong images",
    depthwise_conv,
    by_channel,
    {"n": 4, "c": 32, "h": 32, "w": 64, "p": 3, "q": 3},
    DEPTHWISE,
)
P85 = Problem(
    85,
    "Depthwise convolution 2D, oblong images and kernel",
    depthwise_conv,
    by_channel,
    {"n": 4, "c": 32, "h": 32, "w": 64, "p": 3, "q": 7},
    DEPTHWISE,
)


@op
def separable_conv(f, x: tensor[n, c, h, w], a: tensor[c, p, q], b: tensor[o, c]):
    """A convolution of each channel, with a place of zeros around, then a mix of channels."""
    inside = (r + p >= 1) & (r + p < size(h) + 1) & (s + q >= 1) & (s + q < size(w) + 1)
    f.z[n, c, r, s] = sum(where(inside, a[c, p, q] * x[n, c, r + p - 1, s + q - 1], 0), over=(p, q))
    f.y[n, o, r, s] = sum(b[o, c] * f.z[n, c, r, s], over=c)
    return f.y


P86 = Problem(
    86,
    "Depthwise separable convolution 2D",
    separable_conv,
    lambda x, a, b: F.conv2d(F.conv2d(x, a[:, None], padding=1, groups=a.shape[0]), b[:, :, None, None]),
    {"n": 4, "c": 16, "h": 48, "w": 48, "o": 32, "p": 3, "q": 3},
    """
dz = torch.einsum("oc,nors->ncrs", b, dy)
db = torch.einsum("nors,ncrs->oc", dy, z)
dx = torch.nn.grad.conv2d_input(x.shape, a[:, None], dz, padding=1, groups=a.shape[0])
da = torch.nn.grad.conv2d_weight(x, a[:, None].shape, dz, padding=1, groups=a.shape[0])[:, 0]
""",
)


@op
def pointwise_conv(f, x: tensor[n, c, h, w], a: tensor[o, c]):
    """A mix of channels, place by place."""
    f.y[n, o, h, w] = sum(a[o, c] * x[n, c, h, w], over=c)
    return f.y


P87 = Problem(
    87,
    "Pointwise convolution 2D",
    pointwise_conv,
    lambda x, a: F.conv2d(x, a[:, :, None, None]),
    {"n": 4, "c": 32, "h": 48, "w": 48, "o": 64},
    """
dx = torch.einsum("oc,nohw->nchw", a, dy)
da = torch.einsum("nohw,nchw->oc", dy, x)
""",
)


# --- transposed convolutions --------------------------------------------------------------------------------


def transposed(**along: str) -> dict[str, int]:
    """Lengths by axis: of input `7` and kernel `3` at `2*u + 3*k - 1`, as `u="7 3 t 2 3 1 0"` has them in that order.

    Each is read as input, axis and length of the kernel, axis of the output, stride, dilation, padding and what the
    output is longer by.
    """
    out = {}
    for axis, words in along.items():
        length, kernel, taps, to, stride, apart, around, more = words.split()
        out |= {axis: int(length), kernel: int(taps)}
        full = (int(length) - 1) * int(stride) + int(apart) * (int(taps) - 1) + 1
        out[to] = full - 2 * int(around) + int(more)
    return out


@op
def conv_transposed_1d(f, x: tensor[n, c, u], a: tensor[c, o, k], places: length(t)):
    """A transposed convolution."""
    f.y[n, o, t] = sum(where(eq(u + k, t), x[n, c, u] * a[c, o, k], 0), over=(c, u, k))
    return f.y


def lengths_1d(n: int, c: int, o: int, u: str) -> dict[str, int]:
    """Those of a transposed convolution of sequences."""
    return {"n": n, "c": c, "o": o, **transposed(u=u)}


P64 = Problem(
    64,
    "Transposed convolution 1D",
    conv_transposed_1d,
    lambda x, a, places: F.conv_transpose1d(x, a),
    lengths_1d(4, 64, 32, "2048 k 3 t 1 1 0 0"),
    """
dx = F.conv1d(dy, a)
da = torch.nn.grad.conv1d_weight(dy, a.shape, x)
""",
    odd=lengths_1d(3, 2, 5, "7 k 3 t 1 1 0 0"),
    long=lengths_1d(2, 3, 2, "301 k 5 t 1 1 0 0"),
)


@op
def conv_transposed_1d_dilated(f, x: tensor[n, c, u], a: tensor[c, o, k], places: length(t)):
    """A transposed convolution with taps three places apart."""
    f.y[n, o, t] = sum(where(eq(u + 3 * k, t), x[n, c, u] * a[c, o, k], 0), over=(c, u, k))
    return f.y


P74 = Problem(
    74,
    "Transposed convolution 1D, dilated",
    conv_transposed_1d_dilated,
    lambda x, a, places: F.conv_transpose1d(x, a, dilation=3),
    lengths_1d(4, 32, 64, "2048 k 5 t 1 3 0 0"),
    """
dx = F.conv1d(dy, a, dilation=3)
da = torch.nn.grad.conv1d_weight(dy, a.shape, x, dilation=3)
""",
    odd=lengths_1d(3, 2, 5, "7 k 3 t 1 3 0 0"),
    long=lengths_1d(2, 3, 2, "301 k 5 t 1 3 0 0"),
)


@op
def conv_transposed_1d_strided(f, x: tensor[n, c, u], a: tensor[c, o, k], places: length(t)):
    """A transposed convolution with stride 2, dilation 2 and a place of padding."""
    f.y[n, o, t] = sum(where(eq(2 * u + 2 * k, t + 1), x[n, c, u] * a[c, o, k], 0), over=(c, u, k))
    return f.y


P79 = Problem(
    79,
    "Transposed convolution 1D, padded, strided, dilated",
    conv_transposed_1d_strided,
    lambda x, a, places: F.conv_transpose1d(x, a, stride=2, padding=1, dilation=2),
    lengths_1d(4, 32, 64, "2048 k 3 t 2 2 1 0"),
    """
dx = F.conv1d(dy, a, stride=2, padding=1, dilation=2)
da = torch.nn.grad.conv1d_weight(dy, a.shape, x, stride=2, padding=1, dilation=2)
""",
    odd=lengths_1d(3, 2, 5, "7 k 3 t 2 2 1 0"),
    long=lengths_1d(2, 3, 2, "301 k 5 t 2 2 1 0"),
)


@op
def conv_transposed_2d(f, x: tensor[n, c, h, w], a: tensor[c, o, p, q], high: length(r), wide: length(s)):
    """A transposed convolution of images."""
    there = eq(h + p, r) & eq(w + q, s)
    f.y[n, o, r, s] = sum(where(there, x[n, c, h, w] * a[c, o, p, q], 0), over=(c, h, w, p, q))
    return f.y


def lengths_2d(n: int, c: int, o: int, h: str, w: str) -> dict[str, int]:
    """Those of a transposed convolution of images."""
    return {"n": n, "c": c, "o": o, **transposed(h=h, w=w)}


def transposed_2d(x, a, high, wide):
    """A person's transposed convolution of images."""
    return F.conv_transpose2d(x, a)


TRANSPOSED_2D = """
dx = F.conv2d(dy, a)
da = torch.nn.grad.conv2d_weight(dy, a.shape, x)
"""
ODD_2D = lengths_2d(3, 2, 5, "5 p 3 r 1 1 0 0", "7 q 2 s 1 1 0 0")
LONG_2D = lengths_2d(1, 3, 2, "4 p 2 r 1 1 0 0", "75 q 5 s 1 1 0 0")

P57 = Problem(
    57,
    "Transposed convolution 2D",
    conv_transposed_2d,
    transposed_2d,
    lengths_2d(4, 16, 16, "48 p 3 r 1 1 0 0", "48 q 3 s 1 1 0 0"),
    TRANSPOSED_2D,
    odd=ODD_2D,
    long=LONG_2D,
)
P65 = Problem(
    65,
    "Transposed convolution 2D, oblong kernel",
    conv_transposed_2d,
    transposed_2d,
    lengths_2d(4, 16, 16, "32 p 3 r 1 1 0 0", "32 q 7 s 1 1 0 0"),
    TRANSPOSED_2D,
    odd=ODD_2D,
    long=LONG_2D,
)
P69 = Problem(
    69,
    "Transposed convolution 2D, oblong images and kernel",
    conv_transposed_2d,
    transposed_2d,
    lengths_2d(4, 16, 32, "24 p 3 r 1 1 0 0", "48 q 5 s 1 1 0 0"),
    TRANSPOSED_2D,
    odd=ODD_2D,
    long=LONG_2D,
)
P71 = Problem(
    71,
    "Transposed convolution 2D, oblong images",
    conv_transposed_2d,
    transposed_2d,
    lengths_2d(4, 16, 16, "32 p 3 r 1 1 0 0", "64 q 3 s 1 1 0 0"),
    TRANSPOSED_2D,
    odd=ODD_2D,
    long=LONG_2D,
)


@op
def conv_transposed_2d_padded(f, x: tensor[n, c, h, w], a: tensor[c, o, p, q], high: length(r), wide: length(s)):
    """A transposed convolution of images with 1 and 3 places of padding."""
    there = eq(h + p, r + 1) & eq(w + q, s + 3)
    f.y[n, o, r, s] = sum(where(there, x[n, c, h, w] * a[c, o, p, q], 0), over=(c, h, w, p, q))
    return f.y


P78 = Problem(
    78,
    "Transposed convolution 2D, padded",
    conv_transposed_2d_padded,
    lambda x, a, high, wide: F.conv_transpose2d(x, a, padding=(1, 3)),
    lengths_2d(4, 16, 16, "32 p 3 r 1 1 1 0", "64 q 7 s 1 1 3 0"),
    """
dx = F.conv2d(dy, a, padding=(1, 3))
da = torch.nn.grad.conv2d_weight(dy, a.shape, x, padding=(1, 3))
""",
    odd=lengths_2d(3, 2, 5, "5 p 3 r 1 1 1 0", "9 q 5 s 1 1 3 0"),
    long=lengths_2d(1, 3, 2, "4 p 3 r 1 1 1 0", "75 q 7 s 1 1 3 0"),
)


@op
def conv_transposed_2d_strided(f, x: tensor[n, c, h, w], a: tensor[c, o, p, q], high: length(r), wide: length(s)):
    """A transposed convolution of images with stride 5, dilation 2 and a place of padding."""
    there = eq(5 * h + 2 * p, r + 1) & eq(5 * w + 2 * q, s + 1)
    f.y[n, o, r, s] = sum(where(there, x[n, c, h, w] * a[c, o, p, q], 0), over=(c, h, w, p, q))
    return f.y


P81 = Problem(
    81,
    "Transposed convolution 2D, dilated, padded, stride 5",
    conv_transposed_2d_strided,
    lambda x, a, high, wide: F.conv_transpose2d(x, a, stride=5, padding=1, dilation=2),
    lengths_2d(4, 16, 32, "16 p 3 r 5 2 1 0", "32 q 3 s 5 2 1 0"),
    """
dx = F.conv2d(dy, a, stride=5, padding=1, dilation=2)
da = torch.nn.grad.conv2d_weight(dy, a.shape, x, stride=5, padding=1, dilation=2)
""",
    odd=lengths_2d(3, 2, 5, "5 p 3 r 5 2 1 0", "3 q 2 s 5 2 1 0"),
    long=lengths_2d(1, 3, 2, "2 p 3 r 5 2 1 0", "31 q 3 s 5 2 1 0"),
)


@op
def conv_transposed_2d_grouped(
    f, x: tensor[n, e, h, w], a: tensor[e, o, p, q], groups: length(g), high: length(r), wide: length(s)
):
    """A transposed convolution of groups of channels, with stride 2 and 3, dilation 2 and 1, padding 1 and 2."""
    there = eq(2 * h + 2 * p, r + 1) & eq(3 * w + q, s + 2)
    part = where(there, x[n, (g, c), h, w] * a[(g, c), o, p, q], 0)
    f.y[n, (g, o), r, s] = sum(part, over=(c, h, w, p, q))
    return f.y


def grouped_2d(n: int, e: int, o: int, g: int, h: str, w: str) -> dict[str, int]:
    """Lengths of a transposed convolution of groups of channels."""
    return {"n": n, "e": e, "o": o, "g": g, **transposed(h=h, w=w)}


P75 = Problem(
    75,
    "Transposed convolution 2D, strided, grouped, padded, dilated",
    conv_transposed_2d_grouped,
    lambda x, a, groups, high, wide: F.conv_transpose2d(
        x, a, stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=groups
    ),
    grouped_2d(4, 32, 16, 4, "24 p 3 r 2 2 1 0", "48 q 5 s 3 1 2 0"),
    """
dx = F.conv2d(dy, a, stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=groups)
da = torch.nn.grad.conv2d_weight(dy, a.shape, x, stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=groups)
""",
    odd=grouped_2d(3, 6, 5, 3, "5 p 3 r 2 2 1 0", "4 q 5 s 3 1 2 0"),
    long=grouped_2d(1, 4, 3, 2, "3 p 2 r 2 2 1 0", "31 q 5 s 3 1 2 0"),
)


@op
def conv_transposed_3d(
    f,
    x: tensor[n, c, d, h, w],
    a: tensor[c, o, k, p, q],
    deep: length(u),
    high: length(r),
    wide: length(s),
):
    """A transposed convolution of volumes."""
    there = eq(d + k, u) & eq(h + p, r) & eq(w + q, s)
    part = where(there, x[n, c, d, h, w] * a[c, o, k, p, q], 0)
    f.y[n, o, u, r, s] = sum(part, over=(c, d, h, w, k, p, q))
    return f.y


def lengths_3d(n: int, c: int, o: int, d: str, h: str, w: str) -> dict[str, int]:
    """Those of a transposed convolution of volumes."""
    return {"n": n, "c": c, "o": o, **transposed(d=d, h=h, w=w)}


def transposed_3d(x, a, deep, high, wide):
    """A person's transposed convolution of volumes."""
    return F.conv_transpose3d(x, a)


TRANSPOSED_3D = """
dx = F.conv3d(dy, a)
da = torch.nn.grad.conv3d_weight(dy, a.shape, x)
"""
ODD_3D = lengths_3d(2, 3, 2, "3 k 2 u 1 1 0 0", "5 p 3 r 1 1 0 0", "4 q 2 s 1 1 0 0")
LONG_3D = lengths_3d(1, 2, 2, "2 k 2 u 1 1 0 0", "3 p 2 r 1 1 0 0", "31 q 3 s 1 1 0 0")

P58 = Problem(
    58,
    "Transposed convolution 3D, oblong volumes and kernel",
    conv_transposed_3d,
    transposed_3d,
    lengths_3d(2, 8, 4, "8 k 3 u 1 1 0 0", "12 p 5 r 1 1 0 0", "24 q 7 s 1 1 0 0"),
    TRANSPOSED_3D,
    odd=ODD_3D,
    long=LONG_3D,
)
P61 = Problem(
    61,
    "Transposed convolution 3D",
    conv_transposed_3d,
    transposed_3d,
    lengths_3d(2, 8, 8, "16 k 3 u 1 1 0 0", "16 p 3 r 1 1 0 0", "16 q 3 s 1 1 0 0"),
    TRANSPOSED_3D,
    odd=ODD_3D,
    long=LONG_3D,
)
P68 = Problem(
    68,
    "Transposed convolution 3D, oblong kernel",
    conv_transposed_3d,
    transposed_3d,
    lengths_3d(2, 8, 8, "12 k 3 u 1 1 0 0", "12 p 5 r 1 1 0 0", "12 q 5 s 1 1 0 0"),
    TRANSPOSED_3D,
    odd=ODD_3D,
    long=LONG_3D,
)
P70 = Problem(
    70,
    "Transposed convolution 3D, oblong volumes",
    conv_transposed_3d,
    transposed_3d,
    lengths_3d(2, 12, 6, "20 k 3 u 1 1 0 0", "16 p 3 r 1 1 0 0", "12 q 3 s 1 1 0 0"),
    TRANSPOSED_3D,
    odd=ODD_3D,
    long=LONG_3D,
)


@op
def conv_transposed_3d_strided(
    f,
    x: tensor[n, c, d, h, w],
    a: tensor[c, o, k, p, q],
    deep: length(u),
    high: length(r),
    wide: length(s),
):
    """A transposed convolution of volumes with stride 2, dilation 2 and a place of padding."""
    there = eq(2 * d + 2 * k, u + 1) & eq(2 * h + 2 * p, r + 1) & eq(2 * w + 2 * q, s + 1)
    part = where(there, x[n, c, d, h, w] * a[c, o, k, p, q], 0)
    f.y[n, o, u, r, s] = sum(part, over=(c, d, h, w, k, p, q))
    return f.y


P77 = Problem(
    77,
    "Transposed convolution 3D, padded, dilated, strided",
    conv_transposed_3d_strided,
    lambda x, a, deep, high, wide: F.conv_transpose3d(x, a, stride=2, padding=1, dilation=2),
    lengths_3d(2, 8, 8, "8 k 3 u 2 2 1 0", "12 p 3 r 2 2 1 0", "12 q 3 s 2 2 1 0"),
    """
dx = F.conv3d(dy, a, stride=2, padding=1, dilation=2)
da = torch.nn.grad.conv3d_weight(dy, a.shape, x, stride=2, padding=1, dilation=2)
""",
    odd=lengths_3d(2, 3, 2, "3 k 2 u 2 2 1 0", "5 p 3 r 2 2 1 0", "4 q 2 s 2 2 1 0"),
    long=lengths_3d(1, 2, 1, "2 k 2 u 2 2 1 0", "2 p 2 r 2 2 1 0", "31 q 3 s 2 2 1 0"),
)


@op
def conv_transposed_3d_grouped(
    f,
    x: tensor[n, e, d, h, w],
    a: tensor[e, o, k, p, q],
    groups: length(g),
    deep: length(u),
    high: length(r),
    wide: length(s),
):
    """A transposed convolution of groups of channels of volumes, with stride 2 and 1, 2 and 3 places of padding."""
    there = eq(2 * d + k, u + 1) & eq(2 * h + p, r + 2) & eq(2 * w + q, s + 3)
    part = where(there, x[n, (g, c), d, h, w] * a[(g, c), o, k, p, q], 0)
    f.y[n, (g, o), u, r, s] = sum(part, over=(c, d, h, w, k, p, q))
    return f.y


def grouped_3d(n: int, e: int, o: int, g: int, d: str, h: str, w: str) -> dict[str, int]:
    """Lengths of a transposed convolution of groups of channels of volumes."""
    return {"n": n, "e": e, "o": o, "g": g, **transposed(d=d, h=h, w=w)}


P72 = Problem(
    72,
    "Transposed convolution 3D, oblong, strided, padded, grouped",
    conv_transposed_3d_grouped,
    lambda x, a, groups, deep, high, wide: F.conv_transpose3d(
        x, a, stride=2, padding=(1, 2, 3), output_padding=1, groups=groups
    ),
    grouped_3d(2, 16, 4, 4, "6 k 3 u 2 1 1 1", "8 p 5 r 2 1 2 1", "16 q 7 s 2 1 3 1"),
    """
dx = F.conv3d(dy, a, stride=2, padding=(1, 2, 3), groups=groups)
da = torch.nn.grad.conv3d_weight(dy, a.shape, x, stride=2, padding=(1, 2, 3), groups=groups)
""",
    odd=grouped_3d(2, 4, 1, 2, "2 k 3 u 2 1 1 1", "3 p 3 r 2 1 2 1", "4 q 5 s 2 1 3 1"),
    long=grouped_3d(1, 4, 1, 2, "1 k 3 u 2 1 1 1", "2 p 5 r 2 1 2 1", "31 q 7 s 2 1 3 1"),
)


@op
def conv_transposed_3d_grouped_alike(
    f,
    x: tensor[n, e, d, h, w],
    a: tensor[e, o, k, p, q],
    groups: length(g),
    deep: length(u),
    high: length(r),
    wide: length(s),
):
    """A transposed convolution of groups of channels of volumes, with stride 2 and a place of padding."""
    there = eq(2 * d + k, u + 1) & eq(2 * h + p, r + 1) & eq(2 * w + q, s + 1)
    part = where(there, x[n, (g, c), d, h, w] * a[(g, c), o, k, p, q], 0)
    f.y[n, (g, o), u, r, s] = sum(part, over=(c, d, h, w, k, p, q))
    return f.y


P73 = Problem(
    73,
    "Transposed convolution 3D, strided, padded, grouped",
    conv_transposed_3d_grouped_alike,
    lambda x, a, groups, deep, high, wide: F.conv_transpose3d(x, a, stride=2, padding=1, groups=groups),
    grouped_3d(2, 16, 4, 4, "8 k 3 u 2 1 1 0", "12 p 3 r 2 1 1 0", "16 q 3 s 2 1 1 0"),
    """
dx = F.conv3d(dy, a, stride=2, padding=1, groups=groups)
da = torch.nn.grad.conv3d_weight(dy, a.shape, x, stride=2, padding=1, groups=groups)
""",
    odd=grouped_3d(2, 6, 1, 3, "2 k 3 u 2 1 1 0", "4 p 3 r 2 1 1 0", "3 q 5 s 2 1 1 0"),
    long=grouped_3d(1, 4, 1, 2, "2 k 3 u 2 1 1 0", "2 p 3 r 2 1 1 0", "31 q 5 s 2 1 1 0"),
)


# --- running sums -------------------------------------------------------------------------------------------

SEQUENCES = {"n": 1024, "t": 1024}


@op
def running_sum(f, x: tensor[n, t]):
    """The sum of all places so far."""
    f.y[n, t] = sum(where(u <= t, x[n, u], 0), over=u)
    return f.y


P89 = Problem(
    89, "Running sum", running_sum, lambda x: torch.cumsum(x, 1), SEQUENCES, "dx = dy.flip(1).cumsum(1).flip(1)"
)


@op
def running_product(f, x: tensor[n, t].positive):
    """The product of all places so far, all above 0."""
    f.y[n, t] = exp(sum(where(u <= t, log(x[n, u]), 0), over=u))
    return f.y


P90 = Problem(
    90,
    "Running product",
    running_product,
    lambda x: torch.cumprod(x, 1),
    SEQUENCES,
    "dx = (dy * y).flip(1).cumsum(1).flip(1) / x",
    note="of inputs above 0, as the suite draws them; for others the word prod is missing",
)


@op
def running_sum_from_behind(f, x: tensor[n, t]):
    """The sum of all places from here on."""
    f.y[n, t] = sum(where(u >= t, x[n, u], 0), over=u)
    return f.y


P91 = Problem(
    91,
    "Running sum from behind",
    running_sum_from_behind,
    lambda x: torch.cumsum(x.flip(1), 1).flip(1),
    SEQUENCES,
    "dx = dy.cumsum(1)",
)


@op
def running_sum_before(f, x: tensor[n, t]):
    """The sum of all places before."""
    f.y[n, t] = sum(where(u < t, x[n, u], 0), over=u)
    return f.y


P92 = Problem(
    92,
    "Running sum, exclusive",
    running_sum_before,
    lambda x: torch.cat((torch.zeros_like(x[:, :1]), torch.cumsum(x[:, :-1], 1)), 1),
    SEQUENCES,
    """
after = dy[:, 1:].flip(1).cumsum(1).flip(1)
dx = F.pad(after, (0, 1))
""",
)


@op
def masked_running_sum(f, x: tensor[n, t], mask: constant[n, t]):
    """The sum of all places so far that a mask keeps."""
    f.y[n, t] = sum(where(u <= t, x[n, u] * mask[n, u], 0), over=u)
    return f.y


P93 = Problem(
    93,
    "Running sum, masked",
    masked_running_sum,
    lambda x, mask: torch.cumsum(x * mask, 1),
    SEQUENCES,
    "dx = dy.flip(1).cumsum(1).flip(1) * mask",
)


# --- losses -------------------------------------------------------------------------------------------------


@op
def squared_error(f, x: tensor[n, d], y: constant[n, d]):
    """The mean of squared differences."""
    f.loss[()] = mean((x[n, d] - y[n, d]) ** 2, over=(n, d))
    return f.loss


P94 = Problem(94, "MSE loss", squared_error, F.mse_loss, ROWS, "dx = (2 * dloss / x.numel()) * (x - y)")


@op
def label_cross_entropy(f, z: tensor[n, c], y: index(c)[n]):
    """Cross-entropy of labels."""
    f.lse[n] = log(sum(exp(z[n, c]), over=c))
    f.loss[()] = mean(f.lse[n] - z[n, y[n]], over=n)
    return f.loss


P95 = Problem(
    95,
    "Cross-entropy loss",
    label_cross_entropy,
    F.cross_entropy,
    {"n": 1024, "c": 1024},
    """
p = torch.exp(z - lse[:, None])
p[torch.arange(len(y)), y] -= 1
dz = p * (dloss / len(y))
""",
)


@op
def smooth_l1(f, x: tensor[n, d], y: constant[n, d]):
    """Squared differences near 0, magnitudes far from it."""
    f.e[n, d] = x[n, d] - y[n, d]
    f.loss[()] = mean(where(abs(f.e[n, d]) < 1, f.e[n, d] ** 2 / 2, abs(f.e[n, d]) - 1 / 2), over=(n, d))
    return f.loss


P96 = Problem(96, "Huber loss", smooth_l1, F.smooth_l1_loss, ROWS, "dx = (x - y).clamp(-1, 1) * (dloss / x.numel())")


@op
def dot_product_attention(f, q: tensor[..., i, d], k: tensor[..., j, d], v: tensor[..., j, e]):
    """Scaled dot-product attention."""
    f.s[..., i, j] = sum(q[..., i, d] * k[..., j, d], over=d) / sqrt(size(d))
    f.u[..., i, j] = exp(f.s[..., i, j])
    f.p[..., i, j] = f.u[..., i, j] / sum(f.u[..., i, j], over=j)
    f.o[..., i, e] = sum(f.p[..., i, j] * v[..., j, e], over=j)
    return f.o


P97 = Problem(
    97,
    "Scaled dot-product attention",
    dot_product_attention,
    F.scaled_dot_product_attention,
    {"...": 8, "i": 128, "j": 128, "d": 64, "e": 64},
    """
dv = p.mT @ do
dp = do @ v.mT
rows = (do * o).sum(-1, keepdim=True)
ds = p * (dp - rows) / math.sqrt(q.shape[-1])
dq = ds @ k
dk = ds.mT @ q
""",
)


@op
def divergence(f, x: tensor[n, d].positive, y: constant[n, d].positive):
    """The divergence of Kullback and Leibler, from probabilities, by the row."""
    f.loss[()] = mean(sum(y[n, d] * (log(y[n, d]) - log(x[n, d])), over=d), over=n)
    return f.loss


P98 = Problem(
    98,
    "KL divergence loss",
    divergence,
    lambda x, y: F.kl_div(torch.log(x), y, reduction="batchmean"),
    ROWS,
    "dx = y / x * (-dloss / len(x))",
)


@op
def triplet_margin(f, a: tensor[n, d], p: tensor[n, d], q: tensor[n, d], margin: scalar = 1.0, eps: scalar = 1e-6):
    """How much nearer than a margin a wrong one is than a right one."""
    f.near[n] = sqrt(sum((a[n, d] - p[n, d] + eps) ** 2, over=d))
    f.far[n] = sqrt(sum((a[n, d] - q[n, d] + eps) ** 2, over=d))
    f.loss[()] = mean(relu(f.near[n] - f.far[n] + margin), over=n)
    return f.loss


P99 = Problem(
    99,
    "Triplet margin loss",
    triplet_margin,
    lambda a, p, q, margin, eps: F.triplet_margin_loss(a, p, q, margin=margin, eps=eps),
    ROWS,
    """
share = (near - far + margin > 0) * (dloss / len(a))
dp = -(share / near)[:, None] * (a - p + eps)
dq = (share / far)[:, None] * (a - q + eps)
da = -(dp + dq)
""",
)


@op
def hinge(f, x: tensor[n, d], y: constant[d]):
    """How far predictions are from the right side of a margin of 1."""
    f.loss[()] = mean(relu(1 - x[n, d] * y[d]), over=(n, d))
    return f.loss


P100 = Problem(
    100,
    "Hinge loss",
    hinge,
    lambda x, y: torch.mean(torch.clamp(1 - x * y, min=0)),
    ROWS,
    "dx = torch.where(x * y < 1, y * (-dloss / x.numel()), 0)",
)
