"""A sign that places choose goes into a choice: `where(eq(i, j), 1, -1) * s` is `where(eq(i, j), s, -s)`.

So it is with `2*delta(i, j) - 1`, and with a tensor that is no more than such signs. Not in the terms of a sum, which
stay products.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Eq, Expr, Function, S

from derive.ir.equations import Op
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta
from derive.rules.expressions import as_it_is, rewritten
from derive.rules.splitting import without_unread
from derive.rules.tables.piecewise import PLACE_SIGNS


def with_place_signs(op: Op) -> Op:
    """The same op with such signs inside choices; tables of them that nothing reads any more are left out."""
    chosen = [replace(e, body=e.body.replace(_is_of_one_choice, _chosen)) for e in op.equations]
    tables = {e.name: e for e in chosen if e.kind is None and e.is_plain and _is_sign(e.body)}

    def inside(value: Expr) -> Expr:
        return rewritten(value, PLACE_SIGNS, tables, as_it_is, new=True)[0]

    def changed(f: Expr) -> Expr:
        return f.func(*map(inside, f.args))

    equations = [replace(e, body=e.body.replace(lambda f: isinstance(f, Function), changed)) for e in chosen]
    equations = [replace(e, body=inside(e.body)) if e.kind is None and e.body.is_Mul else e for e in equations]
    used = [was if e.body == now.body else e for was, now, e in zip(op.equations, chosen, equations, strict=True)]
    return without_unread(replace(op, equations=tuple(used)), op)


def _is_sign(value: Expr) -> bool:
    return isinstance(value, Where) and set(value.args[1:]) == {S.One, S.NegativeOne}


def _is_of_one_choice(value: Expr) -> bool:
    return isinstance(value, Add) and not value.atoms(At) and _is_sign(_chosen(value))


def _chosen(value: Expr) -> Expr:
    """What is made of numbers and one delta, or one choice, as a choice."""
    choices = value.atoms(Where, Delta)
    if len(choices) != 1:
        return value
    (choice,) = choices
    condition, *branches = (Eq(*choice.args), S.One, S.Zero) if isinstance(choice, Delta) else choice.args
    return Where(condition, *(value.xreplace({choice: b}) for b in branches))
