"""From a normal form to what a person would write: each row an expression and the node it becomes."""

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from sympy import And, Expr, I, Or, Rational, S

from derive.errors import OUR_FAULT, DeriveError
from derive.ir.algebra import normal, sigma
from derive.ir.lowering.lower import index, node
from derive.ir.lowering.lower_factored import factored
from derive.ir.program import AxisValue, Call, Node, Num, Read, Scal, SizeOf
from derive.ir.terms.axes import Size, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Scalar, Tensor
from derive.ir.terms.indices import Merge, Part
from derive.notation import axes, exp
from derive.schedule.backward import schedule
from derive.schedule.definitions import Definition
from tests.derive.evaluate import World, fractions

n, m, d, k, t = axes("n m d k t")
X, Y = At(Tensor("x"), n, d), At(Tensor("y"), n, d)
A, G, B, W = At(Tensor("a"), n), At(Tensor("g"), d), At(Tensor("b"), d), At(Tensor("w"))
POSITIVE = At(Tensor("r", positive=True), n)
SHARE = At(Tensor("p", positive=True), n, d)
eps = Scalar("eps")
SUM = sigma(Y, [n])


def hoist(expr: Expr) -> Node:
    """A sum under the name `total`."""
    return Read("total", tuple(a.name for a in sorted(free_axes(expr), key=str)))


TABLE = [
    # what is common stands in front
    ("common factor", A * X + A * Y, "a[n] * (x[n, d] + y[n, d])"),
    ("common sign", -A * X - A * Y, "-a[n] * (x[n, d] + y[n, d])"),
    ("common number", 2 * A * X + 4 * A * Y, "2 * a[n] * (x[n, d] + 2 * y[n, d])"),
    ("common half", X / 2 + Y / 2, "(x[n, d] + y[n, d]) / 2"),
    ("common power", X**3 * Y + X**2 * Y, "x[n, d]**2 * y[n, d] * (1 + x[n, d])"),
    ("common divisor", X / A + Y / A, "(x[n, d] + y[n, d]) / a[n]"),
    ("lowest common divisor", X / A**2 + Y / A, "(x[n, d] / a[n] + y[n, d]) / a[n]"),
    ("a product of two sums", X + X * Y**2 + G * X * Y**2 + G * X, "(g[d] + 1) * x[n, d] * (1 + y[n, d]**2)"),
    ("what is left is 1", X - X * Y**2, "x[n, d] * (1 - y[n, d]**2)"),
    ("nothing common", X + G, "x[n, d] + g[d]"),
    # Horner
    ("grouped by a large factor", G * X + G * X * Y + G * A, "g[d] * (a[n] + x[n, d] * (1 + y[n, d]))"),
    ("grouped by what leaves least", X + Y - Y * X**2, "x[n, d] + y[n, d] * (1 - x[n, d]**2)"),
    ("a complement stays whole", X - X * SHARE + Y * SHARE + G * SHARE**2,
     "x[n, d] * (1 - p[n, d]) + p[n, d] * (g[d] * p[n, d] + y[n, d])"),
    ("three-term closed form", normal(G * A * (X - B / Size(n) - Y * W / (Size(n) - 1))),
     "a[n] * g[d] * (x[n, d] - w[()] / (size(n) - 1) * y[n, d] - b[d] / size(n))"),
    # small factors first
    ("numbers, then small, then large", X * G * eps * W, "eps * w[()] * g[d] * x[n, d]"),
    ("a number and a tensor", 3 * X * G, "3 * g[d] * x[n, d]"),
    ("divisors among them", X * G / (A * eps), "g[d] / eps / a[n] * x[n, d]"),
    ("a sum by its name", X * SUM, "total[d] * x[n, d]"),
    # small summands first
    ("what rows have one of", X - A - W, "x[n, d] - (a[n] + w[()])"),
    ("rows and columns", X - A - G, "x[n, d] - a[n] - g[d]"),
    ("one for each row, two for each column", normal(X * (A - G - B)), "x[n, d] * (a[n] - (b[d] + g[d]))"),
    # divisions
    ("quotient", X / A, "x[n, d] / a[n]"),
    ("quotient by a size", X / Size(n), "x[n, d] / size(n)"),
    ("quotient by a number", X / 3, "x[n, d] / 3"),
    ("fraction in front", 2 * X / 3, "2/3 * x[n, d]"),
    ("reciprocal", 1 / X, "1 / x[n, d]"),
    ("reciprocal square", POSITIVE**-2, "1 / r[n] / r[n]"),
    ("reciprocal root is no division", X / POSITIVE ** Rational(1, 2), "rsqrt(r[n]) * x[n, d]"),
    ("root", X * POSITIVE ** Rational(1, 2), "sqrt(r[n]) * x[n, d]"),
    ("three halves", POSITIVE ** Rational(3, 2), "r[n] * sqrt(r[n])"),
    # signs
    ("minus half", -X / 2, "-x[n, d] / 2"),
    ("positive before negative", Y - A * X, "y[n, d] - a[n] * x[n, d]"),
    ("functions", exp(-X) * Y, "exp(-x[n, d]) * y[n, d]"),
    # masks choose, so that what is masked may be infinite
    ("mask", Where(X > 0, 1, 0) * Y, "where(x[n, d] > 0, y[n, d], 0)"),
    ("mask on two terms", Where(X > 0, 1, 0) * (G * X + G * Y), None),
    ("two masks", Where(X > 0, 1, 0) * Where(m <= n, 1, 0) * Y, "where(x[n, d] > 0, where(m <= n, y[n, d], 0), 0)"),
    ("choice between numbers", Where(X > 0, 2, 3) * Y, "where(x[n, d] > 0, 2 * y[n, d], 3 * y[n, d])"),
    # nothing at all
    ("zero", S.Zero, "0"),
    ("one", S.One, "1"),
    ("number", Rational(3, 7), "3/7"),
]  # fmt: skip
ROWS = [pytest.param(*row, id=row[0]) for row in TABLE]


@pytest.mark.parametrize(("name", "expr", "text"), ROWS)
def test_factored(name: str, expr: Expr, text: str | None) -> None:
    if text is None:
        expr, text = normal(expr), "where(x[n, d] > 0, g[d] * (x[n, d] + y[n, d]), 0)"
    made = str(factored(expr, hoist))
    if name == "three-term closed form":  # which of two equal terms is subtracted first is nobody's concern
        assert made in (text, "a[n] * g[d] * (x[n, d] - b[d] / size(n) - w[()] / (size(n) - 1) * y[n, d])")
    else:
        assert made == text


def test_the_forward_adds_in_its_own_order() -> None:
    """`z - m - log(s)`, made again, cancels a large `z - m` first."""
    assert str(factored(X - A - exp(W), hoist, as_written=True)) == "x[n, d] - a[n] - exp(w[()])"


ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "pow": lambda a, b: a ** int(b),
    "gt": lambda a, b: a > b,
    "le": lambda a, b: a <= b,
    "where": lambda c, a, b: a if c else b,
    "exp": math.exp,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: 1 / math.sqrt(a),
}


def evaluate(value: Node, world: World, at: Mapping[str, int]) -> object:
    """One element of a node, without SymPy and without torch."""
    if isinstance(value, Num):
        return value.value
    if isinstance(value, Scal):
        return world.scalars[value.name]
    if isinstance(value, SizeOf):
        return Fraction(world.sizes[value.axis])
    if isinstance(value, AxisValue):
        return at[value.axis]
    if isinstance(value, Read):
        return world.tensors[value.name][tuple(at[str(i)] for i in value.index)]
    assert isinstance(value, Call)
    return ARITHMETIC[value.fn](*(evaluate(a, world, at) for a in value.args))


@pytest.mark.parametrize(("name", "expr", "text"), ROWS)
def test_value_is_kept(name: str, expr: Expr, text: str | None) -> None:
    rng = np.random.default_rng(0)
    sizes = {"n": 3, "d": 2, "m": 3}
    shapes = {"x": (3, 2), "y": (3, 2), "a": (3,), "g": (2,), "b": (2,), "w": ()}
    tensors = {key: fractions(rng, *shape) for key, shape in shapes.items()}
    tensors["r"], tensors["p"] = abs(fractions(rng, 3)), tensors["x"] ** 2
    tensors["w"] = np.array(Fraction(2, 3), dtype=object)
    world = World(sizes, tensors, {"eps": Fraction(1, 7)})
    world = world.having(total=world.tensor(SUM, (d,)))
    lowered = factored(normal(expr), hoist)
    for place in world.places((n, d, m)):
        found = evaluate(lowered, world, {a.name: v for a, v in place.items()})
        expected = world.element(expr, place)
        assert found == expected or math.isclose(found, expected, rel_tol=1e-14), place


def test_conditions() -> None:
    assert str(node(Where(And(n <= m, X > 0), X, Y))) == "where((n <= m) & (x[n, d] > 0), x[n, d], y[n, d])"
    assert str(node(Where(Or(n < m, X > 0), X, Y))) == "where((x[n, d] > 0) | (n < m), x[n, d], y[n, d])"
    assert str(node(Where(n <= m, X, -S.Infinity))) == "where(n <= m, x[n, d], -oo)"


INDICES = [
    ("axis", n, "n"),
    ("bound axis", n.copied(2), "n''"),
    ("merge", Merge(n, d), "(n, d)"),
    ("part", Part(m, 1, Size(n), Size(d)), "m % size(d)"),
    ("window", 2 * t + 3 * k + 1, "3*k + 2*t + 1"),
    ("shift", t + 2, "t + 2"),
    ("position", S(4), "4"),
    ("gather", At(Tensor("ix", integer=True), n, t), "ix[n, t]"),
]


@pytest.mark.parametrize(("expr", "text"), [pytest.param(*row[1:], id=row[0]) for row in INDICES])
def test_index(expr: Expr, text: str) -> None:
    assert str(index(expr)).strip(" +") == text


def test_what_has_no_form_in_a_program_is_told_with_its_equation() -> None:
    unknown = [Definition("dx", (n,), A * I)]
    with pytest.raises(DeriveError) as caught:
        schedule("op", unknown, (("a", ("n",)),), (), ("dx",))
    assert str(caught.value).startswith("equation dx: ") and str(caught.value).endswith(OUR_FAULT)


@pytest.mark.parametrize(
    ("exponent", "text"),
    [
        (Rational(2), "x[n, d]**2"),
        (Rational(4), "(x[n, d]**2)**2"),
        (Rational(5), "x[n, d] * (x[n, d]**2)**2"),
        (Rational(-6), "1 / (x[n, d]**3)**2"),
        (Rational(6), "(x[n, d]**3)**2"),
        (Rational(12), "x[n, d]**12"),
        (Rational(13), "x[n, d]**13"),
        (Rational(9, 2), "(x[n, d]**2)**2 * sqrt(x[n, d])"),
        (Rational(1, 4), "sqrt(sqrt(x[n, d]))"),
        (Rational(3, 4), "sqrt(x[n, d]) * sqrt(sqrt(x[n, d]))"),
        (Rational(-7, 4), "1 / (sqrt(x[n, d])**3 * sqrt(sqrt(x[n, d])))"),
        (Rational(1, 3), "x[n, d]**(1/3)"),
    ],
)
def test_powers_of_tensors_are_squares_cubes_and_roots(exponent: Expr, text: str) -> None:
    assert str(node(X**exponent)) == text


def test_a_power_of_a_number_stays_one() -> None:
    assert str(node(eps**4)) == "eps**4"
