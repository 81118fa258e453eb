"""What is added at the distance of two places is added at all of them at once, not in a loop over one of the two."""

import pytest
import torch
from torch import Tensor

from derive import axes, length, op, size, sum, tensor
from derive.emit import render
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived

b, h, i, j, r, t, u, k, d = axes("b h i j r t u k d")


@op
def by_distance(f, q: tensor[b, i, d], v: tensor[b, j, d], table: tensor[r]):
    f.s[b, i, j] = sum(q[b, i, d] * v[b, j, d], over=d) + table[i - j + size(j) - 1]
    return f.s


@op
def by_distance_and_head(f, s: tensor[b, h, i, j], table: tensor[h, r]):
    f.y[b, h, i, j] = s[b, h, i, j] * table[h, i + j]
    return f.y


@op
def windows(f, x: tensor[b, t], width: length(k)):
    f.y[b, u, k] = x[b, u + k] ** 3
    return f.y


def _places(i: int, j: int) -> Tensor:
    return torch.arange(i)[:, None] + torch.arange(j)


def _by_distance(q: Tensor, v: Tensor, table: Tensor) -> Tensor:
    i, j = q.shape[1], v.shape[1]
    return q @ v.mT + table[(_places(i, j) - 2 * torch.arange(j) + j - 1)]


def _by_distance_and_head(s: Tensor, table: Tensor) -> Tensor:
    return s * table[:, _places(*s.shape[2:])]


@pytest.mark.parametrize(("i", "j", "r"), [(4, 3, 6), (1, 5, 7), (3, 3, 5), (1, 1, 1)])
def test_values_and_gradients(i: int, j: int, r: int) -> None:
    """Also of a table that is longer than there are distances."""
    assert_derived(by_distance.op, _by_distance, {"q": (2, i, 5), "v": (2, j, 5), "table": (r,)})
    assert_derived(by_distance_and_head.op, _by_distance_and_head, {"s": (2, 3, i, j), "table": (3, r)})


def test_only_the_taps_of_a_window_are_looped_over() -> None:
    for made, at in ((by_distance, 0), (by_distance_and_head, 1)):
        backward = render(derivation_of(made.op)).partition("_backward(")[2]
        assert f".index_add_(\n            {at}," in backward and "for at_" not in backward, backward
    assert "for at_k in range(width)" in render(derivation_of(windows.op))
