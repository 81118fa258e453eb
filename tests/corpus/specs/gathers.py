"""Rows, elements and maxima by an index; tables; what is added at places."""

from derive import *

a, b, c, d, e, g, h, i, j, k, m, n, o, q, r, t, v, w, x_, y = axes("a b c d e g h i j k m n o q r t v w x_ y")
two, three = axes("two=2 three=3")


@op
def neighbour_maximum(f, x: tensor[n, d], w: tensor[d, e], nb: index(n)[n, k]):
    """The largest of a layer of each neighbour (GraphSAGE: Hamilton et al., 2017)."""
    f.y[n, e] = amax(sum(x[nb[n, k], d] * w[d, e], over=d), over=k)
    return f.y


@op
def neighbour_scores(f, x: tensor[n, d], q: tensor[d], nb: index(n)[n, k], a: tensor[k]):
    """Weighed scores of neighbours, by a tanh."""
    f.s[n, k] = a[k] * sum(x[nb[n, k], d] * q[d], over=d)
    f.y[n] = sum(tanh(f.s[n, k]), over=k)
    return f.y


@op
def rows_of_a_batch(f, x: tensor[b, n, d], w: tensor[d, e], nb: index(n)[b, n, k]):
    """A product of rows that each example gathers by its own index."""
    f.y[b, n, k, e] = sum(x[b, nb[b, n, k], d] * w[d, e], over=d)
    return f.y


@op
def between_thresholds(f, z: tensor[n], th: tensor[k], y: index(i)[n]):
    """An ordinal probability at the label, of a distribution between cuts."""
    f.cut[j] = concat(-9, th[k], 9, along=j)
    f.cdf[n, j] = sigmoid(f.cut[j] - z[n])
    f.pr[n, i] = f.cdf[n, i + 1] - f.cdf[n, i]
    f.loss[()] = mean(f.pr[n, y[n]] ** 2, over=n)
    return f.loss


@op
def picked_share(f, z: tensor[n, c], y: index(c)[n]):
    """A power of the label's share."""
    f.top[n] = amax(z[n, c], over=c)
    f.u[n, c] = exp(z[n, c] - f.top[n])
    f.p[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    f.loss[n] = f.p[n, y[n]] ** 0.7
    return f.loss


@op
def several_picked_shares(f, z: tensor[n, c], y: index(c)[n, k]):
    """A softmax at several places of each row, which may be the same."""
    f.m[n] = amax(z[n, c], over=c)
    f.u[n, c] = exp(z[n, c] - f.m[n])
    f.p[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    f.o[n, k] = f.p[n, y[n, k]]
    return f.o


@op
def histogram_of_the_next(f, x: tensor[n], lo: index(k)[n], bins: length(k)):
    """Squares added at the place behind an index."""
    f.h[k] = sum(where(eq(lo[n] + 1, k), x[n] ** 2, 0), over=n)
    return f.h


@op
def sent_back_by_share(f, share: tensor[n, w], x: tensor[w, c, d], took: index(n)[w, c]):
    """Experts' outputs added at their tokens, each by its share."""
    f.y[n, d] = sum(where(eq(took[w, c], n), share[n, w] * x[w, c, d], 0), over=(w, c))
    return f.y


@op
def fixed_points(f, x: tensor[n, c], y: index(c)[n, c]):
    """What stands where an index is its own place."""
    f.z[n] = sum(where(eq(y[n, c], c), x[n, c] ** 2, 0), over=c)
    return f.z


@op
def guarded_label(f, z: tensor[n, c], y: index(c)[n]):
    """A likelihood of two outcomes, both under one guard of the label."""
    f.out[n] = where((y[n] >= 0) & (z[n, 0] > 0.5), -log(z[n, y[n]]), 0) + where(
        (y[n] >= 0) & ~(z[n, 0] > 0.5), -log(2 - z[n, y[n]]), 0
    )
    return f.out


@op
def guarded_in_one_another(f, z: tensor[n, c], y: index(c)[n]):
    """Two conditions in one another, both about what the index reads."""
    f.out[n] = where(y[n] >= 0, where(z[n, y[n]] > 0.5, z[n, y[n]] ** 2, z[n, 0]), 0)
    return f.out


@op
def grid_averages(f, v: tensor[n, c], py: index(y)[n], px: index(x_)[n], high: length(y), wide: length(x_)):
    """Means of what falls into each cell."""
    f.count[y, x_] = sum(where(eq(py[n], y) & eq(px[n], x_), 1, 0), over=n)
    f.grid[c, y, x_] = sum(where(eq(py[n], y) & eq(px[n], x_), v[n, c], 0), over=n) / maximum(f.count[y, x_], 1)
    return f.grid


@op
def expert_load(f, pick: index(c)[n], z: tensor[n, c]):
    """The share of tokens times the mean score of each expert (Fedus et al., 2022)."""
    f.part[c] = mean(delta(pick[n], c), over=n)
    f.y[()] = sum(f.part[c] * mean(z[n, c], over=n), over=c)
    return f.y


@op
def class_centres(f, x: tensor[n, d], y: index(k)[n], other: tensor[k]):
    """What each row has less the mean of its class."""
    f.hot[n, k] = where(eq(y[n], k), 1, 0)
    f.count[k] = sum(f.hot[n, k], over=n)
    f.mu[k, d] = sum(f.hot[n, k] * x[n, d], over=n) / maximum(f.count[k], 1)
    f.apart[n, d] = x[n, d] - sum(f.hot[n, k] * f.mu[k, d], over=k)
    return f.apart


@op
def focal_at_the_label(f, z: tensor[n, c], y: index(c)[n], gamma: scalar = 2.0):
    """Focal loss of sigmoids, another function at the label."""
    f.p[n, c] = sigmoid(z[n, c])
    f.loss[n, c] = where(
        eq(c, y[n]), -((1 - f.p[n, c]) ** gamma) * log(f.p[n, c]), -(f.p[n, c] ** gamma) * log(1 - f.p[n, c])
    )
    return f.loss


@op
def diagonal_of_exponentials(f, r: tensor[n, d], m: tensor[n, d, d]):
    """A triangular factor with an exponential diagonal."""
    f.low[n, d, e] = where(e < d, m[n, d, e], 0) + where(eq(d, e), exp(m[n, d, e]), 0)
    f.y[n, e] = sum(f.low[n, d, e] * r[n, d], over=d)
    return f.y


@op
def rows_by_kind(f, x: tensor[n, d], w: tensor[r, d, o], at: index(n)[e], kind: index(r)[e]):
    """A product by a matrix of each edge's kind."""
    f.y[e, o] = sum(x[at[e], d] * w[kind[e], d, o], over=d)
    return f.y


@op
def mixture_of_experts(f, x: tensor[n, d], g: tensor[n, k], w: tensor[r, d, o], pick: index(r)[n, k]):
    """Gated products by several chosen matrices."""
    f.y[n, o] = sum(g[n, k] * tanh(sum(x[n, d] * w[pick[n, k], d, o], over=d)), over=k)
    f.z[n] = sum(g[n, k] * x[n, d] * w[pick[n, k], d, 0], over=(d, k))
    return f.y, f.z


@op
def emissions(f, a: tensor[b, j], B: tensor[j, o], seen: index(o)[b]):
    """A step of a hidden Markov model: states times what they emit."""
    f.y[b, j] = a[b, j] * exp(B[j, seen[b]])
    return f.y


@op
def sampled_images(f, img: tensor[n, c, h, w], y: index(h)[n, t], x: index(w)[n, t]):
    """Pixels of each image at places of its own."""
    f.o[n, c, t] = img[n, c, y[n, t], x[n, t]] ** 2
    return f.o


@op
def best_expert(f, z: tensor[n, k], y: tensor[n, k, d, e], best: index(k)[n]):
    """One expert's output, times its gate."""
    f.o[n, d, e] = sigmoid(z[n, best[n]]) * y[n, best[n], d, e]
    return f.o


@op
def picked_rows_and_columns(f, x: tensor[h, w, c], i: index(h)[n], j: index(w)[m]):
    """A grid of rows and columns by two indices."""
    f.y[n, m, c] = x[i[n], j[m], c] ** 2
    return f.y


@op
def complex_rows_turned(f, z: tensor[c, two, d], angle: tensor[e, d], at: index(c)[e], to: index(c)[e]):
    """Complex rows turned by angles, less other rows."""
    f.re[e, d] = z[at[e], 0, d] * cos(angle[e, d]) - z[at[e], 1, d] * sin(angle[e, d]) - z[to[e], 0, d]
    f.im[e, d] = z[at[e], 0, d] * sin(angle[e, d]) + z[at[e], 1, d] * cos(angle[e, d]) - z[to[e], 1, d]
    return f.re, f.im


@op
def segment_maximum(f, x: tensor[e, h], dst: index(v)[e], nodes: length(v)):
    """The largest of each segment, read again at its elements."""
    f.m[v, h] = amax(where(eq(dst[e], v), x[e, h], -oo), over=e)
    f.y[e, h] = f.m[dst[e], h] * x[e, h]
    return f.y


@op
def segment_minimum_or_nothing(f, x: tensor[e, h], bias: tensor[v], dst: index(v)[e]):
    """The least of a segment's rows, 0 where it has none."""
    f.m[v] = amin(where(ne(dst[e], v), oo, 2 * x[e, h] + bias[v]), over=(e, h))
    f.y[v] = where(f.m[v] < oo, f.m[v], 0)
    return f.y


@op
def segment_shares(f, s: tensor[e], dst: index(v)[e], nodes: length(v)):
    """A softmax of each segment."""
    f.m[v] = amax(where(eq(dst[e], v), s[e], -oo), over=e)
    f.w[e] = exp(s[e] - f.m[dst[e]])
    f.total[v] = sum(where(eq(dst[e], v), f.w[e], 0), over=e)
    f.p[e] = f.w[e] / f.total[dst[e]]
    return f.p


@op
def slope_by_kind(f, x: tensor[n, d], a: tensor[k], kind: index(k)[n]):
    """A gate whose slope depends on a kind."""
    f.y[n, d] = x[n, d] * tanh(a[kind[n]] * x[n, d])
    return f.y


@op
def added_beside_first_places(f, x: tensor[n, three], y: index(n)[g], w: tensor[n, two]):
    """Squares, gathered exponentials and first places of one table."""
    f.a[n, three] = x[n, three] ** 2
    f.b[g, three] = exp(x[y[g], three])
    f.c[n, two] = w[n, two] * x[n, two]
    return f.a, f.b, f.c


@op
def rated_by_games(f, s: tensor[n], won: index(n)[g], lost: index(n)[g]):
    """Strengths by who beat whom (Bradley & Terry, 1952), kept near 0."""
    f.loss[()] = mean(softplus(s[lost[g]] - s[won[g]]), over=g) + 0.01 * sum(s[n] ** 2, over=n)
    return f.loss


@op
def translated_heads(f, e: tensor[n, t], r: tensor[n, t], head: index(n)[h], tail: index(n)[h]):
    """A head moved by its relation, less the tail."""
    f.y[h, t] = e[head[h], t] + r[head[h], t] - e[tail[h], t]
    return f.y


@op
def places_of_places(f, x: tensor[i], z: tensor[i], y: index(i)[n], w: index(n)[o]):
    """An index read at an index."""
    f.s[o] = x[y[w[o]]] * z[y[w[o]]]
    return f.s


@op
def near_and_far_words(f, U: tensor[v, d], W: tensor[v, d], near: index(v)[n], far: index(v)[n, k], s: constant[n]):
    """Word vectors of a word and its context."""
    f.near_[n] = tanh(s[n] * sum(U[near[n], d] * W[near[n], d], over=d))
    f.y[n, k] = f.near_[n] * tanh(sum(U[near[n], d] * W[far[n, k], d], over=d))
    return f.y


@op
def shuffled_channels(f, x: tensor[n, c, h], w: tensor[o, c], b: tensor[o], many: length(q)):
    """A layer half of whose channels become places."""
    f.z[n, o, h] = sum(w[o, c] * x[n, c, h], over=c) + b[o]
    f.t[n, q, two, h] = f.z[n, (q, two), h]
    f.y[n, q, (h, two)] = f.t[n, q, two, h]
    return f.y


@op
def partners_of_pairs(f, z: tensor[i, d], pair: index(i)[i]):
    """Scores of all pairs, read at each one's partner."""
    f.s[i, j] = where(eq(i, j), 0, sum(z[i, d] * z[j, d], over=d))
    f.y[i] = f.s[i, pair[i]] ** 2 + where(pair[i] > 0, f.s[pair[i], pair[i]] + f.s[0, pair[i]], 0)
    return f.y


@op
def padded_embedding(f, C: tensor[v, e], ix: index(v)[n, t]):
    """Rows of a table, none for a negative index."""
    f.y[n, t, e] = where(ix[n, t] >= 0, C[ix[n, t], e], 0)
    return f.y


@op
def ages_as_numbers(f, age: index(a)[n, t], ages: length(a), s: tensor[()], rate: scalar = 0.1):
    """An index used as a number."""
    f.y[n, t] = exp(-s[()] * age[n, t]) + s[()] * sin(rate * age[n, t])
    return f.y


@op
def cumulative_outcomes(f, x: tensor[n, m], y: index(i)[n], size_of_k: length(k)):
    """Differences of a distribution, picked by an index."""
    f.cdf[n, h, k] = sigmoid(x[n, (h, k)])
    f.p[n, i, k] = f.cdf[n, i + 1, k] - f.cdf[n, i, k]
    f.l[n, k] = log(f.p[n, y[n], k] ** 2 + 1)
    return f.l


HOSTILE = {
    "neighbour_maximum": "ties, scale 30",
    "neighbour_scores": "scale 30",
    "rows_of_a_batch": "scale 1e4",
    "between_thresholds": "scale 30",
    "picked_share": "scale 30",
    "several_picked_shares": "scale 30",
    "histogram_of_the_next": "scale 1e4",
    "sent_back_by_share": "scale 1e4",
    "fixed_points": "scale 1e4",
    "guarded_label": "ties",
    "guarded_in_one_another": "ties",
    "grid_averages": "far from zero",
    "expert_load": "scale 30",
    "class_centres": "far from zero",
    "focal_at_the_label": "scale 30",
    "diagonal_of_exponentials": "scale 30",
    "rows_by_kind": "scale 1e4",
    "mixture_of_experts": "scale 30",
    "emissions": "scale 30",
    "sampled_images": "scale 1e4",
    "best_expert": "scale 30",
    "picked_rows_and_columns": "scale 1e4",
    "complex_rows_turned": "scale 1e4",
    "segment_maximum": "ties",
    "segment_minimum_or_nothing": "ties",
    "segment_shares": "scale 30, scale 300",
    "slope_by_kind": "scale 30",
    "added_beside_first_places": "scale 30",
    "rated_by_games": "scale 30, scale 300",
    "translated_heads": "far from zero",
    "places_of_places": "scale 1e4",
    "near_and_far_words": "scale 30",
    "shuffled_channels": "scale 1e4",
    "partners_of_pairs": "scale 30",
    "padded_embedding": "scale 1e4",
    "ages_as_numbers": "scale 30",
    "cumulative_outcomes": "scale 30",
}
