"""Layer normalisation that keeps its output, and divides by the weight to get back to the normalised input.

NVIDIA/apex, pull request 1715 (2023), https://github.com/NVIDIA/apex/pull/1715, saves memory in this way, and guards
the division. This is the form without the guard: at a weight of 0, a common start for the last norm of a block, it is
not a number.

    derive judge museum/apex_1715.py:backward --op layernorm
"""

import torch

OP, VERDICT, ERROR = "layernorm", "right only where", "singular point"


def backward(dy, x, gamma, beta, eps):
    mu = x.mean(-1, keepdim=True)
    rstd = torch.rsqrt((x - mu).square().mean(-1, keepdim=True) + eps)
    y = gamma * ((x - mu) * rstd) + beta  # what the forward kept
    xhat = (y - beta) / gamma  # the fault: gamma may be 0
    g = gamma * dy
    dx = rstd * (g - g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True))
    rows = (-1, gamma.numel())
    return dx, (dy * xhat).reshape(rows).sum(0), dy.reshape(rows).sum(0)
