"""Moments, correlations and distributions."""

from sympy import loggamma

from derive import *

c, d, i, j, k, n, t = axes("c d i j k n t")


@op
def calculator_correlation(f, x: tensor[n], z: tensor[n]):
    """A correlation by sums, as for a calculator."""
    f.xz[()] = size(n) * sum(x[n] * z[n], over=n) - sum(x[n], over=n) * sum(z[n], over=n)
    f.xx[()] = size(n) * sum(x[n] ** 2, over=n) - sum(x[n], over=n) ** 2
    f.zz[()] = size(n) * sum(z[n] ** 2, over=n) - sum(z[n], over=n) ** 2
    f.r[()] = f.xz[()] / sqrt(f.xx[()] * f.zz[()])
    return f.r


@op
def covariance_by_products(f, x: tensor[n, i], z: tensor[n, j]):
    """The mean of products less the product of means."""
    f.c[i, j] = mean(x[n, i] * z[n, j], over=n) - mean(x[n, i], over=n) * mean(z[n, j], over=n)
    return f.c


@op
def weighted_variance(f, u: constant[n, k], x: tensor[n, k]):
    """A variance under weights that add up to 1, by squares."""
    f.a[n, k] = u[n, k] / sum(u[n, k], over=k)
    f.mu[n] = sum(f.a[n, k] * x[n, k], over=k)
    f.var[n] = sum(f.a[n, k] * x[n, k] ** 2, over=k) - f.mu[n] ** 2
    return f.var


@op
def third_moment(f, x: tensor[n, d], sigma: tensor[()]):
    """Skewness, scaled by a number that cancels."""
    f.mu[n] = mean(x[n, d], over=d)
    f.v[n] = mean((x[n, d] - f.mu[n]) ** 2, over=d)
    f.E[()] = sigma[()] * sum(mean(((x[n, d] - f.mu[n]) / sqrt(f.v[n])) ** 3, over=d), over=n) / sigma[()]
    return f.E


@op
def robust_scale(f, x: tensor[n, d], sigma: tensor[()]):
    """Cauchy's loss under a learned scale."""
    f.E[()] = mean(log(1 + (x[n, d] / sigma[()]) ** 2), over=(n, d))
    return f.E


@op
def student_density(f, x: tensor[n], nu: scalar = 4.0):
    """The log-density of Student's distribution."""
    f.y[n] = (
        loggamma((nu + 1) / 2) - loggamma(nu / 2) - log(nu * pi) / 2 - (nu + 1) / 2 * log(1 + x[n] ** 2 / nu)
    )  # fmt: skip
    return f.y


@op
def lagged_correlation(f, x: tensor[n, d]):
    """The correlation of a series with itself one place later."""
    f.mu[n] = mean(x[n, d], over=d)
    f.z[n, d] = x[n, d] - f.mu[n]
    f.num[n] = sum(f.z[n, k] * f.z[n, k + 1], over=k)
    f.r[n] = f.num[n] / sum(f.z[n, d] ** 2, over=d)
    return f.r


@op
def central_moments(f, x: tensor[n, d], number: length(k)):
    """Central moments of as many powers as are asked for."""
    f.m[n] = mean(x[n, d], over=d)
    f.y[n, k] = mean((x[n, d] - f.m[n]) ** k, over=d)
    return f.y


@op
def rational_unit(f, x: tensor[n, d], a: tensor[k], b: tensor[d, k]):
    """A safe Padé activation unit (Molina, Schramowski & Kersting, 2020)."""
    f.below[n, d] = 1 + abs(sum(b[d, k] * x[n, d] ** (k + 1), over=k))
    f.y[n, d] = sum(a[k] * x[n, d] ** k, over=k) / f.below[n, d]
    return f.y


@op
def variance_written_out(f, x: tensor[i, d]):
    """The mean of a square that is multiplied out."""
    f.m[i] = mean(x[i, d], over=d)
    f.v[i] = mean(x[i, d] ** 2 + f.m[i] ** 2 - 2 * x[i, d] * f.m[i], over=d)
    return f.v


@op
def distances_written_out(f, x: tensor[i, d], z: tensor[j, d]):
    """Squared distances, multiplied out."""
    f.y[i, j] = sum(x[i, d] ** 2 - 2 * x[i, d] * z[j, d] + z[j, d] ** 2, over=d)
    return f.y


@op
def normal_density(f, x: tensor[n], s: tensor[n]):
    """A density, and a tanh with a root of a number."""
    f.y[n] = exp(-(x[n] ** 2) / 2) / (s[n] * sqrt(2 * pi)) + tanh(sqrt(2 / pi) * x[n])
    return f.y


@op
def centred_apart(f, x: tensor[n, d], y: tensor[n, d]):
    """The mean squared difference of two tables, each less its column means."""
    f.mx[d] = mean(x[n, d], over=n)
    f.my[d] = mean(y[n, d], over=n)
    f.e[d] = mean(((x[n, d] - f.mx[d]) - (y[n, d] - f.my[d])) ** 2, over=n)
    return f.e


@op
def counts_above(f, x: tensor[n, t], z: tensor[n, t], g: tensor[n]):
    """A value divided by how many are above others."""
    f.count[n] = sum(where(x[n, t] > z[n, t], 1, 0), over=t)
    f.y[n] = where(f.count[n] > 0, g[n] / f.count[n], 0)
    return f.y


@op
def cosine_transform(f, x: tensor[n, t], bands: length(k)):
    """A discrete cosine transform."""
    f.y[n, k] = sum(x[n, t] * cos(pi * k * (t + 0.5) / size(t)), over=t)
    return f.y


@op
def soft_rank(f, x: tensor[i], tau: scalar = 0.1):
    """How many are smaller, softly."""
    f.y[i] = sum(sigmoid((x[i] - x[j]) / tau), over=j)
    return f.y


@op
def sharpe(f, w: tensor[k], r: constant[n, k]):
    """A mean over a deviation, of weighed returns."""
    f.p[n] = sum(exp(w[k]) * r[n, k], over=k)
    f.m[()] = sum(f.p[n], over=n) / size(n)
    f.s[()] = sqrt(sum((f.p[n] - f.m[()]) ** 2, over=n))
    f.y[()] = -f.m[()] / f.s[()]
    return f.y


@op
def generalised_mean(f, x: tensor[n, c].positive, p: tensor[()]):
    """Generalised-mean pooling (Radenovic, Tolias & Chum, 2018)."""
    f.y[n] = mean(x[n, c] ** p[()], over=c) ** (1 / p[()])
    return f.y


@op
def ordered_times(f, x: tensor[i, d], z: tensor[j, d], v: tensor[d]):
    """What is above 0 of weighed differences of all pairs."""
    f.p[i, j] = sum(v[d] * (x[i, d] - z[j, d]), over=d)
    f.y[()] = sum(relu(f.p[i, j]), over=(i, j))
    return f.y


HOSTILE = {
    "calculator_correlation": "far from zero, nearly equal",
    "covariance_by_products": "far from zero, nearly equal",
    "weighted_variance": "far from zero",
    "third_moment": "nearly equal, far from zero",
    "robust_scale": "scale 1e4, scale 1e-4",
    "student_density": "scale 1e4, scale 1e-4",
    "lagged_correlation": "far from zero, nearly equal",
    "central_moments": "far from zero",
    "rational_unit": "scale 30",
    "variance_written_out": "far from zero, nearly equal",
    "distances_written_out": "far from zero, nearly equal",
    "normal_density": "scale 30",
    "centred_apart": "far from zero, nearly equal",
    "counts_above": "ties",
    "cosine_transform": "scale 1e4",
    "soft_rank": "ties, scale 30",
    "sharpe": "nearly equal",
    "generalised_mean": "scale 30",
    "ordered_times": "ties, far from zero",
}
