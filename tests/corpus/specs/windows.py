"""Convolutions, pools, padding, ends and places computed from others."""

from derive import *

b, c, d, e, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w = axes("b c d e g h i j k l m n o p q r s t u v w")
three, four, two, pair, q2, p3 = axes("three=3 four=4 two=2 pair=2 q2=2 p3=3")


@op
def same_size_filter(f, x: tensor[n, c, h, w], a: tensor[o, c, p, q], b: tensor[o]):
    """A convolution of images with zeros around."""
    inside = (h + p >= 1) & (h + p <= size(h)) & (w + q >= 1) & (w + q <= size(w))
    f.y[n, o, h, w] = sum(where(inside, a[o, c, p, q] * x[n, c, h + p - 1, w + q - 1], 0), over=(c, p, q)) + b[o]
    return f.y


@op
def strided_padded_filter(f, x: tensor[n, t], a: tensor[k]):
    """Every second place of a padded filter."""
    f.y[n, i] = sum(where((2 * i + k >= 1) & (2 * i + k <= size(t)), a[k] * x[n, 2 * i + k - 1], 0), over=k)
    return f.y


@op
def padded_maximum(f, x: tensor[n, h, w]):
    """The maximum of every second padded window."""
    inside = (2 * i + three >= 1) & (2 * i + three <= size(h)) & (2 * j + four >= 2) & (2 * j + four < size(w) + 2)
    f.y[n, i, j] = amax(where(inside, x[n, 2 * i + three - 1, 2 * j + four - 2], -oo), over=(three, four))
    return f.y


@op
def running_minimum(f, x: tensor[n, t], taps: length(k) = 3):
    """The least of the last few places."""
    f.y[n, t] = amin(where(t + k >= size(k) - 1, x[n, t + k - size(k) + 1], oo), over=k)
    return f.y


@op
def blurred(f, x: tensor[n, h, w]):
    """A mean over padded windows."""
    inside = (h + three >= 1) & (h + three <= size(h)) & (w + four >= 2) & (w + four < size(w) + 2)
    f.y[n, h, w] = sum(where(inside, x[n, h + three - 1, w + four - 2], 0), over=(three, four)) / 12
    return f.y


@op
def differences_ahead(f, x: tensor[n, t], r: tensor[j]):
    """A function of differences to places ahead."""
    f.y[n, t, j] = where(t + j < size(t), r[j] * tanh(x[n, t + j] - x[n, t]), 0)
    return f.y


@op
def token_shift(f, x: tensor[n, t, c], mu: tensor[c]):
    """A mix of each place with the one before."""
    f.y[n, t, c] = mu[c] * x[n, t, c] + (1 - mu[c]) * where(t > 0, x[n, t - 1, c], 0)
    return f.y


@op
def causal_filter(f, x: tensor[n, t, d], w: tensor[d, k]):
    """A causal filter for each channel, and what is filtered."""
    f.y[n, t, d] = 2 * sum(where(t - k >= 0, w[d, k] * x[n, t - k, d], 0), over=k) + x[n, t, d]
    return f.y


@op
def bounded_taps(f, x: tensor[n, c, t], w: tensor[c, k]):
    """A causal filter whose taps are a function of a softmax."""
    f.m[c] = amax(w[c, k], over=k)
    f.u[c, k] = exp(w[c, k] - f.m[c])
    f.s[c] = sum(f.u[c, k], over=k)
    f.taps[c, k] = tanh(f.u[c, k] / f.s[c])
    f.y[n, c, t] = sum(where(t >= k, f.taps[c, k] * x[n, c, t - k], 0), over=k)
    return f.y


@op
def state_as_a_filter(f, x: tensor[n, c, t], a: tensor[c], b: tensor[c]):
    """A diagonal state space as a filter (Gu et al., 2022)."""
    f.taps[c, t] = b[c] * exp(-exp(a[c]) * t)
    f.y[n, c, t] = sum(where(k <= t, f.taps[c, t - k] * x[n, c, k], 0), over=k)
    return f.y


@op
def filter_as_long_as_the_signal(f, x: tensor[n, c, t], w: tensor[c, k]):
    """A causal filter that is as long as the signal."""
    f.y[n, c, t] = sum(where(k <= t, w[c, t - k] * x[n, c, k], 0), over=k)
    return f.y


@op
def transposed_filter(f, x: tensor[n, c, u], w: tensor[c, o, k], bias: tensor[o], out: length(t)):
    """A transposed convolution with a bias."""
    f.y[n, o, t] = bias[o] + sum(where(eq(2 * u + k - 1, t), x[n, c, u] * w[c, o, k], 0), over=(c, u, k))
    return f.y


@op
def series_product(f, a: tensor[..., i], b: tensor[..., j], s: constant[k]):
    """Coefficients of a product of two power series."""
    f.c[..., k] = sum(where(eq(k, i + j), a[..., i] * b[..., j] ** 2 * s[k], 0), over=(i, j))
    return f.c


@op
def cut_and_padded(f, x: tensor[t], g: tensor[i]):
    """The first two places cut off and put back as zeros."""
    f.z[i] = mean(where(eq(t, i + 2), x[t], 0), over=t)
    f.y[t] = sum(where(eq(i + 2, t), g[i] * f.z[i], 0), over=i)
    return f.y


@op
def transposed_plane(f, x: tensor[n, c, h, w], g: tensor[c, p, q], high: length(u), wide: length(v)):
    """A transposed convolution of images."""
    f.y[n, u, v] = sum(where(eq(2 * h + p, u) & eq(2 * w + q, v), x[n, c, h, w] * g[c, p, q], 0), over=(c, h, w, p, q))
    return f.y


@op
def lagged_products(f, x: tensor[n, c, t], y: tensor[n, d, t], lags: length(u)):
    """Correlations of two channels at each lag."""
    f.r[c, d, u] = sum(where(t - u >= 0, x[n, c, t] * y[n, d, t - u], 0), over=(n, t))
    return f.r


@op
def correlation_with_itself(f, x: tensor[n, t], lags: length(u)):
    """Products with what came twice as many places before."""
    f.r[u] = mean(where(t >= 2 * u, x[n, t] * x[n, t - 2 * u], 0), over=(n, t))
    return f.r


@op
def structure_of_two_images(f, x: tensor[n, h, w], y: tensor[n, h, w], g: tensor[k, m]):
    """The structure of two images, weighed in windows."""
    f.a[n, u, v] = sum(g[k, m] * x[n, u + k, v + m], over=(k, m))
    f.b[n, u, v] = sum(g[k, m] * y[n, u + k, v + m], over=(k, m))
    f.s[n, u, v] = sum(g[k, m] * x[n, u + k, v + m] * y[n, u + k, v + m], over=(k, m)) - f.a[n, u, v] * f.b[n, u, v]
    f.r[n, u, v] = f.s[n, u, v] / (1 + sum(g[k, m] * (x[n, u + k, v + m] - y[n, u + k, v + m]) ** 2, over=(k, m)) ** 2)
    return f.r


@op
def energies_of_windows(f, x: tensor[n, c, t], s: tensor[c], width: length(k)):
    """A function of every second window, with a parameter of each channel."""
    f.y[n, c, u] = mean(tanh(s[c] * x[n, c, 2 * u + k]) * x[n, c, 2 * u + k] ** 2, over=k)
    return f.y


@op
def by_distance(f, a: tensor[t, t], h_: tensor[t]):
    """A causal table with a number for each distance."""
    f.y[t, s] = where(s <= t, a[t, s] + h_[t - s], 0)
    return f.y


@op
def pool_with_edges(f, x: tensor[n, t], taps: length(k) = 3):
    """The maximum of windows with -oo around."""
    f.y[n, r] = amax(where((2 * r + k >= 1) & (2 * r + k <= size(t)), x[n, 2 * r + k - 1], -oo), over=k)
    return f.y


@op
def total_variation_of_images(f, x: tensor[n, h, w], eps: scalar = 0.01):
    """The root of both squared differences, 0 at the ends."""
    f.down[n, h, w] = where(h + 1 < size(h), x[n, h + 1, w] - x[n, h, w], 0)
    f.right[n, h, w] = where(w + 1 < size(w), x[n, h, w + 1] - x[n, h, w], 0)
    f.y[n] = sum(sqrt(f.down[n, h, w] ** 2 + f.right[n, h, w] ** 2 + eps), over=(h, w))
    return f.y


@op
def heat_step(f, u: tensor[..., h, w], a: scalar = 0.2):
    """A step of the heat equation, edges as they are."""
    inside = (h >= 1) & (h + 1 < size(h)) & (w >= 1) & (w + 1 < size(w))
    around = u[..., h - 1, w] + u[..., h + 1, w] + u[..., h, w - 1] + u[..., h, w + 1] - 4 * u[..., h, w]
    f.y[..., h, w] = where(inside, u[..., h, w] + a * around, u[..., h, w])
    return f.y


@op
def temporal_difference(f, r: tensor[n, t], v: tensor[n, t], gamma: scalar = 0.9):
    """A reward and the next value, less the value."""
    f.y[n, t] = r[n, t] + where(t + 1 < size(t), gamma * v[n, t + 1], 0) - v[n, t]
    return f.y


@op
def second_differences(f, x: tensor[n, t]):
    """The mean squared bend."""
    bend = (x[n, t + 1] - 2 * x[n, t] + x[n, t - 1]) ** 2
    f.y[()] = mean(where((t >= 1) & (t + 1 < size(t)), bend, 0), over=(n, t))
    return f.y


@op
def periodic_bend(f, x: tensor[..., t]):
    """A function of the bend on a circle."""
    f.left[..., t] = where(eq(t, 0), x[..., size(t) - 1], x[..., t - 1])
    f.right[..., t] = where(eq(t, size(t) - 1), x[..., 0], x[..., t + 1])
    f.y[..., t] = tanh(f.left[..., t] + f.right[..., t] - 2 * x[..., t])
    return f.y


@op
def one_sided_gradient(f, x: tensor[t, d]):
    """A gradient with one-sided differences at the ends."""
    last = size(t) - 1
    inner = where(eq(t, last), x[last, d] - x[last - 1, d], (x[t + 1, d] - x[t - 1, d]) / 2)
    f.y[t, d] = where(eq(t, 0), x[1, d] - x[0, d], inner) * x[t, d]
    return f.y


@op
def diffusion_between_walls(f, u: tensor[n, t], k: tensor[t]):
    """Diffusion between walls, with a conductivity at each place."""
    f.r[n, t] = where(t + 1 < size(t), (k[t] + k[t + 1]) / 2 * (u[n, t + 1] - u[n, t]), -k[t] * u[n, t])
    f.l[n, t] = where(t >= 1, (k[t] + k[t - 1]) / 2 * (u[n, t] - u[n, t - 1]), k[t] * u[n, t])
    f.y[n, t] = u[n, t] + f.r[n, t] - f.l[n, t]
    return f.y


@op
def lorenz_96(f, x: tensor[n, t]):
    """The derivative of Lorenz' model on a circle (1996)."""
    f.dx[n, t] = (x[n, (t + 1) % size(t)] - x[n, (t - 2) % size(t)]) * x[n, (t - 1) % size(t)] - x[n, t]
    return f.dx


@op
def circular_image_filter(f, x: tensor[n, h, w], a: tensor[three, two]):
    """A filter of an image that goes on at its other end."""
    f.y[n, h, w] = sum(a[three, two] * x[n, (h - three) % size(h), (w + 3 * two) % size(w)], over=(three, two))
    return f.y


@op
def variance_of_windows(f, x: tensor[..., l], width: length(k) = 2):
    """The variance of each window."""
    f.mu[..., t] = mean(x[..., t + k], over=k)
    f.y[..., t] = mean((x[..., t + k] - f.mu[..., t]) ** 2, over=k)
    return f.y


@op
def second_order_filter(f, x: tensor[n, l], a: tensor[k, k]):
    """A quadratic form of each window (Volterra)."""
    f.y[n, t] = sum(a[k, m] * x[n, t + k] * x[n, t + m], over=(k, m))
    return f.y


@op
def two_scales(f, x: tensor[n, c, l], a: tensor[o, c, k], b: tensor[o, c, p]):
    """Two filters of different strides, added."""
    f.y[n, o, t] = sum(x[n, c, t + k] * a[o, c, k], over=(c, k)) + sum(x[n, c, 2 * t + p] * b[o, c, p], over=(c, p))
    return f.y


@op
def taps_turned(f, x: tensor[n, c, l], a: tensor[o, c, k]):
    """A filter with gaps, its taps turned round."""
    f.y[n, o, t] = sum(x[n, c, 2 * t - 3 * k + 3 * size(k) - 3] * a[o, c, k], over=(c, k))
    return f.y


@op
def toeplitz(f, x: tensor[n, l], a: tensor[k]):
    """A matrix with a number for each diagonal."""
    f.y[n, i] = sum(x[n, j] * a[i - j + size(l) - 1], over=j)
    return f.y


@op
def gated_filter(f, x: tensor[n, c, l], a: tensor[o, c, k], b: tensor[o, c, k]):
    """A filter times a function of another."""
    f.u[n, o, t] = sum(a[o, c, k] * x[n, c, t + k], over=(c, k))
    f.v[n, o, t] = sum(b[o, c, k] * x[n, c, t + k], over=(c, k))
    f.y[n, o, t] = f.u[n, o, t] * tanh(f.v[n, o, t])
    return f.y


@op
def stacked_filters(f, x: tensor[n, c, l], a: tensor[o, c, k], b: tensor[m, o, p]):
    """A filter of the squares of another."""
    f.z[n, o, t] = sum(x[n, c, t + k] * a[o, c, k], over=(c, k)) ** 2
    f.y[n, m, u] = sum(f.z[n, o, 2 * u + p] * b[m, o, p], over=(o, p))
    return f.y


@op
def mixed_with_its_neighbours(f, x: tensor[n, l], a: tensor[n, l], b: tensor[n]):
    """Three places, one after another."""
    f.y[n, t] = a[n, t] * x[n, t] + b[n] * x[n, t + 1] - 3 * x[n, t + 2]
    return f.y


@op
def filter_by_filter(f, x: tensor[b, d, i], w: tensor[o, d, e]):
    """A convolution, the taps summed before the channels."""
    f.y[b, o, j] = sum(sum(x[b, d, j + e] * w[o, d, e], over=e), over=d)
    return f.y


@op
def filtered_groups(f, x: tensor[n, c, t], w: tensor[g, o, k, j], bias: tensor[g, o]):
    """A grouped convolution of merged channels, with a bias."""
    f.y[n, (g, o), u] = bias[g, o] + sum(x[n, (g, k), u + j] * w[g, o, k, j], over=(k, j))
    return f.y


@op
def powers_of_two_signals(f, x: tensor[n, t], z: tensor[n, t], win: constant[k]):
    """Log-powers of two signals in windows."""
    f.vx[n, u] = sum(win[k] * x[n, u + k] ** 2, over=k)
    f.vz[n, u] = sum(win[k] * z[n, u + k] ** 2, over=k)
    f.loss[()] = mean(log(f.vx[n, u] + f.vz[n, u]), over=(n, u))
    return f.loss


@op
def blur_sharpened(f, x: tensor[n, t], w: tensor[three], a: tensor[()]):
    """A signal moved away from its blur."""
    inside = (t + three >= 1) & (t + three <= size(t))
    f.blur[n, t] = sum(where(inside, w[three] * x[n, t + three - 1], 0), over=three)
    f.y[n, t] = x[n, t] + a[()] * (x[n, t] - f.blur[n, t])
    return f.y


@op
def autocorrelation(f, x: tensor[n, t], lags: length(k)):
    """Products of a signal with itself later."""
    f.r[n, k] = sum(where(t + k < size(t), x[n, t] * x[n, t + k], 0), over=t) / size(t)
    return f.r


@op
def filters_of_each_sample(f, x: tensor[n, c, t], w: tensor[n, h, c, k]):
    """A bank of filters of its own for each sample."""
    f.y[n, h, u] = sum(w[n, h, c, k] * x[n, c, u + k], over=(c, k))
    return f.y


@op
def frame_spectrum(f, x: tensor[n, l], w: constant[k, s], v: constant[s]):
    """Squared projections of overlapping frames."""
    f.a[n, t, k] = sum(x[n, 4 * t + s] * v[s] * w[k, s], over=s)
    f.y[n, t, k] = f.a[n, t, k] ** 2
    return f.y


@op
def overlap_add(f, x: tensor[n, t, s], long: length(l) = 50):
    """Frames added where they overlap."""
    f.y[n, l] = sum(where(eq(4 * t + s, l), x[n, t, s], 0), over=(t, s))
    return f.y


@op
def soft_pool(f, x: tensor[n, c, h, w]):
    """SoftPool (Stergiou, Poppe & Kalliatakis, 2021)."""
    f.a[n, c, u, two, v, pair] = x[n, c, 2 * u + two, 2 * v + pair]
    f.e[n, c, u, two, v, pair] = exp(f.a[n, c, u, two, v, pair])
    weighed = sum(f.a[n, c, u, two, v, pair] * f.e[n, c, u, two, v, pair], over=(two, pair))
    f.y[n, c, u, v] = weighed / sum(f.e[n, c, u, two, v, pair], over=(two, pair))
    return f.y


@op
def erosion(f, x: tensor[n, h, w], b: tensor[p3, q2]):
    """The least of windows less a shape."""
    f.y[n, u, v] = amin(x[n, u + p3, v + q2] - b[p3, q2], over=(p3, q2))
    return f.y


@op
def opening(f, x: tensor[n, t], b: tensor[p3]):
    """A minimum of windows of a maximum of windows."""
    f.z[n, u] = amax(x[n, u + p3] + b[p3], over=p3)
    f.y[n, v] = amin(f.z[n, v + q2], over=q2)
    return f.y


@op
def filtered_anew(f, x: tensor[b, c, t], w: tensor[b, u, p3]):
    """A filter of its own at every place."""
    f.y[b, c, u] = sum(w[b, u, p3] * x[b, c, u + p3], over=p3)
    return f.y


@op
def cost_volume(f, x: tensor[b, c, h, w], z: tensor[b, c, u, v]):
    """What an image has in common with another near each place."""
    f.y[b, p3, q2, u, v] = mean(z[b, c, u, v] * x[b, c, u + p3, v + q2], over=c)
    return f.y


@op
def relative_shift(f, x: tensor[n, t, s], b: tensor[n, t, r]):
    """A table read by the distance of two places (Dai et al., 2019)."""
    f.y[n, t, s] = x[n, t, s] * b[n, t, s - t + size(t) - 1]
    return f.y


@op
def upsampled_and_joined(f, x: tensor[n, c, h], z: tensor[n, d, w]):
    """Upsampled, and joined with what was skipped (Ronneberger et al., 2015)."""
    f.up[n, c, (h, two)] = x[n, c, h]
    f.joined[n, k, w] = concat(f.up[n, c, w], z[n, d, w], along=k)
    f.y[n, k, w] = f.joined[n, k, w] ** 2
    return f.y


@op
def power_pool(f, x: tensor[n, i], taps: length(k) = 2, power: scalar = 3.0):
    """A norm over pairs of places, of a given power."""
    f.a[n, t] = sum(abs(x[n, 2 * t + k]) ** power, over=k)
    f.y[n, t] = f.a[n, t] ** (1 / power)
    return f.y


@op
def bank_begun(f, x: tensor[c, l], w: tensor[o, c, k], z: tensor[o, t]):
    """A filter bank added to a function of what is there."""
    f.y[o, t] = tanh(z[o, t]) + sum(x[c, t + k] * w[o, c, k], over=(c, k))
    return f.y


@op
def diagonal_taps(f, x: tensor[n, h, w], k: tensor[p, q]):
    """Windows read along a diagonal."""
    f.y[n, i, j] = sum(x[n, i + p, j + p] * k[p, q], over=(p, q))
    return f.y


@op
def spread_from_a_template(f, x: tensor[n, h, w], k: tensor[p, q]):
    """Squared distances of windows from a template."""
    f.y[n, i, j] = sum((x[n, i + p, j + q] - k[p, q]) ** 2, over=(p, q))
    return f.y


@op
def strided_image_filter(f, x: tensor[n, c, h, w], k: tensor[o, c, p, q]):
    """A stride along one axis alone."""
    f.y[n, o, i, j] = sum(x[n, c, i + p, 2 * j + q] * k[o, c, p, q], over=(c, p, q))
    return f.y


@op
def dilated_image_filter(f, x: tensor[n, c, h, w], k: tensor[o, c, p, q]):
    """Taps two rows and three columns apart."""
    f.y[n, o, i, j] = sum(x[n, c, i + 2 * p, j + 3 * q] * k[o, c, p, q], over=(c, p, q))
    return f.y


HOSTILE = {
    "same_size_filter": "scale 1e4",
    "strided_padded_filter": "scale 1e4",
    "padded_maximum": "ties, scale 1e4",
    "running_minimum": "ties",
    "blurred": "far from zero",
    "differences_ahead": "scale 30",
    "token_shift": "scale 1e4",
    "causal_filter": "scale 1e4",
    "bounded_taps": "scale 30",
    "state_as_a_filter": "scale 30",
    "filter_as_long_as_the_signal": "scale 1e4",
    "transposed_filter": "scale 1e4",
    "series_product": "scale 30",
    "cut_and_padded": "scale 1e4",
    "transposed_plane": "scale 1e4",
    "lagged_products": "scale 1e4",
    "correlation_with_itself": "scale 1e4",
    "structure_of_two_images": "nearly equal, far from zero",
    "energies_of_windows": "scale 30",
    "by_distance": "scale 1e4",
    "pool_with_edges": "ties",
    "total_variation_of_images": "nearly equal, zeros",
    "heat_step": "far from zero",
    "temporal_difference": "far from zero",
    "second_differences": "far from zero",
    "periodic_bend": "far from zero",
    "one_sided_gradient": "far from zero",
    "diffusion_between_walls": "far from zero",
    "lorenz_96": "scale 30",
    "circular_image_filter": "scale 1e4",
    "variance_of_windows": "nearly equal, far from zero",
    "second_order_filter": "scale 30",
    "two_scales": "scale 1e4",
    "taps_turned": "scale 1e4",
    "toeplitz": "scale 1e4",
    "gated_filter": "scale 30",
    "stacked_filters": "scale 30",
    "mixed_with_its_neighbours": "scale 1e4",
    "filter_by_filter": "scale 1e4",
    "filtered_groups": "scale 1e4",
    "powers_of_two_signals": "scale 30",
    "blur_sharpened": "far from zero",
    "autocorrelation": "far from zero",
    "filters_of_each_sample": "scale 1e4",
    "frame_spectrum": "scale 30",
    "overlap_add": "scale 1e4",
    "soft_pool": "scale 30",
    "erosion": "ties",
    "opening": "ties",
    "filtered_anew": "scale 1e4",
    "cost_volume": "scale 1e4",
    "relative_shift": "scale 1e4",
    "upsampled_and_joined": "scale 30",
    "power_pool": "ties, scale 30",
    "bank_begun": "scale 1e4",
    "diagonal_taps": "scale 1e4",
    "spread_from_a_template": "far from zero",
    "strided_image_filter": "scale 1e4",
    "dilated_image_filter": "scale 1e4",
}
