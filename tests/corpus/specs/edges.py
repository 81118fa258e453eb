"""Small forwards whose backward is easily wrong, or longer than a person would write it."""

from derive import *

b, c, d, h, i, j, k, n, o, p, q, t, u, v, w = axes("b c d h i j k n o p q t u v w")
p2, q2, p7, q7 = axes("p2=2 q2=2 p7=7 q7=7")


@op
def larger_of_two_in_a_tanh(f, x: tensor[n, d], s: tensor[n]):
    """The larger of a number and the first place of its row, inside a function, for every place."""
    f.y[n, d] = tanh(maximum(s[n], x[n, 0]))
    return f.y


@op
def smaller_of_two_in_an_exponential(f, x: tensor[n, d], s: tensor[n]):
    """The smaller of a number and the last place of its row, inside an exponential."""
    f.y[n, d] = x[n, d] * exp(minimum(s[n], x[n, -1]))
    return f.y


@op
def depthwise_same_size(f, x: tensor[n, c, t], taps: tensor[c, p]):
    """A filter for each channel, zeros around: rows that are as long as the signal."""
    f.y[n, c, u] = sum(where((u + p >= 1) & (u + p <= size(t)), x[n, c, u + p - 1] * taps[c, p], 0), over=p)
    return f.y


@op
def strided_and_dilated_transposed(f, x: tensor[n, c, t], taps: tensor[c, o, p], long: length(u)):
    """A transposed convolution with stride and dilation two, moved by one place."""
    f.y[n, o, u] = sum(where(eq(2 * t + 2 * p - 1, u), x[n, c, t] * taps[c, o, p], 0), over=(c, t, p))
    return f.y


@op
def cancelled_before_it_is_scaled(f, s: tensor[n, i], a: tensor[n]):
    """A slack that cancels its sum exactly where that is above 0: the sum is added as it is written."""
    f.slack[n, i] = -relu(s[n, i] + a[n])
    f.y[n, i] = exp((s[n, i] + a[n] + f.slack[n, i]) / 0.05)
    return f.y


@op
def difference_by_short_names(f, a: tensor[n], b: tensor[n], c: tensor[n]):
    """A value less a scaled product with a tanh."""
    f.y[n] = a[n] - 3 * b[n] * tanh(c[n])
    return f.y


@op
def difference_by_long_names(
    f, a: tensor[n], the_factor_beside_a_hyperbolic_tangent_of_another_input: tensor[n], c: tensor[n]
):
    """The same with an input of many letters: no name decides which calls are made."""
    f.y[n] = a[n] - 3 * the_factor_beside_a_hyperbolic_tangent_of_another_input[n] * tanh(c[n])
    return f.y


@op
def leaky_behind_rectified(f, z: tensor[n]):
    """A leaky rectifier of what is not below 0, which changes nothing."""
    f.a[n] = relu(z[n])
    f.y[n] = where(f.a[n] > 0, f.a[n], f.a[n] / 100)
    return f.y


@op
def rectified_and_shifted(f, z: tensor[n, d], shift: tensor[d]):
    """A rectifier and a bias behind it."""
    f.y[n, d] = relu(z[n, d]) + shift[d]
    return f.y


@op
def mish_of_a_clamp(f, z: tensor[n]):
    """An activation of a clamped value: one mask for both."""
    f.c[n] = minimum(maximum(z[n], -1), 1)
    f.y[n] = f.c[n] * tanh(softplus(f.c[n]))
    return f.y


@op
def mean_of_disjoint_windows(f, x: tensor[n, h, w]):
    """Means of windows that tile an image."""
    f.y[n, i, j] = mean(x[n, 7 * i + p7, 7 * j + q7], over=(p7, q7))
    return f.y


@op
def filter_rectify_pool(f, x: tensor[n, c, h, w], taps: tensor[o, c, p, q], bias: tensor[o]):
    """A convolution, a rectifier and the maximum of every four places."""
    f.z[n, o, i, j] = relu(bias[o] + sum(x[n, c, i + p, j + q] * taps[o, c, p, q], over=(c, p, q)))
    f.y[n, o, u, v] = amax(f.z[n, o, 2 * u + p2, 2 * v + q2], over=(p2, q2))
    return f.y


@op
def gelu_behind_a_filter(f, x: tensor[n, c, h, w], taps: tensor[o, c, p, q], bias: tensor[o]):
    """A convolution and a smooth rectifier: what is kept is one tensor, not it and its half."""
    f.z[n, o, i, j] = bias[o] + sum(x[n, c, i + p, j + q] * taps[o, c, p, q], over=(c, p, q))
    f.y[n, o, i, j] = f.z[n, o, i, j] / 2 * (1 + erf(f.z[n, o, i, j] / sqrt(2)))
    return f.y


@op
def unit_columns_of_a_unit_block(f, x: tensor[b, d, k]):
    """Columns of length 1, then all of them together: the norm of what has a norm of 1."""
    f.u[b, d, k] = x[b, d, k] / maximum(sqrt(sum(x[b, d, k] ** 2, over=d)), 1e-12)
    f.y[b, (d, k)] = f.u[b, d, k] / maximum(sqrt(sum(f.u[b, d, k] ** 2, over=(d, k))), 1e-12)
    return f.y


@op
def clamp_of_a_clamp(f, x: tensor[n], low: scalar = -1.0, high: scalar = 1.0):
    """A value kept between bounds, and between wider ones, which change nothing."""
    f.a[n] = minimum(maximum(x[n], low), high)
    f.y[n] = minimum(maximum(f.a[n], -2), 2) ** 3
    return f.y


@op
def magnitude_of_a_square_root(f, x: tensor[n]):
    """The root of a square, times a sign: at 0 all slopes are 0."""
    f.r[n] = abs(x[n]) * x[n]
    f.y[n] = sign(x[n]) * sqrt(abs(f.r[n]) + 1)
    return f.y


@op
def softmax_of_a_softmax(f, z: tensor[n, d]):
    """Shares of shares: nothing overflows the second time."""
    f.p[n, d] = exp(z[n, d]) / sum(exp(z[n, d]), over=d)
    f.q[n, d] = exp(f.p[n, d]) / sum(exp(f.p[n, d]), over=d)
    return f.q


HOSTILE = {
    "larger_of_two_in_a_tanh": "ties, scale 30",
    "smaller_of_two_in_an_exponential": "ties",
    "depthwise_same_size": "scale 1e4",
    "strided_and_dilated_transposed": "scale 1e4",
    "cancelled_before_it_is_scaled": "nearly equal, ties",
    "difference_by_short_names": "nearly equal",
    "difference_by_long_names": "nearly equal",
    "leaky_behind_rectified": "ties",
    "rectified_and_shifted": "ties",
    "mish_of_a_clamp": "ties, scale 30",
    "mean_of_disjoint_windows": "far from zero",
    "filter_rectify_pool": "ties, scale 1e4",
    "gelu_behind_a_filter": "scale 30",
    "unit_columns_of_a_unit_block": "scale 1e4, scale 1e-4",
    "clamp_of_a_clamp": "ties",
    "magnitude_of_a_square_root": "ties, zeros",
    "softmax_of_a_softmax": "scale 30, scale 100, masked",
}
