"""Two subscripts of views are one, which selects the same."""

import pytest
import torch

from derive.backends.subscripts import subscripted
from derive.backends.torch.reads.slices import subscript
from derive.backends.values import Value, squeeze

X = torch.arange(4 * 5 * 6).reshape(4, 5, 6)
ROWS = torch.tensor([1, 0, 3])

TABLE = [
    ("X[:, 0]", "[:, None]", "X[:, 0, None]"),
    ("X[:, 0, 1]", "[:, None, None]", "X[:, 0, 1, None, None]"),
    ("X[:, :3]", "[:, :, :2]", "X[:, :3, :2]"),
    ("X[:, :3]", "[:, None]", "X[:, None, :3]"),
    ("X[:, None, 0]", "[:, :, None]", "X[:, None, 0, None]"),
    ("X[1]", "[None]", "X[1, None]"),
    ("X[..., 0]", "[..., None]", "X[..., None, 0]"),
    ("X[1:]", "[:, :, 2 * 1 + 1 : 5]", "X[1:, :, 2 * 1 + 1 : 5]"),
    ("X[:, 1]", "[:, 2]", "X[:, 1, 2]"),
    ("X[1:]", "[1:]", "X[1:][1:]"),
    ("X[:, None]", "[:, 0]", "X[:, None][:, 0]"),
    ("X[ROWS]", "[:, None]", "X[ROWS][:, None]"),
    ("X[..., 0]", "[:, None]", "X[..., 0][:, None]"),
    ("X", "[:, None]", "X[:, None]"),
    ("X.sum(0)", "[:, None]", "X.sum(0)[:, None]"),
    ("X[:, 0]", ".sum(0)", "X[:, 0].sum(0)"),
    ("X[:, 0]", "[:, None].sum(0)", "X[:, 0][:, None].sum(0)"),
]


@pytest.mark.parametrize(("code", "call", "wanted"), TABLE, ids=[f"{a}{b}" for a, b, _ in TABLE])
def test_one_subscript_for_two(code: str, call: str, wanted: str) -> None:
    assert subscripted(code, call) == wanted
    assert torch.equal(eval(wanted), eval(code + call))


FIVE = torch.arange(2 * 2 * 3 * 2 * 2).reshape(2, 2, 3, 2, 2)
WHOLE = [
    ("[:, :, :, 0, :]", "[:, :, :, 0]"),
    ("[:, :, :, 0, 1]", "[..., 0, 1]"),
    ("[:, :, 2, :, :]", "[:, :, 2]"),
    ("[:, :, :, :, 1]", "[..., 1]"),
]


@pytest.mark.parametrize(("whole", "wanted"), WHOLE)
def test_a_place_is_in_the_dimension_that_it_is_of(whole: str, wanted: str) -> None:
    assert subscript(whole[1:-1].split(", ")) == wanted
    assert torch.equal(eval(f"FIVE{wanted}"), eval(f"FIVE{whole}"))


def test_dimensions_of_length_1_are_taken_away_in_one_call() -> None:
    assert squeeze(Value("s", ("n", "c", None, None))).code == "s.squeeze((2, 3))"
    assert squeeze(Value("s", ("...", "c", None))).code == "s.squeeze(-1)"
    assert squeeze(Value("s", ("n",))).code == "s"
