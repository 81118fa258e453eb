"""Rows whose last axis lies behind their own in memory, channels in groups, take vectors over several rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from derive.ir.equations import Op
from tests.native.running import assert_right

SPECS = """
from derive import *

n, s, c, g, k, t = axes("n s c g k t")


@op
def standardised(f, x: tensor[n, s, c], gamma: tensor[c], groups: length(g)):
    f.z[n, s, g, k] = x[n, s, (g, k)]
    f.mu[n, g] = mean(f.z[n, s, g, k], over=(s, k))
    f.rstd[n, g] = rsqrt(mean((f.z[n, s, g, k] - f.mu[n, g]) ** 2, over=(s, k)) + 0.1)
    f.xhat[n, s, (g, k)] = (f.z[n, s, g, k] - f.mu[n, g]) * f.rstd[n, g]
    f.y[n, s, c] = gamma[c] * f.xhat[n, s, c]
    return f.y


@op
def standardised_heads(f, x: tensor[n, s, g, k]):
    f.mu[n, g] = mean(x[n, s, g, k], over=(s, k))
    f.m[n, g] = mean((x[n, s, g, k] - f.mu[n, g]) ** 2, over=(s, k)) + 0.1
    f.y[n, s, g, k] = (x[n, s, g, k] - f.mu[n, g]) / sqrt(f.m[n, g]) + f.m[n, g] * f.mu[n, g]
    return f.y, f.m


@op
def least_and_largest(f, x: tensor[n, s, g, k]):
    f.low[n, g] = amin(x[n, s, g, k], over=(s, k))
    f.high[n, g] = amax(x[n, s, g, k], over=(s, k))
    f.y[n, s, g, k] = (x[n, s, g, k] - f.low[n, g]) / (f.high[n, g] - f.low[n, g] + 1)
    return f.y


@op
def scaled_by_largest_sum(f, x: tensor[s, g, k], b: tensor[g]):
    f.m[g, k] = sum(x[s, g, k], over=s)
    f.top[g] = amax(f.m[g, k], over=k)
    f.y[s, g, k] = x[s, g, k] * f.top[g] + f.m[g, k] * b[g] ** 2
    return f.y


@op
def one_scale_a_place(f, x: tensor[n, s, g, k], b: tensor[k]):
    f.r[n, g] = rsqrt(mean(x[n, s, g, k] ** 2, over=(s, k)) + 0.1)
    f.y[n, s, g, k] = x[n, s, g, k] * f.r[n, g] * b[k]
    return f.y


@op
def of_groups(f, x: tensor[n, c, s], groups: length(g)):
    f.z[n, g, k, s] = x[n, (g, k), s]
    f.y[n, g] = sum(f.z[n, g, k, s] ** 2, over=(k, s))
    return f.y
"""

BY_LANES = ["standardised", "standardised_heads", "least_and_largest", "scaled_by_largest_sum"]


@pytest.mark.parametrize("name", [*BY_LANES, "one_scale_a_place", "of_groups"])
def test_gradients_in_every_situation(ops: dict[str, Op], name: str) -> None:
    assert_right(ops[name])


@pytest.mark.parametrize("name", [*BY_LANES, "one_scale_a_place"])
def test_rows_share_vectors_where_all_lies_so(native: ModuleType, name: str) -> None:
    """A scale for each place of the inner axis is the same for all rows: vectors over several would read it anew."""
    code = Path(native.__path__[0], f"{name}.c").read_text()
    assert ("if (n_k < SPAN / 2) {" in code) is (name in BY_LANES), code


def test_the_last_part_of_a_merge_and_what_lies_behind_it_are_one_axis(native: ModuleType) -> None:
    code = Path(native.__path__[0], "of_groups.c").read_text()
    assert "for (int64_t i_s_block = 0; i_s_block < n_k * n_s; i_s_block += BLOCK) {" in code, code


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("shape", [(3, 50, 40, 8), (2, 70, 300, 9), (5, 7, 3, 127), (2, 9, 2, 128), (1, 300, 5, 4)])
def test_any_number_of_threads_gives_the_same(
    native: ModuleType, threads: Callable[[int], None], shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape, dtype=torch.float64)
    dy, dm = torch.randn_like(x), torch.randn(shape[0], shape[2], dtype=torch.float64)
    found = []
    for number in (1, 2, 3):
        threads(number)
        y, m, saved = native.standardised_heads_forward(x)
        found.append((y, m, native.standardised_heads_backward(dy, dm, *saved)))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    mu = x.mean((1, 3), keepdim=True)
    var = (x - mu).square().mean((1, 3), keepdim=True) + 0.1
    torch.testing.assert_close(found[0][0], (x - mu) / var.sqrt() + var * mu, rtol=1e-10, atol=1e-10)
