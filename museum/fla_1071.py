"""A gated norm and a linear layer in one, whose weight is given the gradient of another input: the one before the gate.

fla-org/flash-linear-attention, pull request 1071 (2026), https://github.com/fla-org/flash-linear-attention/pull/1071.
To save memory the backward computes the linear layer's input again, and stopped before the gate. The weight's gradient
is off by silu(g) in every element, and where g is 0 it is not 0. The forward and all other gradients are right.

    derive judge museum/fla_1071.py:backward --from museum/fla_1071.py
"""

import torch
import torch.nn.functional as F

from derive import axes, mean, op, rsqrt, scalar, sigmoid, sum, tensor

VERDICT, ERROR = "wrong", "wrong saved tensor"

n, d, o = axes("n d o")


@op
def gated_norm_linear(f, x: tensor[n, d], g: tensor[n, d], gamma: tensor[d], w: tensor[d, o], eps: scalar = 1e-6):
    """An RMS normalisation, gated by SiLU, through a linear layer."""
    f.rrms[n] = rsqrt(mean(x[n, d] ** 2, over=d) + eps)
    f.z[n, d] = gamma[d] * x[n, d] * f.rrms[n]
    f.h[n, d] = f.z[n, d] * g[n, d] * sigmoid(g[n, d])
    f.y[n, o] = sum(f.h[n, d] * w[d, o], over=d)
    return f.y


def backward(dy, x, g, gamma, w, eps):
    rrms = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    xhat = x * rrms
    z, s = gamma * xhat, torch.sigmoid(g)
    dh = dy @ w.T
    dz = dh * F.silu(g)
    t = gamma * dz
    dx = rrms * (t - xhat * (t * xhat).mean(-1, keepdim=True))
    dg = dh * z * s * (1 + g * (1 - s))
    return dx, dg, (dz * xhat).sum(0), z.T @ dy  # the fault: z * silu(g)
