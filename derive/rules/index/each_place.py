"""What depends on the place along an axis of fixed length is said for each: `where(eq(r, 0), a, b)` is both, joined.

Where `r` has two places, `where(eq(r, 0), -z[t, 1], z[t, 0])` is `concat(-z[t, 1], z[t, 0], along=r)`. As it is written
both would be computed at both places, and the gradient of each summed over what is 0.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Basic, Expr, Integer, S

from derive.decisions import PLACES_SAID
from derive.ir.equations import Equation, Op, SizeRule
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Concat, Where
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.indices import Merge
from derive.ir.terms.names import free_name, new_name


def said_for_each_place(op: Op) -> Op:
    """The same op with such equations as what is joined along their axes."""
    taken = {r.axis.base for r in op.sizes}
    one = [Axis(free_name(f"place_{k}", taken), fixed=1) for k in range(PLACES_SAID)]
    names = op.names
    equations = tuple(part for e in op.equations for part in _apart(e, _said(e, one), names))
    if equations == op.equations:
        return op
    places = dict.fromkeys(a for e in equations if e.kind == "concat" for a in e.over if a in one)
    return replace(op, equations=equations, sizes=(*op.sizes, *map(SizeRule, places)))


def _apart(e: Equation, said: Equation, names: set[str]) -> tuple[Equation, ...]:
    """What is joined along an axis that is merged on the left, before it is merged."""
    if said == e or e.is_plain:
        return (said,)
    target = Tensor(new_name(f"{e.name}_apart", names))
    joined = replace(said, target=target, index=e.axes, given=False)
    return joined, replace(e, body=joined.left)


def _said(e: Equation, one: list[Axis]) -> Equation:
    """The equation with a piece for each place of an axis; `one` are axes of one place."""
    whole = all(isinstance(a, Axis) for i in e.index for a in (i.args if isinstance(i, Merge) else (i,)))
    if e.kind is not None or not whole or e.target.is_integer:
        return e
    for axis in e.axes:
        if axis.fixed is not None and 1 < axis.fixed <= PLACES_SAID and _asks(e.body, axis):
            pieces = [_at(e.body, axis, Integer(k)) for k in range(axis.fixed)]
            if all(free_axes(p) == set(e.axes) - {axis} for p in pieces):
                return replace(e, body=Concat(axis, *pieces), kind="concat", over=tuple(one[: axis.fixed]))
    return e


def _asks(value: Basic, axis: Axis) -> bool:
    """Whether a value depends on a place by itself, not through what is read there."""
    if isinstance(value, At):
        return False
    if isinstance(value, Where) and free_axes(value.condition) == {axis} and not value.condition.atoms(At):
        return True
    return value == axis or any(_asks(a, axis) for a in value.args)


def _at(value: Expr, axis: Axis, place: Integer) -> Expr:
    """The value at one place of the axis; where it asks for the place, what is chosen there."""
    if isinstance(value, Where) and free_axes(value.condition) == {axis} and not value.condition.atoms(At):
        holds = value.condition.xreplace({axis: place})
        if holds in (S.true, S.false):
            return _at(value.args[1 if holds == S.true else 2], axis, place)
    if isinstance(value, At):
        plain = all(free_axes(i) == {axis} and not i.atoms(At) for i in value.index if axis in free_axes(i))
        return value.xreplace({axis: place}) if plain else value
    if value == axis or not value.args:
        return place if value == axis else value
    return value.func(*(_at(a, axis, place) for a in value.args)) if axis in free_axes(value) else value
