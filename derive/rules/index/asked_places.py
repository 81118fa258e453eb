"""Of which place of an axis a factor asks: `delta(c, y[n])` and `where(eq(y[n], c), v, 0)` name `y[n]` of `c`."""

from __future__ import annotations

from sympy import Add, Basic, Eq, Equality, Expr, Mul, S, Unequality
from sympy.core.relational import Relational

from derive.ir.equations import Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta

Ranges = dict[str, Axis | None]
"""By the name of an index tensor, the axis that its values run over."""

Inside = frozenset[tuple[str, str]]
"""Index tensors, each with an axis of which all of its values are places."""


def place_of(factor: Expr, ranges: Ranges) -> tuple[tuple[Axis, At] | None, Expr]:
    """The axis and the index of which a factor asks whether they are equal, and what it is where they are."""
    if isinstance(factor, Delta):
        condition, value = factor, S.One
    elif isinstance(factor, Where) and factor.args[2] == 0:
        condition, value = factor.condition, factor.args[1]
    else:
        return None, factor
    named = places_named(condition, ranges)
    return (named[0], value) if named else (None, factor)


def places_named(condition: Basic, ranges: Ranges) -> list[tuple[Axis, At]]:
    """The axis and the index of whose equality a condition asks; each value of the index is a place of the axis.

    Not of `y[c] == c`, which several places of `c` may satisfy, or none.
    """
    found = []
    for axis, index in (condition.args, condition.args[::-1]) if isinstance(condition, Eq | Delta) else ():
        if isinstance(axis, Axis) and isinstance(index, At) and axis not in free_axes(index):
            over = ranges.get(index.name)
            found += [(axis, index)] if over is not None and over.base == axis.base else []
    return found


def in_a_window(axis: Axis, value: Expr) -> bool:
    """Whether an element is read at a place counted from an axis, `x[n + 1]`."""
    return any(axis in free_axes(i) and isinstance(i, Add | Mul) for at in value.atoms(At) for i in at.index)


def indices_inside(op: Op) -> Inside:
    """The indices of which every value reads or names a place of an axis, whatever is chosen: none lies outside."""
    asked = asked_for_a_place(op)
    found = {(o.name, o.ranges_over.base) for o in op.operands if o.ranges_over is not None and o.name in asked}
    for equation in op.equations:
        chosen = {at for w in equation.body.atoms(Where) for at in w.atoms(At)}
        for read in (at for at in equation.reads if at not in chosen):
            for i, axis in zip(read.index, op.dims(read.name), strict=True):
                plain = isinstance(i, At) and all(isinstance(a, Axis) for a in i.index)
                if isinstance(i, At) and plain and len(set(i.index)) == len(i.index):
                    found.add((i.name, axis))
    return frozenset(found)


def asked_for_a_place(op: Op) -> set[str]:
    """The integer inputs that are compared with the places of their own axis, and with nothing else.

    A condition of another kind, `ne(y[n], -100)`, leaves out values that are no places.
    """
    questions = [q for e in op.equations for q in e.body.atoms(Relational)]
    found = set()
    for o in op.operands:
        own = [q for q in questions if any(at.name == o.name for at in q.atoms(At))]
        if o.ranges_over is not None and own and all(_asks_for_a_place(q, o.ranges_over) for q in own):
            found.add(o.name)
    return found


def _asks_for_a_place(question: Basic, axis: Axis) -> bool:
    """Whether it is asked if an index, as it is given, names a place of an axis."""
    if not isinstance(question, Equality | Unequality):
        return False
    axes = [a for a in question.args if isinstance(a, Axis) and a.base == axis.base]
    return len(axes) == 1 and any(isinstance(a, At) and not a.atoms(Axis) & set(axes) for a in question.args)
