"""Conditions, masks, maxima and pieces, with the slopes at their edges."""

from sympy import Piecewise

from derive import *

c, d, h, i, j, k, m, n, t, u = axes("c d h i j k m n t u")


@op
def clamp_by_numbers(f, x: tensor[n, d], w: tensor[n, d]):
    """A weight times a value between -1 and 1."""
    f.y[n, d] = w[n, d] * minimum(maximum(x[n, d], -1), 1)
    return f.y


@op
def spread_of_a_clamp(f, x: tensor[n, d], w: tensor[n, d]):
    """An exponential of a weighed clamp."""
    f.s[n, d] = minimum(maximum(x[n, d], -1), 1)
    f.y[n, d] = exp(f.s[n, d] * w[n, d])
    return f.y


@op
def root_of_what_is_above(f, x: tensor[n, d]):
    """A square root that begins at 0."""
    f.h[n, d] = maximum(x[n, d], 0)
    f.y[n, d] = sqrt(f.h[n, d])
    return f.y


@op
def larger_of_two_times_smaller(f, a: tensor[n, d], b: tensor[n, d]):
    """A maximum of two times an exponential of a minimum."""
    f.y[n] = sum(maximum(a[n, d], b[n, d]) * exp(minimum(a[n, d], 0)), over=d)
    return f.y


@op
def clipped_mean_of_rows(f, r: tensor[n, d], a: constant[n, d], mask: constant[n, d]):
    """Clipped ratios averaged over what a mask keeps, at least one."""
    f.total[n] = sum(minimum(r[n, d] * a[n, d], 2 * a[n, d]) * mask[n, d], over=d)
    f.y[n] = f.total[n] / maximum(sum(mask[n, d], over=d), 1)
    return f.y


@op
def hats_at_places(f, x: tensor[n, d], w: tensor[n, d, k]):
    """Hat functions at whole places, weighed."""
    f.y[n] = sum(w[n, d, k] * relu(1 - abs(x[n, d] - k)), over=(d, k))
    return f.y


@op
def slabs_and_rays(f, o: constant[n, d], r: tensor[n, d].nonzero, a: tensor[d], b: tensor[d]):
    """Where rays enter and leave slabs."""
    f.t[n, d] = (a[d] - o[n, d]) / r[n, d]
    f.u[n, d] = (b[d] - o[n, d]) / r[n, d]
    f.near[n] = amax(minimum(f.t[n, d], f.u[n, d]), over=d)
    f.far[n] = amin(maximum(f.t[n, d], f.u[n, d]), over=d)
    return f.near, f.far


@op
def relative_share(f, x: tensor[n, d], w: tensor[n, d], slope: scalar):
    """A share times a leaky rectifier."""
    f.q[n, d] = w[n, d] / sum(w[n, d], over=d)
    f.y[n, d] = slope * f.q[n, d] * maximum(x[n, d], x[n, d] / 10)
    return f.y


@op
def distance_beyond_a_bound(f, x: tensor[n, d], b: tensor[d]):
    """The length of what exceeds a bound."""
    f.y[n] = sqrt(sum(maximum(x[n, d] - b[d], 0) ** 2, over=d))
    return f.y


@op
def share_of_rectified_features(f, x: tensor[n, d], z: tensor[k, d], v: tensor[k, j]):
    """Linear attention by squares of what is above 0."""
    f.q[n, d] = relu(x[n, d]) ** 2
    f.p[k, d] = relu(z[k, d]) ** 2
    f.r[n] = sum(f.q[n, d] * sum(f.p[k, d], over=k), over=d) + 1e-6
    f.y[n, j] = sum(f.q[n, d] * sum(f.p[k, d] * v[k, j], over=k), over=d) / f.r[n]
    return f.y


@op
def smooth_absolute_between(f, e: tensor[n, d], k: scalar = 1.0):
    """A parabola between two bounds, lines outside."""
    f.y_[n, d] = where((e[n, d] >= -k) & (e[n, d] <= k), e[n, d] ** 2 / (2 * k), abs(e[n, d]) - k / 2)
    return f.y_


@op
def falling_pairs(f, x: tensor[n, d], w: constant[n, d]):
    """What falls from one place to the next, squared."""
    f.gap[n, k] = where(x[n, k] > x[n, k + 1], (x[n, k] - x[n, k + 1]) ** 2 * w[n, k], 0)
    f.y[n] = sum(f.gap[n, k], over=k)
    return f.y


@op
def own_otherwise(f, s: tensor[n, k], w: constant[n, k], temperature: scalar = 0.1):
    """A soft rank among some over a soft rank among all."""
    f.g[n, i, j] = sigmoid((s[n, j] - s[n, i]) / temperature)
    f.all[n, i] = 1 + sum(where(ne(i, j), f.g[n, i, j], f.g[n, i, j] ** 2), over=j)
    f.some[n, i] = 1 + sum(where(ne(i, j), w[n, j] * f.g[n, i, j], f.g[n, i, j]), over=j)
    f.y[n, i] = f.some[n, i] / f.all[n, i]
    return f.y


@op
def logistic_preferences(f, x: tensor[n], t: constant[n], w: scalar = 0.7):
    """Two logistic losses, by which a label chooses."""
    f.l[n] = where(t[n] > 0.5, w * (1 - sigmoid(x[n])), 1 - sigmoid(-x[n]) ** 2)
    f.loss[()] = mean(f.l[n], over=n)
    return f.loss


@op
def bounded_cosine(f, x: tensor[n, d], w: tensor[c, d], low: scalar = 1.875):
    """A cosine whose norms have a floor."""
    f.xx[n] = sum(x[n, d] ** 2, over=d)
    f.ww[c] = sum(w[c, d] ** 2, over=d)
    f.y[n, c] = sum(x[n, d] * w[c, d], over=d) / maximum(sqrt(f.xx[n] * f.ww[c]), low)
    return f.y


@op
def larger_of_three(f, x: tensor[n, d], z: tensor[n, d], w: tensor[n, d]):
    """A maximum of a maximum."""
    f.y[n, d] = maximum(maximum(x[n, d], z[n, d]), w[n, d])
    return f.y


@op
def larger_of_neighbours(f, x: tensor[m]):
    """The larger of a place and the next."""
    f.y[n] = maximum(x[n + 1], x[n])
    return f.y


@op
def half_the_ties(f, a: tensor[n, d], x: tensor[n, d], b: tensor[n, d], z: tensor[n, d]):
    """The smaller of two products."""
    f.y[n, d] = minimum(a[n, d] * x[n, d], b[n, d] * z[n, d])
    return f.y


@op
def third_of_a_difference(f, a: tensor[n, d], x: tensor[n, d], b: tensor[n, d], z: tensor[n, d]):
    """Rectifiers and magnitudes of a third of a difference of products."""
    f.u[n, d] = a[n, d] * x[n, d] - b[n, d] * z[n, d]
    f.v[n, d] = f.u[n, d] / 3
    f.w[n, d] = f.v[n, d] * a[n, d]
    f.y[n, d] = relu(f.w[n, d]) + abs(f.v[n, d]) + f.u[n, d] * f.v[n, d] * f.w[n, d]
    return f.y


@op
def shrunk_towards_zero(f, x: tensor[n], d: scalar):
    """Soft thresholding."""
    f.y[n] = where(x[n] > d, x[n] - d, where(x[n] < -d, x[n] + d, 0))
    return f.y


@op
def cubic_spline(f, x: tensor[n]):
    """The cubic B-spline by its pieces."""
    f.a[n] = abs(x[n])
    inner = (4 - 6 * f.a[n] ** 2 + 3 * f.a[n] ** 3) / 6
    f.y[n] = where(f.a[n] < 1, inner, where(f.a[n] < 2, (2 - f.a[n]) ** 3 / 6, 0))
    return f.y


@op
def bicubic_kernel(f, x: tensor[n]):
    """The kernel of bicubic interpolation by its pieces."""
    f.a[n] = abs(x[n])
    near = (f.a[n] - 1) * (3 * f.a[n] ** 2 - 2 * f.a[n] - 2) / 2
    far = (1 - f.a[n]) * (2 - f.a[n]) ** 2 / 2
    f.y[n] = where(f.a[n] <= 1, near, where(f.a[n] < 2, far, 0))
    return f.y


@op
def four_cubics(f, x: tensor[n]):
    """A piece after another of degree three and one."""
    inner = where(x[n] < 1, x[n] ** 3 - x[n], where(x[n] < 2, 2 * (x[n] - 1), (x[n] - 2) ** 3 + 2 * x[n] - 2))
    f.y[n] = where(x[n] < 0, -x[n], inner)
    return f.y


@op
def hard_swish_by_cases(f, x: tensor[n]):
    """Nothing, a parabola, the value itself."""
    f.y[n] = where(x[n] <= -3, 0, where(x[n] >= 3, x[n], x[n] * (x[n] + 3) / 6))
    return f.y


@op
def parametric_rectifier(f, x: tensor[n, c, t], a: tensor[c]):
    """A learned slope below 0 for each channel."""
    f.y[n, c, t] = where(x[n, c, t] > 0, x[n, c, t], a[c] * x[n, c, t])
    return f.y


@op
def rectifier_after_a_layer(f, x: tensor[n, d], w: tensor[d, c], a: tensor[c]):
    """A learned slope behind a product of matrices."""
    f.z[n, c] = sum(x[n, d] * w[d, c], over=d)
    f.y[n, c] = where(f.z[n, c] > 0, f.z[n, c], a[c] * f.z[n, c])
    return f.y


@op
def bent_by_extrema(f, x: tensor[n], slope: scalar = 0.1):
    """A bent line by a maximum and a minimum."""
    f.y[n] = 2 + maximum(x[n], 0) + slope * minimum(x[n], 0)
    return f.y


@op
def in_three_steps(f, x: tensor[n], w: tensor[n]):
    """Three numbers by two thresholds that cross."""
    f.y[n] = w[n] * where(x[n] > 0.5, 3, where(x[n] < 0.7, -2, 0))
    return f.y


@op
def lopsided_square(f, x: tensor[n], tau: scalar = 0.7):
    """The expectile loss."""
    f.y[n] = abs(tau - where(x[n] < 0, 1, 0)) * x[n] ** 2
    return f.y


@op
def interval_score(f, lo: tensor[n], hi: tensor[n], x: tensor[n], alpha: scalar = 0.1):
    """How far a value is outside an interval."""
    f.below[n] = where(x[n] < lo[n], lo[n] - x[n], 0)
    f.above[n] = where(x[n] > hi[n], (x[n] - hi[n]) ** 2, 0)
    f.y[n] = 2 / alpha * (f.below[n] + f.above[n])
    return f.y


@op
def learned_step_size(f, x: tensor[n, d], r: constant[n, d], s: tensor[()].positive):
    """A learned step of quantisation, by cases (LSQ: Esser et al., 2020)."""
    f.v[n, d] = x[n, d] / s[()]
    f.y[n, d] = where(f.v[n, d] < -8, -8 * s[()], where(f.v[n, d] > 7, 7 * s[()], s[()] * (f.v[n, d] + r[n, d])))
    return f.y


@op
def maximum_of_a_scaled_window(f, x: tensor[n, d], o: tensor[k]):
    """The largest of scaled and shifted windows."""
    f.b[n, t] = amax(x[n, t + k] * o[k] / 3 + o[k], over=k)
    return f.b


@op
def between_extremes(f, x: tensor[n, d], o: tensor[d]):
    """A row moved between 0 and 1."""
    f.s[n, d] = x[n, d] * o[d] / 7
    f.low[n] = amin(f.s[n, d], over=d)
    f.y[n, d] = (f.s[n, d] - f.low[n]) / (amax(f.s[n, d], over=d) - f.low[n] + 1)
    return f.y


@op
def rectified_by_cases(f, x: tensor[n, d], w: tensor[d, c]):
    """A rectifier by SymPy's cases."""
    f.u[n, c] = sum(x[n, d] * w[d, c], over=d)
    f.y[n, c] = Piecewise((0, f.u[n, c] <= 0), (f.u[n, c], True))
    return f.y


@op
def hinge_by_a_choice(f, x: tensor[n, d], w: tensor[d, c], margin: scalar = 1.0):
    """A hinge that is chosen."""
    f.u[n, c] = sum(x[n, d] * w[d, c], over=d)
    f.y[n, c] = where(margin > f.u[n, c], margin - f.u[n, c], 0)
    return f.y


@op
def farther_than_its_own(f, x: tensor[i, d], own: index(j)[i]):
    """A distance less the next larger one."""
    f.far[i, j] = sum((x[i, d] - x[j, d]) ** 2, over=d)
    f.least[i] = f.far[i, own[i]]
    f.next[i] = amin(where(f.far[i, j] > f.least[i], f.far[i, j], oo), over=j)
    f.y[i] = f.least[i] - f.next[i]
    return f.y


@op
def masked_twice(f, x: tensor[n, h], w: tensor[h], a: constant[h], b: constant[h]):
    """A root of two squares under two masks."""
    f.y[n, h] = (where(a[h] > 0, x[n, h], 0) ** 2 + where(b[h] > 0, w[h] * x[n, h], 0) ** 2) ** (1 / 4)
    return f.y


@op
def chosen_of_chosen(f, x: tensor[n]):
    """A square or a rectified difference, by its place."""
    f.b[n] = x[n] - sum(x[n], over=n)
    f.y[n] = where(n >= 1, x[n] * x[n], relu(f.b[n])) - x[n]
    return f.y


@op
def spread_by_its_variance(f, x: tensor[n, d]):
    """The variance of a row, and its largest less its least."""
    f.mu[n] = mean(x[n, d], over=d)
    f.v[n] = mean((x[n, d] - f.mu[n]) ** 2, over=d)
    f.y[n] = amax(x[n, d], over=d) - amin(x[n, d], over=d)
    return f.y, f.v


@op
def mean_times_maximum(f, z: tensor[n, c]):
    """The mean of shares times their maximum."""
    f.m[n] = amax(z[n, c], over=c)
    f.u[n, c] = exp(z[n, c] - f.m[n])
    f.p[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    f.y[n] = mean(f.p[n, c], over=c) * amax(f.p[n, c], over=c)
    return f.y


@op
def cases_of_sympy(f, x: tensor[n, d]):
    """A square, an exponential and a line by SymPy's cases."""
    f.y[n, d] = Piecewise((x[n, d] ** 2, x[n, d] > 1), (exp(x[n, d]), x[n, d] > 0), (2 * x[n, d], True))
    return f.y


@op
def guarded_quotient(f, k: tensor[n, m], x: tensor[n, m]):
    """A quotient of pairs, the diagonal left out twice."""
    f.r[n, m] = x[n, m] ** 2
    f.y[n, m] = where(ne(n, m), k[n, m] / where(ne(n, m), f.r[n, m], 1), 0)
    return f.y


@op
def replaced_rows(f, x: tensor[n, d], w: tensor[n, d], g: tensor[n]):
    """A number of a row that is chosen, read twice."""
    f.s[n] = sum(w[n, d], over=d)
    f.y[n, d] = x[n, d] - w[n, d] * where(f.s[n] > g[n], f.s[n], g[n] / 2)
    f.z[n, d] = x[n, d] + w[n, d] ** 2 * where(f.s[n] > g[n], f.s[n], g[n] / 2)
    return f.y, f.z


@op
def reparametrised(f, ls: tensor[n, d], eps: constant[n, d]):
    """A sample with a clamped logarithm of its scale."""
    f.c[n, d] = minimum(maximum(ls[n, d], -5), 2)
    f.u[n, d] = exp(f.c[n, d]) * eps[n, d]
    return f.u


@op
def signed_by_a_margin(f, c: tensor[n], m: tensor[n], z: tensor[n]):
    """An angle turned by a margin, where a label asks for it."""
    f.y[n] = where(z[n] > 0, c[n] * cos(m[n]) - sqrt(maximum(1 - c[n] ** 2, 1e-7)) * sin(m[n]), c[n])
    return f.y


@op
def distances_by_larger(f, x: tensor[n, d], y: tensor[k, d]):
    """Sums of the larger coordinates of all pairs."""
    f.s[n, k] = sum(maximum(x[n, d], y[k, d]), over=d)
    return f.s


@op
def rectified_twice(f, x: tensor[n, d], W: tensor[d, k]):
    """A layer of what is above 0."""
    f.h[n, d] = relu(x[n, d])
    f.y[n, k] = sum(f.h[n, d] * W[d, k], over=d)
    return f.y


@op
def running_maximum(f, x: tensor[n, t], g: tensor[n, t]):
    """What stands where the running maximum does."""
    f.m[n, t] = amax(where(u <= t, x[n, u], -oo), over=u)
    f.y[n, t] = sum(where(eq(where(u <= t, x[n, u], -oo), f.m[n, t]), g[n, u], 0), over=u)
    return f.y


@op
def lowest_ahead(f, x: tensor[t, d]):
    """Squares of the least of what is ahead."""
    f.m[t, d] = amin(where(u >= t, tanh(x[u, d]), oo), over=u)
    f.y[t] = sum(f.m[t, d] ** 2, over=d)
    return f.y


HOSTILE = {
    "clamp_by_numbers": "ties, scale 30",
    "spread_of_a_clamp": "ties, scale 30",
    "root_of_what_is_above": "ties, zeros",
    "larger_of_two_times_smaller": "ties, scale 30",
    "clipped_mean_of_rows": "ties, mask",
    "hats_at_places": "ties",
    "slabs_and_rays": "ties",
    "relative_share": "ties",
    "distance_beyond_a_bound": "ties, far from zero",
    "share_of_rectified_features": "ties, zeros",
    "smooth_absolute_between": "ties, scale 30",
    "falling_pairs": "ties",
    "own_otherwise": "scale 30, ties",
    "logistic_preferences": "scale 30, mask",
    "bounded_cosine": "nearly equal, zeros",
    "larger_of_three": "ties",
    "larger_of_neighbours": "ties",
    "half_the_ties": "ties",
    "third_of_a_difference": "ties",
    "shrunk_towards_zero": "ties, scale 30",
    "cubic_spline": "ties",
    "bicubic_kernel": "ties",
    "four_cubics": "ties",
    "hard_swish_by_cases": "ties, scale 30",
    "parametric_rectifier": "ties, scale 30",
    "rectifier_after_a_layer": "ties",
    "bent_by_extrema": "ties, scale 1e4",
    "in_three_steps": "ties",
    "lopsided_square": "ties, scale 1e4",
    "interval_score": "ties, far apart",
    "learned_step_size": "ties, scale 30",
    "maximum_of_a_scaled_window": "ties",
    "between_extremes": "ties, nearly equal, far from zero",
    "rectified_by_cases": "ties",
    "hinge_by_a_choice": "ties",
    "farther_than_its_own": "ties, far from zero",
    "masked_twice": "mask, ties",
    "chosen_of_chosen": "ties",
    "spread_by_its_variance": "ties, nearly equal",
    "mean_times_maximum": "scale 30, ties",
    "cases_of_sympy": "ties, scale 30",
    "guarded_quotient": "scale 1e4",
    "replaced_rows": "ties",
    "reparametrised": "scale 30",
    "signed_by_a_margin": "ties, scale 30",
    "distances_by_larger": "ties, far apart",
    "rectified_twice": "ties",
    "running_maximum": "ties",
    "lowest_ahead": "ties, scale 30",
}
