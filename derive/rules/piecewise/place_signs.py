"""A sign that places choose goes into a choice: `where(eq(i, j), 1, -1) * s` is `where(eq(i, j), s, -s)`.

So it is with `2*delta(i, j) - 1`, and with a tensor that is no more than such signs. A table of signs is not made, and
what is turned round is a diagonal. Not in the terms of a sum, which stay products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sympy import Eq, Expr, Function, Mul, Ne, S

from derive.ir.equations import Equation, Op, inline
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta


def with_place_signs(op: Op) -> Op:
    """The same op with such signs inside choices; tables of them that nothing reads any more are left out."""
    tables = {e.name: e for e in op.equations if e.kind is None and e.is_plain and _sign(e.body) is not None}
    equations = [replace(e, body=_within_functions(e.body, tables)) for e in op.equations]
    equations = [replace(e, body=_as_choice(e.body, tables)) if e.kind is None else e for e in equations]
    read = {at.name for e in equations for at in e.reads} | set(op.outputs)
    unread = {e.name for e in equations if e.name in tables and e.name not in read}
    return replace(op, equations=tuple(e for e in equations if e.name not in unread))


def _within_functions(body: Expr, tables: Mapping[str, Equation]) -> Expr:
    """The body with products under functions as choices."""

    def changed(function: Expr) -> Expr:
        return function.func(*(a.replace(_is_product, lambda e: _as_choice(e, tables)) for a in function.args))

    return body.replace(lambda e: isinstance(e, Function), changed)


def _is_product(value: Expr) -> bool:
    return isinstance(value, Mul)


def _as_choice(value: Expr, tables: Mapping[str, Equation]) -> Expr:
    """A product with one such sign as a choice, where it is over the places that the sign asks; else as it is."""
    for factor in Mul.make_args(value):
        sign = _sign(inline(factor, tables) if isinstance(factor, At) else factor)
        rest = Mul(*(f for f in Mul.make_args(value) if f != factor))
        if sign is not None and free_axes(sign.condition) <= free_axes(rest) and rest.atoms(At):
            return Where(sign.condition, *(a * rest for a in sign.args[1:]))
    return value


def _sign(value: Expr) -> Where | None:
    """A value that is 1 or -1 by whether two axes are at the same place, as a choice; None for any other."""
    choices = value.atoms(Where, Delta)
    if value.atoms(At) or len(choices) != 1:
        return None
    (choice,) = choices
    condition, *branches = (Eq(*choice.args), S.One, S.Zero) if isinstance(choice, Delta) else choice.args
    whole = Where(condition, *(value.xreplace({choice: b}) for b in branches))
    if not isinstance(whole, Where) or not isinstance(condition, Eq | Ne):
        return None
    asked = all(isinstance(i, Axis) for i in condition.args)
    return whole if asked and set(whole.args[1:]) == {S.One, S.NegativeOne} else None
