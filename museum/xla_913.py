"""Batch normalisation in eval mode, with the backward of training.

pytorch/xla, issue 913 (2019), https://github.com/pytorch/xla/issues/913. In eval mode the statistics are given and no
function of the input, so the gradient is one product. The formula of training was used: it takes off the means of what
would have come back through statistics of this batch. Fine-tuning with frozen statistics goes on, on wrong gradients.

    derive judge museum/xla_913.py:backward --from museum/xla_913.py
"""

import torch

from derive import axes, constant, op, rsqrt, scalar, tensor

VERDICT, ERROR = "wrong", "not held constant"

n, d = axes("n d")


@op
def batchnorm_in_eval(
    f,
    x: tensor[n, d],
    gamma: tensor[d],
    beta: tensor[d],
    mu: constant[d],
    var: constant[d].positive,
    eps: scalar = 1e-5,
):
    """Batch normalisation by statistics that are given."""
    f.rstd[d] = rsqrt(var[d] + eps)
    f.y[n, d] = gamma[d] * (x[n, d] - mu[d]) * f.rstd[d] + beta[d]
    return f.y


def backward(dy, x, gamma, beta, mu, var, eps):
    rstd = torch.rsqrt(var + eps)
    xhat = (x - mu) * rstd
    dx = gamma * rstd * (dy - dy.mean(0) - xhat * (dy * xhat).mean(0))  # the fault: gamma * rstd * dy
    return dx, (dy * xhat).sum(0), dy.sum(0)
