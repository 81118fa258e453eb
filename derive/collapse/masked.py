"""Law: a tensor under a mask is what the forward has of it: with `l = where(c, e, 0)`, `where(c, 1, 0)*e` is `l`.

Who bounds an exponent first, `l = where(c, exp(where(c, u, 0)), 0)`, has `e = exp(...)` beside `l`, and the chain rule
multiplies by `e` and asks `c` twice. By way of `l` no mask is left, and `e` need not be kept.
"""

from __future__ import annotations

from sympy import Add, Expr, Mul

from derive.algebra import opened, sigma
from derive.equations import Equation, Op
from derive.terms.axes import Axis
from derive.terms.choices import Where
from derive.terms.elements import At
from derive.terms.reductions import Sigma

Masked = dict[str, tuple[Equation, ...]]
"""By the name of a tensor, the equations that are it under a mask."""


def masked(op: Op) -> Masked:
    """The equations `l = where(c, e, 0)` of an op, each of the two over the same axes."""
    found: Masked = {}
    for equation in op.equations:
        body = equation.body
        if equation.kind is None and equation.is_plain and isinstance(body, Where) and body.args[2] == 0:
            of = body.args[1]
            if isinstance(of, At) and set(of.index) == set(equation.axes) and len(of.index) == len(equation.axes):
                found[of.name] = (*found.get(of.name, ()), equation)
    return found


def use_masked(value: Expr, known: Masked) -> tuple[Expr, tuple[str, ...]]:
    """The value with what stands under a mask as the tensor of the forward, and the equations that say so."""
    used: list[str] = []
    terms = [_in_product(term, known, used) for term in Add.make_args(value)]
    return Add(*terms), tuple(dict.fromkeys(used))


def _in_product(term: Expr, known: Masked, used: list[str]) -> Expr:
    factors = [_in_sum(f, known, used) for f in Mul.make_args(term)]
    for mask in [f for f in factors if isinstance(f, Where) and f.is_mask]:
        for at in [f for f in factors if isinstance(f, At) and f.name in known]:
            for equation in known[at.name]:
                of = equation.body.args[1]
                put: dict[Axis, Expr] = dict(zip(of.index, at.index, strict=True))
                if equation.body.condition.xreplace(put) == mask.condition:
                    factors.remove(mask)
                    factors[factors.index(at)] = mask.args[1] * equation.left.xreplace(put)
                    used.append(f"{equation.left} = {equation.body}")
                    return Mul(*factors)
    return Mul(*factors)


def _in_sum(factor: Expr, known: Masked, used: list[str]) -> Expr:
    if not isinstance(factor, Sigma):
        return factor
    body, axes = opened(factor)
    return sigma(_in_product(body, known, used), axes)
