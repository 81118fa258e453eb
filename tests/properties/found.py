"""Specs on which random ones failed once, shrunk by hand: what each showed, and its text."""

FOUND: dict[str, str] = {
    "a gradient that is 0 everywhere of an input without axes": """
def spec(f, x: tensor[n], w: tensor[()]):
    f.a[()] = x[0]
    return f.a""",
    "an output that is a number": """
def spec(f, x: tensor[..., n]):
    f.a[()] = 2
    f.b[n] = delta(n, 0) * 2 + 0.25
    return f.a, f.b""",
    "a gradient that is 0 everywhere over `...` alone": """
def spec(f, x: tensor[n], w: tensor[...]):
    f.a[()] = x[0]
    return f.a""",
    "one place of an axis beside `...`": """
def spec(f, x: tensor[..., n], ix: index(n)[()]):
    f.a[..., n] = x[..., n] * tanh(x[..., ix[()]])
    return f.a""",
    "a sum over a window from which a factor comes out": """
def spec(f, x: tensor[n, k], w: tensor[d]):
    f.a[i, n, k] = mean(x[n, i + d] + x[n, k], over=d)
    return f.a""",
    "a merge of axes that the value lacks": """
def spec(f, x: tensor[..., d]):
    f.c[(..., d),] = x[..., 0]
    return f.c""",
    "a merge of axes of a number": """
def spec(f, x: tensor[n, d]):
    f.b[(n, d),] = log(3)
    f.c[()] = f.b[0] + x[0, 0]
    return f.c""",
    "a sum over an axis that its body lacks": """
def spec(f, x: tensor[t, n], o: tensor[..., d], o2: tensor[t]):
    f.a[..., t] = relu(x[t, 0]) + sum(o[..., size(d) - 1], over=d)
    f.b[t] = sum(o2[t], over=n)
    return f.a, f.b""",
    "a sum of a number": """
def spec(f, x: tensor[t]):
    f.b[()] = sum(2, over=t) * x[0]
    return f.b""",
    "an axis as a number under a function": """
def spec(f, x: tensor[n]):
    f.a[n] = x[n] * sin(n / 10) + exp(n / size(n))
    return f.a""",
    "a choice between two numbers under a function": """
def spec(f, x: tensor[n], w: tensor[()]):
    f.a[n] = exp(where(x[n] > 0, 0.1, 0.3)) * w[()]
    f.b[n] = where(x[n] > 0, 0.1, 0.3) * w[()]
    f.c[n] = where(x[n] > 0, 1, 0)
    f.g[()] = mean(f.c[n], over=n)
    return f.a, f.b, f.c, f.g""",
    "a function of a number": """
def spec(f, x: tensor[d], scale: scalar = -1.5):
    f.a[d] = relu(scale) + sign(scale) + softplus(scale) * x[d]
    return f.a""",
    "a place and a gather in one read": """
def spec(f, x: tensor[d, n], ix: index(n)[k]):
    f.a[n, d, k] = x[1, ix[k]]
    return f.a""",
    "an axis in a window and beside it": """
def spec(f, x: tensor[m, n], w: tensor[d, n]):
    f.a[n, d, i] = x[2 * i + n, n] * w[d, n]
    return f.a""",
    "a mask shared between an operand with `...` and one without": """
def spec(f, x: tensor[t, d], w: tensor[..., m, d, t]):
    f.a[..., m, t] = amin(maximum(x[t, 0], w[..., m, d, t]), over=d)
    return f.a""",
    "the difference of two equal elements": """
def spec(f, x: tensor[n], ix: index(n)[t]):
    f.a[t, n] = exp(relu(x[ix[t]])) + maximum(x[n], x[n])
    return f.a""",
    "sums named for the order of an operand that does not give them their layout": """
def spec(f, x: tensor[d, n, k], w: tensor[..., d]):
    f.a[d, n, k] = x[d, n, k] - mean(x[d, n, k], over=n)
    f.b[..., i, d] = concat(2 * x[d, n, 1], exp(f.a[d, n, 0]), tanh(x[d, n, 0]), along=i)
    return f.b""",
    "a merge that broadcasts": """
def spec(f, x: tensor[..., d, t], w: tensor[..., m], o: tensor[d]):
    f.b[..., (m, d), t] = x[..., d, t] / (1 + o[d] ** 2)
    return f.b""",
    "the last place of a concatenation": """
def spec(f, x: tensor[t]):
    f.c[i] = concat(tanh(x[t]), exp(x[t]), along=i)
    f.g[()] = f.c[size(i) - 1]
    return f.c, f.g""",
    "a tensor of merged axes of which one place is read": """
def spec(f, x: tensor[d, n]):
    f.a[(n, d),] = x[d, n] + x[d, n] ** 2
    f.b[d] = f.a[0] / exp(tanh(x[d, 0]))
    return f.b""",
    "gradients at one place of a window, of which one is summed over more axes": """
def spec(f, x: tensor[k], w: tensor[d, n]):
    f.b[i, d] = x[i + d] ** 2 * w[d, 0]
    f.c[i, d, n] = x[i + d] + f.b[i, d] + w[d, n]
    return f.c""",
    "an index that has the axis it is compared with": """
def spec(f, x: tensor[d, n], w: tensor[n], ix: index(n)[d, n]):
    f.a[d, n] = delta(n, ix[d, n]) * x[d, n] * sqrt(exp(w[n]))
    return f.a""",
    "an axis as a number, at its last place": """
def spec(f, x: tensor[n], w: tensor[d]):
    f.a[n, d] = softplus(w[d] * n)
    f.c[()] = f.a[size(n) - 1, 0] * x[0]
    return f.c""",
    "a slope of 1 beside place 1": """
def spec(f, x: tensor[n, d]):
    f.a[()] = relu(softplus(x[1, 0]))
    return f.a""",
    "a gather in a branch whose condition is a reduction": """
def spec(f, x: tensor[n, d], ix: index(n)[()]):
    f.a[()] = where(mean(x[n, 1], over=n) > 0, x[ix[()], 0], tanh(x[0, 0]) * sum(x[n, 0], over=n))
    return f.a""",
    "an identity that divides by an exponential": """
def spec(f, x: tensor[n]):
    f.a[()] = amax(x[n], over=n)
    f.b[n] = exp(x[n] - f.a[()])
    f.c[n] = f.b[n] / sum(f.b[n], over=n)
    f.g[()] = sum(x[3 * i] * f.b[0], over=i) + f.b[0] + f.a[()]
    f.h[()] = mean(where(ne(n, 0), x[1], abs(f.c[n])), over=n)
    return f.g, f.h""",
    "a concatenation of a concatenation": """
def spec(f, x: tensor[t]):
    f.b[i] = concat(tanh(x[t]), exp(x[t]), along=i)
    f.c[j] = concat(f.b[i], 2 * x[t], along=j)
    return f.c""",
    "a reduction over `...` of one that lacks an axis before it": """
def spec(f, x: tensor[..., n]):
    f.a[n] = mean(amax(x[..., i + 1] + x[..., n], over=i), over=...)
    return f.a""",
    "a reduction over `...` of a product with what lacks it": """
def spec(f, x: tensor[..., n], w: tensor[()]):
    f.a[n] = abs(erf(w[()]) / (sum(x[..., n], over=...) ** 2 + 1))
    f.c[n] = mean(f.a[n] * x[..., 0], over=...)
    return f.c""",
    "one axis in three places": """
def spec(f, x: tensor[..., n, n, n], w: tensor[m, m, d]):
    f.a[..., n] = x[..., n, n, n] ** 2
    f.b[n, d] = w[(n, d), (n, d), d]
    return f.a, f.b""",
    "a gather on a diagonal": """
def spec(f, x: tensor[n, n, n], ix: index(n)[n]):
    f.a[n] = x[n, ix[n], n] ** 2
    return f.a""",
    "a loop over the taps of a bound axis": """
def spec(f, x: tensor[k, d], w: tensor[k, n, d]):
    f.a[k, d] = x[k, d] - mean(x[k, d], over=d)
    f.c[d, n, i] = f.a[i + d, 0] + (w[0, n, d] - f.a[0, d])
    return f.c""",
    "a window along an axis of a merge": """
def spec(f, x: tensor[..., m, k], w: tensor[n, d, k]):
    f.a[..., n, d, i] = x[..., (n, d), i + d] * w[n, d, i + d]
    f.b[..., n, d, i] = x[..., (n, d), 0] * w[0, 1, i + d]
    return f.a, f.b""",
    "one place of a merge with `...`": """
def spec(f, x: tensor[..., k, d], w: tensor[n, k]):
    f.p[(..., d), n, k] = x[..., 0, d] * w[n, k]
    f.q[..., n, d] = where(x[..., 0, d] > 0, f.p[(..., d), n, 1], x[..., 1, 0])
    return f.q""",
    "ties where no view reads what is reduced": """
def spec(f, x: tensor[m, k, n], w: tensor[d]):
    f.c[n, i] = amax(x[(n, d), i + d, n] * w[d], over=d)
    return f.c""",
    "a merge with an axis of length 1 that is told from its whole": """
def spec(f, x: tensor[k], w: tensor[k]):
    f.b[(k, i),] = tanh(w[k] * x[(i, k),])
    return f.b""",
    "a product with a choice between numbers": """
def spec(f, x: tensor[..., n], ix: index(n)[()]):
    f.b[..., n] = where(eq(n, ix[()]), 3, x[..., 0]) * x[..., 0]
    return f.b""",
    "a count of ties on its own": """
def spec(f, x: tensor[n, n], w: tensor[d]):
    f.b[d] = amax(where(n > d, x[n, n] * x[n, 0], where(eq(d, n), x[n, n], x[0, n])), over=n)
    f.g[()] = x[0, 0] ** 2 * (f.b[0] - f.b[1]) + w[0]
    return f.g""",
    "a function that a later equation has as well": """
def spec(f, x: tensor[d]):
    f.a[d] = where(x[0] >= 0.5, x[size(d) - 1] * x[d], exp(x[d]))
    f.b[d] = exp(x[d])
    f.c[d] = f.b[d] / sum(f.b[d], over=d)
    f.g[d] = exp(tanh(f.a[d]))
    f.h[d] = f.g[d] / sum(f.g[d], over=d)
    return f.h""",
    "a sum over `...` where it stands for nothing": """
def spec(f, x: tensor[..., k]):
    f.a[..., k] = delta(k, 0) * x[..., k] - x[..., k]
    f.b[k] = sin(sum(f.a[..., k], over=...))
    f.g[..., k] = exp(f.a[..., k])
    f.h[..., k] = f.g[..., k] / sum(f.g[..., k], over=k)
    return f.b, f.g, f.h""",
    "a contraction of what has `...` last": """
def spec(f, x: tensor[..., d], w: tensor[k], o: tensor[n]):
    f.b[n, d, i] = w[i + d] * o[n] * mean(where(eq(d, i), w[0] * w[i + d], log(x[..., d] ** 2 + 1)), over=...)
    f.c[d] = sum(f.b[n, d, i], over=(n, i))
    return f.c""",
    "a mean repeated along an axis": """
def spec(f, w: tensor[d], x: tensor[k]):
    f.a[k] = mean(w[d] / exp(w[size(d) - 1]), over=d)
    f.r[k] = (f.a[k] - mean(f.a[k], over=k)) * x[k]
    return f.a, f.r""",
    "a product repeated along an axis": """
def spec(f, w: tensor[n, d], v: tensor[d], x: tensor[k]):
    f.a[n, k] = sum(w[n, d] * v[d], over=d)
    f.y[n, k] = f.a[n, k] ** 2 * x[k] + f.a[n, k]
    return f.y""",
    "a view that repeats what it shows": """
def spec(f, x: tensor[m], w: tensor[n]):
    f.b[m] = exp(x[m] - amax(x[m], over=m))
    f.g[n, m] = f.b[m]
    f.h[n, m] = x[m] * w[0] + f.g[n, m] * x[0]
    return f.h""",
    "one number added at each place of a gather along the first axis": """
def spec(f, x: tensor[n, d], ix: index(n)[d]):
    f.a[()] = sum(2 * x[ix[d], d], over=d)
    return f.a""",
    "a mask under a minus sign": """
def spec(f, x: tensor[..., m, n]):
    f.a[n, m] = -delta(n, 0) / (sum(x[..., m, n], over=...) ** 2 + 1)
    return f.a""",
    "a part of a merged axis under a minus sign": """
def spec(f, x: tensor[n, t]):
    f.a[i] = sum(x[(i, n), n + 2 * i] + x[(i, n), i] / exp(i), over=n)
    return f.a""",
    "a gather of what is itself read at gathered places": """
def spec(f, x: tensor[n, d], ix: index(n)[()]):
    f.a[n, d] = x[n, d] - mean(x[n, d], over=n)
    f.b[d, n] = x[n, d] * f.a[ix[()], d]
    f.c[()] = f.b[0, ix[()]]
    return f.c""",
    "a count of ties at a place that a scatter names": """
def spec(f, x: tensor[k, d]):
    f.a[(i, k),] = amax(x[i + d, d] + (x[k, d] * x[i + d, d]), over=d)
    f.c[k] = amax(x[k, d], over=d)
    f.g[k, d] = exp(x[k, d] - f.c[k])
    f.h[k] = f.c[k] + log(sum(f.g[k, d], over=d))
    f.p[i, d] = f.h[i + d] * sin(f.g[i + d, 0])
    return f.a, f.p""",
    "a window at one place, which reads the first of a longer axis": """
def spec(f, w: tensor[d, n]):
    f.c[i, d] = w[d, d + 3 * i] * delta(i, 0) * w[size(d) - 1, d + 3 * i]
    return f.c""",
    "a reduction over `...` of a gather that lacks it": """
def spec(f, x: tensor[..., d], w: tensor[n], ix: index(n)[k, m]):
    f.a[..., k, m, n] = 2 * w[n]
    f.b[k, m] = amin(f.a[..., k, m, ix[k, m]], over=...) + w[0]
    return f.b""",
    "a place of a window that an index names": """
def spec(f, x: tensor[m, n], ix: index(n)[()]):
    f.p[n] = x[n, n] + mean(x[i + n, n] ** 2, over=i)
    f.q[()] = f.p[ix[()]]
    return f.q""",
    "a sum repeated along an axis that another gradient reads": """
def spec(f, x: tensor[n, d], w: tensor[n, t], o: tensor[n, t]):
    f.a[n, t] = exp(w[n, t])
    f.b[n, t] = f.a[n, t] / sum(f.a[n, t], over=t)
    f.c[n] = sum(o[n, t], over=t) - sigmoid(f.b[n, 0])
    f.g[n, d] = where(d < 1, f.c[n], maximum(x[n, d], f.b[n, size(t) - 1]))
    return f.g""",
    "a mask from which a multiple is subtracted in one call": """
def spec(f, x: tensor[..., n, d]):
    f.a[..., d, n] = relu(x[..., n, d]) - x[..., n, d] ** 3
    f.b[..., d, n] = f.a[..., d, n] - mean(f.a[..., d, n], over=n)
    return f.b""",
    "a number times a matrix and a vector": """
def spec(f, x: tensor[d], w: tensor[n]):
    f.a[d] = x[d] - mean(x[d], over=d)
    f.b[n, d] = tanh((f.a[d] * w[n]) ** 2 * w[n])
    return f.b""",
    "a comparison of exponentials of -oo": """
def spec(f, x: tensor[n]):
    f.b[n] = exp(where(n >= 1, x[1], -oo)) / (x[n] ** 2 + 1)
    f.c[()] = where(f.b[0] * f.b[0] > 0, x[1] ** 2, 0.5 * x[0])
    return f.c""",
    "a comparison of exponentials of a mask with a name": """
def spec(f, x: tensor[n]):
    f.a[n] = where(n >= 1, x[n], -oo)
    f.b[n] = where(exp(f.a[n]) + exp(where(n >= 2, x[n], -oo)) > 0, x[n] ** 2, 0.5 * x[n])
    return f.b""",
    "the absolute value of an exponential of -oo": """
def spec(f, x: tensor[n], w: tensor[n]):
    f.a[n] = abs(exp(where((x[n] > 0) | (w[n] <= x[n]), x[n], -oo)))
    f.b[n] = abs(exp(where(n >= 1, x[n], -oo)) - w[n]) + sqrt(exp(where(n >= 1, x[n], -oo)) ** 2 + 1)
    return f.a, f.b""",
    "one place of a merged dimension": """
def spec(f, x: tensor[n, m, d], w: tensor[n]):
    f.a[n, d, m] = tanh(w[n] / exp(w[n]) * sum(x[n, 2 * i, d] + x[n, (n, d), d], over=i)) * x[n, m, d]
    f.c[()] = f.a[0, 0, 0]
    return f.c""",
    "an axis whose reads cancel": """
def spec(f, x: tensor[n, d], w: tensor[n]):
    f.a[i, d] = w[3 * i] * (x[3 * i, d] - x[3 * i, d])
    f.b[i] = sum(f.a[i, d] * 0 + x[0, d] ** 2, over=d)
    return f.a, f.b""",
    "a maximum over `...` of what is computed": """
def spec(f, x: tensor[..., n, d], w: tensor[n, d]):
    f.b[n] = sum(2, over=...) * exp(w[n, 0])
    f.g[n, d] = amin(x[..., n, d] + f.b[n], over=...)
    return f.g""",
    "a view that reads some parts of an axis": """
def spec(f, x: tensor[n, d]):
    f.a[j, n] = concat(x[n, d], x[n, d], x[n, d], along=j)
    f.b[i, n, j] = sum(x[d + i, d] + f.a[(n, d), n], over=d)
    return f.b""",
    "many places of one tensor in sums to be told apart": """
def spec(f, x: tensor[m], w: tensor[n, d, k]):
    f.y[i, n] = x[i + n] + where(w[n, 1, 3] <= w[0, 0, 0], w[n, 1, 2], w[n, 0, 0]) * x[1] / (
        (w[n, 0, 1] / (w[1, 0, 0] ** 2 + 1)) ** 2 + 1)
    return f.y""",
    "a mean over all of a maximum that lies in a column": """
def spec(f, x: tensor[n, d]):
    f.a[n] = amax(x[n, d], over=d)
    f.g[n] = f.a[n] - mean(f.a[n], over=n)
    f.p[n, d] = exp(x[n, d] - f.a[n])
    f.q[n, d] = f.p[n, d] / sum(f.p[n, d], over=d)
    return f.g, f.p, f.q""",
    "a sum over all, leading axes too, of statistics that lie in columns": """
def spec(f, x: tensor[..., n, d]):
    f.a[..., n] = amax(x[..., n, d], over=d)
    f.p[..., n, d] = exp(x[..., n, d] - f.a[..., n])
    f.s[..., n] = sum(f.p[..., n, d], over=d)
    f.q[..., n, d] = f.p[..., n, d] / f.s[..., n]
    f.g[()] = sum(f.a[..., n] * f.s[..., n], over=(..., n))
    return f.q, f.g""",
    "a matrix that an index without dimensions chooses, a view of what is written over": """
def spec(f, x: tensor[n, d, k], o: tensor[k], ix: index(n)[()]):
    f.b[n, k] = amax(x[n, d, k], over=d)
    f.c[n, d, k] = exp(x[n, d, k] - f.b[n, k])
    f.g[n, k] = f.b[n, k] + log(sum(f.c[n, d, k], over=d))
    f.h[d, k] = where(k <= d, o[k], sum(f.c[n, d, k], over=n)) * f.g[ix[()], k]
    return f.h""",
    "what is added to a diagonal beside an index": """
def spec(f, x: tensor[n, d, k], ix: index(n)[()]):
    f.a[i] = sum(x[ix[()], i + k, k] + x[ix[()], k, k] ** 2, over=k)
    return f.a""",
    "the largest on diagonals, at two places of another axis": """
def spec(f, x: tensor[n, d, k]):
    f.a[i] = amax(x[n, size(d) - 1, i + n] + x[n, 0, i + n], over=n)
    return f.a""",
    "a product that repeats along an axis, and the same product": """
def spec(f, x: tensor[m, n], o: tensor[m]):
    f.h[m] = exp(o[m])
    f.q[n, m] = o[m] / exp(o[m])
    f.r[n, m] = tanh(f.q[n, m]) * x[m, n]
    return f.r, f.h""",
    "an output that repeats places of what is kept": """
def spec(f, x: tensor[n, d, k]):
    f.a[d, i] = concat(exp(x[n, d, 0]), exp(x[n, d, 0]), along=i)
    f.b[n, d, k] = f.a[d, (n, d)]
    return f.b""",
    "a condition of an axis and its copy, asked twice": """
def spec(f, x: tensor[n], o: tensor[n, d], o2: tensor[..., t]):
    f.a[t, n, d] = x[n] * o[n, d] / exp(where(n <= t, o[(t, d), d], 2)) * x[n]
    return f.a""",
    "outputs that count": """
def spec(f, x: tensor[n, d]):
    f.a[n] = sum(where(x[n, d] > 0, 1, 0), over=d)
    f.b[()] = sum(where(x[n, 0] > x[n, 1], 1, 0), over=n) + 1
    f.c[n] = sum(x[n, d], over=d) / (1 + f.a[n])
    return f.a, f.b, f.c""",
    "a merge of both sides of a matrix, chosen on its diagonal": """
def spec(f, x: tensor[m], o: tensor[n, d]):
    f.b[n, d, m] = o[n, d] * x[m]
    f.g[n, d] = where(ne(n, d), o[n, d], f.b[n, d, (d, n)])
    return f.g""",
    "a gather beside an axis of a dimension taken apart": """
def spec(f, x: tensor[n, d], ix: index(n)[n, d]):
    f.g[i] = sum(tanh(mean(x[ix[n, d], (d, i)], over=n)), over=d)
    return f.g""",
    "a sum of a multiple that is written as it was": """
def spec(f, x: tensor[n, d]):
    f.a[d] = mean(x[n, d], over=n)
    f.b[d] = rsqrt(mean((x[n, d] - f.a[d]) ** 2, over=n) + 0.5)
    f.c[n, d] = (x[n, d] - f.a[d]) * f.b[d]
    f.g[d] = f.a[d] - mean(f.a[d], over=d)
    f.h[n, d] = (f.g[d] + f.c[n, d]) * x[n, d]
    return f.h, f.c""",
    "one place that two indices choose": """
def spec(f, x: tensor[d], o: tensor[n, n, d], ix: index(n)[()], ix1: index(n)[()]):
    f.y[d] = x[d] * o[ix[()], ix1[()], d] ** 3
    return f.y""",
    "functions, sums and extrema that repeat along an axis, and the same": """
def spec(f, x: tensor[m], o: tensor[m, n]):
    f.a[n, m] = exp(x[m])
    f.b[n, m] = x[m] + x[m] ** 2
    f.c[n, m] = relu(x[m])
    f.g[m] = exp(x[m]) * x[m] + (x[m] + x[m] ** 2) * x[m] + relu(x[m]) * x[m]
    f.h[n, m] = f.a[n, m] * f.b[n, m] * f.c[n, m] * o[m, n]
    return f.h, f.g""",
    "signs of numbers": """
def spec(f, x: tensor[n, d]):
    f.a[()] = sign(0) / (x[0, 0] ** 2 + 1)
    f.b[n, d] = sign(0) * x[n, d]
    f.c[n, d] = x[n, d] * (sign(-2) + 3 * sign(oo)) + f.a[()]
    return f.b, f.c""",
    "two views of one comparison": """
def spec(f, x: tensor[d, k], scale: scalar = 2.0):
    f.a[(d, k), i] = x[d, i + 1] * (
        where(ne(k, d), relu(scale), -x[d, i + 1])
        + where(i <= d, x[size(d) - 1, k] + x[d, i + 1], x[d, i + 1] * x[d, k])
    )
    f.b[k, d, i] = x[d, i + 1]
    return f.a, f.b""",
    "places of a merge of all leading axes and more": """
def spec(f, x: tensor[..., n, k], w: tensor[..., t, k]):
    f.a[..., n, (k, t)] = -w[..., t, k]
    f.b[..., k, t] = x[..., 0, k] + w[..., t, k]
    f.c[(..., k),] = sum(tanh(exp(f.a[..., size(n) - 1, (k, t)]) ** x[..., 1, 1] * f.b[..., k, t]), over=t)
    return f.c""",
    "three local derivatives by one cotangent": """
def spec(f, x: tensor[t]):
    f.a[t] = sigmoid(rsqrt(x[t] ** 2 + 1))
    f.c[j] = concat(exp(f.a[t]), f.a[t], exp(f.a[t]), along=j)
    f.g[t, j] = f.c[j]
    return f.g""",
    "a maximum that is wanted beside one that cancels": """
def spec(f, x: tensor[..., n]):
    f.a[..., n] = exp(x[..., n] - amax(x[..., n], over=n))
    f.b[..., n] = exp(x[..., n])
    f.c[..., n] = f.b[..., n] / sum(f.b[..., n], over=n)
    return f.a, f.c""",
    "a bound that is a number by a function": """
def spec(f, x: tensor[..., n, d]):
    f.a[n, d] = maximum(sum(x[..., n, d] / exp(x[..., n, d]), over=...), softplus(2))
    return f.a""",
    "a logarithm that in full is a number": """
def spec(f, x: tensor[n], w: tensor[..., d]):
    f.a[n, d] = exp(where(n > d + 1, x[n], -oo))
    f.b[n, d] = exp(where(d <= n, x[n], -oo)) * log(f.a[0, d] ** 2 + 1)
    return f.b""",
}
