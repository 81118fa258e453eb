"""Specs that hold what the catalogue does not, so that the typesetter meets all of the notation."""

# ruff: noqa: F403, F405

from derive import *

n, m, t, e, i, d, c, k, row = axes("n m t e i d c k row")


@op
def diagonal(f, s: tensor[n, m]):
    """A diagonal: 50% & $ ^ ~ \\ # {} “quoted” ∑."""
    f.tr[()] = sum(s[k, k] ** 2, over=k)
    return f.tr


@op
def mixed(f, x: tensor[..., d], w: tensor[d], a_b: scalar = 2.0):
    """Choices in products and powers, means in powers, every function with a printer of its own."""
    f.u[..., d] = where(x[..., d] > 0, x[..., d] ** 2, w[d]) * sigmoid(x[..., d])
    f.r[..., d] = f.u[..., d] + maximum(x[..., d], w[d]) ** 2 * a_b
    f.v[..., d] = softplus(f.r[..., d]) * erf(x[..., d]) / (1 + exp(f.r[..., d]) + relu(w[d]))
    f.z[...] = mean(f.v[..., d], over=d) ** 3 + sum(x[..., d] * abs(w[d]), over=d) ** 2
    return f.z, f.v


@op
def merged(f, x: tensor[n, t, e], w: tensor[i, d]):
    """Merged axes, and an output that is also read."""
    f.flat[n, (t, e)] = tanh(x[n, t, e])
    f.y[n, d] = sum(f.flat[n, i] * w[i, d], over=i)
    return f.y, f.flat


@op
def picked(f, x: tensor[row, c], w: tensor[k], ix: index(row)[n], y: index(c)[n]):
    """An axis with a long name, a gather by two tensors at once, a fixed position, a delta."""
    f.p[n] = x[ix[n], y[n]] + cos(x[ix[n], 0])
    f.q[n, k] = f.p[n] * delta(n, k) * w[k]
    f.loss[()] = -mean(f.q[n, k] ** 3, over=(n, k))
    return f.loss
