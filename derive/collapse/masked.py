"""Law: a tensor under a mask is what the forward has of it: with `l = where(c, e, 0)`, `where(c, 1, 0)*e` is `l`.

So it is where `c` masks out, `l = where(c, 0, e)`.

Who bounds an exponent first, `l = where(c, exp(where(c, u, 0)), 0)`, has `e = exp(...)` beside `l`, and the chain rule
multiplies by `e` and asks `c` twice. By way of `l` no mask is left, and `e` need not be kept. So it is with powers:
of `l = where(c, sigmoid(u), 0)`, `where(c, 1, 0)*e*(1 - e)` is `l*(1 - l)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Add, Expr, Mul

from derive.collapse.supports import Side, masked_side
from derive.ir.algebra import opened, sigma
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import At
from derive.ir.terms.reductions import Sigma


@dataclass(frozen=True)
class Under:
    """An equation that is an element on one side of a condition, and 0 on the other."""

    equation: Equation
    of: At
    side: Side


Masked = dict[str, tuple[Under, ...]]
"""By the name of a tensor, the equations that are it under a mask."""


def masked(op: Op) -> Masked:
    """The equations `l = where(c, e, 0)` of an op, each of the two over the same axes."""
    found: Masked = {}
    for equation in op.equations:
        side = masked_side(equation.body) if equation.kind is None and equation.is_plain else None
        of = side.value(equation.body) if side is not None else None
        if side is None or not isinstance(of, At):
            continue
        if set(of.index) == set(equation.axes) and len(of.index) == len(equation.axes):
            found[of.name] = (*found.get(of.name, ()), Under(equation, of, side))
    return found


def use_masked(value: Expr, known: Masked) -> tuple[Expr, tuple[str, ...]]:
    """The value with what stands under a mask as the tensor of the forward, and the equations that say so."""
    used: list[str] = []
    terms = [_in_product(term, known, used) for term in Add.make_args(value)]
    return Add(*terms), tuple(dict.fromkeys(used))


def _in_product(term: Expr, known: Masked, used: list[str]) -> Expr:
    factors = [_in_sum(f, known, used) for f in Mul.make_args(term)]
    for mask, side in [(f, side) for f in factors if (side := masked_side(f)) is not None and side.value(f) == 1]:
        for f, at, times in [(f, *f.as_base_exp()) for f in factors]:
            for under in known.get(at.name, ()) if isinstance(at, At) and times.is_positive else ():
                put: dict[Axis, Expr] = dict(zip(under.of.index, at.index, strict=True))
                if under.side.at(put) == side:
                    factors.remove(mask)
                    factors[factors.index(f)] = under.equation.left.xreplace(put) ** times
                    used.append(f"{under.equation.left} = {under.equation.body}")
                    return Mul(*factors)
    return Mul(*factors)


def _in_sum(factor: Expr, known: Masked, used: list[str]) -> Expr:
    if not isinstance(factor, Sigma):
        return factor
    body, axes = opened(factor)
    return sigma(_in_product(body, known, used), axes)
