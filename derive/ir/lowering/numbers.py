"""Numbers that SymPy takes apart, as a person writes them: `1 / sqrt(2*pi)` and not `sqrt(2) / 2 / sqrt(pi)`."""

from __future__ import annotations

from fractions import Fraction

from sympy import Expr, Rational, S

from derive.ir.nodes.arithmetic import ONE
from derive.ir.program import Call, Node, Num

Weighed = list[tuple[int, Node]]
"""Factors, each with the number of axes that it runs over."""

_PI = Call("pi", ())


def one_root(coefficient: Expr, up: Weighed, down: Weighed) -> tuple[Expr, Weighed, Weighed]:
    """A product with the roots of numbers among its factors, above and below the line, as one root.

    It takes in what divides the product, where that cancels: `sqrt(2) / 2 / sqrt(pi)` is `1 / sqrt(2*pi)`.
    """
    roots = [(n, below) for below, side in enumerate((up, down)) for _, n in side if _of_number(n) is not None]
    if len(roots) < 2 or not isinstance(coefficient, Rational):
        return coefficient, up, down
    square, circles = Fraction(1), 0
    for n, below in roots:
        of = _of_number(n)
        sign = -1 if below else 1
        square *= Fraction(of.value) ** sign if isinstance(of, Num) else 1
        circles += sign * (of == _PI)
    if abs(circles) > 1:
        return coefficient, up, down
    divisor = int(coefficient.q) ** 2
    if square.numerator > 1 and square.denominator == 1 and divisor % square.numerator == 0:
        coefficient, square = S(coefficient.p), square / divisor
    top, bottom = (_times(n, circles == s) for n, s in ((square.numerator, 1), (square.denominator, -1)))
    gone = [n for n, _ in roots]
    up, down = ([f for f in side if f[1] not in gone] for side in (up, down))
    if top == ONE:  # a number to multiply with: loops are slower to divide
        above = Num(Fraction(abs(int(coefficient.p))))
        return coefficient / abs(coefficient.p), [(0, Call("div", (above, Call("sqrt", (bottom,))))), *up], down
    return coefficient, [(0, Call("sqrt", (top if bottom == ONE else Call("div", (top, bottom)),))), *up], down


def _of_number(n: Node) -> Node | None:
    """The positive number, or the circle's, that a node is the root of; None for any other node."""
    of = n.args[0] if isinstance(n, Call) and n.fn == "sqrt" else None
    known = isinstance(of, Num) and isinstance(of.value, Fraction) and of.value > 0
    return of if of == _PI or known else None


def _times(number: int, circle: bool) -> Node:
    """A number, or that times the circle's."""
    whole = Num(Fraction(number))
    return (_PI if number == 1 else Call("mul", (whole, _PI))) if circle else whole
