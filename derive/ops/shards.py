"""Batch normalisation cut open where processes that share a batch add up their sums."""

from derive import *

n, d = axes("n d")


@op
def squared_deviations(f, x: tensor[n, d], mu: tensor[d]):
    """The sum over the batch of squared distances from a mean that was found elsewhere."""
    f.q[d] = sum((x[n, d] - mu[d]) ** 2, over=n)
    return f.q


@op
def standardise(
    f, x: tensor[n, d], mu: tensor[d], var: tensor[d], gamma: tensor[d], beta: tensor[d], eps: scalar = 1e-5
):
    """A normalisation whose mean and variance were found elsewhere."""
    f.rstd[d] = rsqrt(var[d] + eps)
    f.xhat[n, d] = (x[n, d] - mu[d]) * f.rstd[d]
    f.y[n, d] = gamma[d] * f.xhat[n, d] + beta[d]
    return f.y
