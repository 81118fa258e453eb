"""A square that is written out is that square: `a**2 - 2*a*b + b**2` is `(a - b)**2`.

As it is written the terms cancel where `a` and `b` are close, and sums of it run over all pairs. The square is as exact
as the difference, and what knows distances knows it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from sympy import Add, Expr, S, sqrt

from derive.ir.equations import Op
from derive.ir.terms.axes import free_axes
from derive.ir.terms.elements import At


def with_squares(op: Op) -> Op:
    """The same op with every such sum of three terms as a square."""
    return replace(op, equations=tuple(replace(e, body=e.body.replace(_is_long, _squared)) for e in op.equations))


def _is_long(e: Expr) -> bool:
    return isinstance(e, Add) and len(e.args) > 2


def _squared(e: Expr) -> Expr:
    """A sum with the squares in it that are written out, one after another."""
    terms = dict(t.as_coeff_Mul()[::-1] for t in e.args)
    squares = [t for t in terms if t.is_Pow and t.exp == 2 and t.atoms(At)]
    squares.sort(key=lambda t: (-len(free_axes(t)), t.sort_key()))  # the larger less the smaller
    for first, second in combinations(squares, 2):
        (a, _), (b, _), ratio = first.args, second.args, sqrt(terms[first] / terms[second])
        twice = terms.get(a * b, S.Zero)
        if ratio.is_Rational and abs(twice) == 2 * ratio * abs(terms[second]):
            sign = 1 if twice * terms[second] > 0 else -1
            square = (terms[second] * (ratio * a + sign * b) ** 2 if ratio >= 1
                      else terms[first] * (a + sign * b / ratio) ** 2)  # fmt: skip
            whole = Add(*(n * t for t, n in terms.items() if t not in (first, second, a * b)), square)
            return _squared(whole) if _is_long(whole) else whole
    return e
