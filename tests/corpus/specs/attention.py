"""Weighted averages under a softmax, or under what stands in its place."""

from derive import *

b, c, d, e, h, i, j, k, m, n, o, r, s, t, u, v = axes("b c d e h i j k m n o r s t u v")


@op
def sigmoid_attention(f, x: tensor[t, s], v: tensor[s, u]):
    """Sigmoid attention, of what came before (Ramapuram et al., 2024)."""
    f.p[t, s] = where(s <= t, sigmoid(x[t, s]), 0)
    f.y[t, u] = sum(f.p[t, s] * v[s, u], over=s)
    return f.y


@op
def windowed_causal_attention(f, q: tensor[t, u], k: tensor[s, u], w: tensor[s, v], width: scalar = 5):
    """Causal attention that looks back a few places."""
    f.a[t, s] = where((s <= t) & (t < s + width), sum(q[t, u] * k[s, u], over=u) / sqrt(size(u)), -oo)
    f.e[t, s] = exp(f.a[t, s] - amax(f.a[t, s], over=s))
    f.o[t, v] = sum(f.e[t, s] * w[s, v], over=s) / sum(f.e[t, s], over=s)
    return f.o


@op
def attention_under_a_weight_mask(f, q: tensor[b, i, d], k: tensor[b, j, d], v: tensor[b, j, e], m: constant[i, j]):
    """Attention whose weights are multiplied by a mask before they are shared."""
    f.s[b, i, j] = sum(q[b, i, d] * k[b, j, d], over=d)
    f.u[b, i, j] = m[i, j] * exp(f.s[b, i, j])
    f.p[b, i, j] = f.u[b, i, j] / sum(f.u[b, i, j], over=j)
    f.o[b, i, e] = sum(f.p[b, i, j] * v[b, j, e], over=j)
    return f.o


@op
def paired_rows_with_temperature(f, a: tensor[n, d], b: tensor[m, d], temperature: tensor[()]):
    """A contrastive loss of paired rows with a learned temperature (Radford et al., 2021)."""
    f.s[n, m] = sum(a[n, d] * b[m, d], over=d) / temperature[()]
    f.top[n] = amax(f.s[n, m], over=m)
    f.u[n, m] = exp(f.s[n, m] - f.top[n])
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    f.loss[()] = -mean(log(f.p[n, n]), over=n)
    return f.loss


@op
def paired_heads_with_scale(f, a: tensor[n, h, d], b: tensor[m, h, d], scale: tensor[h]):
    """A contrastive loss of paired rows, with a learned scale for every head."""
    f.s[h, n, m] = scale[h] * sum(a[n, h, d] * b[m, h, d], over=d)
    f.top[h, n] = amax(f.s[h, n, m], over=m)
    f.u[h, n, m] = exp(f.s[h, n, m] - f.top[h, n])
    f.p[h, n, m] = f.u[h, n, m] / sum(f.u[h, n, m], over=m)
    f.loss[()] = -mean(log(f.p[h, n, n]), over=(h, n))
    return f.loss


@op
def additive_scores(f, q: tensor[n, d], k: tensor[n, t, d], v: tensor[d]):
    """The weights of additive attention (Bahdanau et al., 2015)."""
    f.s[n, t] = sum(v[d] * tanh(q[n, d] + k[n, t, d]), over=d)
    f.u[n, t] = exp(f.s[n, t] - amax(f.s[n, t], over=t))
    f.p[n, t] = f.u[n, t] / sum(f.u[n, t], over=t)
    return f.p


@op
def scaled_causal_average(f, x: tensor[n, d], y: tensor[m, d], v: tensor[m, k], scale: tensor[()]):
    """Causal attention whose scores a learned number scales before the mask."""
    f.z[n, m] = where(m <= n, scale[()] * sum(x[n, d] * y[m, d], over=d), -oo)
    f.top[n] = amax(f.z[n, m], over=m)
    f.u[n, m] = exp(f.z[n, m] - f.top[n])
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    f.o[n, k] = sum(f.p[n, m] * v[m, k], over=m)
    return f.o


@op
def all_but_the_same_item(f, x: tensor[n, d], y: tensor[n, d], item: index(c)[n], items: length(c)):
    """A contrastive loss that leaves out other places of the same item."""
    f.s[n, m] = sum(x[n, d] * y[m, d], over=d)
    f.z[n, m] = where(eq(item[n], item[m]) & ne(n, m), -oo, f.s[n, m])
    f.top[n] = amax(f.z[n, m], over=m)
    f.loss[()] = mean(f.top[n] + log(sum(exp(f.z[n, m] - f.top[n]), over=m)) - f.z[n, n], over=n)
    return f.loss


@op
def attention_free(f, x: tensor[n, j, d], v: tensor[n, j, d], bias: tensor[i, j]):
    """Attention by two products of exponentials (attention-free: Zhai et al., 2021)."""
    f.m[n, d] = amax(x[n, j, d], over=j)
    f.u[n, j, d] = exp(x[n, j, d] - f.m[n, d])
    f.top[i] = amax(bias[i, j], over=j)
    f.w[i, j] = exp(bias[i, j] - f.top[i])
    f.a[n, i, d] = sum(f.w[i, j] * f.u[n, j, d] * v[n, j, d], over=j)
    f.b[n, i, d] = sum(f.w[i, j] * f.u[n, j, d], over=j)
    f.y[n, i, d] = f.a[n, i, d] / f.b[n, i, d]
    return f.y


@op
def attention_to_a_prefix(f, s: tensor[i, j], r: tensor[i, k], v: tensor[j, e], w: tensor[k, e]):
    """One softmax over two sets of keys, which nobody joins (prefixes: Li & Liang, 2021)."""
    f.m[i] = maximum(amax(s[i, j], over=j), amax(r[i, k], over=k))
    f.u[i, j] = exp(s[i, j] - f.m[i])
    f.t[i, k] = exp(r[i, k] - f.m[i])
    f.z[i] = sum(f.u[i, j], over=j) + sum(f.t[i, k], over=k)
    f.o[i, e] = (sum(f.u[i, j] * v[j, e], over=j) + sum(f.t[i, k] * w[k, e], over=k)) / f.z[i]
    return f.o


@op
def forgetting_attention(f, s: tensor[i, j], v: tensor[j, e], g: tensor[i]):
    """Causal attention whose scores decay with the gates in between."""
    f.c[i] = exp(g[i])
    f.w[i, j] = where(j <= i, s[i, j] + f.c[i] - f.c[j], -oo)
    f.m[i] = amax(f.w[i, j], over=j)
    f.u[i, j] = exp(f.w[i, j] - f.m[i])
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.o[i, e] = sum(f.p[i, j] * v[j, e], over=j)
    return f.o


@op
def additive_attention(f, a: tensor[i, d], c: tensor[j, d], w: tensor[d], v: tensor[j, e]):
    """Attention whose scores are sums of tangents (Bahdanau et al., 2015)."""
    f.s[i, j] = sum(w[d] * tanh(a[i, d] + c[j, d]), over=d)
    f.m[i] = amax(f.s[i, j], over=j)
    f.p[i, j] = exp(f.s[i, j] - f.m[i]) / sum(exp(f.s[i, j] - f.m[i]), over=j)
    f.o[i, e] = sum(f.p[i, j] * v[j, e], over=j)
    return f.o


@op
def hopfield_energy_and_update(f, x: tensor[n, d], z: tensor[k, d], beta: tensor[()]):
    """A modern Hopfield network's energy and its update (Ramsauer et al., 2020)."""
    f.s[n, k] = exp(beta[()]) * sum(x[n, d] * z[k, d], over=d)
    f.m[n] = amax(f.s[n, k], over=k)
    f.t[n] = sum(exp(f.s[n, k] - f.m[n]), over=k)
    f.energy[n] = -exp(-beta[()]) * (f.m[n] + log(f.t[n])) + sum(x[n, d] ** 2, over=d) / 2
    f.y[n, d] = sum(exp(f.s[n, k] - f.m[n]) * z[k, d], over=k) / f.t[n]
    return f.energy, f.y


@op
def peak_of_an_image(f, z: tensor[n, i, j], beta: tensor[()]):
    """Where an image peaks, under a learned temperature (Finn et al., 2016)."""
    f.m[n] = amax(z[n, i, j], over=(i, j))
    f.u[n, i, j] = exp(beta[()] * (z[n, i, j] - f.m[n]))
    f.s[n] = sum(f.u[n, i, j], over=(i, j))
    f.row[n] = sum(f.u[n, i, j] * i, over=(i, j)) / f.s[n]
    f.column[n] = sum(f.u[n, i, j] * j, over=(i, j)) / f.s[n]
    return f.row, f.column


@op
def two_partial_softmaxes(f, a: tensor[n], b: tensor[n], x: tensor[n], z: tensor[n]):
    """Two partial softmaxes as one, each with the logarithm of its weight (Dao et al., 2022)."""
    f.m[n] = maximum(a[n], b[n])
    f.u[n] = exp(a[n] - f.m[n])
    f.w[n] = exp(b[n] - f.m[n])
    f.y[n] = (f.u[n] * x[n] + f.w[n] * z[n]) / (f.u[n] + f.w[n])
    return f.y


@op
def hopfield_energy(f, q: tensor[n, d], mem: tensor[m, d], beta: tensor[()]):
    """The energy of a modern Hopfield network (Ramsauer et al., 2021)."""
    f.s[n, m] = beta[()] * sum(q[n, d] * mem[m, d], over=d)
    f.top[n] = amax(f.s[n, m], over=m)
    f.energy[n] = -(f.top[n] + log(sum(exp(f.s[n, m] - f.top[n]), over=m))) + sum(q[n, d] ** 2, over=d) / 2
    return f.energy


@op
def attention_with_gains(f, q: tensor[h, n, d], k: tensor[h, m, d], v: tensor[h, m, d], g: tensor[h]):
    """Attention with a gain for every head."""
    f.s[h, n, m] = g[h] * sum(q[h, n, d] * k[h, m, d], over=d)
    f.top[h, n] = amax(f.s[h, n, m], over=m)
    f.u[h, n, m] = exp(f.s[h, n, m] - f.top[h, n])
    f.p[h, n, m] = f.u[h, n, m] / sum(f.u[h, n, m], over=m)
    f.o[h, n, d] = sum(f.p[h, n, m] * v[h, m, d], over=m)
    return f.o


@op
def gated_routing(f, u: tensor[n, i, j, d]):
    """Capsules that agree: one round of routing (Sabour et al., 2017)."""
    f.s[n, j, d] = sum(u[n, i, j, d], over=i)
    f.b[n, i, j] = sum(u[n, i, j, d] * f.s[n, j, d], over=d)
    f.m[n, i] = amax(f.b[n, i, j], over=j)
    f.e[n, i, j] = exp(f.b[n, i, j] - f.m[n, i])
    f.c[n, i, j] = f.e[n, i, j] / sum(f.e[n, i, j], over=j)
    f.t[n, j, d] = sum(f.c[n, i, j] * u[n, i, j, d], over=i)
    f.q[n, j] = sum(f.t[n, j, d] ** 2, over=d)
    f.y[n, j, d] = f.t[n, j, d] * f.q[n, j] * rsqrt(1 + f.q[n, j])
    return f.y


@op
def attention_in_two_lines(f, q: tensor[i, d], k: tensor[j, d], v: tensor[j, c]):
    """Attention whose shares have no name."""
    f.s[i, j] = sum(q[i, d] * k[j, d], over=d) / 2
    f.e[i, j] = exp(f.s[i, j] - amax(f.s[i, j], over=j))
    f.o[i, c] = sum(f.e[i, j] / sum(f.e[i, j], over=j) * v[j, c], over=j)
    return f.o


@op
def attention_over_one_and_a_sum(f, q: tensor[b, t, d], key: tensor[b, s, d], v: tensor[b, s, e]):
    """Exponentials over one and their sum, divided inside the average."""
    f.a[b, t, s] = exp(sum(q[b, t, d] * key[b, s, d], over=d))
    f.z[b, t] = 1 + sum(f.a[b, t, s], over=s)
    f.y[b, t, e] = sum(f.a[b, t, s] / f.z[b, t] * v[b, s, e], over=s)
    return f.y


@op
def scores_times_their_shares(f, q: tensor[i, k], s: tensor[j, k]):
    """Scores of pairs, each times its share under a softmax."""
    f.z[i, j] = sum(q[i, k] * s[j, k], over=k)
    f.p[i, j] = exp(f.z[i, j]) / sum(exp(f.z[i, j]), over=j)
    f.y[i, j] = f.p[i, j] * f.z[i, j]
    return f.y


@op
def shares_of_turned_scores(f, q: tensor[n, i, k], s: tensor[i, k, j]):
    """A softmax over queries of scores with keys of each place."""
    f.z[n, i, j] = sum(q[n, i, k] * s[i, k, j], over=k)
    f.p[n, i, j] = exp(f.z[n, i, j]) / sum(exp(f.z[n, i, j]), over=i)
    return f.p


@op
def scores_with_learned_bias(f, q: tensor[i, d], k: tensor[j, d], b: tensor[i, j]):
    """A sum of exponentials of scores with a learned bias."""
    f.s[i, j] = sum(q[i, d] * k[j, d], over=d) / sqrt(size(d)) + b[i, j]
    f.y[i] = sum(exp(f.s[i, j]), over=j)
    return f.y


@op
def attention_with_a_sink_column(f, x: tensor[b, n, d], k: tensor[b, o, d], v: tensor[b, o, e], sink: tensor[b]):
    """Causal attention with a learned score of no key, joined to the scores."""
    f.s[b, n, o] = where(o <= n, sum(x[b, n, d] * k[b, o, d], over=d) / sqrt(size(d)), -oo)
    f.l[b, n, c] = concat(sink[b], f.s[b, n, o], along=c)
    f.u[b, n, c] = exp(f.l[b, n, c] - amax(f.l[b, n, c], over=c))
    f.p[b, n, c] = f.u[b, n, c] / sum(f.u[b, n, c], over=c)
    f.y[b, n, e] = sum(f.p[b, n, o + 1] * v[b, o, e], over=o)
    return f.y


@op
def exponential_linear_attention(f, q: tensor[b, i, r], k: tensor[b, j, r], v: tensor[b, j, e]):
    """Attention by products of exponentials, divided by its own sum."""
    f.p[b, i, r], f.u[b, j, r] = exp(q[b, i, r]), exp(k[b, j, r])
    f.z[b, r] = sum(f.u[b, j, r], over=j)
    f.n[b, r, e] = sum(f.u[b, j, r] * v[b, j, e], over=j)
    f.y[b, i, e] = sum(f.p[b, i, r] * f.n[b, r, e], over=r) / sum(f.p[b, i, r] * f.z[b, r], over=r)
    return f.y


@op
def causal_linear_attention(f, q: tensor[b, i, d], k: tensor[b, j, d], v: tensor[b, j, e]):
    """Products of queries and keys, those ahead left out, without a softmax."""
    f.a[b, i, j] = where(j <= i, sum(q[b, i, d] * k[b, j, d], over=d), 0)
    f.o[b, i, e] = sum(f.a[b, i, j] * v[b, j, e], over=j)
    return f.o


@op
def banded_attention_with_bias(f, q: tensor[i, d], k: tensor[j, d], v: tensor[j, e], g: tensor[i, j]):
    """Attention within a band, with a bias for each pair of places."""
    f.s[i, j] = sum(q[i, d] * k[j, d], over=d) + g[i, j]
    f.w[i, j] = where((j <= i + 1) & (j >= i - 3), f.s[i, j], -oo)
    f.u[i, j] = exp(f.w[i, j] - amax(f.w[i, j], over=j))
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.o[i, e] = sum(f.p[i, j] * v[j, e], over=j)
    return f.o


@op
def attention_heads_last(f, q: tensor[b, i, h, d], k: tensor[b, j, h, d], v: tensor[b, j, h, e]):
    """Attention whose heads lie last but one in memory."""
    f.s[b, h, i, j] = sum(q[b, i, h, d] * k[b, j, h, d], over=d)
    f.p[b, h, i, j] = exp(f.s[b, h, i, j]) / sum(exp(f.s[b, h, i, j]), over=j)
    f.o[b, i, h, e] = sum(f.p[b, h, i, j] * v[b, j, h, e], over=j)
    return f.o


@op
def attention_and_its_weights(f, q: tensor[i, d], k: tensor[j, d], v: tensor[j, e]):
    """Causal attention that returns its weights as well."""
    f.s[i, j] = sum(q[i, d] * k[j, d], over=d)
    f.w[i, j] = where(j <= i, f.s[i, j], -oo)
    f.u[i, j] = exp(f.w[i, j] - amax(f.w[i, j], over=j))
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.o[i, e] = sum(f.p[i, j] * v[j, e], over=j)
    return f.o, f.p


@op
def self_attention_of_one_tensor(f, x: tensor[b, n, d]):
    """Attention of a tensor to itself, without projections."""
    f.s[b, n, m] = sum(x[b, n, d] * x[b, m, d], over=d) / size(d)
    f.p[b, n, m] = exp(f.s[b, n, m]) / sum(exp(f.s[b, n, m]), over=m)
    f.o[b, n, d] = sum(f.p[b, n, m] * x[b, m, d], over=m)
    return f.o


@op
def attention_both_ways(f, x: tensor[b, n, d], u: tensor[b, n, e]):
    """Shares added to their transpose, and applied."""
    f.s[b, n, m] = sum(x[b, n, d] * x[b, m, d], over=d) / size(d)
    f.p[b, n, m] = exp(f.s[b, n, m]) / sum(exp(f.s[b, n, m]), over=m)
    f.c[b, n, m] = f.p[b, n, m] + f.p[b, m, n]
    f.o[b, n, e] = sum(f.c[b, n, m] * u[b, m, e], over=m)
    return f.o, f.p


@op
def single_places_of_tiles(f, q: tensor[b, i, d], k: tensor[b, j, d], v: tensor[b, j, e], y: index(j)[b, i]):
    """Products with a mask, read at single places as well."""
    f.s[b, i, j] = sum(q[b, i, d] * k[b, j, d], over=d)
    f.w[b, i, j] = where(j <= i - 3, tanh(f.s[b, i, j]), 0)
    f.o[b, i, e] = sum(f.w[b, i, j] * v[b, j, e], over=j)
    f.z[b, i] = f.w[b, i, y[b, i]] + f.w[b, i, -1]
    return f.o, f.z


@op
def shared_keys_for_heads(f, q: tensor[b, i, h, d], k: tensor[b, j, d], v: tensor[b, j, e]):
    """Causal attention whose heads share their keys."""
    f.s[b, i, h, j] = where(j <= i, sum(q[b, i, h, d] * k[b, j, d], over=d), -oo)
    f.p[b, i, h, j] = exp(f.s[b, i, h, j]) / sum(exp(f.s[b, i, h, j]), over=j)
    f.o[b, i, h, e] = sum(f.p[b, i, h, j] * v[b, j, e], over=j)
    return f.o


@op
def tempered_heads(f, q: tensor[b, h, i, d], k: tensor[b, h, j, d], v: tensor[b, h, j, e], tau: tensor[h]):
    """Causal attention with a learned temperature for each head."""
    f.s[b, h, i, j] = where(j <= i, tau[h] * sum(q[b, h, i, d] * k[b, h, j, d], over=d), -oo)
    f.m[b, h, i] = amax(f.s[b, h, i, j], over=j)
    f.u[b, h, i, j] = exp(f.s[b, h, i, j] - f.m[b, h, i])
    f.p[b, h, i, j] = f.u[b, h, i, j] / sum(f.u[b, h, i, j], over=j)
    f.o[b, h, i, e] = sum(f.p[b, h, i, j] * v[b, h, j, e], over=j)
    return f.o


@op
def unit_score_attention(f, q: tensor[b, h, i, d], k: tensor[b, h, j, d], v: tensor[b, h, j, e], tau: tensor[h]):
    """Causal attention by cosines, with a temperature for each head."""
    f.a[b, h, i, d] = q[b, h, i, d] * rsqrt(sum(q[b, h, i, d] ** 2, over=d) + 1e-6)
    f.c[b, h, j, d] = k[b, h, j, d] * rsqrt(sum(k[b, h, j, d] ** 2, over=d) + 1e-6)
    f.s[b, h, i, j] = where(j <= i, tau[h] * sum(f.a[b, h, i, d] * f.c[b, h, j, d], over=d), -oo)
    f.m[b, h, i] = amax(f.s[b, h, i, j], over=j)
    f.u[b, h, i, j] = exp(f.s[b, h, i, j] - f.m[b, h, i])
    f.p[b, h, i, j] = f.u[b, h, i, j] / sum(f.u[b, h, i, j], over=j)
    f.o[b, h, i, e] = sum(f.p[b, h, i, j] * v[b, h, j, e], over=j)
    return f.o


@op
def shares_with_one_sink(f, s: tensor[i, j], sink: tensor[()]):
    """A softmax with one more score that takes a share."""
    f.m[i] = amax(s[i, j], over=j)
    f.u[i, j] = exp(s[i, j] - f.m[i])
    f.z[i] = sum(f.u[i, j], over=j) + exp(sink[()] - f.m[i])
    f.p[i, j] = f.u[i, j] / f.z[i]
    return f.p


@op
def masked_shares_or_nothing(f, x: tensor[n, c], keep: constant[n, c], v: tensor[c, d]):
    """Shares of what a mask keeps, divided by 1 where it keeps nothing."""
    f.w[n, c] = where(keep[n, c] > 0, x[n, c], -oo)
    f.m[n] = amax(f.w[n, c], over=c)
    f.u[n, c] = exp(f.w[n, c] - where(f.m[n] > -oo, f.m[n], 0))
    f.z[n] = sum(f.u[n, c], over=c)
    f.o[n, d] = sum(f.u[n, c] / where(f.z[n] > 0, f.z[n], 1) * v[c, d], over=c)
    return f.o


@op
def masked_segment_shares(f, x: tensor[e], of: index(n)[e], keep: constant[e], v: tensor[e, d], groups: length(n)):
    """Weighted means of groups by an index, shared among those that a mask keeps."""
    f.w[e] = where(keep[e] > 0, x[e], -oo)
    f.top[n] = amax(where(eq(of[e], n), f.w[e], -oo), over=e)
    f.shift[n] = where(f.top[n] > -oo, f.top[n], 0)
    f.u[e] = exp(f.w[e] - f.shift[of[e]])
    f.z[n] = sum(where(eq(of[e], n), f.u[e], 0), over=e)
    f.o[n, d] = sum(where(eq(of[e], n), f.u[e] * v[e, d], 0), over=e) / where(f.z[n] > 0, f.z[n], 1)
    return f.o


@op
def chosen_experts_shares(f, z: tensor[n, e], ix: index(e)[n, k]):
    """A softmax's shares of chosen experts, renormalised (Mixtral: Jiang et al., 2024)."""
    f.u[n, e] = exp(z[n, e] - amax(z[n, e], over=e))
    f.p[n, e] = f.u[n, e] / sum(f.u[n, e], over=e)
    f.t[n, k] = f.p[n, ix[n, k]]
    f.w[n, k] = f.t[n, k] / sum(f.t[n, k], over=k)
    return f.w


@op
def outer_product_mean(
    f, a: tensor[s, m, d], b: tensor[s, n, e], u: constant[s, m], v: constant[s, n], w: tensor[d, e, t]
):
    """Masked outer products of two tables, projected (the outer product mean: Jumper et al., 2021)."""
    f.y[m, n, t] = sum(u[s, m] * a[s, m, d] * v[s, n] * b[s, n, e] * w[d, e, t], over=(s, d, e))
    return f.y


@op
def soft_place_of_an_image(f, z: tensor[n, s, t]):
    """Both coordinates of a soft argmax (Sun et al., 2018)."""
    f.p[n, s, t] = exp(z[n, s, t]) / sum(exp(z[n, s, t]), over=(s, t))
    f.row[n] = sum(f.p[n, s, t] * s, over=(s, t))
    f.column[n] = sum(f.p[n, s, t] * t, over=(s, t))
    return f.row, f.column


@op
def relative_keys(f, q: tensor[b, i, d], p: tensor[b, j, d], r: tensor[i, j, d]):
    """Scores of queries with keys and with keys of each pair of places."""
    f.y[b, i, j] = sum(q[b, i, d] * (p[b, j, d] + r[i, j, d]), over=d)
    return f.y


@op
def attention_through_a_gate(f, q: tensor[n, t, d], k: tensor[n, s, d], v: tensor[n, s, e], g: tensor[n, t, e]):
    """Attention whose output passes a gate (Qiu et al., 2025)."""
    f.a[n, t, s] = sum(q[n, t, d] * k[n, s, d], over=d) / sqrt(size(d))
    f.m[n, t] = amax(f.a[n, t, s], over=s)
    f.u[n, t, s] = exp(f.a[n, t, s] - f.m[n, t])
    f.p[n, t, s] = f.u[n, t, s] / sum(f.u[n, t, s], over=s)
    f.y[n, t, e] = sigmoid(g[n, t, e]) * sum(f.p[n, t, s] * v[n, s, e], over=s)
    return f.y


@op
def attention_through_twice_a_gate(f, q: tensor[n, t, d], k: tensor[n, s, d], v: tensor[n, s, e], g: tensor[n, t, e]):
    """The gate stands beside a number, and what it passes has a name."""
    f.a[n, t, s] = sum(q[n, t, d] * k[n, s, d], over=d) / sqrt(size(d))
    f.m[n, t] = amax(f.a[n, t, s], over=s)
    f.u[n, t, s] = exp(f.a[n, t, s] - f.m[n, t])
    f.p[n, t, s] = f.u[n, t, s] / sum(f.u[n, t, s], over=s)
    f.o[n, t, e] = sum(f.p[n, t, s] * v[n, s, e], over=s)
    f.y[n, t, e] = 2 * sigmoid(g[n, t, e]) * f.o[n, t, e]
    return f.y


@op
def attention_into_merged_heads(f, q: tensor[n, t, h, d], k: tensor[n, u, h, d], v: tensor[n, u, h, e]):
    """Attention whose heads are one axis of its output."""
    f.s[n, h, t, u] = sum(q[n, t, h, d] * k[n, u, h, d], over=d) / sqrt(4)
    f.m[n, h, t] = amax(f.s[n, h, t, u], over=u)
    f.r[n, h, t, u] = exp(f.s[n, h, t, u] - f.m[n, h, t])
    f.p[n, h, t, u] = f.r[n, h, t, u] / sum(f.r[n, h, t, u], over=u)
    f.y[n, t, (h, e)] = sum(f.p[n, h, t, u] * v[n, u, h, e], over=u)
    return f.y


HOSTILE = {
    "sigmoid_attention": "scale 30, scale 300",
    "windowed_causal_attention": "scale 30, scale 300",
    "attention_under_a_weight_mask": "mask, scale 30",
    "paired_rows_with_temperature": "scale 30",
    "paired_heads_with_scale": "scale 30",
    "additive_scores": "scale 30, scale 300",
    "scaled_causal_average": "scale 30",
    "all_but_the_same_item": "scale 30",
    "attention_free": "scale 30, scale 300",
    "attention_to_a_prefix": "scale 30, scale 300",
    "forgetting_attention": "scale 30, scale 300",
    "additive_attention": "scale 30",
    "hopfield_energy_and_update": "scale 30",
    "peak_of_an_image": "scale 30, far apart",
    "two_partial_softmaxes": "scale 30, scale 300",
    "hopfield_energy": "scale 30",
    "attention_with_gains": "scale 30",
    "gated_routing": "scale 30",
    "attention_in_two_lines": "scale 30, scale 300",
    "attention_over_one_and_a_sum": "scale 30",
    "scores_times_their_shares": "scale 30",
    "shares_of_turned_scores": "scale 30",
    "scores_with_learned_bias": "scale 30",
    "attention_with_a_sink_column": "scale 30, scale 300",
    "exponential_linear_attention": "scale 30",
    "causal_linear_attention": "scale 1e4",
    "banded_attention_with_bias": "scale 30",
    "attention_heads_last": "scale 30",
    "attention_and_its_weights": "scale 30",
    "self_attention_of_one_tensor": "nearly equal",
    "attention_both_ways": "nearly equal",
    "single_places_of_tiles": "scale 30",
    "shared_keys_for_heads": "scale 30",
    "tempered_heads": "scale 30",
    "unit_score_attention": "scale 30, nearly equal",
    "shares_with_one_sink": "scale 30, scale 300, masked",
    "masked_shares_or_nothing": "scale 30, mask",
    "masked_segment_shares": "scale 30, mask",
    "chosen_experts_shares": "scale 30",
    "outer_product_mean": "scale 1e4",
    "soft_place_of_an_image": "scale 30, scale 100",
    "relative_keys": "scale 1e4",
    "attention_through_a_gate": "scale 30, scale 300",
    "attention_through_twice_a_gate": "scale 30, scale 300",
    "attention_into_merged_heads": "scale 30, scale 300",
}
