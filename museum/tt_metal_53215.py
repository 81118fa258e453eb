"""Layer normalisation that subtracts one of its two means twice.

tenstorrent/tt-metal, issue 53204, fixed by pull request 53215 (2026):
https://github.com/tenstorrent/tt-metal/pull/53215. A register that an instruction accumulates into still held the
mean. The test allowed an absolute error of 0.5 on gradients of about 1, and the loss still went down.

    derive judge museum/tt_metal_53215.py:backward --op layernorm
"""

import torch

OP, VERDICT, ERROR = "layernorm", "wrong", "term counted twice"


def backward(dy, x, gamma, beta, eps):
    mu = x.mean(-1, keepdim=True)
    rstd = torch.rsqrt((x - mu).square().mean(-1, keepdim=True) + eps)
    xhat = (x - mu) * rstd
    g = gamma * dy
    dx = rstd * (g - 2 * g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True))  # the fault: 2
    rows = (-1, gamma.numel())
    return dx, (dy * xhat).reshape(rows).sum(0), dy.reshape(rows).sum(0)
