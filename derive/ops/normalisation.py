"""Normalisations: over the batch, the features, groups of channels; to unit root mean square and unit length."""

from derive import *

n, c, d, g, k, s = axes("n c d g k s")


@op
def batchnorm(f, x: tensor[n, d], gamma: tensor[d], beta: tensor[d], eps: scalar = 1e-5, correction: scalar = 1):
    """Batch normalisation over the batch axis (Ioffe & Szegedy, 2015), with Bessel's correction by default."""
    f.mu[d] = mean(x[n, d], over=n)
    f.var[d] = sum((x[n, d] - f.mu[d]) ** 2, over=n) / (size(n) - correction)
    f.rstd[d] = rsqrt(f.var[d] + eps)
    f.xhat[n, d] = (x[n, d] - f.mu[d]) * f.rstd[d]
    f.y[n, d] = gamma[d] * f.xhat[n, d] + beta[d]
    return f.y


@op
def layernorm(f, x: tensor[..., d], gamma: tensor[d], beta: tensor[d], eps: scalar = 1e-5):
    """Layer normalisation over the last axis (Ba, Kiros & Hinton, 2016)."""
    f.mu[...] = mean(x[..., d], over=d)
    f.var[...] = mean((x[..., d] - f.mu[...]) ** 2, over=d)
    f.rstd[...] = rsqrt(f.var[...] + eps)
    f.xhat[..., d] = (x[..., d] - f.mu[...]) * f.rstd[...]
    f.y[..., d] = gamma[d] * f.xhat[..., d] + beta[d]
    return f.y


@op
def rmsnorm(f, x: tensor[..., d], gamma: tensor[d], eps: scalar = 1e-6):
    """Normalisation to unit root mean square over the last axis (Zhang & Sennrich, 2019)."""
    f.rrms[...] = rsqrt(mean(x[..., d] ** 2, over=d) + eps)
    f.xhat[..., d] = x[..., d] * f.rrms[...]
    f.y[..., d] = gamma[d] * f.xhat[..., d]
    return f.y


@op
def groupnorm(f, x: tensor[n, c, s], gamma: tensor[c], beta: tensor[c], groups: length(g), eps: scalar = 1e-5):
    """Normalisation over groups of channels and all places (Wu & He, 2018)."""
    f.z[n, g, k, s] = x[n, (g, k), s]
    f.mu[n, g] = mean(f.z[n, g, k, s], over=(k, s))
    f.var[n, g] = mean((f.z[n, g, k, s] - f.mu[n, g]) ** 2, over=(k, s))
    f.rstd[n, g] = rsqrt(f.var[n, g] + eps)
    f.zhat[n, g, k, s] = (f.z[n, g, k, s] - f.mu[n, g]) * f.rstd[n, g]
    f.xhat[n, (g, k), s] = f.zhat[n, g, k, s]
    f.y[n, c, s] = gamma[c] * f.xhat[n, c, s] + beta[c]
    return f.y


@op
def l2_normalize(f, x: tensor[..., d], eps: scalar = 1e-12):
    """The last axis over its length, and over `eps` where the length is smaller than that."""
    f.r[...] = rsqrt(maximum(sum(x[..., d] ** 2, over=d), eps**2))
    f.y[..., d] = x[..., d] * f.r[...]
    return f.y
