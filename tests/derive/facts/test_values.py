"""Each transfer function held against numbers: what an operation makes of them lies in what is known of it."""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np
import pytest
import torch
from sympy import Expr, Integer, exp, log, nan, oo, sin, sqrt, tanh, zoo

from derive import axes, maximum, minimum, relu, sigmoid, softplus, where
from derive.facts import values
from derive.facts.interpreter import GIVEN, Facts
from derive.facts.values import INF, May, Value, between, called, number, reduced
from derive.ir.lowering.lower import node
from derive.ir.terms.elements import At, Scalar, Tensor
from derive.primitives import CAP, PRIMITIVES, ROWS
from derive.verify.places import FUNCTIONS

n, d = axes("n d")
X, Y = At(Tensor("x"), n), At(Tensor("y"), n)


def _logistic(x: float) -> float:
    return 1 / (1 + np.exp(-np.float64(x)))


def _of_torch(function: Callable) -> Callable:
    return lambda x: float(function(torch.tensor(float(x), dtype=torch.float64)))


_UNARY: dict[str, Callable] = {
    **{r.name: _of_torch(FUNCTIONS[r.name]) for r in ROWS if r.arity == 1 and r.name in FUNCTIONS},
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "sigmoid": _logistic, "softplus": lambda x: np.logaddexp(0, x), "tanh": np.tanh, "erf": math.erf,
    "erfc": math.erfc, "one_plus_erf": lambda x: 1 + math.erf(x),
    "sigmoid_of_size": lambda x: _logistic(-abs(x)), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh,
    "loggamma": lambda x: _of_torch(torch.lgamma)(x) if x > 0 else np.nan, "absolute": np.abs, "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0), "floor": np.floor, "neg": np.negative, "rsqrt": lambda x: 1 / np.sqrt(x),
    "capped": lambda x: np.minimum(x, CAP),
    "square": np.square, "as_float64": np.positive, "narrow": np.positive, "rounded": np.positive,
}  # fmt: skip
_BINARY: dict[str, Callable] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "maximum": np.maximum,
    "minimum": np.minimum, "logaddexp": np.logaddexp, "atan2": np.arctan2, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and,
    "or": np.logical_or, "not": lambda a, _: np.logical_not(a),
}  # fmt: skip
_OTHER: dict[str, Callable] = {
    "where": lambda c, a, b: np.where(c, a, b), "threshold": lambda x, t, a: np.where(x > t, x, a),
    "pi": lambda: math.pi, "e": lambda: math.e,
}  # fmt: skip
MEANINGS = {**{f: (1, g) for f, g in _UNARY.items()}, **{f: (2, g) for f, g in _BINARY.items()},
            **{f: (g.__code__.co_argcount, g) for f, g in _OTHER.items()}}  # fmt: skip

ORDINARY = [s * x for x in (0.5, 1e-3, 1.0, 1.5, 2.0, 7.0, 20.0) for s in (1, -1)] + [0.0]
SINGULAR = [0.0, math.inf, -math.inf, math.nan]


def _drawn(random: np.random.Generator) -> tuple[float, Value]:
    """A number, ordinary or singular, and something that is true of it."""
    x = float(random.choice((ORDINARY, SINGULAR, [random.normal() * 3])[random.integers(3)]))
    happens = (x == 0, math.isinf(x), math.isnan(x))
    own = [May.ANYWHERE if holds else May(random.choice([0, 0, 0, 1, 2, 3])) for holds in happens]
    at = 0.0 if math.isnan(x) else x
    low = -INF if at == -INF or random.random() < 0.4 else Fraction(min(at, 1e300)) - random.integers(3)
    high = INF if at == INF or random.random() < 0.4 else Fraction(max(at, -1e300)) + random.integers(3)
    whole = math.isfinite(x) and x == int(x) and random.random() < 0.5
    return x, between(low, high, *own, whole=whole)


def _lies_in(x: float, v: Value, least: May = May.ROUNDED) -> bool:
    """Whether a number is one of those; `least` is what is to be said of a 0, an infinity, or no number."""
    if math.isnan(x):
        return v.nan >= least
    if math.isinf(x):
        return v.infinite >= least  # of either sign: 1 / 0 and 1 / -0
    off = 1e-9 * max(1.0, abs(x))
    whole = not v.whole or abs(x - round(x)) <= off
    return (x != 0 or v.zero >= least) and v.low - off <= x <= v.high + off and whole


def _outside(names: Iterable[str], count: int = 2000) -> set[str]:
    """Those operations that make something of numbers which is not in what is known of it."""
    random = np.random.default_rng(0)
    found = set()
    with np.errstate(all="ignore"):
        for name in names:
            arity, meaning = MEANINGS[name]
            for _ in range(count if arity else 1):
                drawn = [_drawn(random) for _ in range(arity)]
                made = float(meaning(*(np.float64(x) for x, _ in drawn)))
                # of ordinary numbers nothing is too large or too small: what is 0 or infinite is so on paper
                ordinary = all(not math.isfinite(x) or x == 0 or 1e-3 <= abs(x) <= 20 for x, _ in drawn)
                least = May.SINGULAR if ordinary and name not in _LOSES_DIGITS else May.ROUNDED
                if not _lies_in(made, called(name, [v for _, v in drawn]), least):
                    found.add(name)
    return found


_LOSES_DIGITS = ("erfc", "one_plus_erf", "pow", "tan")
"""Of numbers that are not large they are rounded to 0, or to what is not."""


def test_every_operation_is_held_against_numbers() -> None:
    assert set(MEANINGS) == values._OPERATIONS.keys() | {r.name for r in ROWS if r.arity == 1}
    assert not _outside(MEANINGS)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("add", lambda a, b: values.added(a, b) if a.low < 0 else between(a.low + 1, INF)),
        ("mul", lambda a, b: between(-INF, INF, max(a.zero, b.zero), max(a.infinite, b.infinite), max(a.nan, b.nan))),
        ("div", lambda a, b: values.multiplied(a, between(*sorted((b.low, b.high)), nan=b.nan))),
        ("pow", lambda a, b: between(0, INF, a.zero, May.ANYWHERE, May.ANYWHERE)),
        ("maximum", values.smaller),
        ("where", lambda _, a, b: a),
        ("sub", lambda a, b: values.added(a, b)),
    ],
)  # fmt: skip
def test_a_wrong_transfer_function_is_caught(monkeypatch, name, wrong) -> None:
    monkeypatch.setitem(values._OPERATIONS, name, wrong)
    assert _outside([name])


@pytest.mark.parametrize(("name", "changes"), [
    ("tanh", {"high": 0.5}), ("log", {"takes": (-INF, INF)}), ("cos", {"low": 0}), ("relu", {"only_0": True}),
    ("sin", {"is_periodic": False}), ("exp", {"low": 1}),
])  # fmt: skip
def test_a_wrong_row_is_caught(monkeypatch, name, changes) -> None:
    monkeypatch.setitem(PRIMITIVES, name, values.replace(PRIMITIVES[name], **changes))
    assert _outside([name])


@pytest.mark.parametrize("kind", ["sum", "mean", "amax", "amin", "prod"])
def test_reductions(kind) -> None:
    random = np.random.default_rng(1)
    means = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "prod": np.prod}
    with np.errstate(all="ignore"):
        for _ in range(3000):
            drawn = [_drawn(random) for _ in range(random.integers(1, 5))]
            made = float(means[kind](np.array([x for x, _ in drawn])))
            assert _lies_in(made, reduced(kind, values.chosen(*(v for _, v in drawn)))), (kind, drawn)


LEAVES = (X, Y, Scalar("c"), Integer(0), Integer(1), Integer(-2), Integer(1) / 3)
MAKES: tuple[Callable[..., Expr], ...] = (
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, lambda a, b: a / b, lambda a, b: a**2, maximum, minimum,
    lambda a, b: relu(a), lambda a, b: tanh(a), lambda a, b: exp(a), lambda a, b: log(a), lambda a, b: sqrt(a),
    lambda a, b: sigmoid(a) + b, lambda a, b: softplus(a), lambda a, b: sin(a), lambda a, b: where(a > 0, a, b),
)  # fmt: skip


def _expression(random: np.random.Generator, depth: int) -> Expr:
    if depth == 0:
        return LEAVES[random.integers(len(LEAVES))]
    made = MAKES[random.integers(len(MAKES))](_expression(random, depth - 1), _expression(random, depth - 1))
    return made if made.is_extended_real is not False and not made.has(oo, -oo, zoo, nan) else X


def _computed(n_: object, put: dict[str, float]) -> float:
    """A node in float64, operation by operation."""
    if hasattr(n_, "fn"):
        return float(MEANINGS[n_.fn][1](*(np.float64(_computed(a, put)) for a in n_.args)))
    return put[n_.name] if hasattr(n_, "name") else float(n_.value)


def test_random_expressions_and_their_nodes() -> None:
    """Inputs are finite; both adapters have room for what floats make of it."""
    random = np.random.default_rng(2)
    known, told = Facts({"x": GIVEN, "y": GIVEN}), 0
    with np.errstate(all="ignore"):
        for _ in range(400):
            e = _expression(random, 3)
            lowered = node(e)
            for _ in range(10):
                x, y = (float(random.choice(ORDINARY)) for _ in range(2))
                made = _computed(lowered, {"x": x, "y": y, "c": float(random.choice([0.5, -2.0, 3.0]))})
                assert _lies_in(made, known.of(lowered)), (e, x, y, made, known.of(lowered))
                assert _lies_in(made, known.of(e)) or (known.of(e).has_no_pole and abs(made) < 1e-9), (e, x, y, made)
            told += known.of(e).has_no_pole or known.of(e).low > -INF
    assert told > 100


@pytest.mark.parametrize(
    ("value", "ends"),
    [
        (X, (-INF, INF)),
        (minimum(maximum(X, -5), 2), (-5, 2)),
        (maximum(minimum(X, 2), -5), (-5, 2)),
        (maximum(X, -5), (-5, INF)),
        (3 * tanh(X) - sigmoid(X), (-4, 3)),
        (where(X > 0, tanh(X), 7), (-1, 7)),
        (X - X**2, (-INF, INF)),
        (0 * X + 2, (2, 2)),
        (tanh(X) * maximum(X, 1), (-INF, INF)),
        (1 - sigmoid(X), (0, 1)),
        (1 + X**2, (1, INF)),
    ],
    ids=str,
)
def test_ends(value, ends) -> None:
    found = Facts().of(Integer(0) + value)
    assert (found.low, found.high) == ends


def test_signs_and_poles() -> None:
    known = Facts({"x": GIVEN})
    assert known.of(exp(-X)).is_positive and known.of(exp(-X)).has_no_pole and not known.of(exp(-X)).is_finite
    assert known.of(exp(minimum(X, 0))).is_finite
    assert not known.of(1 / X).has_no_pole and known.of(1 / (1 + X**2)).is_finite
    assert known.of(1 / exp(X)).has_no_pole and not known.of(1 / exp(X)).is_finite
    assert not known.of(log(X)).has_no_pole and known.of(log(1 + X**2)).is_finite
    assert not known.of(At(Tensor.of_any_value("m"), n)).has_no_pole
    assert not known.of(exp(At(Tensor.of_any_value("m"), n))).is_positive  # exp(-oo) is 0
    assert known.of(sqrt(X)).is_nonnegative and not known.of(sqrt(X)).has_no_pole
    assert number(Fraction(3)).whole and not number(Fraction(1, 3)).whole
