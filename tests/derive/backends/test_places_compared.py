"""What compares places is whole numbers: float32 has none of them beyond 2**24, and half precision beyond 2048."""

import builtins
import inspect

import pytest
import torch

from derive.notation import axes, index, length, ne, op, scalar, size, sum, tensor, where
from derive.verify.verify import verify
from tests.derive.live import module

i, j, k, n, r, s, t = axes("i j k n r s t")


@op
def lagged(f, x: tensor[t], lags: length(k)):
    f.y[k, t] = where(t + k < size(t), x[t + k], 0)
    return f.y


@op
def by_distance(f, x: tensor[t, s], b: tensor[r]):
    f.y[t, s] = where((s <= t) & (t - s < size(r)), x[t, s] + b[t - s], 0)
    return f.y


@op
def slow_steps(f, x: tensor[t, k]):
    f.y[t, k] = where(t >= 2 * k, x[t, k], 0)
    return f.y


@op
def banded(f, x: tensor[i, j], span: scalar = 3):
    f.y[i, j] = where((j <= i) & (i - j < span), x[i, j], 0)
    return f.y


@op
def other_views(f, x: tensor[n, k], view: index(n)[n]):
    f.y[n, k] = where(ne(n, view[n] + k) & (n**2 >= k), x[n, k], 0)
    return f.y


@op
def autocorrelation(f, x: tensor[n, t], lags: length(k)):
    f.y[n, k] = sum(where(t + k < size(t), x[n, t] * x[n, t + k], 0), over=t)
    return f.y


OPS = {made.op.name: made.op for made in (lagged, by_distance, slow_steps, banded, other_views, autocorrelation)}


def _code(name: str) -> str:
    return inspect.getsource(module(OPS[name]))


@pytest.mark.parametrize("name", OPS)
def test_no_place_is_a_real_number(name: str) -> None:
    assert "dtype" not in _code(name).partition(f"def {name}_forward")[2]


@pytest.mark.parametrize("name", OPS)
def test_battery(name: str) -> None:
    found = verify(OPS[name])
    assert found.right, [(row.line, [str(d) for d in row.wrong]) for row in found.rows if row.wrong]


def test_a_condition_is_asked_once_in_a_function() -> None:
    forward, _, backward = _code("by_distance").partition("def by_distance_forward")[2].partition("_backward")
    for code in (forward, backward):
        assert builtins.sum(line.partition("  #")[0].count(" < ") for line in code.splitlines()) == 1


def test_every_place_of_a_long_dimension_is_read() -> None:
    n = 2**24 + 9
    x = torch.zeros(n)
    x[-4:] = torch.arange(1.0, 5.0)
    y = module(OPS["lagged"]).lagged(x, 2)
    assert y[0, -4:].tolist() == [1, 2, 3, 4]
    assert y[1, -5:].tolist() == [1, 2, 3, 4, 0]


@op
def two_bands(f, x: tensor[t, s]):
    f.y[t, s] = where((s <= t) & (t - s < 4), x[t, s], 0)
    f.z[t, s] = where((s <= t) & (t - s < 2), x[t, s], 0)
    return f.y, f.z


def test_a_named_comparison_stands_without_brackets() -> None:
    code = inspect.getsource(module(two_bands.op))
    assert "where_by_bits(s_up_to_t & (" in code
    assert "(s_up_to_t)" not in code
