"""Batch normalisation whose input's gradient ignores the scale.

denizyuret/Knet.jl, issue 288 (2018), https://github.com/denizyuret/Knet.jl/issues/288: the product of the incoming
gradient and the inverse deviation was taken before the gradient was multiplied by the scale, and the old product was
used.

    derive judge museum/knet_288.py:backward --op batchnorm
"""

import torch

OP, VERDICT, ERROR = "batchnorm", "wrong", "missing factor"


def backward(dy, x, gamma, beta, eps, correction):
    n = len(x)
    mu = x.mean(0)
    rstd = torch.rsqrt((x - mu).square().sum(0) / (n - correction) + eps)
    xhat = (x - mu) * rstd
    dx = rstd * (dy - dy.mean(0) - xhat * (dy * xhat).sum(0) / (n - correction))  # the fault: gamma
    return dx, (dy * xhat).sum(0), dy.sum(0)
