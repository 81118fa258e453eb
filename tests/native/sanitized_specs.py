"""Kernels whose memory was once written beside: of each loop form that was at fault, one or two specs."""

from derive import *

c, d, h, i, j, k, l, n, o, p, q, r, t, u, v, w = axes("c d h i j k l n o p q r t u v w")
b, e, g, pair = axes("b e g pair=2")


@op
def padded_rows(f, x: tensor[n, c, t], k: tensor[c, p]):
    """What taps add to a row that each thread keeps for itself."""
    f.y[n, c, u] = sum(where((u + p >= 1) & (u + p <= size(t)), x[n, c, u + p - 1] * k[c, p], 0), over=p)
    return f.y


@op
def padded_far(f, x: tensor[n, t], k: tensor[p]):
    """The same without channels, with taps two places apart and zeros on one side."""
    f.y[n, t] = sum(where(t + 2 * p >= 4, x[n, t + 2 * p - 4] * k[p], 0), over=p)
    return f.y


@op
def padded_planes(f, x: tensor[n, c, h, w], k: tensor[c, p, q]):
    """The same of planes, along both of whose axes there are zeros."""
    inside = (h + p >= 1) & (h + p <= size(h)) & (w + q >= 1) & (w + q <= size(w))
    f.y[n, c, h, w] = sum(where(inside, x[n, c, h + p - 1, w + q - 1] * k[c, p, q], 0), over=(p, q))
    return f.y


@op
def padded_blocks(f, x: tensor[n, d, h, w], k: tensor[r, p, q]):
    """The same of blocks."""
    deep = (d + r >= 1) & (d + r <= size(d))
    wide = (h + p >= 1) & (h + p <= size(h)) & (w + q >= 1) & (w + q <= size(w))
    taken = x[n, d + r - 1, h + p - 1, w + q - 1] * k[r, p, q]
    f.y[n, d, h, w] = sum(where(deep & wide, taken, 0), over=(r, p, q))
    return f.y


@op
def every_second(f, x: tensor[n, c, t], k: tensor[c, o, p], out: length(u)):
    """A product adds to memory that another step has filled with zeros."""
    f.y[n, o, u] = sum(where(eq(2 * t + 2 * p - 1, u), x[n, c, t] * k[c, o, p], 0), over=(c, t, p))
    return f.y


@op
def two_sums(f, x: tensor[n, i], z: tensor[n, j]):
    """Sums over two axes stand in one pass, of which one may be long and the other short."""
    f.y[n, i] = x[n, i] / (1 + sum(x[n, i] ** 2, over=i)) * sum(z[n, j] ** 2, over=j)
    return f.y


@op
def counted_on(f, z: tensor[n, h, w]):
    """One stage counts through two axes as one, a later one asks for the place on the inner, which may be short."""
    p = exp(z[n, h, w]) / sum(exp(z[n, i, j]), over=(i, j))
    f.share[n, h, w] = p
    f.place[n] = sum(w * f.share[n, h, w], over=(h, w))
    return f.place


@op
def grouped_strides(f, x: tensor[n, e, u], a: tensor[e, o, k], groups: length(g), wide: length(t)):
    """A product through windows adds, tap by tap, to the zeros of a tile."""
    f.y[n, (g, o), t] = sum(where(eq(2 * u + k, t + 1), x[n, (g, c), u] * a[(g, c), o, k], 0), over=(c, u, k))
    return f.y


@op
def halves(f, x: tensor[b, d], weight: tensor[c, d], y: index(c)[b]):
    """One step reads an axis whole that another reads as two."""
    f.z[b, c] = sum(x[b, d] * weight[c, d], over=d)
    f.logp[b, c] = f.z[b, c] - log(sum(exp(f.z[b, l]), over=l))
    f.s[b] = f.logp[b, y[b]]
    f.h[pair, n] = f.s[((pair, n),)]
    f.loss[()] = sum(softplus(f.h[0, n] - f.h[1, n]), over=n)
    return f.loss
