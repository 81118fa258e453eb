"""Ops that the catalogue does not have, as their users would write them."""

from sympy import acos, acosh, asin, asinh, atan, atan2, atanh, cosh, digamma, erfc, erfinv, loggamma, sinh, tan

from derive import *

b, c, d, e, g, h, i, j, k, n, o, t, u, v, w = axes("b c d e g h i j k n o t u v w")
two, pair = axes("two=2 pair=2")


@op
def hard_swish(f, x: tensor[...]):
    f.y[...] = x[...] * minimum(maximum(x[...] + 3, 0), 6) / 6
    return f.y


@op
def gaussian_nll(f, mu: tensor[n], var: tensor[n], t_: constant[n], floor_: scalar = 0.3):
    f.v[n] = maximum(var[n], floor_)
    f.loss[()] = mean((log(f.v[n]) + (mu[n] - t_[n]) ** 2 / f.v[n]) / 2, over=n)
    return f.loss


@op
def smoothed_labels(f, z: tensor[n, c], y: index(c)[n], smoothing: scalar = 0.1):
    f.q[n, c] = (1 - smoothing) * delta(c, y[n]) + smoothing / size(c)
    f.loss[()] = sum(f.q[n, c] * softplus(-z[n, c]), over=(n, c)) / size(n)
    return f.loss


@op
def multi_margin(f, z: tensor[n, c], y: index(c)[n], margin: scalar = 1.0):
    f.loss[()] = sum(where(ne(c, y[n]), relu(margin - z[n, y[n]] + z[n, c]), 0), over=(n, c)) / size(n) / size(c)
    return f.loss


@op
def pairwise_rank(f, s: tensor[n, i], t_: constant[n, i]):
    f.loss[()] = mean(where(t_[n, i] > t_[n, j], softplus(s[n, j] - s[n, i]), 0), over=(n, i, j))
    return f.loss


@op
def ghost_norm(f, x: tensor[n, c], gamma: tensor[c], beta: tensor[c], groups: length(g), eps: scalar = 1e-5):
    f.z[g, b, c] = x[(g, b), c]
    f.mu[g, c] = mean(f.z[g, b, c], over=b)
    f.var[g, c] = mean((f.z[g, b, c] - f.mu[g, c]) ** 2, over=b)
    f.zh[g, b, c] = (f.z[g, b, c] - f.mu[g, c]) / sqrt(f.var[g, c] + eps)
    f.y[(g, b), c] = f.zh[g, b, c] * gamma[c] + beta[c]
    return f.y


@op
def rotate_halves(f, x: tensor[n, t, d], base: scalar = 10000.0):
    f.z[n, t, two, h] = x[n, t, (two, h)]
    f.a[t, h] = t / base ** (h / size(h))
    f.y[n, t, (two, h)] = concat(
        f.z[n, t, 0, h] * cos(f.a[t, h]) - f.z[n, t, 1, h] * sin(f.a[t, h]),
        f.z[n, t, 1, h] * cos(f.a[t, h]) + f.z[n, t, 0, h] * sin(f.a[t, h]),
        along=two,
    )
    return f.y


@op
def total_variation(f, x: tensor[n, h, w]):
    f.down[()] = mean(abs(x[n, i + 1, w] - x[n, i, w]), over=(n, i, w))
    f.loss[()] = f.down[()] + mean(abs(x[n, h, j + 1] - x[n, h, j]), over=(n, h, j))
    return f.loss


@op
def graph_mean(f, x: tensor[v, d], a: tensor[d, o], src: index(v)[e], dst: index(u)[e], degree: constant[u]):
    f.m[e, o] = sum(x[src[e], d] * a[d, o], over=d)
    f.y[u, o] = sum(delta(u, dst[e]) * f.m[e, o], over=e) / degree[u]
    return f.y


@op
def both_ways(f, x: tensor[n, t], a: tensor[t]):
    f.y[n, t] = x[n, size(t) - 1 - t] * a[t] + x[n, t]
    return f.y


@op
def three_way(f, p: tensor[i, b], q: tensor[j, b], r: tensor[k, b], scale: tensor[b]):
    f.y[i, j, k] = sum(scale[b] * p[i, b] * q[j, b] * r[k, b], over=b)
    return f.y


@op
def low_rank_bilinear(f, x: tensor[n, i], z: tensor[n, j], p: tensor[i, k], q: tensor[j, k], a: tensor[k, o]):
    f.xp[n, k] = sum(x[n, i] * p[i, k], over=i)
    f.zq[n, k] = sum(z[n, j] * q[j, k], over=j)
    f.y[n, o] = sum(f.xp[n, k] * f.zq[n, k] * a[k, o], over=k)
    return f.y


@op
def film(f, x: tensor[n, c, t], g_: tensor[n, c], b_: tensor[n, c]):
    f.y[n, c, t] = x[n, c, t] + relu((1 + g_[n, c]) * x[n, c, t] + b_[n, c])
    return f.y


@op
def by_log_sum_exp(f, s: tensor[n, i, j], x: tensor[n, j, d]):
    f.m[n, i] = amax(s[n, i, j], over=j)
    f.lse[n, i] = f.m[n, i] + log(sum(exp(s[n, i, j] - f.m[n, i]), over=j))
    f.p[n, i, j] = exp(s[n, i, j] - f.lse[n, i])
    f.y[n, i, d] = sum(f.p[n, i, j] * x[n, j, d], over=j)
    return f.y


# --- gradients that are small beside what they are made of (test_float32.py) --------------------------------


@op
def coulomb(f, x: tensor[n, d], q: tensor[n], eps: scalar = 0.01):
    f.r2[i, j] = sum((x[i, d] - x[j, d]) ** 2, over=d) + eps
    f.energy[()] = sum(q[i] * q[j] / sqrt(f.r2[i, j]), over=(i, j)) / 2
    return f.energy


@op
def radial_basis(f, x: tensor[i, d], z: tensor[j, d], a: tensor[j], gamma: scalar = 0.3):
    f.k[i, j] = exp(-gamma * sum((x[i, d] - z[j, d]) ** 2, over=d))
    f.y[i] = sum(f.k[i, j] * a[j], over=j)
    return f.y


@op
def mixture_nll(f, x: tensor[n, d], mu: tensor[k, d], log_var: tensor[k, d], weight: tensor[k]):
    f.s[n, k] = weight[k] - sum((x[n, d] - mu[k, d]) ** 2 * exp(-log_var[k, d]) + log_var[k, d], over=d) / 2
    f.m[n] = amax(f.s[n, k], over=k)
    f.loss[()] = -mean(f.m[n] + log(sum(exp(f.s[n, k] - f.m[n]), over=k)), over=n)
    return f.loss


@op
def residual_encoding(f, x: tensor[n, d], mu: tensor[k, d], a: tensor[n, k]):
    f.y[k, d] = sum(a[n, k] * (x[n, d] - mu[k, d]), over=n)
    return f.y


@op
def selective_step(f, s: tensor[b, d, n], x: tensor[b, d], dt: tensor[b, d], a: tensor[d, n], p: tensor[b, n]):
    f.step[b, d] = softplus(dt[b, d])
    f.decay[b, d, n] = exp(-softplus(a[d, n]) * f.step[b, d])
    f.new[b, d, n] = f.decay[b, d, n] * s[b, d, n] + f.step[b, d] * p[b, n] * x[b, d]
    f.y[b, d] = mean(f.new[b, d, n], over=n)
    return f.y, f.new


@op
def shares_with_sink(f, s: tensor[i, j], sink: tensor[i]):
    f.m[i] = maximum(amax(s[i, j], over=j), sink[i])
    f.u[i, j] = exp(s[i, j] - f.m[i])
    f.p[i, j] = f.u[i, j] / (sum(f.u[i, j], over=j) + exp(sink[i] - f.m[i]))
    return f.p


@op
def attended_in_a_line(f, q: tensor[t, d], z: tensor[u, d], x: tensor[u, e]):
    f.s[t, u] = sum(q[t, d] * z[u, d], over=d) / sqrt(size(d))
    f.m[t] = amax(f.s[t, u], over=u)
    f.y[t, e] = sum(exp(f.s[t, u] - f.m[t]) * x[u, e], over=u) / sum(exp(f.s[t, u] - f.m[t]), over=u)
    return f.y


@op
def divided_inside(f, q: tensor[t, d], z: tensor[u, d], x: tensor[u, e], mask: constant[t, u]):
    f.s[t, u] = sum(q[t, d] * z[u, d], over=d) / sqrt(size(d))
    f.m[t] = amax(f.s[t, u], over=u)
    f.p[t, u] = exp(f.s[t, u] - f.m[t])
    f.norm[t] = sum(f.p[t, u], over=u)
    f.y[t, e] = sum(f.p[t, u] / f.norm[t] * mask[t, u] * x[u, e], over=u)
    return f.y


@op
def attended_with_sink(f, q: tensor[t, d], z: tensor[u, d], x: tensor[u, e], sink: tensor[()]):
    f.s[t, u] = sum(q[t, d] * z[u, d], over=d) / sqrt(size(d))
    f.m[t] = maximum(amax(f.s[t, u], over=u), sink[()])
    f.p[t, u] = exp(f.s[t, u] - f.m[t])
    f.y[t, e] = sum(f.p[t, u] * x[u, e], over=u) / (sum(f.p[t, u], over=u) + exp(sink[()] - f.m[t]))
    return f.y


@op
def pooled_by_attention(f, x: tensor[n, t, d], a: tensor[d]):
    f.s[n, t] = sum(x[n, t, d] * a[d], over=d)
    f.m[n] = amax(f.s[n, t], over=t)
    f.p[n, t] = exp(f.s[n, t] - f.m[n])
    f.norm[n] = sum(f.p[n, t], over=t)
    f.y[n, d] = sum(f.p[n, t] / f.norm[n] * x[n, t, d], over=t)
    return f.y


@op
def segment_mean(f, x: tensor[k, d], to: index(n)[k], segments: length(n)):
    f.count[n] = sum(where(eq(to[k], n), 1, 0), over=k)
    f.y[n, d] = sum(where(eq(to[k], n), x[k, d], 0), over=k) / maximum(f.count[n], 1)
    return f.y


@op
def hashed_bag(f, table: tensor[k, d], w: tensor[n, t], slot: index(k)[c], ids: index(c)[n, t]):
    f.y[n, d] = sum(table[slot[ids[n, t]], d] * w[n, t], over=t)
    return f.y


@op
def picked_class_price(f, x: tensor[n, c], price: tensor[k], kind: index(k)[c], y: index(c)[n]):
    f.s[n, c] = x[n, c] * price[kind[c]]
    f.loss[n] = exp(f.s[n, y[n]])
    return f.loss


@op
def picked(f, p: tensor[n, c], y: index(c)[n]):
    f.loss[()] = -mean(log(sum(where(eq(c, y[n]), exp(p[n, c]), 0), over=c)), over=n)
    return f.loss


@op
def running_mean(f, x: tensor[n, t], a: tensor[t]):
    f.c[n, t] = sum(where(u <= t, x[n, u] * a[u], 0), over=u)
    f.y[n, t] = f.c[n, t] / (t + 1)
    return f.y


@op
def contrasted(f, x: tensor[n, d], pair: index(i)[n], tau: scalar = 0.5):
    f.r[n] = rsqrt(sum(x[n, d] ** 2, over=d))
    f.s[n, i] = sum(x[n, d] * x[i, d], over=d) * f.r[n] * f.r[i] / tau
    f.others[n, i] = where(ne(n, i), f.s[n, i], -oo)
    f.m[n] = amax(f.others[n, i], over=i)
    f.loss[()] = mean(f.m[n] + log(sum(exp(f.others[n, i] - f.m[n]), over=i)) - f.s[n, pair[n]], over=n)
    return f.loss


@op
def evidence(f, x: tensor[n, c], y: index(c)[n]):
    f.a[n, c] = softplus(x[n, c]) + 1
    f.loss[()] = mean(log(sum(f.a[n, c], over=c)) - log(f.a[n, y[n]]), over=n)
    return f.loss


@op
def ranked_pairs(f, x: tensor[n], t_: constant[n]):
    f.loss[()] = mean(relu(1 - (x[i] - x[j]) * sign(t_[i] - t_[j])), over=(i, j))
    return f.loss


four = axes("four=4")


@op
def lstm_cell(f, x: tensor[n, d], z: tensor[n, h], s: tensor[n, h], a: tensor[d, g], r: tensor[h, g], beta: tensor[g]):
    f.z4[n, g] = sum(x[n, d] * a[d, g], over=d) + sum(z[n, h] * r[h, g], over=h) + beta[g]
    f.gate[n, four, h] = f.z4[n, (four, h)]
    f.new[n, h] = sigmoid(f.gate[n, 0, h]) * s[n, h] + sigmoid(f.gate[n, 1, h]) * tanh(f.gate[n, 2, h])
    f.out[n, h] = sigmoid(f.gate[n, 3, h]) * tanh(f.new[n, h])
    return f.out, f.new


@op
def turned_by_quaternion(f, q: tensor[..., four], z: tensor[..., four]):
    f.r[...] = rsqrt(sum(q[..., four] ** 2, over=four))
    f.y[..., four] = concat(
        (q[..., 0] * z[..., 0] - q[..., 1] * z[..., 1] - q[..., 2] * z[..., 2] - q[..., 3] * z[..., 3]) * f.r[...],
        (q[..., 0] * z[..., 1] + q[..., 1] * z[..., 0] + q[..., 2] * z[..., 3] - q[..., 3] * z[..., 2]) * f.r[...],
        (q[..., 0] * z[..., 2] - q[..., 1] * z[..., 3] + q[..., 2] * z[..., 0] + q[..., 3] * z[..., 1]) * f.r[...],
        (q[..., 0] * z[..., 3] + q[..., 1] * z[..., 2] - q[..., 2] * z[..., 1] + q[..., 3] * z[..., 0]) * f.r[...],
        along=four,
    )
    return f.y


@op
def sinusoidal_layer(f, x: tensor[n, d], a: tensor[d, h], beta: tensor[h], omega: scalar = 30.0):
    f.y[n, h] = sin(omega * (sum(x[n, d] * a[d, h], over=d) + beta[h]))
    return f.y


@op
def tempered(f, x: tensor[n, c], tau: tensor[()].positive):
    f.q[n, c] = (x[n, c] - amax(x[n, c], over=c)) / tau[()]
    f.u[n, c] = exp(f.q[n, c])
    f.p[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    return f.p


@op
def distilled(f, x: tensor[n, c], teacher: constant[n, c], y: index(c)[n], tau: scalar = 2.0, w: scalar = 0.5):
    f.m[n] = amax(x[n, c], over=c)
    f.l[n] = f.m[n] + log(sum(exp(x[n, c] - f.m[n]), over=c))
    f.mt[n] = amax(x[n, c] / tau, over=c)
    f.lt[n] = f.mt[n] + log(sum(exp(x[n, c] / tau - f.mt[n]), over=c))
    f.hard[()] = mean(f.l[n] - x[n, y[n]], over=n)
    f.soft[()] = mean(sum(teacher[n, c] * (f.lt[n] - x[n, c] / tau), over=c), over=n)
    f.loss[()] = w * f.hard[()] + (1 - w) * tau**2 * f.soft[()]
    return f.loss


@op
def decaying_sum(f, x: tensor[n, t, d], a: tensor[d]):
    f.y[n, t, d] = sum(where(u <= t, exp(-softplus(a[d]) * (t - u)) * x[n, u, d], 0), over=u)
    return f.y


@op
def weighed_place(f, p: tensor[n, c], q: tensor[c, d], y: index(c)[n]):
    f.a[n] = sum(where(eq(y[n], c), where(c > 1, p[n, c], 2 * p[n, c]) * (c + 1) / size(c), 0), over=c)
    f.z[n] = f.a[n] * mean(delta(c, y[n]) * q[c, d], over=(c, d))
    return f.z


@op
def log_returns(f, x: tensor[i, j], g: tensor[j]):
    f.y[i, j] = g[j] * asinh(x[i, j])
    return f.y


@op
def weighed_gamma(f, x: tensor[i, j], g: tensor[j]):
    f.y[i, j] = g[j] * loggamma(1 + x[i, j] ** 2)
    return f.y


@op
def rare_functions(f, x: tensor[i, j], z: tensor[i, j]):
    f.s[i, j] = tanh(x[i, j]) / 2
    f.u[i, j] = atanh(f.s[i, j]) + erfinv(f.s[i, j]) + acosh(2 + z[i, j] ** 2) + atan2(x[i, j], z[i, j] - 1)
    f.v[i, j] = digamma(1 + x[i, j] ** 2) + log1p(z[i, j] ** 2) + expm1(f.s[i, j]) + erfc(z[i, j]) + atan(z[i, j])
    f.w[i, j] = asin(f.s[i, j]) * acos(f.s[i, j]) + sinh(f.s[i, j]) * cosh(z[i, j]) + tan(f.s[i, j])
    f.y[i, j] = f.u[i, j] + f.v[i, j] * f.w[i, j]
    return f.y


@op
def bearings(f, x: tensor[n, two], z: tensor[k, two]):
    f.y[n, k] = atan2(x[n, 1] - z[k, 1], x[n, 0] - z[k, 0])
    return f.y


@op
def distance_from_one(f, x: tensor[n], z: tensor[n]):
    f.y[n] = log(x[n] ** 2 + (z[n] - 1) ** 2)
    return f.y


@op
def focal_squared(f, x: tensor[n], t_: constant[n]):
    f.p[n] = sigmoid(x[n])
    f.loss[()] = mean((1 - f.p[n]) ** 2 * t_[n] * softplus(-x[n]), over=n)
    return f.loss


@op
def shifted_cube(f, x: tensor[n], g_: tensor[n]):
    f.y[n] = g_[n] * (x[n] - 1) ** 3
    return f.y


@op
def softcapped_attention(f, q: tensor[b, t, d], z: tensor[b, k, d], x: tensor[b, k, e], cap: scalar = 30.0):
    f.a[b, t, k] = cap * tanh(sum(q[b, t, d] * z[b, k, d], over=d) / sqrt(size(d)) / cap)
    f.m[b, t] = amax(f.a[b, t, k], over=k)
    f.u[b, t, k] = exp(f.a[b, t, k] - f.m[b, t])
    f.p[b, t, k] = f.u[b, t, k] / sum(f.u[b, t, k], over=k)
    f.y[b, t, e] = sum(f.p[b, t, k] * x[b, k, e], over=k)
    return f.y


@op
def factorization_machine(f, x: tensor[n, d], w0: tensor[()], w1: tensor[d], z: tensor[d, k]):
    f.s[n, k] = sum(x[n, d] * z[d, k], over=d)
    f.q[n, k] = sum(x[n, d] ** 2 * z[d, k] ** 2, over=d)
    f.y[n] = w0[()] + sum(x[n, d] * w1[d], over=d) + sum(f.s[n, k] ** 2 - f.q[n, k], over=k) / 2
    return f.y


@op
def decorrelation(f, x: tensor[n, d]):
    f.mu[d] = mean(x[n, d], over=n)
    f.s[d, e] = mean((x[n, d] - f.mu[d]) * (x[n, e] - f.mu[e]), over=n)
    f.loss[()] = sum(where(ne(d, e), f.s[d, e] ** 2, 0), over=(d, e)) / 2
    return f.loss


@op
def orthogonality(f, x: tensor[n, d]):
    f.s[d, e] = sum(x[n, d] * x[n, e], over=n)
    f.loss[()] = sum((f.s[d, e] - delta(d, e)) ** 2, over=(d, e))
    return f.loss


@op
def repulsion(f, x: tensor[i, d], a: tensor[i]):
    f.q[i, j] = exp(-sum((x[i, d] - x[j, d]) ** 2, over=d))
    f.loss[()] = sum(a[i] * a[j] * f.q[i, j], over=(i, j))
    return f.loss


@op
def attended_with_slopes(f, q: tensor[h, t, d], z: tensor[h, k, d], x: tensor[h, k, e], a: tensor[h]):
    f.s[h, t, k] = where(k <= t, sum(q[h, t, d] * z[h, k, d], over=d) / sqrt(size(d)) - a[h] * (t - k), -oo)
    f.m[h, t] = amax(f.s[h, t, k], over=k)
    f.u[h, t, k] = exp(f.s[h, t, k] - f.m[h, t])
    f.p[h, t, k] = f.u[h, t, k] / sum(f.u[h, t, k], over=k)
    f.y[h, t, e] = sum(f.p[h, t, k] * x[h, k, e], over=k)
    return f.y


@op
def relative_scores(f, q: tensor[b, i, d], z: tensor[b, t, d], r: tensor[k, d], ix: index(k)[i, t]):
    f.s[b, i, t] = sum(q[b, i, d] * (z[b, t, d] + r[ix[i, t], d]), over=d) / sqrt(size(d))
    return f.s


@op
def local_response(f, x: tensor[n, c, t], alpha: scalar = 0.3, beta: scalar = 0.75):
    f.s[n, c, t] = sum(where(abs(c - i) < 3, x[n, i, t] ** 2, 0), over=i)
    f.y[n, c, t] = x[n, c, t] / (2 + alpha * f.s[n, c, t]) ** beta
    return f.y


@op
def symmetric_divergence(f, x: tensor[n, c], z: tensor[n, c]):
    f.mx[n] = amax(x[n, c], over=c)
    f.ux[n, c] = exp(x[n, c] - f.mx[n])
    f.sx[n] = sum(f.ux[n, c], over=c)
    f.px[n, c] = f.ux[n, c] / f.sx[n]
    f.mz[n] = amax(z[n, c], over=c)
    f.uz[n, c] = exp(z[n, c] - f.mz[n])
    f.sz[n] = sum(f.uz[n, c], over=c)
    f.pz[n, c] = f.uz[n, c] / f.sz[n]
    f.r[n, c] = (x[n, c] - f.mx[n] - log(f.sx[n])) - (z[n, c] - f.mz[n] - log(f.sz[n]))
    f.loss[()] = mean(sum((f.px[n, c] - f.pz[n, c]) * f.r[n, c], over=c), over=n)
    return f.loss


@op
def linear_attention(f, q: tensor[b, t, d], z: tensor[b, k, d], x: tensor[b, k, e], eps: scalar = 1e-6):
    f.fq[b, t, d] = where(q[b, t, d] > 0, q[b, t, d] + 1, exp(q[b, t, d]))
    f.fz[b, k, d] = where(z[b, k, d] > 0, z[b, k, d] + 1, exp(z[b, k, d]))
    f.s[b, d, e] = sum(f.fz[b, k, d] * x[b, k, e], over=k)
    f.r[b, d] = sum(f.fz[b, k, d], over=k)
    f.y[b, t, e] = sum(f.fq[b, t, d] * f.s[b, d, e], over=d) / (sum(f.fq[b, t, d] * f.r[b, d], over=d) + eps)
    return f.y


@op
def contrastive_both_ways(f, x: tensor[n, d], z: tensor[n, d], a: tensor[()]):
    f.s[n, i] = exp(a[()]) * sum(x[n, d] * z[i, d], over=d)
    f.m[n] = amax(f.s[n, i], over=i)
    f.l[n] = f.m[n] + log(sum(exp(f.s[n, i] - f.m[n]), over=i))
    f.mi[i] = amax(f.s[n, i], over=n)
    f.li[i] = f.mi[i] + log(sum(exp(f.s[n, i] - f.mi[i]), over=n))
    f.loss[()] = (mean(f.l[n] - f.s[n, n], over=n) + mean(f.li[i] - f.s[i, i], over=i)) / 2
    return f.loss


@op
def poly_loss(f, x: tensor[n, c], y: index(c)[n], eps: scalar = 1.0):
    f.m[n] = amax(x[n, c], over=c)
    f.u[n, c] = exp(x[n, c] - f.m[n])
    f.p[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    f.loss[()] = mean(-log(f.p[n, y[n]]) + eps * (1 - f.p[n, y[n]]), over=n)
    return f.loss


@op
def clipped_ratio(f, x: tensor[n], old: constant[n], adv: constant[n], clip: scalar = 0.2):
    f.r[n] = exp(x[n] - old[n])
    f.bounded[n] = minimum(maximum(f.r[n], 1 - clip), 1 + clip)
    f.loss[()] = -mean(minimum(f.r[n] * adv[n], f.bounded[n] * adv[n]), over=n)
    return f.loss


@op
def continuous_elu(f, x: tensor[...], a: scalar = 1.5):
    f.y[...] = where(x[...] > 0, x[...], a * (exp(x[...] / a) - 1))
    return f.y


@op
def learned_average(f, x: tensor[n, t], a: tensor[()]):
    f.s[()] = sigmoid(a[()])
    f.y[n, t] = sum(where(u <= t, (1 - f.s[()]) * f.s[()] ** (t - u) * x[n, u], 0), over=u)
    return f.y


@op
def margin_off_the_label(f, x: tensor[n, c], y: index(c)[n], s: scalar = 4.0, margin: scalar = 0.35):
    f.z[n, c] = s * (x[n, c] - margin * delta(c, y[n]))
    f.m[n] = amax(f.z[n, c], over=c)
    f.loss[()] = mean(f.m[n] + log(sum(exp(f.z[n, c] - f.m[n]), over=c)) - f.z[n, y[n]], over=n)
    return f.loss


@op
def pooled_pairs(f, x: tensor[n, c, h, w], rows: length(o), columns: length(g)):
    f.y[n, c, o, g] = sum(x[n, c, 2 * o + two, 2 * g + pair], over=(two, pair)) / 4
    return f.y


@op
def patch_embedding(f, x: tensor[b, c, d, v], a: tensor[c, k, g, e]):
    f.y[b, i, j, e] = sum(x[b, c, size(k) * i + k, size(g) * j + g] * a[c, k, g, e], over=(c, k, g))
    return f.y
