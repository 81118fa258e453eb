"""Folds for all pairs of rows, that are no matrix products, are taken in tiles as these are."""

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

n, i, j, k, e = axes("n i j k e")


@op
def of_differences(f, a: tensor[i, k], b: tensor[j, k]):
    f.y[i, j] = exp(-0.1 * sum((a[i, k] - b[j, k]) ** 2, over=k))
    return f.y


@op
def among_themselves(f, x: tensor[n, k]):
    f.y[i, j] = sum(abs(x[i, k] - x[j, k]), over=k)
    return f.y


@op
def in_batches(f, a: tensor[n, i, k], b: tensor[n, j, k], v: tensor[k], s: tensor[j]):
    f.y[n, i, j] = sum(relu(a[n, i, k] + s[j] * b[n, j, k]) * v[k], over=k)
    return f.y


@op
def largest(f, a: tensor[i, k], b: tensor[k, j]):
    f.y[i, j] = amax(a[i, k] + b[k, j], over=k)
    return f.y


@op
def two_of_each(f, a: tensor[i, k], b: tensor[j, k]):
    f.y[i, j] = sum((a[i, k] - b[j, k]) ** 2, over=k)
    f.z[i, j] = sum(abs(a[i, k] - b[j, k]), over=k) * f.y[i, j]
    return f.y, f.z


@op
def beyond_a_place(f, a: tensor[i, k], b: tensor[j, k]):
    f.y[i, j] = sum(where(k <= i, (a[i, k] - b[j, k]) ** 2, 0), over=k)
    return f.y


@op
def with_a_table(f, a: tensor[i, k], b: tensor[j, k], m: tensor[i, j]):
    f.y[i, j] = sum(relu(a[i, k] - b[j, k] - m[i, j]) ** 2, over=k)
    return f.y


@op
def of_all_three(f, a: tensor[i, k], b: tensor[j, k], m: tensor[i, j, k]):
    f.y[i, j] = sum(abs(a[i, k] - b[j, k] - m[i, j, k]), over=k)
    return f.y
"""
NAMES = [
    "of_differences", "among_themselves", "in_batches", "two_of_each", "beyond_a_place", "with_a_table", "largest",
    "of_all_three",
]  # fmt: skip
WHOLE = {"of_all_three"}  # a table of three axes is given: it comes from memory


@pytest.mark.parametrize("name", NAMES)
def test_gradients_in_every_situation(ops: dict[str, Op], name: str) -> None:
    """Of odd, equal and no lengths, on one thread and two, in both dtypes; also in tiles of two by two."""
    assert_right(ops[name])


@pytest.mark.parametrize("name", NAMES)
def test_which_are_taken_in_tiles(native: ModuleType, name: str) -> None:
    forward = Path(native.__path__[0], f"{name}.c").read_text().partition(f"{name}_backward(")[0]
    assert ("TILE_ROWS &&" in forward) is (name not in WHOLE), forward


def test_few_places_that_are_last_in_memory_are_rows_of_a_tile(native: ModuleType) -> None:
    """Of points in space: their three numbers are no vector, and nothing else was one."""
    backward = Path(native.__path__[0], "two_of_each.c").read_text().partition("two_of_each_backward(")[2]
    for points in "ij":
        assert f"n_{points} >= TILE_COLUMNS && n_k < TILE_COLUMNS" in backward, backward


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("rows", "columns", "deep"), [(17, 33, 5), (64, 40, 64), (130, 75, 200), (16, 500, 1), (33, 70, 3)]
)
def test_tiles_overlap_and_give_the_same_on_any_number_of_threads(
    native: ModuleType, threads: Callable[[int], None], rows: int, columns: int, deep: int
) -> None:
    a = torch.randn(rows, deep, dtype=torch.float64, requires_grad=True)
    b = torch.randn(columns, deep, dtype=torch.float64, requires_grad=True)
    dy, dz = torch.randn(2, rows, columns, dtype=torch.float64)
    difference = a[:, None] - b
    y = difference.square().sum(2)
    z = difference.abs().sum(2) * y
    wanted = (y, z, *torch.autograd.grad((y, z), (a, b), (dy, dz)))
    found = []
    for number in (1, 2, 3):
        threads(number)
        *out, saved = native.two_of_each_forward(a.detach(), b.detach())
        found.append((*out, *native.two_of_each_backward(dy, dz, *saved)))
    for one, two, three, right in zip(*found, wanted, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)
        torch.testing.assert_close(one, right, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("kernels")
def test_single_precision_is_as_exact_as_in_pytorch(native: ModuleType) -> None:
    """A sum of so many terms, one by one in one variable, would be three times as far off."""
    torch.manual_seed(1)
    a, b = torch.randn(200, 128), torch.randn(200, 128) + 3
    right = (a.double()[:, None] - b).square().sum(2)
    y, _, _ = native.two_of_each_forward(a, b)
    plain = (a[:, None] - b).square().sum(2)
    off, plain_off = (((x.double() - right) / right).square().mean().sqrt() for x in (y, plain))
    assert off < 1.5 * plain_off


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("rows", "columns", "deep"), [(40, 70, 33), (5, 130, 20), (64, 3, 7)])
def test_ties_share_what_a_largest_sum_passes_on(native: ModuleType, rows: int, columns: int, deep: int) -> None:
    """No sum is kept, and each has the same bits again."""
    torch.manual_seed(0)
    a, b = torch.randint(4, (rows, deep)) / 7, torch.randint(4, (deep, columns)) / 3
    dy = torch.randn(rows, columns)
    y, saved = native.largest_forward(a, b)
    equal = (a[:, :, None] + b == y[:, None]).double()
    share = dy[:, None].double() * equal / equal.sum(1, keepdim=True)
    da, db = native.largest_backward(dy, *saved)
    torch.testing.assert_close(da.double(), share.sum(2), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(db.double(), share.sum(0), rtol=1e-5, atol=1e-5)
