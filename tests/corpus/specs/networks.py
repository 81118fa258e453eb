"""Chains of equations and small networks: what is kept, and what one layer's backward shares with the next."""

from derive import *

b, c, d, e, g, h, i, j, k, m, n, o, p, q, t, u = axes("b c d e g h i j k m n o p q t u")
gate4, p2 = axes("gate4=4 p2=2")


@op
def chain_of_tangents(f, x: tensor[n, d], w: tensor[d]):
    """Ten tangents, a bias added to each."""
    f.z0[n, d] = x[n, d] * w[d]
    for step in range(10):
        getattr(f, f"z{step + 1}")[n, d] = tanh(getattr(f, f"z{step}")[n, d] + w[d])
    return f.z10


@op
def chain_of_norms(f, x: tensor[n, d], w: tensor[d]):
    """Tangents and norms in turn."""
    f.z0[n, d] = x[n, d] * w[d]
    for step in range(0, 6, 2):
        getattr(f, f"z{step + 1}")[n, d] = tanh(getattr(f, f"z{step}")[n, d] + w[d])
        z = getattr(f, f"z{step + 1}")
        getattr(f, f"z{step + 2}")[n, d] = z[n, d] / sqrt(mean(z[n, d] ** 2, over=d) + 1)
    return f.z6


@op
def chain_of_gates(f, x: tensor[n, d]):
    """Six values, each scaled and gated by itself."""
    f.a0[n, d] = x[n, d] * sigmoid(x[n, d])
    for step in range(5):
        z = 2 * getattr(f, f"a{step}")[n, d]
        getattr(f, f"a{step + 1}")[n, d] = z * sigmoid(z)
    return f.a5


@op
def perceptron(f, x: tensor[n, d], w1: tensor[d, h], b1: tensor[h], w2: tensor[h, k], b2: tensor[k], y: index(k)[n]):
    """Two layers and a cross-entropy."""
    f.a[n, h] = relu(sum(x[n, d] * w1[d, h], over=d) + b1[h])
    f.z[n, k] = sum(f.a[n, h] * w2[h, k], over=h) + b2[k]
    f.loss[()] = mean(log(sum(exp(f.z[n, k]), over=k)) - f.z[n, y[n]], over=n)
    return f.loss


@op
def deep_perceptron_with_norms(
    f, x: tensor[n, d], w1: tensor[d, e], g1: tensor[e], w2: tensor[e, h], g2: tensor[h], w3: tensor[h, k]
):
    """Three layers, each of the first two normed and bent."""
    f.a[n, e] = sum(x[n, d] * w1[d, e], over=d)
    f.r[n] = rsqrt(mean(f.a[n, e] ** 2, over=e) + 1e-5)
    f.b[n, e] = tanh(f.a[n, e] * f.r[n] * g1[e])
    f.c[n, h] = sum(f.b[n, e] * w2[e, h], over=e)
    f.s[n] = rsqrt(mean(f.c[n, h] ** 2, over=h) + 1e-5)
    f.e[n, h] = tanh(f.c[n, h] * f.s[n] * g2[h])
    f.y[n, k] = sum(f.e[n, h] * w3[h, k], over=h)
    return f.y


@op
def residual_network(f, x: tensor[n, d], w1: tensor[d, h], v1: tensor[h, d], w2: tensor[d, h], v2: tensor[h, d]):
    """Two residual blocks of two layers each."""
    f.a[n, h] = relu(sum(x[n, d] * w1[d, h], over=d))
    f.z[n, d] = x[n, d] + sum(f.a[n, h] * v1[h, d], over=h)
    f.c[n, h] = relu(sum(f.z[n, d] * w2[d, h], over=d))
    f.y[n, d] = f.z[n, d] + sum(f.c[n, h] * v2[h, d], over=h)
    return f.y


@op
def residual_block_of_filters(f, x: tensor[n, c, t], w: tensor[o, c, p], v: tensor[c, o, q], bias: tensor[o]):
    """A filter, a rectifier and a filter, added to the places that are left."""
    f.a[n, o, u] = relu(sum(x[n, c, u + p] * w[o, c, p], over=(c, p)) + bias[o])
    f.y[n, c, j] = x[n, c, j] + sum(f.a[n, o, j + q] * v[c, o, q], over=(o, q))
    return f.y


@op
def prenormed_gated_block(f, x: tensor[n, d], s: tensor[d], w: tensor[d, h], v: tensor[d, h], z: tensor[h, d]):
    """A norm, two products, one gating the other, and a product back."""
    f.r[n] = rsqrt(mean(x[n, d] ** 2, over=d) + 1e-6)
    f.a[n, d] = x[n, d] * f.r[n] * s[d]
    f.g[n, h] = sum(f.a[n, d] * w[d, h], over=d)
    f.u[n, h] = sum(f.a[n, d] * v[d, h], over=d)
    f.y[n, d] = x[n, d] + sum(f.g[n, h] * sigmoid(f.g[n, h]) * f.u[n, h] * z[h, d], over=h)
    return f.y


@op
def attention_block(f, x: tensor[n, t, d], wq: tensor[d, e], wk: tensor[d, e], wv: tensor[d, e], wo: tensor[e, d]):
    """Causal attention of one head, its projections, and what it is added to."""
    f.q[n, t, e] = sum(x[n, t, d] * wq[d, e], over=d)
    f.k[n, u, e] = sum(x[n, u, d] * wk[d, e], over=d)
    f.v[n, u, e] = sum(x[n, u, d] * wv[d, e], over=d)
    f.s[n, t, u] = where(u <= t, sum(f.q[n, t, e] * f.k[n, u, e], over=e) / sqrt(size(e)), -oo)
    f.m[n, t] = amax(f.s[n, t, u], over=u)
    f.w[n, t, u] = exp(f.s[n, t, u] - f.m[n, t])
    f.p[n, t, u] = f.w[n, t, u] / sum(f.w[n, t, u], over=u)
    f.o[n, t, e] = sum(f.p[n, t, u] * f.v[n, u, e], over=u)
    f.y[n, t, d] = x[n, t, d] + sum(f.o[n, t, e] * wo[e, d], over=e)
    return f.y


@op
def gated_recurrent_step(f, z: tensor[n, h], r: tensor[n, h], a: tensor[n, h], s: tensor[n, h], w: tensor[h, h]):
    """A step of a gated recurrent unit, its input projections given."""
    f.keep[n, h] = sigmoid(z[n, h])
    f.rz[n, h] = sigmoid(r[n, h]) * s[n, h]
    f.new[n, k] = tanh(a[n, k] + sum(f.rz[n, h] * w[h, k], over=h))
    f.y[n, h] = f.keep[n, h] * s[n, h] + (1 - f.keep[n, h]) * f.new[n, h]
    return f.y


@op
def long_short_term_step(f, x: tensor[n, d], s: tensor[n, h], cell: tensor[n, h], w: tensor[gate4, h, d]):
    """A step of a long short-term memory without recurrent weights."""
    f.z[n, gate4, h] = sum(x[n, d] * w[gate4, h, d], over=d)
    f.cell_[n, h] = sigmoid(f.z[n, 1, h]) * cell[n, h] + sigmoid(f.z[n, 0, h]) * tanh(f.z[n, 2, h] + s[n, h])
    f.y[n, h] = sigmoid(f.z[n, 3, h]) * tanh(f.cell_[n, h])
    return f.y, f.cell_


@op
def variational_autoencoder(
    f, x: tensor[n, d], w: tensor[d, h], mu: tensor[h, k], ls: tensor[h, k], v: tensor[k, d], eps: constant[n, k]
):
    """An encoder, a sample, a decoder, and both terms of the bound."""
    f.a[n, h] = tanh(sum(x[n, d] * w[d, h], over=d))
    f.m[n, k] = sum(f.a[n, h] * mu[h, k], over=h)
    f.s[n, k] = sum(f.a[n, h] * ls[h, k], over=h)
    f.z[n, k] = f.m[n, k] + exp(f.s[n, k]) * eps[n, k]
    f.e[n, d] = x[n, d] - sum(f.z[n, k] * v[k, d], over=k)
    f.kl[n] = sum(exp(2 * f.s[n, k]) + f.m[n, k] ** 2 - 1 - 2 * f.s[n, k], over=k) / 2
    f.loss[()] = mean(sum(f.e[n, d] ** 2, over=d) / 2 + f.kl[n], over=n)
    return f.loss


@op
def small_image_network(
    f, x: tensor[n, c, i, j], w: tensor[o, c, p, q], bias: tensor[o], v: tensor[o, k], y: index(k)[n]
):
    """A filter, a rectifier, the mean of all places, a layer and a cross-entropy."""
    f.a[n, o, t, u] = relu(sum(x[n, c, t + p, u + q] * w[o, c, p, q], over=(c, p, q)) + bias[o])
    f.g[n, o] = mean(f.a[n, o, t, u], over=(t, u))
    f.z[n, k] = sum(f.g[n, o] * v[o, k], over=o)
    f.loss[()] = mean(log(sum(exp(f.z[n, k]), over=k)) - f.z[n, y[n]], over=n)
    return f.loss


@op
def graph_layers(f, x: tensor[n, d], w: tensor[d, e], v: tensor[e, k], src: index(n)[m], dst: index(n)[m]):
    """Two rounds of messages along the same edges."""
    f.a[n, e] = sum(x[n, d] * w[d, e], over=d)
    f.h[n, e] = relu(sum(where(eq(dst[m], n), f.a[src[m], e], 0), over=m))
    f.b[n, k] = sum(f.h[n, e] * v[e, k], over=e)
    f.y[n, k] = sum(where(eq(dst[m], n), f.b[src[m], k], 0), over=m)
    return f.y


@op
def two_towers(f, x: tensor[n, d], z: tensor[n, e], w: tensor[d, k], v: tensor[e, k], heat: tensor[()]):
    """Two projections of length 1, contrasted both ways under a learned temperature."""
    f.a[n, k] = sum(x[n, d] * w[d, k], over=d)
    f.b[n, k] = sum(z[n, e] * v[e, k], over=e)
    f.u[n, k] = f.a[n, k] / sqrt(sum(f.a[n, k] ** 2, over=k) + 1e-6)
    f.t[n, k] = f.b[n, k] / sqrt(sum(f.b[n, k] ** 2, over=k) + 1e-6)
    f.s[n, m] = exp(heat[()]) * sum(f.u[n, k] * f.t[m, k], over=k)
    f.rows[n] = log(sum(exp(f.s[n, m]), over=m)) - f.s[n, n]
    f.columns[m] = log(sum(exp(f.s[n, m]), over=n)) - f.s[m, m]
    f.loss[()] = (mean(f.rows[n], over=n) + mean(f.columns[m], over=m)) / 2
    return f.loss


@op
def mixture_density_network(f, x: tensor[n, d], w: tensor[d, k], mu: tensor[d, k], ls: tensor[d, k], y: constant[n]):
    """The likelihood of a mixture of Gaussians whose parameters are products."""
    f.a[n, k] = sum(x[n, d] * w[d, k], over=d)
    f.m[n, k] = sum(x[n, d] * mu[d, k], over=d)
    f.s[n, k] = sum(x[n, d] * ls[d, k], over=d)
    f.l[n, k] = -((y[n] - f.m[n, k]) ** 2) * exp(-2 * f.s[n, k]) / 2 - f.s[n, k]
    f.loss[()] = mean(log(sum(exp(f.a[n, k]), over=k)) - log(sum(exp(f.a[n, k] + f.l[n, k]), over=k)), over=n)
    return f.loss


HOSTILE = {
    "chain_of_tangents": "scale 30, scale 1e-4",
    "chain_of_norms": "scale 30",
    "chain_of_gates": "scale 30, scale 300",
    "perceptron": "scale 30, scale 100",
    "deep_perceptron_with_norms": "scale 30, zeros",
    "residual_network": "scale 30",
    "residual_block_of_filters": "scale 30",
    "prenormed_gated_block": "scale 30, nearly equal",
    "attention_block": "scale 30, nearly equal",
    "gated_recurrent_step": "scale 30, scale 300",
    "long_short_term_step": "scale 30",
    "variational_autoencoder": "scale 30",
    "small_image_network": "scale 30",
    "graph_layers": "scale 30, ties",
    "two_towers": "scale 30, nearly equal",
    "mixture_density_network": "scale 30",
}
