"""Batch normalisation whose scale stands in two of the three terms.

ROCm/MIOpen, issue 104 (2019), https://github.com/ROCm/MIOpen/issues/104. The two sums over the batch were of gradients
that had been multiplied by the scale; the gradient that they are taken from was not. Where all scales are 1 there is
nothing to see; the tests had seen nothing, and the maintainers set out to change them too.

    derive judge museum/miopen_104.py:backward --op batchnorm
"""

import torch

OP, VERDICT, ERROR = "batchnorm", "wrong", "missing factor"


def backward(dy, x, gamma, beta, eps, correction):
    n = len(x)
    mu = x.mean(0)
    rstd = torch.rsqrt((x - mu).square().sum(0) / (n - correction) + eps)
    xhat = (x - mu) * rstd
    g = gamma * dy
    dx = rstd * (dy - g.mean(0) - xhat * (g * xhat).sum(0) / (n - correction))  # the fault: g for dy
    return dx, (dy * xhat).sum(0), dy.sum(0)
