"""Products of matrices, and the order in which they are taken."""

from derive import *

b, c, d, e, g, h, i, j, k, l, m, n, o, r, s, t, u, w = axes("b c d e g h i j k l m n o r s t u w")
p2, two = axes("p2=2 two=2")


@op
def recurrent_step(f, x: tensor[n, i], h: tensor[n, j], w: tensor[d, i], u: tensor[d, j], bias: tensor[d]):
    """Two products and a bias under a tanh."""
    f.z[n, d] = sum(w[d, i] * x[n, i], over=i) + sum(u[d, j] * h[n, j], over=j) + bias[d]
    f.y[n, d] = tanh(f.z[n, d])
    return f.y


@op
def gates_of_a_cell(f, x: tensor[n, i], h: tensor[n, d], w: tensor[i, g, d], u: tensor[g, d, e], bias: tensor[g, d]):
    """The gates of a cell from two products."""
    f.y[n, g, d] = tanh(sum(x[n, i] * w[i, g, d], over=i) + sum(h[n, e] * u[g, d, e], over=e) + bias[g, d])
    return f.y


@op
def low_rank_update(f, x: tensor[b, n, i], w: tensor[i, d], a: tensor[i, j], v: tensor[j, d], k: scalar = 0.7):
    """A product and a scaled product of low rank."""
    f.u[b, n, j] = sum(x[b, n, i] * a[i, j], over=i)
    f.y[b, n, d] = sum(x[b, n, i] * w[i, d], over=i) + k * sum(f.u[b, n, j] * v[j, d], over=j)
    return f.y


@op
def heads_in_and_out(f, x: tensor[b, n, i], w: tensor[i, g, d], bias: tensor[g, d], v: tensor[g, d, i]):
    """A projection to heads and one back."""
    f.q[b, n, g, d] = sum(x[b, n, i] * w[i, g, d], over=i) + bias[g, d]
    f.y[b, n, i] = x[b, n, i] + sum(tanh(f.q[b, n, g, d]) * v[g, d, i], over=(g, d))
    return f.y


@op
def weighed_rows(f, k: tensor[i, j], u: tensor[i], v: tensor[i], p: tensor[j], q: tensor[j]):
    """A matrix between products of vectors."""
    f.y[()] = sum(k[i, j] * u[i] * v[i] * p[j] * q[j], over=(i, j))
    return f.y


@op
def three_factors(f, a: tensor[i, j], b: tensor[j, k], c: tensor[i, k], w: tensor[k, l]):
    """Four matrices, two of which share both axes."""
    f.y[i, l] = sum(a[i, j] * b[j, k] * c[i, k] * w[k, l], over=(j, k))
    return f.y


@op
def triangular_product(f, x: tensor[n, j], w: tensor[i, j]):
    """A product with half of a matrix."""
    f.y[n, i] = sum(x[n, j] * where(j <= i, w[i, j], 0), over=j)
    return f.y


@op
def quadratic_of_rows(f, x: tensor[n, i], w: tensor[i, j], z: tensor[n, j]):
    """A bilinear form of each row."""
    f.y[n] = sum(x[n, i] * w[i, j] * z[n, j], over=(i, j))
    return f.y


@op
def running_totals(f, x: tensor[n, t, d], w: tensor[d]):
    """Weighed running sums."""
    f.y[n, t, d] = sum(where(t >= u, x[n, u, d] * w[d], 0), over=u)
    return f.y


@op
def running_products(f, x: tensor[n, t]):
    """Running products by logarithms."""
    f.y[n, t] = exp(sum(where(u <= t, log(x[n, u]), 0), over=u))
    return f.y


@op
def token_mixing(f, x: tensor[b, t, i], w: tensor[j, t]):
    """The places of a sequence, mixed alike in every channel (Tolstikhin et al., 2021)."""
    f.y[b, j, i] = sum(w[j, t] * x[b, t, i], over=t)
    return f.y


@op
def modulated_outer(f, x: tensor[n, i], s: tensor[n, i], w: tensor[o, i]):
    """A product by a weight of each row, over its length."""
    f.m[n, o, i] = s[n, i] * w[o, i]
    f.y[n, o] = sum(f.m[n, o, i] * x[n, i], over=i) / sqrt(sum(f.m[n, o, i] ** 2, over=i) + 1)
    return f.y


@op
def two_ways_in(f, x: tensor[n, i], y: tensor[n, j], U: tensor[i, k], V: tensor[j, k], P: tensor[k, o]):
    """The product of two bent products, projected."""
    f.a[n, k] = tanh(sum(x[n, i] * U[i, k], over=i))
    f.b[n, k] = tanh(sum(y[n, j] * V[j, k], over=j))
    f.z[n, o] = sum(f.a[n, k] * f.b[n, k] * P[k, o], over=k)
    return f.z


@op
def real_part(f, u: tensor[n, d], v: tensor[n, d], a: tensor[m, d], b: tensor[m, d]):
    """The real part of complex products."""
    f.y[n, m] = sum(u[n, d] * a[m, d] - v[n, d] * b[m, d], over=d)
    return f.y


@op
def mean_of_a_layer(f, x: tensor[i, d], w: tensor[d, o], c: tensor[o], v: constant[o]):
    """A weighed mean of a layer with a bias."""
    f.h[i, o] = sum(x[i, d] * w[d, o], over=d) + c[o]
    f.y[i] = mean(v[o] * f.h[i, o], over=o)
    return f.y


@op
def squared_layer(f, x: tensor[n, m], w: tensor[m, k]):
    """A layer of squared rectifiers (So et al., 2021)."""
    f.h[n, m] = relu(x[n, m])
    f.y[n, k] = sum(f.h[n, m] ** 2 * w[m, k], over=m)
    return f.y


@op
def gate_of_channels(f, x: tensor[n, m, d], s: tensor[n, k], w: tensor[k, d], b: tensor[d]):
    """The gate of a squeeze-and-excitation block."""
    f.g[n, d] = sigmoid(sum(s[n, k] * w[k, d], over=k) + b[d])
    f.y[n, m, d] = x[n, m, d] * f.g[n, d]
    return f.y


@op
def twin_products(f, x: tensor[n, d], w: tensor[d, m]):
    """A product times a sigmoid of itself, written twice."""
    f.a[n, m] = sum(x[n, d] * w[d, m], over=d)
    f.y[n, m] = f.a[n, m] * sigmoid(sum(x[n, k] * w[k, m], over=k))
    return f.y


@op
def merged_and_summed(f, x: tensor[n, t, e], w: tensor[i]):
    """A product over merged axes."""
    f.z[n, (t, e)] = x[n, t, e]
    f.y[n] = sum(f.z[n, i] * w[i], over=i)
    return f.y


@op
def joined_and_weighed(f, x: tensor[n, i], z: tensor[n, j], w: tensor[k]):
    """Two tensors joined, then weighed."""
    f.a[n, k] = concat(x[n, i], z[n, j], along=k)
    f.y[n, k] = f.a[n, k] * w[k]
    return f.y


@op
def interleaved(f, a: tensor[..., h], b: tensor[..., h]):
    """Two tensors in turn along one axis."""
    f.y[..., (h, p2)] = concat(2 * a[..., h], a[..., h] * b[..., h], along=p2)
    return f.y


@op
def pixel_places(f, x: tensor[n, c, h, w], up: length(r), across: length(s)):
    """Channels as places of a larger image."""
    f.z[n, d, r, s, h, w] = x[n, (d, r, s), h, w]
    f.y[n, d, (h, r), (w, s)] = f.z[n, d, r, s, h, w]
    return f.y


@op
def gated_halves(f, x: tensor[n, d], w: tensor[k]):
    """One half of the features, gated by a function of the other."""
    f.z[n, two, k] = x[n, (two, k)]
    f.y[n, k] = (f.z[n, 0, k] ** 2 + 1) * f.z[n, 1, k] * tanh(f.z[n, 0, k]) * w[k]
    return f.y


@op
def splines_of_features(f, x: tensor[n, i], w: tensor[o, i, k]):
    """Linear splines of each feature, added up."""
    f.y[n, o] = sum(w[o, i, k] * relu(1 - abs(k - x[n, i])), over=(i, k))
    return f.y


HOSTILE = {
    "recurrent_step": "scale 30",
    "gates_of_a_cell": "scale 30",
    "low_rank_update": "scale 1e4",
    "heads_in_and_out": "scale 30",
    "weighed_rows": "scale 1e4",
    "three_factors": "scale 1e4",
    "triangular_product": "scale 1e4",
    "quadratic_of_rows": "scale 1e4",
    "running_totals": "scale 1e4",
    "running_products": "scale 30",
    "token_mixing": "scale 1e4",
    "modulated_outer": "scale 30",
    "two_ways_in": "scale 30",
    "real_part": "nearly equal, scale 1e4",
    "mean_of_a_layer": "scale 1e4",
    "squared_layer": "ties, scale 30",
    "gate_of_channels": "scale 30",
    "twin_products": "scale 30",
    "merged_and_summed": "scale 1e4",
    "joined_and_weighed": "scale 1e4",
    "interleaved": "scale 1e4",
    "pixel_places": "scale 1e4",
    "gated_halves": "scale 30",
    "splines_of_features": "ties",
}
