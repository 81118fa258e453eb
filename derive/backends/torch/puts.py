"""What is added where nothing was left is put there: `a` without what stood at `y`, `b` added, is one `scatter_`."""

from __future__ import annotations

from dataclasses import replace

from derive.ir.nodes.arithmetic import ONE, ZERO, multiplied
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import axes_along, node_axes, reads
from derive.ir.program import Assign, AxisValue, Call, Node, Program, Read, Scatter


def put_where_nothing_is(program: Program) -> Program:
    """The same program with such scatters of kind "put", and what they are added to as it is without its mask."""
    statements = list(program.statements)
    for k, s in enumerate(statements):
        if not isinstance(s, Scatter) or s.kind != "sum" or s.onto != s.name:
            continue
        before = [j for j in range(k) if statements[j].name == s.name]
        made = statements[before[0]] if len(before) == 1 else None
        if not isinstance(made, Assign) or any(s.name in reads(x.value) for x in statements[before[0] + 1 : k + 1]):
            continue
        whole = _unmasked(made, s)
        if whole is not None:
            statements[before[0]], statements[k] = replace(made, value=whole), replace(s, kind="put")
    return check(replace(program, statements=tuple(statements)))


def _unmasked(made: Assign, s: Scatter) -> Node | None:
    """What a statement makes at all other places, where it makes 0 at those of the scatter; None where it does not."""
    moved = [k for k, (axis, slot) in enumerate(zip(s.axes, s.slots, strict=True)) if axis != slot]
    if len(moved) != 1 or made.axes != s.axes:
        return None
    axis, slot = s.axes[moved[0]], s.slots[moved[0]]
    others = {slot for k, slot in enumerate(s.slots) if k not in moved}
    place: Node
    if isinstance(slot, str) and slot in others:
        place = AxisValue(slot)
    elif isinstance(slot, Read) and set(axes_along(slot.index)) == others:
        place = slot
    else:  # several values a place, perhaps
        return None
    factors = product_factors(made.value)
    for factor in factors:
        whole = _elsewhere(factor, {AxisValue(axis), place})
        if whole is not None:
            rest = [f for f in factors if f is not factor]
            value = multiplied([whole, *rest] if whole != ONE else rest or [whole])
            return value if set(node_axes(value)) == set(made.axes) else None
    return None


def _elsewhere(node: Node, places: set[Node]) -> Node | None:
    """What is chosen where these two places differ, beside 0 where they are one."""
    if not isinstance(node, Call) or node.fn != "where":
        return None
    condition, a, b = node.args
    if not isinstance(condition, Call) or condition.fn not in ("eq", "ne") or set(condition.args) != places:
        return None
    there, whole = (a, b) if condition.fn == "eq" else (b, a)
    return whole if there == ZERO else None
