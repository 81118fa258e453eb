"""Ops in which two passes meet: what one makes is what the other must look out for."""

import pytest
import torch

from derive.backends.torch.outs import views_of
from derive.notation import axes, concat, eq, exp, index, length, log, op, scalar, sigmoid, sum, tensor, where
from tests.derive.against_loops import compare
from tests.derive.code_of import line_of
from tests.derive.live import assert_alike, module

d, h, i, j, k, l, m, n, s, t, v = axes("d h i j k l m n s t v")


@op
def gathered_and_turned(f, lo: index(k)[t, n], x: tensor[k], g: tensor[n, t]):
    f.y[n, t] = g[n, t] * sum(where(eq(lo[t, n] + 1, k), x[k], 0), over=k)
    return f.y


@op
def scattered_and_turned(f, lo: index(k)[t, n], x: tensor[k], w: tensor[n, t]):
    f.y[k] = x[k] * sum(where(eq(lo[t, n] + 1, k), w[n, t], 0), over=(n, t))
    return f.y


@op
def nothing_left_to_sum(f, a: tensor[i, j], b: tensor[j, k], c: tensor[i, k], w: tensor[k, l]):
    f.y[i, l] = sum(a[i, j] * b[j, k] * c[i, k] * w[k, l], over=(j, k))
    return f.y


@op
def places_along_an_axis(f, w: tensor[n, d], lo: index(k)[n], b: tensor[k]):
    f.y[k] = b[k] + sum(where(eq(lo[n] + d, k), w[n, d], 0), over=(n, d))
    return f.y


@op
def places_before(f, x: tensor[k], w: tensor[t, s], lo: index(k)[t]):
    f.y[t, s] = w[t, s] * sum(where(eq(lo[t] - s, k), x[k], 0), over=k)
    return f.y


@op
def read_elsewhere_too(f, x: tensor[n, d], y: index(i)[n]):
    f.cdf[n, d] = sigmoid(x[n, d])
    f.p[n, i] = f.cdf[n, i + 1] - f.cdf[n, 0]
    f.l[n] = log(f.p[n, y[n]] ** 2 + 1)
    return f.l


@op
def inside_a_merge(f, x: tensor[n, m], y: index(i)[n], size_of_k: length(k)):
    f.cdf[n, h, k] = sigmoid(x[n, (h, k)])
    f.p[n, i, k] = f.cdf[n, i + 1, k] - f.cdf[n, i, k]
    f.l[n, k] = log(f.p[n, y[n], k] ** 2 + 1)
    return f.l


@pytest.mark.parametrize(
    ("made", "sizes"),
    [
        (gathered_and_turned, {"t": 3, "n": 4, "k": 5}),
        (gathered_and_turned, {"t": 3, "n": 3, "k": 3}),
        (scattered_and_turned, {"t": 3, "n": 4, "k": 5}),
        (scattered_and_turned, {"t": 3, "n": 3, "k": 3}),
        (nothing_left_to_sum, {"i": 2, "j": 3, "k": 4, "l": 5}),
        (nothing_left_to_sum, {"i": 3, "j": 3, "k": 3, "l": 3}),
        (places_along_an_axis, {"n": 3, "d": 2, "k": 5}),
        (places_before, {"t": 3, "s": 4, "k": 5}),
        (read_elsewhere_too, {"n": 4, "d": 5, "i": 4}),
    ],
    ids=lambda a: a.op.name if hasattr(a, "op") else "-".join(map(str, a.values())),
)
def test_against_loops(made: object, sizes: dict[str, int]) -> None:
    compare(made.op, sizes)  # type: ignore[attr-defined]


def test_a_gather_inside_a_merge() -> None:
    x, y = torch.randn(3, 12, dtype=torch.float64, requires_grad=True), torch.tensor([0, 2, 1])
    out = module(inside_a_merge.op).inside_a_merge(x, y, 3)
    cdf = x.sigmoid().unflatten(1, (4, 3))
    wanted = torch.log((cdf[:, 1:] - cdf[:, :-1])[torch.arange(3), y] ** 2 + 1)
    assert_alike(out, wanted, [x])


@op
def numbers_around(f, ix: index(k)[n], x: tensor[k], w: tensor[i]):
    f.z[i] = concat(0.5, ix[n], 0.5, along=i)
    f.y[i] = f.z[i] * w[i]
    f.q[k] = x[k] ** 2
    return f.y, f.q


def test_whole_numbers_between_fractions() -> None:
    ix, x, w = torch.tensor([2, 0, 1]), torch.randn(4), torch.randn(5)
    y, _, _ = module(numbers_around.op).numbers_around_forward(ix, x, w)
    torch.testing.assert_close(y, w * torch.tensor([0.5, 2, 0, 1, 0.5]), rtol=1e-12, atol=1e-12)


@op
def grown_beyond(f, x: tensor[n], above: scalar):
    f.y[n] = where(x[n] > 100, 0, exp(x[n]))
    f.z[n] = where(x[n] >= 100, 1, exp(x[n]))
    f.u[n] = where(x[n] > above, 2, exp(x[n]))
    return f.y, f.z, f.u


@op
def divided_below(f, x: tensor[n], a: scalar):
    f.y[n] = where(x[n] > 1, x[n], x[n] / a)
    return f.y


def test_a_branch_that_is_infinite_at_its_threshold_is_chosen() -> None:
    y, z, u, _ = module(grown_beyond.op).grown_beyond_forward(torch.tensor([150.0, 0.0]), 120.0)
    assert y.tolist() == [0, 1] and z.tolist() == [1, 1] and u.tolist() == [2, 1]
    assert module(divided_below.op).divided_below_forward(torch.tensor([2.0, 3.0]), 0.0)[0].tolist() == [2, 3]


def test_a_sum_to_its_own_size_is_a_view() -> None:
    assert views_of({"x"}, [line_of("z = x.sum_to_size(k)"), line_of("y = x.exp()")], {"x", "z", "y"}) == {"z"}


@op
def moved_by_one(f, w: tensor[n], lo: index(v)[n], b: tensor[k], size_of_v: length(v)):
    f.y[k] = b[k] + sum(where(eq(lo[n] + 1, k), w[n], 0), over=n)
    return f.y


def test_an_axis_of_computed_places_is_not_empty() -> None:
    call = module(moved_by_one.op).moved_by_one_forward
    with pytest.raises(ValueError, match="moved_by_one, equation y: axis k must be at least 1 long"):
        call(torch.randn(2), torch.zeros(2, dtype=torch.int64), torch.randn(0), 3)
