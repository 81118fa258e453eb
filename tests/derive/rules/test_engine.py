"""Every law is tested by being a row: its sides are equal, it is stable, it ends, and the engine applies it."""

import ast
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from mpmath import mp
from sympy import Eq, Integer, cos, sin, symbols

from derive.ir.algebra import normal
from derive.ir.program import Call, Node, Num, Read
from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import At, Tensor
from derive.rules.engine import Row, fold
from derive.rules.expressions import expression, rewritings
from derive.rules.statements import rewritten
from derive.rules.tables import algebra, piecewise, signs, stability
from derive.verify.places import FUNCTIONS

TABLES = (algebra, stability, piecewise, signs)
ROWS = list(dict.fromkeys(
    row for table in TABLES for value in vars(table).values() if isinstance(value, tuple) for row in value
    if isinstance(row, Row)
))  # fmt: skip

NODES = (*signs.SIGNS, *signs.EXPM1)  # rows of programs
POINTS = (0.0, 1.0, -1.0, 0.5, -30.0, 30.0, 200.0, 1e-6, -0.7342, 1.618, 3.1)
SPECIAL = {"q": (-1.0, -2.0, -0.5, -3.0), "k": (0.0, 1.0)}  # an exponent, a condition
FACTS = {
    "negative": lambda x: x < 0, "positive": lambda x: x > 0, "nonzero": lambda x: x != 0, "number": lambda x: True,
    "whole": lambda x: x == round(x), "unsigned": lambda x: True,
    "varies": lambda x: True, "constant": lambda x: True, "real": lambda x: True, "grows": lambda x, y: True,
    "places": lambda k, u: True,
}  # fmt: skip
EXACT = {  # in mpmath, as functions are defined
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "pow": lambda x, y: x**y if x > 0 or (x < 0 and y == int(y)) else mp.mpf(0) if y > 0 == x else 1 / mp.mpf(0),
    "gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne,
    "where": lambda k, u, v: u if k else v, "absolute": abs, "maximum": max, "minimum": min, "sign": mp.sign,
    "relu": lambda x: max(x, mp.mpf(0)), "sigmoid": lambda x: 1 / (1 + mp.exp(-x)), "log1p": lambda x: mp.log(1 + x),
    "softplus": lambda x: mp.log(1 + mp.exp(x)), "expm1": lambda x: mp.exp(x) - 1,
    "slope_of_maximum": lambda x: (1 + mp.sign(x)) / 2, "slope_of_minimum": lambda x: (1 - mp.sign(x)) / 2,
}  # fmt: skip
NUMPY = {  # as they are computed
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "pow": np.power,
    "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
    "where": lambda k, u, v: np.where(k != 0, u, v), "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: np.exp(-np.logaddexp(0 * x, -x)), "softplus": lambda x: np.logaddexp(0 * x, x),
    "slope_of_maximum": lambda x: (1 + np.sign(x)) / 2, "slope_of_minimum": lambda x: (1 - np.sign(x)) / 2,
}  # fmt: skip


def points(row: Row) -> list[dict[str, float]]:
    """What the variables are: every mixture of random and of singular values for which the conditions hold."""
    values = product(*(SPECIAL.get(name, POINTS) for name in row.variables))
    mixed = (dict(zip(row.variables, v, strict=True)) for v in values)
    fitting = [p for p in mixed if row.holds(FACTS, p | {"alone": True})]
    return fitting[:: 1 + len(fitting) // 300]


def exact(side: ast.expr, at: Mapping[str, float]) -> mp.mpf | None:
    """A side of a law in 150 digits; None where it is no number."""

    def word(name: str, args: list[mp.mpf]) -> mp.mpf:
        return EXACT.get(name, getattr(mp, name, None))(*args)

    with mp.workdps(150):
        try:
            value = fold(side, word, lambda n: mp.mpf(at[n]), lambda n: mp.mpf(n.numerator) / n.denominator)
        except (ZeroDivisionError, ValueError):
            return None
    return value if mp.isfinite(value) and not isinstance(value, mp.mpc) else None


def computed(side: ast.expr, at: list[dict[str, float]], dtype: type) -> np.ndarray:
    """A side of a law at all points in the numbers of a kind."""
    values = {n: np.array([p[n] for p in at], dtype) for n in at[0]}

    def word(name: str, args: list[np.ndarray]) -> np.ndarray:
        return (NUMPY.get(name) or getattr(np, name, None) or _of_torch(name))(*args)

    with np.errstate(all="ignore"):
        return np.broadcast_to(fold(side, word, values.__getitem__, lambda n: dtype(float(n))), len(at))


def _of_torch(name: str) -> Callable[..., np.ndarray]:
    """A function that NumPy lacks."""
    return lambda *args: FUNCTIONS[name](*(torch.from_numpy(a.copy()) for a in args)).numpy()


def is_law(row: Row, right: ast.expr) -> bool:
    """Whether the right side is what the left one is wherever that is a number, and is one in float64 where that is."""
    known = [(p, value) for p in points(row) if (value := exact(row.sides[0], p)) is not None]
    assert len(known) >= 8
    with mp.workdps(150):
        for p, value in known:
            found = exact(right, p)
            if found is None or abs(found - value) > mp.mpf(10) ** -40 * (abs(value) + abs(p.get("c", 1))):
                return False
    left, there = (np.isfinite(computed(side, [p for p, _ in known], np.float64)) for side in (row.sides[0], right))
    return bool(np.all(there | ~left))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_both_sides_are_equal(row: Row) -> None:
    assert is_law(row, row.sides[1])


@pytest.mark.parametrize("row", [r for r in ROWS if r.stability], ids=str)
def test_the_right_side_has_the_digits(row: Row) -> None:
    """In float32 its largest error is not above that of the left side."""
    known = [(p, value) for p in points(row) if (value := exact(row.sides[0], p)) and 1e-30 < abs(value) < 1e30]
    at, wanted = [p for p, _ in known], np.array([float(value) for _, value in known])
    left, right = (np.abs(computed(side, at, np.float32) - wanted) / np.abs(wanted) for side in row.sides)
    assert np.nanmax(right) <= max(np.nan_to_num(left, nan=np.inf).max(), 1e-6) and not np.isnan(right).any()


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


@pytest.mark.parametrize("row", [r for r in ROWS if r not in NODES], ids=str)
def test_the_engine_applies_it(row: Row) -> None:
    """To its own left side, and what it makes of that is another value: it says what it says by the row alone."""
    asked = [n for n in row.variables if f"number({n})" in row.when or (n == "v" and "constant(v)" in row.when)]
    names = {n: At(Tensor(n), Axis("i")) for n in row.variables} | {"q": Integer(-2)}
    names |= {n: Integer(2 + k) for k, n in enumerate(asked)}
    if "places" in row.when:
        names |= {"k": Eq(Axis("i"), Axis("j")), "u": At(Tensor("u"), Axis("i"), Axis("j"))}
    if "grows" in row.when:
        names["u"] += 3 * names["v"] * (-1 if "-v" in row.when else 1)
    left, right = (expression(side, names) for side in row.sides)
    made = [move.value for move in rewritings(left, (row,), tidy=normal)]
    assert normal(right) in made, made


@pytest.mark.parametrize("row", NODES, ids=str)
def test_the_engine_applies_it_to_nodes(row: Row) -> None:
    def word(name: str, args: list[Node]) -> Node:
        return Num(-args[0].value) if name == "neg" and isinstance(args[0], Num) else Call(name, tuple(args))

    names = {n: Read(n, ("i",)) for n in row.variables} | {"n": Num(Fraction(-3))}
    left, right = (fold(side, word, names.__getitem__, Num) for side in row.sides)
    assert rewritten(Call("tanh", (left,)), (row,)) == Call("tanh", (right,))


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
