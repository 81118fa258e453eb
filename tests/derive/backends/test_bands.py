"""A sum over the places that are near is one of shifted slices; any other condition, and what differs there, is not."""

import pytest
import torch
from torch import Tensor

from derive import axes, op, sum, tensor, where
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

c, d, h, n = axes("c d h n")


@op
def of_squares(f, x: tensor[n, c, h]):
    f.y[n, c, h] = sum(where((d - c <= 2) & (c - d <= 2), x[n, d, h] ** 2, 0), over=d)
    return f.y


@op
def ahead(f, x: tensor[n, c], w: tensor[c]):
    f.y[n, c] = w[c] * sum(where((d > c - 1) & (c + 3 > d), x[n, d], 0), over=d)
    return f.y


@op
def by_a_matrix(f, x: tensor[n, c], A: tensor[c, c]):
    f.y[n, c] = sum(where((d - c <= 1) & (c - d <= 1), A[c, d] * x[n, d], 0), over=d)
    return f.y


@op
def on_one_side(f, x: tensor[n, c]):
    f.y[n, c] = sum(where((d - c <= 1) & (d >= 1), x[n, d] ** 2, 0), over=d)
    return f.y


def _near(size: int, before: int, behind: int) -> Tensor:
    apart = torch.arange(size) - torch.arange(size)[:, None]
    return ((apart >= -before) & (apart <= behind)).double()


CASES = [
    (of_squares, lambda x: torch.einsum("ndh, cd -> nch", x**2, _near(x.shape[1], 2, 2)), {"x": (2, 7, 3)}),
    (of_squares, lambda x: torch.einsum("ndh, cd -> nch", x**2, _near(x.shape[1], 2, 2)), {"x": (2, 2, 3)}),
    (of_squares, lambda x: torch.einsum("ndh, cd -> nch", x**2, _near(x.shape[1], 2, 2)), {"x": (2, 0, 3)}),
    (ahead, lambda x, w: x @ _near(len(w), 0, 2).T * w, {"x": (3, 6), "w": (6,)}),
    (by_a_matrix, lambda x, A: x @ (A * _near(len(A), 1, 1)).T, {"x": (3, 5), "A": (5, 5)}),
]


@pytest.mark.parametrize(("made", "plain", "shapes"), CASES)
def test_values_and_gradients(made: OpCall, plain, shapes) -> None:
    assert_derived(made.op, plain, shapes)


@pytest.mark.parametrize(("made", "slices"), [(of_squares, 5), (ahead, 3)])
def test_slices_are_added(made: OpCall, slices: int) -> None:
    code = code_of(made.op)
    assert f"for shift in range({slices}):" in code and "@" not in code.replace("@in_float32", ""), code
    found = verify(made.op)
    assert found.right, [(r.line, [str(w) for w in r.wrong]) for r in found.rows if r.wrong]


@pytest.mark.parametrize("made", [by_a_matrix, on_one_side])
def test_what_differs_from_place_to_place_is_multiplied(made: OpCall) -> None:
    assert "for shift" not in code_of(made.op)
