"""Small specs, one for each thing that an index, a reduction or a choice can do. Few of them are in the catalogue."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from derive import (
    amax,
    amin,
    axes,
    constant,
    delta,
    erf,
    exp,
    index,
    log,
    maximum,
    mean,
    op,
    relu,
    rsqrt,
    scalar,
    sigmoid,
    size,
    softplus,
    sqrt,
    sum,
    tanh,
    tensor,
    where,
)
from derive.ir.equations import Op

n, m, d, k, t, e, c, i, j, v = axes("n m d k t e c i j v")
h, p, q, w = axes("h p q w")


@dataclass(frozen=True)
class Spec:
    """An op and the lengths of its axes; `distinct` is False where the op itself makes two lengths equal."""

    op: Op
    sizes: Mapping[str, int]
    scalars: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.op.name


SPECS: list[Spec] = []


def spec(**sizes: int):
    """Put a spec on the list, with the lengths to try it at; `pack` is the length of `...`."""

    def add(function):
        made = op(function)
        lengths = {"..." if a == "pack" else a: s for a, s in sizes.items()}
        SPECS.append(Spec(made.op, lengths))
        return made

    return add


def each_spec(*names: str):
    """Parametrise over the specs (those named, else all), each under its name."""
    chosen = [s for s in SPECS if not names or s.name in names]
    assert not names or len(chosen) == len(names)
    return pytest.mark.parametrize("spec", chosen, ids=lambda s: s.name)


# --- broadcast and reduce -----------------------------------------------------------------------------------


@spec(n=3, d=2)
def broadcast_row(f, x: tensor[n, d], b: tensor[d]):
    f.y[n, d] = x[n, d] * b[d] ** 2
    return f.y


@spec(n=3, d=2)
def broadcast_column_first(f, x: tensor[n, d], g: tensor[n]):
    f.y[d, n] = exp(g[n]) * x[n, d]
    return f.y


@spec(n=3, d=2)
def broadcast_number(f, x: tensor[n, d], w: tensor[()]):
    f.y[n, d] = tanh(w[()] * x[n, d])
    return f.y


@spec(n=3, d=2)
def outer_sum(f, a: tensor[n], b: tensor[d]):
    f.y[n, d] = sigmoid(a[n] + b[d])
    return f.y


@spec(n=3, d=4)
def reduce_sum(f, x: tensor[n, d]):
    f.s[n] = sum(x[n, d] ** 3, over=d)
    return f.s


@spec(n=3, d=4)
def reduce_mean_of_all(f, x: tensor[n, d]):
    f.s[()] = mean(x[n, d] ** 2, over=(n, d))
    return f.s


@spec(n=3, d=4)
def reduce_scaled(f, x: tensor[n, d], a: scalar = 2.5):
    f.s[d] = -sum(exp(x[n, d]), over=n) / (a * size(n))
    return f.s


@spec(n=3, d=4)
def constant_under_a_sum(f, x: tensor[n, d], b: tensor[n]):
    f.s[n] = sum(x[n, d] * b[n] + b[n] ** 2, over=d)
    return f.s


@spec(n=4, m=3, k=2)
def matrix_product(f, x: tensor[n, k], w: tensor[k, m]):
    f.y[n, m] = sum(x[n, k] * w[k, m], over=k)
    return f.y


@spec(n=3, i=2, j=4)
def bilinear(f, x: tensor[n, i], a: tensor[i, j], y: tensor[n, j]):
    f.s[n] = sum(x[n, i] * a[i, j] * y[n, j], over=(i, j))
    return f.s


@spec(n=3, d=2)
def variance(f, x: tensor[n, d]):
    f.mu[d] = mean(x[n, d], over=n)
    f.v[d] = mean((x[n, d] - f.mu[d]) ** 2, over=n)
    return f.v


@spec(n=3)
def product_of_its_own_sum(f, x: tensor[n]):
    f.y[n] = x[n] * sum(x[n] * sum(x[n], over=n), over=n)
    return f.y


@spec(pack=3, d=2)
def pack_and_last(f, x: tensor[..., d], g: tensor[d]):
    f.y[..., d] = g[d] * x[..., d] / sqrt(mean(x[..., d] ** 2, over=d) + 1)
    return f.y


# --- indices ------------------------------------------------------------------------------------------------


@spec(v=3, k=5, d=2)
def gather_rows(f, table: tensor[v, d], ix: index(v)[k]):
    f.y[k, d] = table[ix[k], d] ** 2
    return f.y


@spec(v=3, n=2, t=3, d=2)
def gather_two_axes(f, table: tensor[v, d], ix: index(v)[n, t]):
    f.y[n, t, d] = tanh(table[ix[n, t], d])
    return f.y


@spec(v=3, k=5, d=2)
def gather_second(f, table: tensor[d, v], ix: index(v)[k]):
    f.y[d, k] = table[d, ix[k]] ** 2
    return f.y


@spec(n=4, c=3)
def gather_batched(f, x: tensor[n, c], y: index(c)[n]):
    f.p[n] = exp(x[n, y[n]])
    return f.p


@spec(n=4, c=3)
def gather_batched_sum(f, x: tensor[n, c], y: index(c)[n], w: tensor[n]):
    f.p[()] = sum(w[n] * x[n, y[n]] ** 2, over=n)
    return f.p


@spec(t=6, k=2)
def window(f, x: tensor[t], w: tensor[k]):
    f.y[i] = sum(x[i + k] * w[k], over=k)
    return f.y


@spec(n=2, t=11, k=3)
def window_stride_dilation_offset(f, x: tensor[n, t], w: tensor[k]):
    f.y[n, i] = sum(x[n, 2 * i + 3 * k + 1] * w[k], over=k)
    return f.y


@spec(t=9, k=2, j=2)
def window_twice(f, x: tensor[t], w: tensor[k]):
    f.y[i] = sum(x[2 * i + k] ** 2 * w[k], over=k)
    f.z[()] = sum(f.y[i] * x[2 * i], over=i)
    return f.z


@spec(t=7)
def shift(f, x: tensor[t]):
    f.y[i] = x[i + 2] ** 2
    return f.y


@spec(t=7, d=2)
def stride_alone(f, x: tensor[t, d], w: tensor[d]):
    f.y[i, d] = x[3 * i, d] * w[d]
    return f.y


@spec(n=3, m=3)
def diagonal(f, s: tensor[n, m]):
    f.y[n] = exp(s[n, n])
    return f.y


@spec(n=3, m=3, d=2)
def sum_beside_a_diagonal(f, a: tensor[n, d], b: tensor[n, d]):
    f.s[n, m] = sum(a[n, d] * b[m, d], over=d)
    f.loss[()] = mean(log(sum(exp(f.s[n, m]), over=m)) - f.s[n, n], over=n)
    return f.loss


@spec(n=3, m=3, d=2)
def diagonal_and_whole(f, s: tensor[n, m, d]):
    f.t[n, d] = s[n, n, d] ** 2
    f.y[n, m, d] = s[n, m, d] * f.t[m, d]
    return f.y


@spec(n=2, t=3, e=2)
def merged(f, x: tensor[n, t, e]):
    f.y[n, (t, e)] = x[n, t, e] ** 2
    return f.y


@spec(n=2, t=3, e=2)
def merged_first(f, x: tensor[n, t, e], w: tensor[e]):
    f.y[(n, t), e] = x[n, t, e] * w[e]
    return f.y


@spec(n=2, t=3, e=2)
def merged_swapped(f, x: tensor[n, t, e]):
    f.y[n, (e, t)] = x[n, t, e] ** 2
    return f.y


@spec(n=2, t=3, e=2, i=6, j=2)
def merged_then_read(f, x: tensor[n, t, e], w: tensor[i, j]):
    f.flat[n, (t, e)] = x[n, t, e]
    f.y[n, j] = sum(f.flat[n, i] * w[i, j], over=i)
    return f.y


@spec(n=2, k=6, d=3, e=2)
def parts(f, x: tensor[n, k], w: tensor[d, e]):
    f.y[n, d, e] = x[n, (d, e)] * w[d, e]
    return f.y


@spec(n=2, c=2, i=6, j=4, h=3, p=2, w=2, q=2, e=3)
def patches(f, x: tensor[n, c, i, j], a: tensor[c, p, q, e]):
    f.z[n, h, w, c, p, q] = x[n, c, (h, p), (w, q)]
    f.y[n, h, w, e] = sum(a[c, p, q, e] * f.z[n, h, w, c, p, q], over=(c, p, q))
    return f.y


@spec(i=6, j=4, h=3, p=2, w=2, q=2, pack=3)
def patches_behind(f, x: tensor[..., i, j], a: tensor[p, q]):
    f.y[..., h, w, p, q] = a[p, q] * x[..., (h, p), (w, q)]
    return f.y


@spec(n=3, m=2)
def permuted(f, x: tensor[n, m]):
    f.y[m, n] = x[n, m] ** 2
    return f.y


@spec(n=3, m=3)
def deltas(f, x: tensor[n], w: tensor[n, m]):
    f.y[n, m] = delta(n, m) * x[n] + w[n, m] ** 2
    return f.y


# --- choices and extrema ------------------------------------------------------------------------------------


@spec(n=3, d=4)
def centred_by_maximum(f, x: tensor[n, d], w: tensor[n, d]):
    f.m[n] = amax(x[n, d], over=d)
    f.y[n, d] = w[n, d] * (x[n, d] - f.m[n])
    return f.y


@spec(n=3, d=4)
def minimum_over_first(f, x: tensor[n, d]):
    f.m[d] = amin(x[n, d] ** 2, over=n)
    return f.m


@spec(n=4)
def masks(f, x: tensor[n], w: tensor[n]):
    f.y[n] = where(x[n] > 0, x[n] * w[n], 3 * w[n]) + relu(w[n]) + maximum(x[n], w[n])
    return f.y


@spec(i=3, j=4, d=2)
def causal(f, q: tensor[i, d], k_: tensor[j, d]):
    f.s[i, j] = where(j <= i, sum(q[i, d] * k_[j, d], over=d), 0)
    f.y[i] = sum(f.s[i, j] ** 2, over=j)
    return f.y


# --- relations to be found ----------------------------------------------------------------------------------


@spec(n=4, d=2)
def standardise(f, x: tensor[n, d], gamma: tensor[d], beta: tensor[d], eps: scalar = 0.1, correction: scalar = 1):
    f.mu[d] = mean(x[n, d], over=n)
    f.var[d] = sum((x[n, d] - f.mu[d]) ** 2, over=n) / (size(n) - correction)
    f.rstd[d] = rsqrt(f.var[d] + eps)
    f.xhat[n, d] = (x[n, d] - f.mu[d]) * f.rstd[d]
    f.y[n, d] = gamma[d] * f.xhat[n, d] + beta[d]
    return f.y


@spec(n=2, c=3)
def normalised_weights(f, z: tensor[n, c]):
    f.m[n] = amax(z[n, c], over=c)
    f.u[n, c] = exp(z[n, c] - f.m[n])
    f.s[n] = sum(f.u[n, c], over=c)
    f.p[n, c] = f.u[n, c] / f.s[n]
    return f.p


@spec(n=4, c=3)
def label_loss(f, z: tensor[n, c], y: index(c)[n]):
    f.m[n] = amax(z[n, c], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(z[n, c] - f.m[n]), over=c))
    f.loss[()] = mean(f.lse[n] - z[n, y[n]], over=n)
    return f.loss


@spec(n=3, i=3, j=3, d=2)
def weighted_average(f, q: tensor[n, i, d], r: tensor[n, j, d], u: tensor[n, j, d]):
    f.s[n, i, j] = sum(q[n, i, d] * r[n, j, d], over=d) / sqrt(size(d))
    f.m[n, i] = amax(f.s[n, i, j], over=j)
    f.w[n, i, j] = exp(f.s[n, i, j] - f.m[n, i])
    f.p[n, i, j] = f.w[n, i, j] / sum(f.w[n, i, j], over=j)
    f.o[n, i, d] = sum(f.p[n, i, j] * u[n, j, d], over=j)
    return f.o


@spec(n=3, i=3, j=3, d=2)
def warmed_scores(f, q: tensor[n, i, d], r: tensor[n, j, d], bias: tensor[i, j], warmth: tensor[()]):
    f.s[n, i, j] = sum(q[n, i, d] * r[n, j, d], over=d)
    f.a[n, i, j] = exp(warmth[()]) * f.s[n, i, j] + bias[i, j]
    f.w[n, i, j] = exp(f.a[n, i, j])
    f.p[n, i, j] = f.w[n, i, j] / sum(f.w[n, i, j], over=j)
    return f.p


@spec(n=3, c=3)
def diagonal_of_weights(f, z: tensor[n, c], w: tensor[()]):
    f.u[n, c] = exp(z[n, c])
    f.s[n] = sum(f.u[n, c], over=c)
    f.p[n, c] = f.u[n, c] / f.s[n]
    f.trace[()] = sum(w[()] * f.p[c, c], over=c)
    return f.trace


@spec(n=3)
def linear_pair(f, a: tensor[n], b: tensor[n], w: tensor[()], u: tensor[()]):
    f.y[n] = 2 * a[n] + 3 * b[n]
    f.z[n] = w[()] * a[n] + u[()] * b[n] + f.y[n] ** 2
    return f.z


# --- several outputs, several uses --------------------------------------------------------------------------


@spec(n=4)
def output_read_again(f, x: tensor[n]):
    f.y[n] = exp(x[n])
    f.s[()] = sum(f.y[n] ** 2, over=n)
    return f.y, f.s


@spec(n=3, d=2)
def unused_input(f, x: tensor[n, d], idle: tensor[d]):
    f.y[n, d] = softplus(x[n, d])
    return f.y


@spec(n=3)
def constant_input(f, x: tensor[n], target: constant[n]):
    f.y[()] = mean((x[n] - target[n]) ** 2, over=n)
    return f.y


@spec(n=4)
def smooth_functions(f, x: tensor[n]):
    f.y[n] = x[n] * (1 + erf(x[n] / sqrt(2))) / 2 + log(1 + x[n] ** 2)
    return f.y
