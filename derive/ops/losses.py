"""Losses: regression, binary, classification, divergences."""

from derive import *

n, c = axes("n c")


# --- regression -------------------------------------------------------------------------------------------


@op
def mse(f, x: tensor[...], t: tensor[...]):
    """The mean squared error."""
    f.loss[()] = mean((x[...] - t[...]) ** 2, over=...)
    return f.loss


@op
def l1(f, x: tensor[...], t: tensor[...]):
    """The mean absolute error, with derivative 0 where there is none."""
    f.error[...] = x[...] - t[...]
    f.loss[()] = mean(abs(f.error[...]), over=...)
    return f.loss


@op
def huber(f, x: tensor[...], t: tensor[...], threshold: scalar = 1.0):
    """Squared for errors up to a threshold, linear beyond it, averaged (Huber, 1964)."""
    f.r[...] = abs(x[...] - t[...])
    f.e[...] = where(f.r[...] <= threshold, f.r[...] ** 2 / 2, threshold * (f.r[...] - threshold / 2))
    f.loss[()] = mean(f.e[...], over=...)
    return f.loss


# --- two classes ------------------------------------------------------------------------------------------


@op
def bce_with_logits(f, x: tensor[...], t: tensor[...]):
    """Binary cross-entropy of sigmoid(x) against probabilities t, averaged."""
    f.e[...] = (1 - t[...]) * x[...] + softplus(-x[...])
    f.loss[()] = mean(f.e[...], over=...)
    return f.loss


# --- many classes -----------------------------------------------------------------------------------------


@op
def nll(f, logp: tensor[n, c], y: index(c)[n]):
    """The negative log-likelihood of integer labels, averaged over the batch."""
    f.loss[()] = -mean(logp[n, y[n]], over=n)
    return f.loss


@op
def softmax_cross_entropy(f, z: tensor[n, c], y: index(c)[n]):
    """Cross-entropy of softmax(z) against integer labels, averaged over the batch."""
    f.m[n] = amax(z[n, c], over=c)
    f.u[n, c] = exp(z[n, c] - f.m[n])
    f.s[n] = sum(f.u[n, c], over=c)
    f.p[n, c] = f.u[n, c] / f.s[n]
    f.logp[n, c] = z[n, c] - f.m[n] - log(f.s[n])
    f.loss[()] = -mean(f.logp[n, y[n]], over=n)
    return f.loss


@op
def sequence_cross_entropy(f, z: tensor[..., c], y: index(c)[...]):
    """Cross-entropy of softmax(z) against integer labels, averaged over all leading axes."""
    f.m[...] = amax(z[..., c], over=c)
    f.s[...] = sum(exp(z[..., c] - f.m[...]), over=c)
    f.logp[..., c] = z[..., c] - f.m[...] - log(f.s[...])
    f.loss[()] = -mean(f.logp[..., y[...]], over=...)
    return f.loss


@op
def cross_entropy_probabilities(f, z: tensor[n, c], t: tensor[n, c]):
    """Cross-entropy of softmax(z) against class probabilities t, averaged over the batch."""
    f.m[n] = amax(z[n, c], over=c)
    f.s[n] = sum(exp(z[n, c] - f.m[n]), over=c)
    f.logp[n, c] = z[n, c] - f.m[n] - log(f.s[n])
    f.loss[()] = -sum(t[n, c] * f.logp[n, c], over=(n, c)) / size(n)
    return f.loss


@op
def cross_entropy_label_smoothing(f, z: tensor[n, c], y: index(c)[n], smoothing: scalar = 0.1):
    """Cross-entropy against integer labels, a part of each spread over all classes (Szegedy et al., 2016)."""
    f.m[n] = amax(z[n, c], over=c)
    f.s[n] = sum(exp(z[n, c] - f.m[n]), over=c)
    f.logp[n, c] = z[n, c] - f.m[n] - log(f.s[n])
    f.e[n] = -(1 - smoothing) * f.logp[n, y[n]] - smoothing * mean(f.logp[n, c], over=c)
    f.loss[()] = mean(f.e[n], over=n)
    return f.loss


@op
def cross_entropy_ignore_index(f, z: tensor[n, c], y: index(c)[n], ignore_index: scalar = -100):
    """Cross-entropy averaged over the labels that are not `ignore_index`, which need be no class."""
    f.m[n] = amax(z[n, c], over=c)
    f.s[n] = sum(exp(z[n, c] - f.m[n]), over=c)
    f.logp[n, c] = z[n, c] - f.m[n] - log(f.s[n])
    f.count[()] = sum(where(ne(y[n], ignore_index), 1, 0), over=n)
    f.loss[()] = -sum(where(ne(y[n], ignore_index), f.logp[n, y[n]], 0), over=n) / f.count[()]
    return f.loss


@op
def cross_entropy_weighted(f, z: tensor[n, c], y: index(c)[n], weight: constant[n]):
    """Cross-entropy against integer labels, averaged with a weight an example: 0 leaves the example out."""
    f.m[n] = amax(z[n, c], over=c)
    f.s[n] = sum(exp(z[n, c] - f.m[n]), over=c)
    f.logp[n, c] = z[n, c] - f.m[n] - log(f.s[n])
    f.loss[()] = -sum(weight[n] * f.logp[n, y[n]], over=n) / sum(weight[n], over=n)
    return f.loss


# --- divergences ------------------------------------------------------------------------------------------


@op
def kl_div(f, logp: tensor[n, c], t: constant[n, c]):
    """The divergence of t from the model's log-probabilities (Kullback & Leibler, 1951), averaged over the batch."""
    f.e[n, c] = where(t[n, c] > 0, t[n, c] * log(t[n, c]), 0) - t[n, c] * logp[n, c]
    f.loss[()] = sum(f.e[n, c], over=(n, c)) / size(n)
    return f.loss


@op
def kl_div_log_target(f, logp: tensor[n, c], logt: tensor[n, c]):
    """The divergence of exp(logt) from the model's log-probabilities, averaged over the batch."""
    f.loss[()] = sum(exp(logt[n, c]) * (logt[n, c] - logp[n, c]), over=(n, c)) / size(n)
    return f.loss
