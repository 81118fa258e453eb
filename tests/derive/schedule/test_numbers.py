"""Numbers are written as a person writes them: one root for several, large whole numbers with an exponent."""

import math
from fractions import Fraction

import pytest
from sympy import S

from derive import axes, constant, exp, index, op, pi, sqrt, tanh, tensor, where
from derive.ir.lowering.numbers import one_root
from derive.ir.program import Call, Num
from derive.ir.terms.numbers import with_exponent
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

n, i, j, c = axes("n i j c")


@op
def density(f, x: tensor[n], s: tensor[n]):
    f.y[n] = exp(-(x[n] ** 2) / 2) / (s[n] * sqrt(2 * pi)) + tanh(sqrt(2 / pi) * x[n])
    return f.y


@op
def masked(f, s: tensor[i, j], m: constant[i, j]):
    f.w[i, j] = where(m[i, j] > 0, s[i, j], -1e9)
    f.z[i, j] = where(m[i, j] > 0, s[i, j], -1e30)
    return f.w, f.z


@op
def far(f, k: index(c)[n], x: tensor[c]):
    """Whole numbers stay whole: 1e9 is a float."""
    f.y[n] = where(k[n] * 1000000 > 3000000, x[k[n]], 0)
    return f.y


def test_the_roots_of_numbers_are_one() -> None:
    code = code_of(density.op)
    assert "1 / math.sqrt(2 * math.pi)" in code and "math.sqrt(2 / math.pi)" in code, code
    shapes = {"x": (4,), "s": (4,)}
    half = math.sqrt(2 * math.pi)
    assert_derived(density.op, lambda x, s: (-x.square() / 2).exp() / s / half + (2 * x / half).tanh(), shapes)


TWO, PI = Call("sqrt", (Num(Fraction(2)),)), Call("sqrt", (Call("pi", ()),))


@pytest.mark.parametrize(
    ("number", "up", "down"),
    [(S(1) / 2, [TWO], [PI]), (S(-3) / 2, [TWO], [PI]), (S(1) / 3, [TWO], [PI]), (S(5), [], [TWO, PI]),
     (S(1) / 2, [TWO, PI], []), (S(1), [PI], [TWO])],
)  # fmt: skip
def test_values_of_roots(number, up, down) -> None:
    def value(node) -> float:
        if isinstance(node, Num):
            return float(node.value)
        args = [value(a) for a in node.args]
        made = {"pi": lambda: math.pi, "sqrt": math.sqrt, "div": lambda a, b: a / b, "mul": lambda a, b: a * b}
        return made[node.fn](*args)

    def product(number, up, down) -> float:
        return float(number) * math.prod(value(n) for _, n in up) / math.prod(value(n) for _, n in down)

    given = number, [(0, n) for n in up], [(0, n) for n in down]
    found = one_root(*given)
    assert len(found[1]) + len(found[2]) == 1
    assert product(*found) == pytest.approx(product(*given), rel=1e-15)


def test_large_numbers_have_an_exponent() -> None:
    code = code_of(masked.op)
    assert "where_by_bits(m_above_zero, s, -1e9)" in code and "s, -1e30)" in code, code
    assert "1000000 * k.long() > 3000000" in code_of(far.op), code_of(far.op)
    known = {10**9: "1e9", -(10**30): "-1e30", 25 * 10**6: "2.5e7", 10**5: None, 1234567: None}
    assert {v: with_exponent(Fraction(v)) for v in known} == known
    assert str(Num(Fraction(-(10**30)))) == "-1e30"
