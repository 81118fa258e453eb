"""Rows that an index chooses are gone through as they lie, and what chooses them is read once for a row."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from derive.ir.equations import Op
from tests.native.running import assert_right

SPECS = """
from derive import *

n, m, i, j, d, v = axes("n m i j d v")


@op
def of_pairs(f, x: tensor[i, d], z: tensor[j, d], ix: index(i)[n], iy: index(j)[n]):
    f.y[n] = sum(x[ix[n], d] * z[iy[n], d], over=d)
    return f.y


@op
def of_one_tensor(f, x: tensor[i, d], e: index(i)[n], g: index(i)[n]):
    f.y[n] = sqrt(sum((x[e[n], d] - x[g[n], d]) ** 2, over=d) + 0.1)
    return f.y


@op
def among_others(f, x: tensor[n, d], z: tensor[j, d], iy: index(j)[n, m]):
    f.s[n, m] = sum(x[n, d] * z[iy[n, m], d], over=d)
    f.y[n] = -log(sum(exp(f.s[n, m]), over=m))
    return f.y


@op
def chosen_by_chosen(f, x: tensor[i, d], slot: index(i)[v], ids: index(v)[n]):
    f.r[n] = rsqrt(sum(x[slot[ids[n]], d] ** 2, over=d) + 0.1)
    f.y[n, d] = x[slot[ids[n]], d] * f.r[n]
    return f.y


@op
def where_there_is_one(f, x: tensor[i, d], label: index(i)[n]):
    f.y[n] = where(label[n] >= 0, sum(x[label[n], d] ** 2, over=d), 0)
    return f.y
"""
NAMES = re.findall(r"^def (\w+)", SPECS, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_in_every_situation(ops: dict[str, Op], name: str) -> None:
    assert_right(ops[name])


@pytest.mark.parametrize(("name", "sums"), [("of_pairs", "x[ix_at * n_d + i_d] * z[iy_at * n_d + i_d]")])
def test_indices_are_read_before_the_row(native: ModuleType, name: str, sums: str) -> None:
    code = Path(native.__path__[0], f"{name}.c").read_text().partition("_backward(")[0]
    row = code.partition("for (int64_t i_n = 0; i_n < n_n; i_n++) {")[2]
    before, after = re.split(r"#pragma omp simd reduction|IN_VECTORS\(", row, maxsplit=1)
    assert "const int64_t ix_at = ix[i_n];" in before, code
    assert sums in after, code
    assert "_parts" not in code, "rows are shared out, and each is summed at once"


def test_what_sums_chosen_rows_goes_along_them_however_short_they_are(native: ModuleType) -> None:
    backward = Path(native.__path__[0], "among_others.c").read_text().partition("_backward(")[2]
    (summed,) = re.findall(r"(.*)\n.*for \(int64_t i_d_from = 0", backward)
    assert "NARROW" not in summed, summed
