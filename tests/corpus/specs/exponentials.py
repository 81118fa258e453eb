"""Exponentials and logarithms that overflow, or lose their digits, unless they are written with care."""

from sympy import erfc

from derive import *

c, d, i, j, k, m, n, s, t, u = axes("c d i j k m n s t u")


@op
def log_sum_exp(f, z: tensor[n, c]):
    """The logarithm of a sum of exponentials, no maximum written."""
    f.y[n] = log(sum(exp(z[n, c]), over=c))
    return f.y


@op
def log_mean_exp(f, z: tensor[n, c], tau: scalar = 2):
    """The logarithm of a mean of exponentials, at a temperature."""
    f.y[n] = tau * log(mean(exp(z[n, c] / tau), over=c))
    return f.y


@op
def average_under_exponentials(f, z: tensor[n, c], v: tensor[c, d]):
    """A weighted mean by exponentials."""
    f.e[n, c] = exp(z[n, c])
    f.y[n, d] = sum(f.e[n, c] * v[c, d], over=c) / sum(f.e[n, c], over=c)
    return f.y


@op
def shares_along_both_axes(f, z: tensor[n, c]):
    """Two shares of the same exponentials, along one axis and the other."""
    f.p[n, c] = exp(z[n, c]) / sum(exp(z[n, c]), over=c)
    f.q[n, c] = exp(z[n, c]) / sum(exp(z[n, c]), over=n)
    f.y[n, c] = f.p[n, c] * f.q[n, c]
    return f.y


@op
def log_sum_of_kept(f, z: tensor[n, c], keep: constant[n, c]):
    """The logarithm of a sum of exponentials that a mask keeps."""
    f.y[n] = log(sum(where(keep[n, c] > 0, exp(z[n, c]), 0), over=c))
    return f.y


@op
def soft_minimum_of_some(f, z: tensor[n, c], keep: constant[n, c]):
    """A soft minimum, of which the smallest is taken off."""
    f.w[n, c] = where(keep[n, c] > 0, z[n, c], oo)
    f.y[n] = log(sum(exp(-f.w[n, c]), over=c))
    return f.y


@op
def log_sum_with_one_more(f, z: tensor[n, c]):
    """The logarithm of one and a sum of exponentials."""
    f.y[n] = log(1 + sum(exp(z[n, c]), over=c))
    return f.y


@op
def shares_with_none_chosen(f, z: tensor[n, c]):
    """A softmax that may choose nothing."""
    f.e[n, c] = exp(-z[n, c])
    f.p[n, c] = f.e[n, c] / (sum(f.e[n, c], over=c) + 1)
    return f.p


@op
def capped_scores(f, z: tensor[n, c]):
    """The log-sum-exp of scores no larger than 30."""
    f.w[n, c] = 30 * tanh(z[n, c] / 30)
    f.y[n] = log(sum(exp(f.w[n, c]), over=c))
    return f.y


@op
def clamped_scores(f, z: tensor[n, c], tau: scalar = 2):
    """Scores kept between two numbers, and bent."""
    f.w[n, c] = minimum(maximum(z[n, c], -10), 20) - 5 * tanh(z[n, c])
    f.y[n] = log(sum(exp(f.w[n, c]), over=c))
    return f.y


@op
def log_of_two_sums(f, z: tensor[n, c], w: tensor[n, d]):
    """The logarithm of two sums of exponentials."""
    f.y[n] = log(sum(exp(z[n, c]), over=c) + sum(exp(w[n, d]), over=d))
    return f.y


@op
def exponential_by_the_root(f, z: tensor[n, c]):
    """Exponentials over the root of the sum of their squares."""
    f.y[n, c] = exp(z[n, c]) / sqrt(sum(exp(2 * z[n, c]), over=c))
    return f.y


@op
def tails_of_a_row(f, x: tensor[n, t]):
    """Logarithms of running sums of exponentials."""
    f.tail[n, t] = sum(where(u >= t, exp(x[n, u]), 0), over=u)
    f.y[n] = sum(log(f.tail[n, t]), over=t)
    return f.y


@op
def distances_to_centres(f, x: tensor[n, d], w: tensor[k, d]):
    """The logarithm of a sum of Gaussians."""
    f.e[n, k] = exp(-sum((x[n, d] - w[k, d]) ** 2, over=d))
    f.y[n] = log(sum(f.e[n, k], over=k))
    return f.y


@op
def log_of_two_exponentials(f, a: tensor[n, t], b: tensor[t]):
    """The logarithm of two exponentials' sum."""
    f.y[n, t] = log(exp(a[n, t]) + exp(b[t]))
    return f.y


@op
def log_of_three_paths(f, a: tensor[n, t]):
    """The logarithm of paths that stay, or come from one or two places before (Graves, 2006)."""
    one = where(t >= 1, exp(a[n, t - 1]), 0)
    f.y[n, t] = log(exp(a[n, t]) + one + where(t >= 2, exp(a[n, t - 2]), 0))
    return f.y


@op
def shares_of_three(f, a: tensor[n, t], b: tensor[n, t], c: tensor[t]):
    """Two shares of three exponentials."""
    f.s[n, t] = exp(a[n, t]) + exp(b[n, t]) + exp(c[t])
    f.p[n, t] = exp(a[n, t]) / f.s[n, t]
    f.q[n, t] = exp(c[t]) / f.s[n, t]
    return f.p, f.q


@op
def mixture_of_two(f, x: tensor[n], w: tensor[t], mu: tensor[t], c: constant[t]):
    """The logarithm of a mixture of two Gaussians."""
    f.u[n, t] = exp(-((x[n] - mu[t]) ** 2) / 2)
    f.v[n, t] = exp(-((x[n] - c[t]) ** 2) / 2)
    f.loss[()] = sum(log(w[t] * f.u[n, t] + (1 - w[t]) * f.v[n, t]), over=(n, t))
    return f.loss


@op
def odds_of_exponentials(f, a: tensor[n, t], z: tensor[n, t]):
    """Log-odds of an exponential, and a logarithm of one and a weighed exponential."""
    f.y[n, t] = log(exp(a[n, t]) / (1 - exp(a[n, t]))) + log(1 + z[n, t] ** 2 * exp(a[n, t]))
    return f.y


@op
def inverse_of_one_and_an_exponential(f, x: tensor[n, d], b: tensor[d]):
    """A sigmoid, written out."""
    f.y[n, d] = 1 / (1 + exp(-x[n, d] - b[d]))
    return f.y


@op
def swish_written_out(f, x: tensor[n]):
    """A value over one and an exponential."""
    f.y[n] = x[n] / (exp(-x[n]) + 1)
    return f.y


@op
def sigmoid_slope_written_out(f, x: tensor[n]):
    """An exponential over the square of one and itself."""
    f.y[n] = exp(-x[n]) / (1 + exp(-x[n])) ** 2
    return f.y


@op
def softplus_both_ways(f, x: tensor[n]):
    """Two softplus, written out."""
    f.y[n] = log(1 + exp(x[n])) + 3 * log1p(exp(-x[n]))
    return f.y


@op
def tangent_of_both_exponentials(f, x: tensor[n]):
    """A hyperbolic tangent as a quotient of sums."""
    f.over[n] = (exp(x[n]) - exp(-x[n])) / 2
    f.under[n] = (exp(x[n]) + exp(-x[n])) / 2
    f.y[n] = 3 * f.over[n] / f.under[n]
    return f.y


@op
def tangent_by_sigmoid(f, x: tensor[n], b: tensor[n]):
    """Twice a sigmoid less one."""
    f.y[n] = 2 / (1 + exp(-2 * x[n])) - 1 + b[n]
    return f.y


@op
def cross_entropy_written_out(f, x: tensor[n], t: constant[n]):
    """Binary cross-entropy of a sigmoid, written out."""
    p = 1 / (1 + exp(-x[n]))
    f.loss[()] = -mean(t[n] * log(p) + (1 - t[n]) * log(1 - p), over=n)
    return f.loss


@op
def exponential_unit(f, x: tensor[n]):
    """A bent line and an exponential less one."""
    f.y[n] = where(x[n] > 0, x[n], 2 * (exp(x[n]) - 1))
    return f.y


@op
def opacity(f, x: tensor[n]):
    """One less an exponential of what is above 0."""
    f.e[n] = exp(-relu(x[n]))
    f.y[n] = 1 - f.e[n]
    return f.y


@op
def heavy_tails(f, x: tensor[n]):
    """Logarithms of one and a square, and of one and a magnitude."""
    f.q[n] = 1 + x[n] ** 2
    f.y[n] = log(f.q[n]) / 2 + log(1 + abs(x[n]))
    return f.y


@op
def exponential_less_its_line(f, x: tensor[n]):
    """An exponential less one and its argument."""
    f.y[n] = exp(x[n]) - 1 - x[n]
    return f.y


@op
def elu_plus_one(f, q: tensor[n, d], k: tensor[s, d]):
    """Products of two feature maps that are exponentials below 0."""
    f.fq[n, d] = where(q[n, d] > 0, q[n, d], exp(q[n, d]) - 1) + 1
    f.fk[s, d] = where(k[s, d] > 0, k[s, d], exp(k[s, d]) - 1) + 1
    f.a[n, s] = sum(f.fq[n, d] * f.fk[s, d], over=d)
    return f.a


@op
def softmax_on_paper(f, z: tensor[n, c]):
    """A softmax in one line."""
    f.p[n, c] = exp(z[n, c] - amax(z[n, k], over=k)) / sum(exp(z[n, j] - amax(z[n, k], over=k)), over=j)
    return f.p


@op
def causal_shares_inside(f, z: tensor[j, k]):
    """A causal softmax whose mask stands in the exponential."""
    f.p[j, k] = exp(where(k <= j, z[j, k], -oo)) / sum(exp(where(k <= j, z[j, k], -oo)), over=k)
    return f.p


@op
def variance_under_shares(f, z: tensor[n, c], v: tensor[n, c]):
    """The variance of values under a softmax, by squares."""
    f.o[n] = (
        sum(exp(z[n, c]) * v[n, c] ** 2, over=c) / sum(exp(z[n, c]), over=c)
        - (sum(exp(z[n, c]) * v[n, c], over=c) / sum(exp(z[n, c]), over=c)) ** 2
    )
    return f.o


@op
def divergence_of_two_softmaxes(f, z: tensor[n, c], v: tensor[n, c]):
    """The divergence of two softmaxes, in one equation."""
    f.o[n] = sum(
        exp(z[n, c])
        / sum(exp(z[n, m]), over=m)
        * (log(exp(z[n, c]) / sum(exp(z[n, m]), over=m)) - log(exp(v[n, c]) / sum(exp(v[n, m]), over=m))),
        over=c,
    )
    return f.o


@op
def log_sum_of_sums(f, z: tensor[n, j, k]):
    """The logarithm of a sum of exponentials whose inner sum has a name."""
    f.s[n, j] = sum(exp(z[n, j, k]), over=k)
    f.o[n] = log(sum(f.s[n, j], over=j))
    return f.o


@op
def shares_along_two_turned(f, x: tensor[i, j, n], w: tensor[n]):
    """Weighed shares over two axes, in another order."""
    f.p[n, j, i] = w[n] * exp(x[i, j, n]) / sum(exp(x[i, j, n]), over=(j, i))
    return f.p


@op
def log_shares_along_two(f, x: tensor[n, i, j]):
    """Log-probabilities over two axes."""
    f.m[n] = amax(x[n, i, j], over=(i, j))
    f.y[n, i, j] = x[n, i, j] - f.m[n] - log(sum(exp(x[n, i, j] - f.m[n]), over=(i, j)))
    return f.y


@op
def shares_over_two_axes_apart(f, x: tensor[n, c, k]):
    """Shares along axes that do not lie side by side."""
    f.p[n, c, k] = exp(x[n, c, k]) / sum(exp(x[n, c, k]), over=(n, k))
    return f.p


@op
def sigmoid_both_sides(f, x: tensor[n], z: constant[n]):
    """Binary cross-entropy of the other sign."""
    f.y[n] = maximum(-x[n], 0) - x[n] * z[n] + softplus(-abs(x[n]))
    return f.y


@op
def gate_in_the_logarithm(f, g: tensor[n], m: tensor[n], state: tensor[n]):
    """A gate in the logarithm: minus a softplus (Beck et al., 2024)."""
    f.kept[n] = -softplus(-g[n])
    f.y[n] = exp(f.kept[n] + m[n]) * state[n]
    return f.y


@op
def running_hazard(f, x: tensor[n, s]):
    """What is left of a ray behind each sample (Max, 1995)."""
    f.y[n, s] = exp(-sum(where(k <= s, relu(x[n, k]), 0), over=k))
    return f.y


@op
def bent_softplus(f, x: tensor[...]):
    """The mish activation (Misra, 2019)."""
    f.t[...] = tanh(log(1 + exp(x[...])))
    f.y[...] = x[...] * f.t[...]
    return f.y


@op
def bent_softplus_twice(f, x: tensor[i, j]):
    """An activation of itself."""
    f.a[i, j] = x[i, j] * tanh(softplus(x[i, j]))
    f.y[i, j] = f.a[i, j] * tanh(softplus(f.a[i, j]))
    return f.y


@op
def pulled_and_pushed(f, x: tensor[n, d], w: constant[n, d]):
    """Logarithms of one and a weighed sum of exponentials."""
    f.near[n] = log1p(sum(w[n, d] ** 2 * exp(-2 * x[n, d]), over=d))
    f.far[n] = log1p(sum((1 + w[n, d]) ** 2 * exp(x[n, d]), over=d))
    f.y[n] = f.near[n] + f.far[n]
    return f.y


@op
def log_from_a_logit(f, x: tensor[n]):
    """The logarithm of one less a sigmoid and a small number."""
    f.y[n] = log(1 - sigmoid(x[n]) + 1e-8)
    return f.y


@op
def tail_of_the_normal(f, z: tensor[n]):
    """The logarithm of a normal distribution's tail."""
    f.y[n] = log(erfc(-z[n] / sqrt(2)) / 2)
    return f.y


@op
def log_of_sums_of_sums(f, z: tensor[n, j, k]):
    """A log-sum-exp over one axis, then another."""
    f.o[n] = log(sum(sum(exp(z[n, j, k]), over=k), over=j))
    return f.o


@op
def log_of_means_of_means(f, z: tensor[n, j, k]):
    """A log-mean-exp over one axis, then another."""
    f.o[n] = log(mean(mean(exp(z[n, j, k]), over=k), over=j))
    return f.o


@op
def tanh_nine_deep(f, x: tensor[n, c]):
    """A function of itself, again and again."""
    z = x[n, c]
    for _ in range(9):
        z = tanh(z)
    f.y[n] = sum(z, over=c)
    return f.y


@op
def quotients_six_deep(f, x: tensor[n, c]):
    """A quotient in a quotient in a quotient."""
    z = x[n, c]
    for _ in range(6):
        z = z / (1 + z * z)
    f.y[n, c] = z
    return f.y


@op
def softsign_by_hand(f, x: tensor[n]):
    """A value over one more than its magnitude."""
    f.y[n] = x[n] / (1 + abs(x[n]))
    return f.y


@op
def algebraic_sigmoid(f, x: tensor[n]):
    """A value over a root of one more than its square."""
    f.y[n] = x[n] / sqrt(1 + x[n] ** 2)
    return f.y


@op
def quotient_to_a_power(f, scale: tensor[n].positive, k: tensor[n], x: constant[n].positive):
    """A quotient to a learned power."""
    f.y[n] = (x[n] / scale[n]) ** k[n]
    return f.y


HOSTILE = {
    "log_sum_exp": "scale 30, scale 100, masked",
    "log_mean_exp": "scale 30, scale 100",
    "average_under_exponentials": "scale 30, scale 100",
    "shares_along_both_axes": "scale 30, scale 100",
    "log_sum_of_kept": "scale 30, mask",
    "soft_minimum_of_some": "scale 30, mask",
    "log_sum_with_one_more": "scale 30, scale 100",
    "shares_with_none_chosen": "scale 30, scale 100",
    "capped_scores": "scale 30, scale 100",
    "clamped_scores": "scale 30, scale 300",
    "log_of_two_sums": "scale 30, scale 100",
    "exponential_by_the_root": "scale 30",
    "tails_of_a_row": "scale 30, scale 100",
    "distances_to_centres": "far from zero, nearly equal",
    "log_of_two_exponentials": "scale 30, scale 100, masked",
    "log_of_three_paths": "scale 30, scale 100",
    "shares_of_three": "scale 30, scale 100",
    "mixture_of_two": "scale 30",
    "odds_of_exponentials": "scale 1e-4",
    "inverse_of_one_and_an_exponential": "scale 30, scale 100",
    "swish_written_out": "scale 30, scale 100",
    "sigmoid_slope_written_out": "scale 30, scale 100",
    "softplus_both_ways": "scale 30, scale 100",
    "tangent_of_both_exponentials": "scale 30, scale 100, scale 1e-4",
    "tangent_by_sigmoid": "scale 30, scale 1e-4",
    "cross_entropy_written_out": "scale 30, scale 100, mask",
    "exponential_unit": "scale 30, scale 1e-4",
    "opacity": "scale 30, scale 1e-4",
    "heavy_tails": "scale 1e4, scale 1e-4",
    "exponential_less_its_line": "scale 1e-4",
    "elu_plus_one": "scale 30, scale 1e-4",
    "softmax_on_paper": "scale 30, scale 300, masked",
    "causal_shares_inside": "scale 30, scale 100",
    "variance_under_shares": "scale 30, nearly equal",
    "divergence_of_two_softmaxes": "scale 30, scale 100, nearly equal",
    "log_sum_of_sums": "scale 30, scale 100",
    "shares_along_two_turned": "scale 30",
    "log_shares_along_two": "scale 30, scale 300",
    "shares_over_two_axes_apart": "scale 30",
    "sigmoid_both_sides": "scale 30, mask",
    "gate_in_the_logarithm": "scale 30",
    "running_hazard": "scale 30, ties",
    "bent_softplus": "scale 30, scale 100",
    "bent_softplus_twice": "scale 30",
    "pulled_and_pushed": "scale 1e-4",
    "log_from_a_logit": "scale 30, scale 300",
    "tail_of_the_normal": "scale 30",
    "log_of_sums_of_sums": "scale 30, scale 300, masked",
    "log_of_means_of_means": "scale 30, scale 300",
    "tanh_nine_deep": "scale 30",
    "quotients_six_deep": "scale 1e4",
    "softsign_by_hand": "scale 1e4",
    "algebraic_sigmoid": "scale 1e4",
}
