"""Norms of rows, columns, groups and weights, and what is made of their statistics."""

from derive import *

b, c, d, e, g, h, k, n, s, t, u, v, w = axes("b c d e g h k n s t u v w")
q4, z5, q3, p5 = axes("q4=4 z5=5 q3=3 p5=5")


@op
def layernorm_by_squares(f, x: tensor[..., d]):
    """A layer norm whose variance is a mean of squares less the square of the mean."""
    f.mu[...] = mean(x[..., d], over=d)
    f.var[...] = mean(x[..., d] ** 2, over=d) - f.mu[...] ** 2
    f.y[..., d] = (x[..., d] - f.mu[...]) * rsqrt(f.var[...] + 1e-5)
    return f.y


@op
def batchnorm_by_two_sums(f, x: tensor[n, d]):
    """A batch norm from the sums of values and of squares, with Bessel's correction."""
    f.s[d] = sum(x[n, d], over=n)
    f.square[n, d] = x[n, d] * x[n, d]
    f.q[d] = sum(f.square[n, d], over=n)
    f.var[d] = (f.q[d] - f.s[d] ** 2 / size(n)) / (size(n) - 1)
    f.y[n, d] = (x[n, d] - f.s[d] / size(n)) / sqrt(f.var[d] + 1e-5)
    return f.y


@op
def masked_batchnorm(f, x: tensor[n, d], m: constant[n]):
    """A batch norm over the rows that a mask keeps, its variance clamped at 0."""
    f.count[()] = sum(m[n], over=n)
    f.mu[d] = sum(m[n] * x[n, d], over=n) / f.count[()]
    f.var[d] = relu(sum(m[n] * x[n, d] ** 2, over=n) / f.count[()] - f.mu[d] ** 2)
    f.y[n, d] = m[n] * (x[n, d] - f.mu[d]) / sqrt(f.var[d] + 1e-5)
    return f.y, f.var


@op
def deviation_of_a_block(f, x: tensor[n, k, t]):
    """The deviation over two axes, of a variance that is clamped at 0."""
    f.count[()] = size(k) * size(t)
    f.mu[n] = sum(x[n, k, t], over=(k, t)) / f.count[()]
    f.y[n] = sqrt(maximum(sum(x[n, k, t] ** 2, over=(k, t)) / f.count[()] - f.mu[n] ** 2, 0) + 1e-5)
    return f.y


@op
def attentive_statistics(f, w: tensor[n, k], x: tensor[n, k, d]):
    """A mean and a deviation under shares (Okabe, Koshinaka & Shinoda, 2018)."""
    f.m[n] = amax(w[n, k], over=k)
    f.a[n, k] = exp(w[n, k] - f.m[n]) / sum(exp(w[n, k] - f.m[n]), over=k)
    f.mu[n, d] = sum(f.a[n, k] * x[n, k, d], over=k)
    f.sd[n, d] = sqrt(sum(f.a[n, k] * x[n, k, d] ** 2, over=k) - f.mu[n, d] ** 2 + 1e-6)
    return f.sd, f.mu


@op
def variance_of_neighbours(f, x: tensor[n, d], near: index(n)[n, k]):
    """Means and deviations of gathered neighbours (PNA: Corso et al., 2020)."""
    f.m[n, d] = mean(x[near[n, k], d], over=k)
    f.s[n, d] = sqrt(relu(mean(x[near[n, k], d] ** 2, over=k) - f.m[n, d] ** 2) + 1e-5)
    return f.m, f.s


@op
def norm_as_scale_and_shift(f, x: tensor[n, c, s], w: tensor[c], b: tensor[c]):
    """Instance normalisation as one scale and one shift for each row."""
    f.mu[n, c] = mean(x[n, c, s], over=s)
    f.r[n, c] = rsqrt(mean((x[n, c, s] - f.mu[n, c]) ** 2, over=s) + 1e-5)
    f.a[n, c] = w[c] * f.r[n, c]
    f.sh[n, c] = b[c] - f.mu[n, c] * f.a[n, c]
    f.y[n, c, s] = f.a[n, c] * x[n, c, s] + f.sh[n, c]
    return f.y


@op
def thresholded_response_norm(f, x: tensor[n, d, t], g: tensor[d], b: tensor[d], tau: tensor[d]):
    """A response norm and a rectifier with a learned threshold (Singh & Krishnan, 2019)."""
    f.r[n, d] = 1 / sqrt(mean(x[n, d, t] ** 2, over=t) + 1e-6)
    f.y[n, d, t] = maximum(g[d] * f.r[n, d] * x[n, d, t] + b[d], tau[d])
    return f.y


@op
def learned_length_of_rows(f, x: tensor[n, d], g: tensor[()], eps: scalar = 1e-5):
    """Rows of one learned length (Nguyen & Salazar, 2019)."""
    f.norm[n] = maximum(sqrt(sum(x[n, d] ** 2, over=d)), eps)
    f.y[n, d] = g[()] * x[n, d] / f.norm[n]
    return f.y


@op
def doubly_centred(f, x: tensor[n, d]):
    """A table less the means of its rows and columns."""
    f.rows[n] = mean(x[n, d], over=d)
    f.columns[d] = mean(x[n, d], over=n)
    f.y[n, d] = x[n, d] - f.rows[n] - f.columns[d] + mean(x[n, d], over=(n, d))
    return f.y


@op
def two_normed_products(f, x: tensor[n, d], w: tensor[d, e], u: tensor[e, k]):
    """A norm, a product of matrices, a norm, a product."""
    f.m[n] = mean(x[n, d], over=d)
    f.v[n] = mean((x[n, d] - f.m[n]) ** 2, over=d)
    f.z[n, e] = sum((x[n, d] - f.m[n]) / sqrt(f.v[n] + 1e-5) * w[d, e], over=d)
    f.p[n] = mean(f.z[n, e], over=e)
    f.q[n] = mean((f.z[n, e] - f.p[n]) ** 2, over=e)
    f.y[n, k] = sum((f.z[n, e] - f.p[n]) / sqrt(f.q[n] + 1e-5) * u[e, k], over=e)
    return f.y


@op
def weight_normalised_layer(f, x: tensor[n, d], v: tensor[k, d], g: tensor[k]):
    """Weight normalisation: directions, and a length of their own (Salimans & Kingma, 2016)."""
    f.r[k] = sqrt(sum(v[k, d] ** 2, over=d))
    f.w[k, d] = g[k] * v[k, d] / f.r[k]
    f.y[n, k] = sum(x[n, d] * f.w[k, d], over=d)
    return f.y


@op
def group_norm_in_one_line(f, x: tensor[n, k, c, s], g: tensor[k, c], b: tensor[k, c]):
    """Group normalisation without a name for what is normalised (Wu & He, 2018)."""
    f.m[n, k] = mean(x[n, k, c, s], over=(c, s))
    f.v[n, k] = mean((x[n, k, c, s] - f.m[n, k]) ** 2, over=(c, s))
    f.y[n, k, c, s] = g[k, c] * (x[n, k, c, s] - f.m[n, k]) / sqrt(f.v[n, k] + 1e-5) + b[k, c]
    return f.y


@op
def layer_and_batchnorm(f, x: tensor[n, d], w: tensor[d, c], g: tensor[c], o: tensor[c], eps: scalar = 1e-5):
    """A product of matrices and a batch norm behind it."""
    f.z[n, c] = sum(x[n, d] * w[d, c], over=d)
    f.mu[c] = mean(f.z[n, c], over=n)
    f.v[c] = mean((f.z[n, c] - f.mu[c]) ** 2, over=n)
    f.y[n, c] = (f.z[n, c] - f.mu[c]) * rsqrt(f.v[c] + eps) * g[c] + o[c]
    return f.y


@op
def rms_of_groups(f, x: tensor[n, c, s], gamma: tensor[c], groups: length(g)):
    """Groups of channels divided by their root mean square."""
    f.z[n, g, k, s] = x[n, (g, k), s]
    f.r[n, g] = rsqrt(mean(f.z[n, g, k, s] ** 2, over=(k, s)) + 0.1)
    f.xhat[n, (g, k), s] = f.z[n, g, k, s] * f.r[n, g]
    f.y[n, c, s] = gamma[c] * f.xhat[n, c, s]
    return f.y


@op
def norm_of_channels_and_places(f, x: tensor[n, c, s], gamma: tensor[c], beta: tensor[c]):
    """One mean and deviation of an image, a scale and shift of each channel."""
    f.mu[n] = mean(x[n, c, s], over=(c, s))
    f.rstd[n] = rsqrt(mean((x[n, c, s] - f.mu[n]) ** 2, over=(c, s)) + 0.1)
    f.xhat[n, c, s] = (x[n, c, s] - f.mu[n]) * f.rstd[n]
    f.y[n, c, s] = gamma[c] * f.xhat[n, c, s] + beta[c]
    return f.y


@op
def modulated_columns(f, x: tensor[n, c], g: tensor[n, c]):
    """Normalised columns under gains of each place (Park et al., 2019), and what is normalised."""
    f.u[n, c] = x[n, c] - mean(x[n, c], over=n)
    f.r[c] = sqrt(mean(f.u[n, c] ** 2, over=n) + 1)
    f.y[n, c] = (1 + g[n, c]) * f.u[n, c] / f.r[c] + f.u[n, c]
    return f.y


@op
def group_norm_silu(f, x: tensor[n, c, t], gamma: tensor[c], G: length(g) = 2, eps: scalar = 1e-5):
    """A group norm with a gate of its own value behind it."""
    f.z[n, g, k, t] = x[n, (g, k), t]
    f.mu[n, g] = mean(f.z[n, g, k, t], over=(k, t))
    f.var[n, g] = mean((f.z[n, g, k, t] - f.mu[n, g]) ** 2, over=(k, t))
    f.xhat[n, (g, k), t] = (f.z[n, g, k, t] - f.mu[n, g]) * rsqrt(f.var[n, g] + eps)
    f.a[n, c, t] = gamma[c] * f.xhat[n, c, t]
    f.y[n, c, t] = f.a[n, c, t] * sigmoid(f.a[n, c, t])
    return f.y


@op
def rms_of_rectified(f, x: tensor[n, d]):
    """What is above 0 over its root mean square."""
    f.h[n, d] = relu(x[n, d])
    f.y[n, d] = f.h[n, d] / sqrt(mean(f.h[n, k] ** 2, over=k) + 1e-6)
    return f.y


@op
def normed_recurrent_cell(
    f, x: tensor[n, q4, h], cp: tensor[n, h], gx: tensor[q4, h], bx: tensor[q4, h], g: tensor[h], b: tensor[h]
):
    """A layer-normed LSTM's step (Ba, Kiros & Hinton, 2016)."""
    f.mu[n, q4] = mean(x[n, q4, h], over=h)
    f.s[n, q4] = rsqrt(mean((x[n, q4, h] - f.mu[n, q4]) ** 2, over=h) + 1)
    f.z[n, q4, h] = gx[q4, h] * (x[n, q4, h] - f.mu[n, q4]) * f.s[n, q4] + bx[q4, h]
    f.cn[n, h] = sigmoid(f.z[n, 1, h] + 1) * cp[n, h] + sigmoid(f.z[n, 0, h]) * tanh(f.z[n, 2, h])
    f.m[n] = mean(f.cn[n, h], over=h)
    f.r[n] = rsqrt(mean((f.cn[n, h] - f.m[n]) ** 2, over=h) + 1)
    f.l[n, h] = g[h] * (f.cn[n, h] - f.m[n]) * f.r[n] + b[h]
    f.y[n, h] = sigmoid(f.z[n, 3, h]) * tanh(f.l[n, h])
    return f.y, f.cn


@op
def residual_over_its_spread(f, x: tensor[n, d], g: tensor[d]):
    """A value and itself over its mean magnitude."""
    f.spread[n] = mean(abs(x[n, d]), over=d) + 1
    f.y[n, d] = x[n, d] + g[d] * x[n, d] / f.spread[n]
    return f.y


@op
def response_over_channels(f, x: tensor[n, c, h]):
    """Each channel over the energy of the channels around (Krizhevsky et al., 2012)."""
    inside = (c + z5 >= 2) & (c + z5 - 2 < size(c))
    f.q[n, c, h] = sum(where(inside, x[n, c + z5 - 2, h] ** 2, 0), over=z5)
    f.y[n, c, h] = x[n, c, h] / (2 + f.q[n, c, h]) ** 2
    return f.y


@op
def standardised_with_bessel(f, x: tensor[n], eps: scalar = 1e-8):
    """Values less their mean over their deviation, with Bessel's correction."""
    f.mu[()] = mean(x[n], over=n)
    f.sd[()] = sqrt(sum((x[n] - f.mu[()]) ** 2, over=n)) / sqrt(size(n) - 1)
    f.y[n] = (x[n] - f.mu[()]) / (f.sd[()] + eps)
    return f.y


@op
def local_contrast(f, x: tensor[n, c, h, w]):
    """A pixel less the mean around it, over the size of that mean."""
    f.m[n, c, u, v] = mean(x[n, c, u + p5, v + q3], over=(p5, q3))
    f.y[n, c, u, v] = (x[n, c, u + 2, v + 1] - f.m[n, c, u, v]) / sqrt(f.m[n, c, u, v] ** 2 + 1)
    return f.y


@op
def demodulated_filter(f, x: tensor[b, c, t], style: tensor[b, c], k: tensor[e, c, s], eps: scalar = 1e-8):
    """A filter of each sample, of length 1 (Karras et al., 2020)."""
    f.w[b, e, c, s] = k[e, c, s] * style[b, c]
    f.r[b, e] = rsqrt(sum(f.w[b, e, c, s] ** 2, over=(c, s)) + eps)
    f.y[b, e, u] = sum(x[b, c, u + s] * f.w[b, e, c, s] * f.r[b, e], over=(c, s))
    return f.y


@op
def part_rms_norm(f, x: tensor[..., d], gamma: tensor[d], part: length(k), eps: scalar = 1e-6):
    """A norm by the root mean square of the first features alone."""
    f.ms[...] = mean(x[..., k] ** 2, over=k)
    f.y[..., d] = x[..., d] / sqrt(f.ms[...] + eps) * gamma[d]
    return f.y


@op
def capsule_length(f, s: tensor[n, d]):
    """A capsule's output: its length squashed below 1 (Sabour et al., 2017)."""
    f.q[n] = sum(s[n, d] ** 2, over=d)
    f.v[n, d] = f.q[n] / (1 + f.q[n]) * s[n, d] / sqrt(f.q[n] + 1)
    return f.v


HOSTILE = {
    "layernorm_by_squares": "nearly equal, far from zero",
    "batchnorm_by_two_sums": "nearly equal, far from zero",
    "masked_batchnorm": "far from zero, mask",
    "deviation_of_a_block": "nearly equal, far from zero",
    "attentive_statistics": "scale 30, scale 300",
    "variance_of_neighbours": "nearly equal, far from zero",
    "norm_as_scale_and_shift": "nearly equal, far from zero",
    "thresholded_response_norm": "ties, scale 1e4",
    "learned_length_of_rows": "zeros, scale 1e4",
    "doubly_centred": "far from zero",
    "two_normed_products": "nearly equal",
    "weight_normalised_layer": "scale 1e4",
    "group_norm_in_one_line": "nearly equal, far from zero",
    "layer_and_batchnorm": "nearly equal",
    "rms_of_groups": "scale 1e4",
    "norm_of_channels_and_places": "nearly equal, far from zero",
    "modulated_columns": "nearly equal, far from zero",
    "group_norm_silu": "nearly equal, scale 30",
    "rms_of_rectified": "ties, zeros",
    "normed_recurrent_cell": "scale 30",
    "residual_over_its_spread": "ties",
    "response_over_channels": "scale 30",
    "standardised_with_bessel": "nearly equal, far from zero",
    "local_contrast": "far from zero",
    "demodulated_filter": "scale 1e4",
    "part_rms_norm": "scale 1e4",
    "capsule_length": "zeros, scale 1e4",
}
