"""Every law is tested by being a row: its sides are equal, it is stable, it ends, and the engine applies it."""

import ast
from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest
from sympy import Integer, cos, sin, symbols

from derive.ir.algebra import normal
from derive.rules.engine import Row, fold
from derive.rules.expressions import expression, rewritings
from derive.rules.tables import algebra

TABLES = (algebra,)
ROWS = list(dict.fromkeys(
    row for table in TABLES for value in vars(table).values() if isinstance(value, tuple) for row in value
    if isinstance(row, Row)
))  # fmt: skip

POINTS = (0.0, 1.0, -1.0, 0.5, -30.0, 30.0, 200.0, 1e-6, -0.7342, 1.618, 3.1)
EXPONENTS = (-1.0, -2.0, -0.5, -3.0)


def _sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


WORDS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "neg": np.negative,
    "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
    "where": np.where, "absolute": np.abs, "sigmoid": _sigmoid, "softplus": lambda x: np.logaddexp(0 * x, x),
    "slope_of_maximum": lambda x: (x > 0) + (x == 0) / x.dtype.type(2),
    "slope_of_minimum": lambda x: (x < 0) + (x == 0) / x.dtype.type(2), "relu": lambda x: np.maximum(x, 0 * x),
}  # fmt: skip
FACTS = {
    "negative": lambda x: x < 0, "positive": lambda x: x > 0, "nonzero": lambda x: x != 0, "number": lambda x: True,
}  # fmt: skip


def points(row: Row) -> dict[str, np.ndarray]:
    """What the variables are: every mixture of random and of singular values for which the conditions hold."""
    some = [EXPONENTS if name == "q" else POINTS for name in row.variables]
    mixed = [dict(zip(row.variables, p, strict=True)) for p in product(*some)]
    mixed = [p for p in mixed if row.holds(FACTS, p)]
    return {name: np.array([p[name] for p in mixed]) for name in row.variables}


def evaluated(side: ast.expr, at: Mapping[str, np.ndarray], dtype: type) -> np.ndarray:
    """A side of a law in numbers of a kind."""

    def word(name: str, args: list[np.ndarray]) -> np.ndarray:
        return WORDS.get(name, getattr(np, name, None))(*args)

    with np.errstate(all="ignore"):
        of = fold(side, word, lambda n: at[n].astype(dtype), lambda n: dtype(float(n)))
        return np.broadcast_to(of, next(iter(at.values())).shape)


def is_law(row: Row, right: ast.expr) -> bool:
    """Whether both sides are equal wherever the left one is a number, in float64."""
    at = points(row)
    left, found = evaluated(row.sides[0], at, np.float64), evaluated(right, at, np.float64)
    fine = np.isfinite(left)
    assert fine.sum() >= 10
    terms = (row.sides[0].left, row.sides[0].right) if isinstance(row.sides[0], ast.BinOp) else row.sides[:1]
    size = sum(np.abs(evaluated(t, at, np.float64)) for t in terms)
    left, found, size = left[fine], found[fine], size[fine]
    return bool(np.all(np.isfinite(found)) and np.all(np.abs(left - found) <= 1e-12 * size))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_both_sides_are_equal(row: Row) -> None:
    assert is_law(row, row.sides[1])


@pytest.mark.parametrize("row", [r for r in ROWS if r.stability], ids=str)
def test_the_right_side_has_the_digits(row: Row) -> None:
    """In float32 its error is not above that of the left side, and below it somewhere."""
    at = points(row)
    exact = evaluated(row.sides[1], at, np.longdouble)
    fine = np.isfinite(exact) & (np.abs(exact) > 1e-30)
    both = [np.abs(evaluated(side, at, np.float32).astype(np.longdouble)[fine] - exact[fine]) for side in row.sides]
    left, right = (np.where(np.isfinite(e), e, np.inf) / np.abs(exact[fine]) for e in both)
    assert right.max() < 1e-4 < left.max()


def sabotaged(right: ast.expr) -> list[ast.expr]:
    """A right side with its sign turned, and without a factor, a divisor or a function."""
    out: list[ast.expr] = [ast.UnaryOp(ast.USub(), right)]
    if isinstance(right, ast.BinOp | ast.UnaryOp | ast.Call):
        parts = {ast.BinOp: ["left", "right"], ast.UnaryOp: ["operand"]}.get(type(right), [])
        out += [getattr(right, part) for part in parts] + (right.args if isinstance(right, ast.Call) else [])
    return out


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_sabotaged_row_is_caught(row: Row) -> None:
    assert not [ast.unparse(wrong) for wrong in sabotaged(row.sides[1]) if is_law(row, wrong)]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_engine_applies_it(row: Row) -> None:
    """To its own left side, and what it makes of that is another value: it says what it says by the row alone."""
    names = dict(zip(row.variables, symbols("x y s t", real=True), strict=False)) | {"q": Integer(-2)}
    left, right = (expression(side, names) for side in row.sides)
    made = [move.value for move in rewritings(left, (row,), tidy=normal)]
    assert normal(right) in made, made


@pytest.mark.parametrize(
    ("law", "why"),
    [
        ("c*sigmoid(-u) => c - c*sigmoid(u)", "might not end"),
        ("u + v => v + u", "might not end"),
        ("sin(u)*cos(u)*exp(v) => cos(u)/u", "divides by u"),
        ("abs(u)*exp(sigmoid(v)) => u**v", "divides by u"),
    ],
)
def test_a_row_ends_and_divides_by_nothing_new(law: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Row("wrong", law)


def test_a_law_is_one_row() -> None:
    """Pythagoras, which nobody told the engine of."""
    x, y, t = symbols("x y t", real=True)
    row = Row("Pythagoras", "c*sin(u)**2 + c*cos(u)**2 => c")
    assert is_law(row, row.sides[1])
    (move,) = rewritings(2 * y * sin(3 * x) ** 2 - t + 2 * y * cos(3 * x) ** 2, (row,))
    assert (move.value, move.reason) == (2 * y - t, "c*sin(u)**2 + c*cos(u)**2 = c")
    assert not list(rewritings(sin(x) ** 2 + 2 * cos(x) ** 2, (row,)))
