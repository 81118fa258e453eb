"""Functions five deep and more get names: `tanh(tanh(tanh(tanh(tanh(x)))))` is differentiated step by step.

The derivative of each has all that is inside of it, and what is multiplied out grows with every one.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Expr, Function, Mul, Pow

from derive.decisions import DEEPEST
from derive.ir.equations import Equation, Op
from derive.ir.lowering.lower import node
from derive.ir.nodes.naming import name_of
from derive.ir.terms.axes import Axis
from derive.ir.terms.choices import Concat, Where
from derive.ir.terms.elements import At
from derive.ir.terms.reductions import Reduce, TakenFirst
from derive.rules.splitting import axes_of_part, own_equation


def with_nested_named(op: Op) -> Op:
    """The same op with a name for what is that deep."""
    taken = set(op.names)
    out: list[Equation] = []
    for e in op.equations:
        deep = _depth(e.body) > DEEPEST
        while deep and _depth(e.body) > 1 and (part := _part(e.body)) is not None:
            made = own_equation(name_of(node(part), taken), axes_of_part(part, e), part, taken)
            out.append(made)
            e = replace(e, body=e.body.xreplace({part: made.left}))
        out.append(e)
    return op if tuple(out) == op.equations else replace(op, equations=tuple(out))


def _depth(value: Expr) -> int:
    """How many functions and powers stand inside one another, the innermost of an element."""
    if isinstance(value, At) or not value.atoms(At):
        return 0
    inside = max((_depth(a) for a in value.args if isinstance(a, Expr)), default=0)
    return inside + isinstance(value, Function | Pow)


def _part(value: Expr) -> Expr | None:
    """A function of no other, with its factors, that is to have a name: of plain elements; none where there is none."""
    found = [
        f
        for f in value.atoms(Function, Pow, Mul)
        if _depth(f) == 1
        and not f.atoms(Where, Concat, Reduce, TakenFirst)
        and all(isinstance(i, Axis) for at in f.atoms(At) for i in at.index)
    ]
    return max(found, key=lambda f: (f.count_ops(), f.sort_key()), default=None)
