"""Statistics of long columns: gone through row by row, whatever the number of rows, columns and threads."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch

pytestmark = pytest.mark.usefixtures("kernels", "threads")

SPECS = """from derive import *

n, t, d = axes("n t d")


@op
def column_softmax(f, x: tensor[n, d]):
    f.m[d] = amax(x[n, d], over=n)
    f.e[n, d] = exp(x[n, d] - f.m[d])
    f.y[n, d] = f.e[n, d] / sum(f.e[n, d], over=n)
    return f.y


@op
def column_range(f, x: tensor[n, t, d], g: tensor[d]):
    f.low[d] = amin(x[n, t, d], over=(n, t))
    f.high[d] = amax(x[n, t, d], over=(n, t))
    f.y[n, t, d] = g[d] * (x[n, t, d] - f.low[d]) / (f.high[d] - f.low[d])
    return f.y


@op
def column_standard(f, x: tensor[n, t, d], g: tensor[d]):
    f.mu[d] = mean(x[n, t, d], over=(n, t))
    f.var[d] = mean((x[n, t, d] - f.mu[d]) ** 2, over=(n, t))
    f.y[n, t, d] = tanh(g[d] * (x[n, t, d] - f.mu[d]) * rsqrt(f.var[d] + 1e-5))
    return f.y
"""


def column_range(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    low, high = x.amin((0, 1)), x.amax((0, 1))
    return g * (x - low) / (high - low)


def column_standard(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    flat = x.flatten(0, 1)
    return torch.tanh(g * (x - flat.mean(0)) * torch.rsqrt(flat.var(0, correction=0) + 1e-5))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(256, 1), (300, 37), (1000, 5), (259, 2100), (255, 16)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_columns_of_any_length_are_right(native: ModuleType, shape: tuple[int, int], dtype: torch.dtype) -> None:
    rows, columns = shape
    x, g = torch.randn(rows, columns, dtype=dtype), torch.randn(columns, dtype=dtype)
    folded = torch.randn(rows // 4 + 60, 4, columns, dtype=dtype)
    cases = {
        "column_softmax": ((x,), lambda x: torch.softmax(x, 0)),
        "column_range": ((folded, g), column_range),
        "column_standard": ((folded, g), column_standard),
    }
    tolerance = 1e-10 if dtype == torch.float64 else 2e-4
    for name, (given, form) in cases.items():
        leaves = [a.double().clone().requires_grad_() for a in given]
        y = form(*leaves)
        dy = torch.randn_like(y)
        want = torch.autograd.grad(y, leaves, dy)
        got: dict[int, list[torch.Tensor]] = {}
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            out, saved = getattr(native, f"{name}_forward")(*given)
            back = getattr(native, f"{name}_backward")(dy.to(dtype), *saved)
            got[count] = [out, *(back if isinstance(back, tuple) else (back,))]
        for a, b in zip(got[1], [y, *want], strict=True):
            torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance * float(b.detach().abs().max()))
        assert all(torch.equal(a, b) for count in (2, 3) for a, b in zip(got[1], got[count], strict=True)), name


def test_a_maximum_keeps_what_is_not_a_number(native: ModuleType) -> None:
    x = torch.randn(300, 7)
    x[271, 3] = torch.nan
    y, _ = native.column_softmax_forward(x)
    assert y.isnan().any(0).tolist() == [k == 3 for k in range(7)]


def test_statistics_far_from_zero_stay_accurate(native: ModuleType) -> None:
    x, g = torch.randn(100, 50, 3) + 1000, torch.ones(3)
    y, _ = native.column_standard_forward(x, g)
    torch.testing.assert_close(y.double(), column_standard(x.double(), g.double()), rtol=0, atol=2e-3)


def test_few_columns_of_a_costly_function_are_vectors_each(native: ModuleType) -> None:
    code = Path(f"{native.__path__[0]}/column_softmax.c").read_text()
    assert "n_n >= TALL && n_d < NARROW" in code
    assert "< NARROW" not in Path(f"{native.__path__[0]}/column_range.c").read_text()  # nothing that is dear
