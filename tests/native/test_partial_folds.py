"""What is folded over the last axes of rows shares the sweep of what goes through all of them."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from derive.ir.equations import Op
from tests.native.running import assert_right

SPECS = """
from derive import *

n, c, g, k, s, t = axes("n c g k s t")


@op
def standardised(f, x: tensor[n, c, s], gamma: tensor[c], beta: tensor[c], groups: length(g)):
    f.z[n, g, k, s] = x[n, (g, k), s]
    f.mu[n, g] = mean(f.z[n, g, k, s], over=(k, s))
    f.rstd[n, g] = rsqrt(mean((f.z[n, g, k, s] - f.mu[n, g]) ** 2, over=(k, s)) + 0.1)
    f.xhat[n, (g, k), s] = (f.z[n, g, k, s] - f.mu[n, g]) * f.rstd[n, g]
    f.y[n, c, s] = gamma[c] * f.xhat[n, c, s] + beta[c]
    return f.y


@op
def several(f, x: tensor[n, k, s], b: tensor[k]):
    f.r[n] = sum(x[n, k, s] ** 2, over=(k, s))
    f.p[n, k] = sum(abs(x[n, k, s]), over=s) + b[k]
    f.q[n, k] = amax(x[n, k, s], over=s)
    f.y[n, k, s] = x[n, k, s] / sqrt(f.r[n] + 1) + f.p[n, k] * f.q[n, k]
    return f.y


@op
def over_two_axes(f, x: tensor[n, k, s, t], b: tensor[s]):
    f.r[n] = sum(x[n, k, s, t] ** 2, over=(k, s, t))
    f.p[n, k] = sum(x[n, k, s, t] * b[s], over=(s, t))
    f.y[n, k, s, t] = x[n, k, s, t] / sqrt(f.r[n] + 1) + f.p[n, k]
    return f.y


@op
def across(f, x: tensor[n, k, s]):
    f.r[n] = sum(x[n, k, s] ** 2, over=(k, s))
    f.p[n, s] = sum(x[n, k, s], over=k)
    f.y[n, k, s] = x[n, k, s] / sqrt(f.r[n] + 1) * f.p[n, s]
    return f.y
"""
NAMES = ["standardised", "several", "over_two_axes", "across"]


@pytest.mark.parametrize("name", NAMES)
def test_gradients_in_every_situation(ops: dict[str, Op], name: str) -> None:
    assert_right(ops[name])


@pytest.mark.parametrize("name", ["standardised", "several", "over_two_axes"])
def test_they_keep_no_row(native: ModuleType, name: str) -> None:
    """Of each kernel: what both read is computed where it is read."""
    code = Path(native.__path__[0], f"{name}.c").read_text()
    assert not [line for line in code.splitlines() if "_rows = take(" in line and "n_k * n_s" in line], code


@pytest.mark.parametrize("name", ["standardised", "several", "over_two_axes"])
def test_they_share_a_loop(native: ModuleType, name: str) -> None:
    code = Path(native.__path__[0], f"{name}.c").read_text()
    loops = (loop.partition("_total")[0] for loop in re.split(r"IN_VECTORS\(|IN_FOURS\(", code)[1:])
    assert any(len(set(re.findall(r"(\w+)_lanes\[lane\] \+=", loop))) > 1 for loop in loops), code
