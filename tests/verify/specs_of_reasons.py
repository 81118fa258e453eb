"""Ops that the candidates of `test_reasons.py` claim to be backwards of."""

from derive import *

n, d, e, i, j, k, t, u = axes("n d e i j k t u")


@op
def log_softmax_as_written(f, z: tensor[n, d]):
    f.y[n, d] = z[n, d] - log(sum(exp(z[n, e]), over=e))
    return f.y


@op
def with_given_statistics(f, x: tensor[n, d], mu: constant[d], var: constant[d]):
    f.y[n, d] = (x[n, d] - mu[d]) * rsqrt(abs(var[d]) + 0.1)
    return f.y


@op
def centred_by_given(f, x: tensor[n, d], mu: constant[d]):
    f.y[n, d] = (x[n, d] - mu[d]) ** 3
    return f.y


@op
def learned_step(f, x: tensor[n], s: tensor[n]):
    """A clipped value with a learned step: the gradients of the two are masked by opposite conditions."""
    f.y[n] = where(x[n] > s[n], s[n], x[n])
    return f.y


@op
def rotated_tanh(f, x: tensor[n, d], r: tensor[d, e]):
    f.z[n, e] = sum(x[n, d] * r[d, e], over=d)
    f.y[n, e] = tanh(f.z[n, e])
    return f.y


@op
def capped(f, z: tensor[n], cap: scalar = 3.0, s: scalar = 0.5):
    f.y[n] = cap * tanh(s * z[n] / cap)
    return f.y


@op
def with_log_sum(f, z: tensor[n, d]):
    """Shares and the logarithm of their sum, as attention returns it."""
    f.lse[n] = log(sum(exp(z[n, e]), over=e))
    f.p[n, d] = exp(z[n, d] - f.lse[n])
    return f.p, f.lse


@op
def masked_mean(f, x: tensor[n, d], m: constant[n]):
    f.y[n] = m[n] * mean(x[n, d] ** 2, over=d)
    return f.y


@op
def windows(f, x: tensor[n, t], w: tensor[k]):
    f.y[n, u] = sum(x[n, u + k] * w[k], over=k)
    return f.y


@op
def one_before(f, x: tensor[n, t]):
    """What is read at two places that lie side by side."""
    f.y[n, u] = x[n, u + 1] ** 2 - x[n, u]
    return f.y


@op
def late_echo(f, x: tensor[n, t], w: tensor[n, t]):
    f.y[n, t] = w[n, t] * x[n, t] + where(t >= 20, x[n, t - 20], 0)
    return f.y


@op
def unit(f, q: tensor[n, d], eps: scalar = 0.01):
    f.y[n, d] = q[n, d] * rsqrt(sum(q[n, e] ** 2, over=e) + eps**2)
    return f.y
