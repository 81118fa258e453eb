"""Sums and maxima up to a place: one loop along the axis, in either direction, whatever the lengths."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.usefixtures("kernels")

SPECS = """from derive import *

n, t, d, s, u = axes("n t d s u")

def running(name, relation, value=lambda x: x[n, s]):
    def forward(f, x: tensor[n, t]):
        f.y[n, t] = sum(where(relation(s, t), value(x), 0), over=s)
        return f.y
    forward.__name__, forward.__doc__ = name, name + "."
    return op(forward)

so_far = running("so_far", lambda s, t: s <= t)
before = running("before", lambda s, t: s < t)
from_here = running("from_here", lambda s, t: s >= t)
after = running("after", lambda s, t: s > t, lambda x: exp(x[n, s]))

@op
def along_columns(f, x: tensor[n, t, d], w: tensor[t, d]):
    f.y[n, t, d] = w[t, d] * sum(where(s <= t, x[n, s, d] ** 2, 0), over=s)
    return f.y

@op
def of_others(f, x: tensor[n, s], y: tensor[n, t]):
    f.z[n, t] = y[n, t] * sum(where(s <= t, x[n, s], 0), over=s)
    f.v[n, s] = x[n, s] * sum(where(t > s, y[n, t], 0), over=t)
    return f.z, f.v

@op
def alone(f, x: tensor[t]):
    f.y[t] = sum(where(s <= t, x[s], 0), over=s)
    return f.y

@op
def highest(f, x: tensor[n, t], g: tensor[t]):
    f.m[n, t] = amax(where(s <= t, x[n, s], -oo), over=s)
    f.y[n, t] = g[t] * f.m[n, t]
    return f.y

@op
def lowest_by_columns(f, x: tensor[n, t, d]):
    f.m[n, t, d] = amin(where(s >= t, x[n, s, d], oo), over=s)
    return f.m

@op
def loss_so_far(f, x: tensor[n, t]):
    f.c[n, t] = sum(where(s <= t, x[n, s], 0), over=s)
    f.loss[()] = mean((f.c[n, t] - amax(where(u <= t, f.c[n, u], -oo), over=u)) ** 2, over=(n, t))
    return f.loss
"""


def _of_others(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    s, t = torch.arange(x.shape[1]), torch.arange(y.shape[1])
    upto, beyond = (s[:, None] <= t).to(x.dtype), (t[:, None] > s).to(x.dtype)
    return y * (x @ upto), x * (y @ beyond)


FORMS: dict[str, Callable[..., Tensor | tuple[Tensor, ...]]] = {
    "so_far": lambda x: x.cumsum(1),
    "before": lambda x: x.cumsum(1) - x,
    "from_here": lambda x: x.flip(1).cumsum(1).flip(1),
    "after": lambda x: x.exp().flip(1).cumsum(1).flip(1) - x.exp(),
    "along_columns": lambda x, w: w * (x**2).cumsum(1),
    "of_others": _of_others,
    "alone": lambda x: x.cumsum(0),
    "highest": lambda x, g: g * x.cummax(1).values,
    "lowest_by_columns": lambda x: x.flip(1).cummin(1).values.flip(1),
    "loss_so_far": lambda x: ((x.cumsum(1) - x.cumsum(1).cummax(1).values) ** 2).mean(),
}
SHAPES: dict[str, list[tuple[tuple[int, ...], ...]]] = {
    **{name: [((5, 7),), ((4, 4),), ((1, 1),), ((3, 600),)] for name in ("so_far", "before", "from_here", "after")},
    "along_columns": [((3, 7, 5), (7, 5)), ((2, 9, 300), (9, 300)), ((1, 1, 1), (1, 1)), ((4, 4, 4), (4, 4))],
    "of_others": [((3, 5), (3, 8)), ((3, 8), (3, 5)), ((4, 4), (4, 4)), ((2, 1), (2, 6))],
    "alone": [((11,),), ((1,),)],
    "highest": [((5, 7), (7,)), ((3, 600), (600,)), ((1, 1), (1,))],
    "lowest_by_columns": [((3, 7, 5),), ((2, 3, 300),)],
    "loss_so_far": [((5, 7),), ((3, 600),)],
}
CASES = [(name, shapes) for name, every in SHAPES.items() for shapes in every]


def _all(found: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def _both(function: Callable[..., Tensor | tuple[Tensor, ...]], given: list[Tensor], wide: bool) -> list[Tensor]:
    """Outputs and gradients."""
    leaves = [x.clone().to(torch.float64 if wide else x.dtype).requires_grad_() for x in given]
    out = _all(function(*leaves))
    torch.manual_seed(1)
    cotangents = [torch.randn(y.shape).to(y.dtype) for y in out]
    return [*out, *torch.autograd.grad(out, leaves, cotangents)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("name", "shapes"), CASES, ids=str)
def test_values_and_gradients(
    native: ModuleType,
    threads: Callable[[int], None],
    name: str,
    shapes: tuple[tuple[int, ...], ...],
    dtype: torch.dtype,
) -> None:
    torch.manual_seed(0)
    given = [torch.randn(s, dtype=dtype) for s in shapes]
    want, theirs = _both(FORMS[name], given, wide=True), _both(FORMS[name], given, wide=False)
    found: dict[str, list[Tensor]] = {}
    for count in (1, 2, 2):
        threads(count)
        mine = _both(getattr(native, name), given, wide=False)
        assert all(torch.equal(a, b) for a, b in zip(mine, found.setdefault("first", mine), strict=True))
        for a, b, exact in zip(mine, theirs, want, strict=True):
            off, theirs_off = (float((y.detach() - exact.detach()).abs().max()) for y in (a, b))
            unit = torch.finfo(dtype).eps * float(exact.detach().abs().max())
            units = 2 if dtype == torch.float32 else 20  # the order of additions; nothing more exact to compare with
            assert off <= max(2 * theirs_off, units * unit), (off, theirs_off, unit)


@pytest.mark.parametrize("name", ["so_far", "from_here", "highest"])
def test_ties_and_what_is_no_number(native: ModuleType, name: str) -> None:
    inf, nan = torch.inf, torch.nan
    rows = [[1, 2, 2, 0, 2, 3], [0, nan, 5, 1, 1, 1], [-inf, -inf, 1, inf, 2, inf], [3, 1, 1, 1, 1, 3.0]]
    given = [torch.tensor(rows, dtype=torch.float64)] + [torch.ones(6, dtype=torch.float64)] * (name == "highest")
    y, *_ = _all(getattr(native, name)(*given))
    torch.testing.assert_close(y, FORMS[name](*given), equal_nan=True)


def test_a_maximum_that_is_reached_twice_shares_its_gradient(native: ModuleType) -> None:
    x = torch.tensor([[1.0, 2.0, 2.0, 0.0, 2.0, 3.0]], requires_grad=True)
    native.highest(x, torch.ones(6)).sum().backward()
    # the maxima are 1, 2, 2, 2, 2, 3: reached at 1, 1, 2, 2, 3 and 1 places
    third = 1 / 3
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.tensor([[1, 1 + 0.5 + 0.5 + third, 1 + third, 0, third, 1]]))


@pytest.mark.parametrize("name", ["so_far", "after", "along_columns"])
def test_there_is_one_loop_and_no_table(native: ModuleType, name: str) -> None:
    source = Path(native.__path__[0], f"{name}.c").read_text()
    assert not re.search(r"i_s\w* <= i_t|i_s\w* > i_t|i_t\w* <= i_s", source)
    assert f"{name}_forward" in source
