"""A false alarm: batch normalisation without the sum of the deviations.

pjreddie/darknet, pull request 29 (2016), https://github.com/pjreddie/darknet/pull/29, and issues 1634 and 1723 after it
hold that the mean's gradient lacks what comes through the variance. It is there in the paper, times sum(x - mu), which
is 0. The code that leaves it out is right.

    derive judge museum/darknet_29.py:backward --op batchnorm
"""

import torch

OP, VERDICT, ERROR = "batchnorm", "right", ""


def backward(dy, x, gamma, beta, eps, correction):
    n = len(x)
    mu = x.mean(0)
    off = x - mu
    rstd = torch.rsqrt(off.square().sum(0) / (n - correction) + eps)
    dxhat = gamma * dy
    dvar = -(dxhat * off).sum(0) * rstd**3 / 2
    dmu = -rstd * dxhat.sum(0)  # and -2 * dvar * off.sum(0) / (n - correction), which is 0
    dx = rstd * dxhat + dvar * 2 * off / (n - correction) + dmu / n
    return dx, (dy * off * rstd).sum(0), dy.sum(0)
