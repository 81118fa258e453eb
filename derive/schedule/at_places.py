"""What a maximum over the values that an index puts at each place is scattered of."""

from __future__ import annotations

from sympy import Expr

from derive.ir.lowering import lower
from derive.ir.program import Node, Reduce
from derive.ir.terms.axes import Axis, free_axes


def value_at_places(kind: str, slots: tuple[Expr, ...], value: Expr, over: tuple[Axis, ...]) -> Node:
    """The values at the places as a node, reduced first over the axes that the places do not have."""
    spread = {a for i in slots for a in free_axes(i)}
    rest = tuple(a.name for a in over if a not in spread)
    return Reduce(kind, rest, lower.node(value)) if rest else lower.node(value)
