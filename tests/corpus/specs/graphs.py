"""Sums over pairs of points, edges and segments."""

from derive import *

b, d, e, h, i, j, k, m, n, v = axes("b d e h i j k m n v")


@op
def graph_attention(f, x: tensor[v, d], w: tensor[d, m], a: tensor[m], src: index(v)[e], dst: index(v)[e]):
    """A layer, a softmax over each node's edges, and messages."""
    f.h[v, m] = sum(x[v, d] * w[d, m], over=d)
    f.z[e] = relu(sum((f.h[src[e], m] - f.h[dst[e], m]) * a[m], over=m))
    f.u[e] = exp(f.z[e])
    f.s[v] = sum(delta(v, dst[e]) * f.u[e], over=e)
    f.p[e] = f.u[e] / f.s[dst[e]]
    f.y[v, m] = sum(delta(v, dst[e]) * f.p[e] * f.h[src[e], m], over=e)
    return f.y


@op
def segment_softmax_twice_read(f, z: tensor[e, d], x: tensor[v, d], g: index(v)[e]):
    """A softmax over the edges into a node, and its sum times a feature."""
    f.u[e, d] = exp(z[e, d])
    f.s[v, d] = sum(delta(v, g[e]) * f.u[e, d], over=e)
    f.p[e, d] = f.u[e, d] / f.s[g[e], d]
    f.y[v, d] = sum(delta(v, g[e]) * f.p[e, d], over=e) * x[v, d]
    return f.p, f.y


@op
def segment_attention(f, s: tensor[k], x: tensor[n, d], src: index(n)[k], dst: index(n)[k]):
    """A softmax over the edges into each node."""
    f.m[n] = amax(where(eq(dst[k], n), s[k], -oo), over=k)
    f.u[k] = exp(s[k] - f.m[dst[k]])
    f.tot[n] = sum(where(eq(dst[k], n), f.u[k], 0), over=k)
    f.p[k] = f.u[k] / f.tot[dst[k]]
    f.y[n, d] = sum(where(eq(dst[k], n), f.p[k] * x[src[k], d], 0), over=k)
    return f.y


@op
def grouped_shares(f, x: tensor[e], of: index(n)[e], groups: length(n)):
    """A softmax of each group, its exponential written twice."""
    f.top[n] = amax(where(eq(of[e], n), x[e], -oo), over=e)
    f.all[n] = sum(where(eq(of[e], n), exp(x[e] - f.top[n]), 0), over=e)
    f.p[e] = exp(x[e] - f.top[of[e]]) / f.all[of[e]]
    return f.p


@op
def edge_energy(f, x: tensor[n, d], w: tensor[k], one: index(n)[k], other: index(n)[k]):
    """Weighed squared lengths of edges."""
    f.y[()] = sum(w[k] * (x[one[k], d] - x[other[k], d]) ** 2, over=(k, d)) / 2
    return f.y


@op
def moved_coordinates(f, x: tensor[i, d], w: tensor[i, j]):
    """Coordinates, moved by their weighed differences (Satorras et al., 2021)."""
    f.y[i, d] = x[i, d] + mean(w[i, j] * (x[i, d] - x[j, d]), over=j)
    return f.y


@op
def kernel_mean(f, x: tensor[i, d], z: tensor[j, d], width: scalar = 3.0):
    """The mean of a Gaussian kernel of all pairs."""
    f.q[i, j] = sum((x[i, d] - z[j, d]) ** 2, over=d)
    f.y[()] = mean(exp(-f.q[i, j] / width), over=(i, j))
    return f.y


@op
def city_blocks(f, x: tensor[i, d], z: tensor[j, d]):
    """A function of sums of magnitudes."""
    f.y[i, j] = tanh(sum(abs(x[i, d] - z[j, d]), over=d))
    return f.y


@op
def soft_centres(f, x: tensor[n, d], z: tensor[k, d], v: tensor[k, d]):
    """A mean of values under shares of distances."""
    f.u[n, k] = exp(-mean((x[n, d] - z[k, d]) ** 2, over=d))
    f.a[n, k] = f.u[n, k] / sum(f.u[n, k], over=k)
    f.y[n, d] = sum(f.a[n, k] * v[k, d], over=k)
    return f.y


@op
def each_pair_once(f, x: tensor[i, d], eps: scalar = 1.0):
    """An energy of distances, each pair once."""
    f.q[i, j] = sum((x[i, d] - x[j, d]) ** 2, over=d) + eps
    f.y[()] = sum(where(i < j, 1 / f.q[i, j] ** 2, 0), over=(i, j))
    return f.y


@op
def own_relevances(f, x: tensor[i, d], z: tensor[j, d], s: tensor[d], v: tensor[j]):
    """A kernel with a length scale for every coordinate."""
    f.k[i, j] = exp(-sum(((x[i, d] - z[j, d]) / s[d]) ** 2, over=d) / 2)
    f.y[i] = sum(f.k[i, j] * v[j], over=j)
    return f.y


@op
def own_and_others(f, x: tensor[n, d], z: tensor[k, d], own: index(k)[n]):
    """The distance to one's own centre over those to all."""
    f.q[n, k] = sum((x[n, d] - z[k, d]) ** 2, over=d)
    f.y[n] = f.q[n, own[n]] / (1 + sum(f.q[n, k], over=k))
    return f.y


@op
def two_kernels_of_pairs(f, x: tensor[i, d], w: tensor[j, i], z: tensor[i, d]):
    """Pairs weighed by a product of two kernels and by the mean of one without its diagonal."""
    f.p[i, j] = exp(-sum((x[i, d] - x[j, d]) ** 2, over=d)) * exp(-mean((z[i, d] - z[j, d]) ** 2, over=d))
    f.q[i, j] = where(ne(i, j), 1 / (sum((x[i, d] - x[j, d]) ** 2, over=d) + 1), 0)
    f.y[()] = sum(w[j, i] * f.p[i, j] * mean(f.q[i, j], over=j), over=(i, j))
    return f.y


@op
def nearest_of_both(f, x: tensor[n, d], y: tensor[k, d]):
    """Chamfer distance: each point's nearest of the others."""
    f.loss[()] = sum(amin(sum((x[n, d] - y[k, d]) ** 2, over=d), over=k), over=n) + sum(
        amin(sum((x[n, d] - y[k, d]) ** 2, over=d), over=n), over=k
    )
    return f.loss


@op
def pulled_by_mass(f, x: tensor[n, d], mass: tensor[n], soft: scalar = 0.05):
    """Gravity, softened."""
    f.inv[i, j] = (sum((x[j, d] - x[i, d]) ** 2, over=d) + soft**2) ** -1.5
    f.a[i, d] = sum(mass[j] * f.inv[i, j] * (x[j, d] - x[i, d]), over=j)
    return f.a


@op
def along_edges_of_a_matrix(f, h: tensor[n, d], adjacent: tensor[n, n]):
    """Differences of neighbours, weighed by an adjacency."""
    f.y[i, d] = sum(adjacent[i, j] * (h[j, d] - h[i, d]), over=j)
    return f.y


@op
def smoothed_points(f, x: tensor[n, d], v: tensor[n, e]):
    """Values averaged under shares of a Gaussian kernel."""
    f.u[i, j] = exp(-sum((x[i, d] - x[j, d]) ** 2, over=d))
    f.a[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.y[i, e] = sum(f.a[i, j] * v[j, e], over=j)
    return f.y


@op
def encoded_residuals(f, x: tensor[n, i, d], a: tensor[n, i, k], z: tensor[k, d]):
    """Weighed differences from each centre, as directions."""
    f.v[n, k, d] = sum(a[n, i, k] * (x[n, i, d] - z[k, d]), over=i)
    f.y[n, k, d] = f.v[n, k, d] / sqrt(sum(f.v[n, k, d] ** 2, over=d) + 1e-6)
    return f.y


@op
def mean_shift(f, x: tensor[n, d], z: tensor[k, d], width: scalar = 2.0):
    """A step of mean shift."""
    f.gap[n, k, d] = z[k, d] - x[n, d]
    f.w[n, k] = exp(-sum(f.gap[n, k, d] ** 2, over=d) / width)
    f.y[n, d] = sum(f.w[n, k] * f.gap[n, k, d], over=k) / sum(f.w[n, k], over=k)
    return f.y


@op
def prototypes(f, x: tensor[n, d], z: tensor[k, d], y: index(k)[n]):
    """Cross-entropy of minus the squared distances to prototypes (Snell, Swersky & Zemel, 2017)."""
    f.s[n, k] = -sum((x[n, d] - z[k, d]) ** 2, over=d)
    f.loss[()] = mean(log(sum(exp(f.s[n, k]), over=k)) - f.s[n, y[n]], over=n)
    return f.loss


@op
def diffused(f, x: tensor[n, d], w: tensor[n, n], u: tensor[d, h]):
    """A layer of weighed differences."""
    f.z[i, d] = sum(w[i, j] * (x[j, d] - x[i, d]), over=j)
    f.y[i, h] = tanh(sum(f.z[i, d] * u[d, h], over=d))
    return f.y


@op
def messages_of_others(f, x: tensor[i, d], z: tensor[j, d]):
    """Messages from every other node (Satorras et al., 2021)."""
    f.y[i, d] = sum(where(ne(i, j), tanh(x[i, d] + z[j, d]), 0), over=j)
    return f.y


@op
def orthogonal_rows(f, x: tensor[b, i, d]):
    """Cubed distances of a Gram matrix from a multiple of the identity."""
    f.g[b, i, j] = sum(x[b, i, d] * x[b, j, d], over=d)
    f.y[b] = sum(abs(f.g[b, i, j] - where(eq(i, j), 1.5, 0)) ** 3, over=(i, j))
    return f.y


@op
def laplacian_of_weights(f, w: tensor[i, i]):
    """Degrees on the diagonal less the weights."""
    f.degree[i] = sum(w[i, j], over=j)
    f.y[i, j] = delta(i, j) * f.degree[i] - w[i, j]
    return f.y


@op
def symmetric_squares(f, x: tensor[n, d], g: tensor[()]):
    """A function of a Gram matrix."""
    f.s[d, e] = sum(x[n, d] * x[n, e], over=n)
    f.loss[()] = g[()] * sum(tanh(f.s[d, e]), over=(d, e))
    return f.loss


@op
def weighed_by_both_points(f, x: tensor[i], w: tensor[i], v: tensor[i]):
    """Sums over pairs, weighed by both points and a function of their difference."""
    f.d[i, j] = x[i] - x[j]
    f.z[i, j] = v[i] * w[j] * f.d[i, j] * exp(-sin(f.d[i, j] + 1))
    f.y[i] = sum(f.z[i, j], over=j)
    return f.y


@op
def spread_of_weights(f, w: tensor[n, i], m: constant[n, i]):
    """How far apart what has weight lies (Barron et al., 2022)."""
    f.loss[n] = sum(w[n, i] * w[n, j] * abs(m[n, i] - m[n, j]), over=(i, j))
    return f.loss


@op
def quadratic_form(f, r: tensor[n], k: tensor[n, m]):
    """A quadratic form of a matrix that is not symmetric."""
    f.y[()] = sum(r[n] * k[n, m] * r[m], over=(n, m))
    return f.y


@op
def projected_pairs(f, x: tensor[n, d], y: tensor[m, d], w: tensor[d, k]):
    """Squared lengths of projected differences."""
    f.z[n, m, k] = sum((x[n, d] - y[m, d]) * w[d, k], over=d)
    f.s[n, m] = sum(f.z[n, m, k] ** 2, over=k)
    return f.s


@op
def springs(f, x: tensor[n, d], ia: index(n)[b], ib: index(n)[b]):
    """Summed lengths of edges."""
    f.E[()] = sum(sqrt(sum((x[ia[b], d] - x[ib[b], d]) ** 2, over=d)), over=b)
    return f.E


@op
def masked_pairs(f, x: tensor[n, d], y: tensor[m, d], c: constant[n, m]):
    """Products of the pairs that a mask keeps."""
    f.s[n, m] = sum(where(c[n, m] > 0, x[n, d] * y[m, d], 0), over=d)
    return f.s


HOSTILE = {
    "graph_attention": "scale 30",
    "segment_softmax_twice_read": "scale 30",
    "segment_attention": "scale 30, scale 300",
    "grouped_shares": "scale 30, scale 300",
    "edge_energy": "far from zero, nearly equal",
    "moved_coordinates": "far from zero, far apart",
    "kernel_mean": "far from zero, far apart",
    "city_blocks": "ties, far apart",
    "soft_centres": "far from zero, nearly equal",
    "each_pair_once": "far from zero, nearly equal",
    "own_relevances": "far from zero",
    "own_and_others": "far from zero",
    "two_kernels_of_pairs": "far from zero",
    "nearest_of_both": "ties, far from zero",
    "pulled_by_mass": "far from zero, nearly equal",
    "along_edges_of_a_matrix": "far from zero",
    "smoothed_points": "far from zero, far apart",
    "encoded_residuals": "far from zero",
    "mean_shift": "far from zero, nearly equal",
    "prototypes": "far from zero, nearly equal",
    "diffused": "far from zero",
    "messages_of_others": "scale 30",
    "orthogonal_rows": "scale 30",
    "laplacian_of_weights": "scale 1e4",
    "symmetric_squares": "scale 30",
    "weighed_by_both_points": "far from zero",
    "spread_of_weights": "ties",
    "quadratic_form": "scale 1e4",
    "projected_pairs": "far from zero",
    "springs": "far from zero",
    "masked_pairs": "mask, scale 1e4",
}
