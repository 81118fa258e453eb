"""Two subscripts of views are one, which selects the same."""

import pytest
import torch

from derive.backends.code import Code, Item, Name
from derive.backends.torch.reads.slices import subscript
from derive.backends.values import Value, squeeze
from tests.derive.code_of import code_of

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
    ("X[1:]", "[:, :, 2 * 1 + 1 : 5]", "X[1:, :, 2 * 1 + 1:5]"),
    ("X[::2]", "[:, None]", "X[::2, None]"),
    ("X[:, 1]", "[:, 2]", "X[:, 1, 2]"),
    ("X[1:]", "[1:]", "X[1:][1:]"),
    ("X[:, None]", "[:, 0]", "X[:, None][:, 0]"),
    ("X[ROWS]", "[:, None]", "X[ROWS][:, None]"),
    ("X[..., 0]", "[:, None]", "X[..., 0][:, None]"),
    ("X", "[:, None]", "X[:, None]"),
    ("X.sum(0)", "[:, None]", "X.sum(0)[:, None]"),
]


def _items(text: str) -> tuple[Code, ...]:
    code = code_of(text)
    assert isinstance(code, Item)
    return code.items


@pytest.mark.parametrize(("code", "call", "wanted"), TABLE, ids=[f"{a}{b}" for a, b, _ in TABLE])
def test_one_subscript_for_two(code: str, call: str, wanted: str) -> None:
    assert str(Value(code_of(code)).at(*_items(f"X{call}")).code) == wanted
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
    assert str(Item(Name("FIVE"), tuple(subscript(_items(f"FIVE{whole}"))))) == f"FIVE{wanted}"
    assert torch.equal(eval(f"FIVE{wanted}"), eval(f"FIVE{whole}"))


def test_dimensions_of_length_1_are_taken_away_in_one_call() -> None:
    assert str(squeeze(Value(Name("s"), ("n", "c", None, None))).code) == "s.squeeze((2, 3))"
    assert str(squeeze(Value(Name("s"), ("...", "c", None))).code) == "s.squeeze(-1)"
    assert squeeze(Value(Name("s"), ("n",))).code == Name("s")
