"""Under a condition, axis arithmetic may leave a dimension: `where(s <= t, h[t - s], 0)`."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from derive import amax, axes, concat, eq, exp, length, ne, oo, op, size, sum, tensor, where
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, module

i, k, n, r, s, t = axes("i k n r s t")


@op
def by_distance(f, a: tensor[t, t], h_: tensor[t]):
    f.y[t, s] = where(s <= t, a[t, s] + h_[t - s], 0)
    return f.y


@op
def causal_convolution(f, x: tensor[n, t], h_: tensor[t]):
    f.y[n, t] = sum(where(s <= t, h_[t - s] * x[n, s], 0), over=s)
    return f.y


@op
def largest_of_sums(f, x: tensor[n, t], h_: tensor[t]):
    f.y[n, t] = amax(where(s <= t, h_[t - s] + x[n, s], -oo), over=s)
    return f.y


@op
def beside_the_one_before(f, x: tensor[n, t]):
    f.y[n, t] = exp(x[n, t]) * where(t >= 1, x[n, t - 1], 0)
    return f.y


@op
def beside_the_next(f, x: tensor[n, t]):
    f.y[n, t] = exp(x[n, t]) * where(t + 1 < size(t), x[n, t + 1], 2)
    return f.y


@op
def correlation(f, x: tensor[n, t], w: tensor[k]):
    f.y[n, t] = sum(where(t + k < size(t), w[k] * x[n, t + k], 0), over=k)
    return f.y


@op
def first_by_itself(f, x: tensor[n, t]):
    """All but the first place are those that are not place 0."""
    f.y[n, t] = where(eq(t, 0), x[n, t], x[n, t] * x[n, t - 1])
    return f.y


@op
def behind_the_first(f, x: tensor[n, t]):
    f.y[n] = sum(where(ne(t, 0), (x[n, t] - x[n, t - 1]) ** 2, 0), over=t)
    return f.y


@op
def last_by_itself(f, x: tensor[n, t]):
    """The last place has the first one behind it."""
    f.y[n, t] = exp(where(eq(size(t) - 1, t), x[n, 0], x[n, t + 1]))
    return f.y


@op
def before_the_last(f, x: tensor[n, t]):
    f.y[n, t] = where(~eq(t + 1, size(t)), x[n, t + 1], 0)
    return f.y


@op
def the_other_half(f, x: tensor[n, t]):
    """Joined of two of length `t`, `z` has `i + size(t)` where `i` is in the first."""
    f.z[n, i] = concat(x[n, t], 2 * x[n, t], along=i)
    f.y[n, i] = where(i < size(t), f.z[n, i + size(t)] ** 2, f.z[n, i])
    return f.y


@op
def the_last_part(f, x: tensor[n, t], c: tensor[k]):
    """A part of what is joined of what is joined."""
    f.z[n, i] = concat(x[n, t], x[n, t] ** 2, along=i)
    f.w[n, r] = concat(c[k], f.z[n, i], along=r)
    f.y[n, r] = where(r < size(t), f.w[n, r + size(t) + size(k)], f.w[n, r])
    return f.y


def _toeplitz(h: Tensor) -> Tensor:
    rows = [torch.cat([h[: i + 1].flip(0), h.new_zeros(len(h) - i - 1)]) for i in range(len(h))]
    return torch.stack(rows) if rows else h.new_zeros(0, 0)


def _largest(x: Tensor, h: Tensor) -> Tensor:
    each = [torch.stack([h[i - j] + x[:, j] for j in range(i + 1)]).amax(0) for i in range(len(h))]
    return torch.stack(each, 1)


def _correlated(x: Tensor, w: Tensor) -> Tensor:
    longer = torch.cat([x, x.new_zeros(len(x), len(w))], 1)
    return torch.stack([longer[:, i : i + len(w)] @ w for i in range(x.shape[1])], 1)


def _last_part(x: Tensor, c: Tensor) -> Tensor:
    w = torch.cat([c.expand(len(x), -1), x, x**2], 1)
    return torch.cat([x**2, w[:, x.shape[1] :]], 1)


PLAIN: dict[str, Callable[..., Tensor]] = {
    "by_distance": lambda a, h_: a.tril() + _toeplitz(h_),
    "causal_convolution": lambda x, h_: x @ _toeplitz(h_).T,
    "largest_of_sums": lambda x, h_: _largest(x, h_),
    "beside_the_one_before": lambda x: x.exp() * torch.cat([x[:, :1] * 0, x[:, :-1]], 1),
    "beside_the_next": lambda x: x.exp() * torch.cat([x[:, 1:], x[:, :1] * 0 + 2], 1),
    "correlation": lambda x, w: _correlated(x, w),
    "first_by_itself": lambda x: torch.cat([x[:, :1], x[:, 1:] * x[:, :-1]], 1),
    "behind_the_first": lambda x: x.diff(dim=1).square().sum(1),
    "last_by_itself": lambda x: x.roll(-1, 1).exp(),
    "the_other_half": lambda x: torch.cat([4 * x**2, 2 * x], 1),
    "the_last_part": lambda x, c: _last_part(x, c),
    "before_the_last": lambda x: torch.cat([x[:, 1:], x[:, :1] * 0], 1),
}
OPS: dict[str, Op] = {
    made.op.name: made.op
    for made in (
        by_distance, causal_convolution, largest_of_sums, beside_the_one_before, beside_the_next, correlation,
        first_by_itself, behind_the_first, last_by_itself, before_the_last, the_other_half,
        the_last_part,
    )
}  # fmt: skip


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("name", OPS)
def test_values_and_gradients(name: str, length: int) -> None:
    lengths = {"n": 3, "t": length, "t2": length, "k": 2}
    shapes = {o.name: tuple(lengths[a.base] for a in o.axes) for o in OPS[name].operands}
    assert_derived(OPS[name], PLAIN[name], shapes)


@pytest.mark.parametrize("name", OPS)
def test_battery(name: str) -> None:
    found = verify(OPS[name])
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


@op
def relative_bias(f, x: tensor[t, s], b: tensor[r]):
    """The condition keeps `t - s` from below 0; whether `b` is as long as `t` is asked as the op runs."""
    f.y[t, s] = where(s <= t, x[t, s] + b[t - s], 0)
    return f.y


@op
def filtered_up_to(f, x: tensor[n, s], w: tensor[k], steps: length(t)):
    f.y[n, t] = sum(where(t >= k, x[n, t - k] * w[k], 0), over=k)
    return f.y


@op
def near_bias(f, x: tensor[t, s], b: tensor[r]):
    f.y[t, s] = where((s <= t) & (t - s < 3), x[t, s] + b[t - s], 0)
    return f.y


@op
def bias_of_called(f, x: tensor[t, s], b: tensor[k]):
    f.y = relative_bias(x, b)
    return f.y


TOO_SHORT = {
    "relative_bias": (((4, 5), (4,)), ((4, 3), (3,)), "b[-s + t] must fit into axis r, but r = 3 and t = 4"),
    "near_bias": (((4, 5), (3,)), ((4, 3), (2,)), "b[-s + t] must fit into axis r, but r = 2 and t = 4"),
}


@pytest.mark.parametrize("made", [relative_bias, filtered_up_to, near_bias], ids=lambda made: made.op.name)
def test_the_other_end_may_be_a_matter_of_length(made: Any) -> None:
    found = verify(made.op)
    assert found.right, [(row.line, [str(d) for d in row.wrong]) for row in found.rows if row.wrong]


@pytest.mark.parametrize("name", TOO_SHORT)
def test_what_is_too_short_is_refused_as_the_op_runs(name: str) -> None:
    op = {"relative_bias": relative_bias, "near_bias": near_bias}[name].op
    enough, too_short, says = TOO_SHORT[name]
    run = getattr(module(op), name)
    run(*(torch.ones(shape) for shape in enough))
    run(torch.ones(1, 5), torch.ones(1))
    with pytest.raises(ValueError, match=re.escape(says)):
        run(*(torch.ones(shape) for shape in too_short))


def test_a_called_op_asks_it_of_what_it_is_called_with() -> None:
    module(bias_of_called.op).bias_of_called(torch.ones(4, 5), torch.ones(4))
    with pytest.raises(ValueError, match="must fit into axis k, but k = 3 and t = 4"):
        module(bias_of_called.op).bias_of_called(torch.ones(4, 3), torch.ones(3))


def test_an_end_that_no_length_keeps_is_named() -> None:
    with pytest.raises(DeriveError, match=r"t \+ 1\] reads beyond the end of axis t, also where.*< size\(t\)"):

        @op
        def beyond(f, x: tensor[n, t], h_: tensor[t]):
            f.y[n, t] = sum(where(s <= t, h_[t - s + 1] * x[n, s], 0), over=s)
            return f.y


def test_without_a_condition_it_is_refused() -> None:
    """It was a sum over one place."""
    with pytest.raises(DeriveError, match=r"reads before the first place but where s < 1.*where\(t - s >= 0"):

        @op
        def unguarded(f, x: tensor[n, t], h_: tensor[t]):
            f.y[n, t] = sum(h_[t - s] * x[n, s], over=s)
            return f.y


def test_a_length_that_nothing_gives_is_asked_for() -> None:
    with pytest.raises(DeriveError, match="no input carries axis s"):

        @op
        def table(f, h_: tensor[t]):
            f.y[t, s] = where(s <= t, h_[t - s], 0)
            return f.y


def test_what_is_joined_may_be_too_short_all_the_same() -> None:
    with pytest.raises(DeriveError, match=r"z\[i \+ 2\*size\(t\)\] reads beyond the end of axis i"):

        @op
        def behind_both(f, x: tensor[t]):
            f.z[i] = concat(x[t], 2 * x[t], along=i)
            f.y[i] = where(i < size(t), f.z[i + 2 * size(t)], 0)
            return f.y


def test_so_it_is_of_a_window_that_a_condition_keeps_inside() -> None:
    """Of `t + k` along `t` it was said that it reads before the first place, as if that gave `k` a length."""
    with pytest.raises(DeriveError, match=r"op ahead, equation y: no input carries axis k, so its size is unknown"):

        @op
        def ahead(f, x: tensor[n, t]):
            f.y[n, t] = sum(where(t + k < size(t), x[n, t + k], 0), over=k)
            return f.y


def test_a_window_that_no_condition_keeps_inside_reads_beyond_the_last_place() -> None:
    says = r"k \+ t reads beyond the last place but where k < 1.*where\(k \+ t < size\(t\), …, 0\)"
    with pytest.raises(DeriveError, match=says):

        @op
        def ahead(f, x: tensor[n, t]):
            f.y[n, t] = sum(x[n, t + k], over=k)
            return f.y


@op
def summed_ahead(f, x: tensor[n, t], taps: length(k)):
    """Along an axis of its own a window tells how long that is, under a condition as well."""
    f.y[n, r] = sum(where(r + k < size(t), x[n, r + k], 0), over=k)
    return f.y


def test_a_window_under_a_condition_still_tells_how_many_there_are() -> None:
    x = torch.randn(2, 6).double()
    torch.testing.assert_close(module(summed_ahead.op).summed_ahead(x, 3), x.unfold(1, 3, 1).sum(2))


@op
def pool(f, x: tensor[n, t], taps: length(k) = 3):
    f.y[n, r] = amax(where((2 * r + k >= 1) & (2 * r + k <= size(t)), x[n, 2 * r + k - 1], -oo), over=k)
    return f.y


@pytest.mark.parametrize("places", [4, 5, 6, 7])
@pytest.mark.parametrize("taps", [2, 3])
def test_windows_lie_as_far_beyond_the_last_place_as_before_the_first(places: int, taps: int) -> None:
    """Of an odd number of places the last window of a pool with padding was left out."""
    x = torch.randn(2, places, dtype=torch.float64)
    y, _ = module(pool.op).pool_forward(x, taps)
    torch.testing.assert_close(y, torch.nn.functional.max_pool1d(x, taps, 2, 1))


@op
def same_filter(f, x: tensor[n, t], w: tensor[k]):
    f.y[n, t] = sum(where((t + k - 1 >= 0) & (t + k - 1 < size(t)), x[n, t + k - 1] * w[k], 0), over=k)
    return f.y


def test_both_ends() -> None:
    found = verify(same_filter.op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


CONDITIONS: dict[str, Callable[[Any, Any], Any]] = {
    "of every place": lambda x, n: t >= 0,
    "of every place, shifted": lambda x, n: t + 1 >= 1,
    "of a value": lambda x, n: x[n, t] > 0,
    "of every other place": lambda x, n: t + t % 2 >= 2,
    "of a product": lambda x, n: t >= t * n,
    "of another place": lambda x, n: ne(t, 1),
    "of another axis": lambda x, n: ne(t, n),
    "of the first place alone": lambda x, n: eq(t, 0),
    "of the last place": lambda x, n: ne(t, size(t) - 1),
    "of a remainder": lambda x, n: ne(t % 2, 0),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_that_does_not_keep_it_inside_is_none(name: str) -> None:
    """It would read the last place, counted from the end."""
    with pytest.raises(DeriveError, match="reads before the first place of axis t"):

        @op
        def beside(f, x: tensor[n, t]):
            f.y[n, t] = where(CONDITIONS[name](x, n), x[n, t - 2], 0)
            return f.y


def test_whether_it_is_at_an_end_is_whether_it_is_beyond_it() -> None:
    """What is left out is not computed, as under an inequality."""
    assert "y_inner = x[:, 1:] - x[:, :t_inner]" in code_of(behind_the_first.op)
    assert "where" not in code_of(before_the_last.op)


def test_a_product_of_places_proves_nothing() -> None:
    with pytest.raises(DeriveError, match="reads before the first place"):

        @op
        def apart(f, a: tensor[t, t], h_: tensor[t]):
            f.y[t, s] = where(t >= t * s, a[t, s] + h_[t - s], 0)
            return f.y


@op
def beside_the_diagonal(f, a: tensor[t, t]):
    f.y[()] = sum(where(t + 1 < size(t), a[t, t + 1] ** 2, 0), over=t)
    return f.y


@op
def beside_each_diagonal(f, a: tensor[n, t, t]):
    f.y[n, t] = where(t >= 1, a[n, t, t - 1], 0)
    return f.y


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_condition_on_an_axis_holds_for_both_dimensions_that_have_it(length: int) -> None:
    """`a[t, t + 1]` was refused: of the second dimension it was not known that it is as long."""
    assert_derived(beside_the_diagonal.op, lambda a: a.diagonal(1).square().sum(), {"a": (length, length)})
    below = lambda a: torch.nn.functional.pad(a.diagonal(-1, 1, 2), (1, 0))  # noqa: E731
    assert_derived(beside_each_diagonal.op, below, {"a": (3, length, length)})
