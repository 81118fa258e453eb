"""Quotients by numbers whose reciprocals are short decimals are products."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch

from derive.ir.equations import Op
from tests.native.running import assert_right

SPECS = """
from derive import *

n, d = axes("n d")


@op
def sloping(f, x: tensor[n, d]):
    f.y[n, d] = where(x[n, d] > 0, x[n, d], 0.2 * x[n, d]) + relu(x[n, d] / 50)
    return f.y


@op
def in_thirds(f, x: tensor[n, d]):
    f.y[n, d] = where(x[n, d] / 3 >= 1, x[n, d]**2, x[n, d] / 255) + x[n, d]**3 / 8
    return f.y


@op
def largest_of_tenths(f, x: tensor[n, d], z: tensor[n, d]):
    f.m[n] = amax(x[n, d] / 10 - z[n, d] / 5, over=d)
    f.y[n, d] = exp(x[n, d] / 10 - z[n, d] / 5 - f.m[n])
    return f.y, f.m
"""


@pytest.mark.parametrize("name", ["sloping", "in_thirds", "largest_of_tenths"])
def test_gradients_in_every_situation(ops: dict[str, Op], name: str) -> None:
    assert_right(ops[name])


def test_only_short_decimals_are_multiplied_by(native: ModuleType) -> None:
    folder = Path(native.__path__[0])
    sloping, thirds = ((folder / f"{name}.c").read_text() for name in ("sloping", "in_thirds"))
    assert "R(0.2) * x" in sloping
    assert "R(0.02) * " in sloping
    assert all(f"/ {number}" in thirds for number in (3, 255, 8)), thirds


@pytest.mark.usefixtures("kernels")
def test_ties_stay_ties(native: ModuleType) -> None:
    """Both functions have the same numbers under their maximum: of equal ones each has its share."""
    x, z = torch.arange(1.0, 41).repeat(2, 2) / 7, torch.zeros(2, 80)
    _, m, saved = native.largest_of_tenths_forward(x, z)
    dx, _ = native.largest_of_tenths_backward(torch.zeros(2, 80), torch.ones(2), *saved)
    torch.testing.assert_close(m, x.amax(1) / 10, rtol=2e-7, atol=0)
    torch.testing.assert_close(dx.sum(1), torch.full((2,), 0.1))
    assert (dx != 0).sum() == 4
