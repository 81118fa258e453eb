"""What is chosen at the one place of an axis that an index names: the rest is made, and one value a row put there.

`where(c == y[n], b, a)` is `a.scatter_(1, y.unsqueeze(1), b)`, with what `b` reads read at that place alone, and
`a * (c != y[n])` is `a.scatter_(1, y.unsqueeze(1), 0)`: no place is compared with every other, which on a CPU takes
ten passes over memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from derive.backends.code import Code
from derive.backends.torch.reads.gathers import gathered_column
from derive.backends.values import Dims, Value, align, position
from derive.ir.nodes.arithmetic import ONE, ZERO
from derive.ir.nodes.other_axes import plain, with_axes
from derive.ir.nodes.products import is_tensor
from derive.ir.nodes.walking import axes_along, node_axes, reads, walk
from derive.ir.program import AxisValue, Call, Node, Read, Reduce, base

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


@dataclass(frozen=True)
class _Chosen:
    """What stands at the place of an axis that an index names, and what stands elsewhere."""

    axis: str
    index: Read
    there: Node
    elsewhere: Node


def at_one_place(printer: Printer, node: Call, order: Dims) -> Value | None:
    """A choice by whether a place is the one that an index names, as one call; None for any other node.

    Only by an index of which every value is a place of the axis (`places`): torch refuses what is none.
    """
    chosen = _chosen(node)
    if chosen is None or printer.counts or not _names_a_place(printer, chosen):
        return None
    if None in order or set(order) != {chosen.axis, *axes_along(chosen.index.index)}:
        return None
    value, put = _elsewhere(printer, chosen, order), _put(printer, chosen, order)
    if value is None or put is None:
        return None
    printer.sizes.checked.add(chosen.index.name)
    at = position(order, order.index(chosen.axis))
    rows = printer.value(chosen.index, tuple(d for d in order if d != chosen.axis))
    value = _own(printer, node, chosen.elsewhere, value)  # what is put there is computed before anything is written
    method = "scatter_" if value.owned else "scatter"
    return printer.owned(node, value.method(method, at, rows.method("unsqueeze", at), put))


def _chosen(node: Call) -> _Chosen | None:
    """The parts of such a choice, also where it is a mask of a product or is added to a tensor."""
    if node.fn in ("add", "sub", "mul"):
        for own, choice in (node.args, node.args[::-1]):
            found = _chosen(choice) if isinstance(choice, Call) and choice.fn == "where" else None
            if found is None:
                continue
            masks = node.fn == "mul" and {found.there, found.elsewhere} == {ONE, ZERO}
            scaled = node.fn == "mul" and found.elsewhere == ONE and not any(isinstance(n, Reduce) for n in walk(own))
            if masks or scaled or (isinstance(own, Read) and (own is node.args[0] or node.fn != "sub")):
                there, elsewhere = (_simple(node.fn, own, v) for v in (found.there, found.elsewhere))
                return replace(found, there=there, elsewhere=elsewhere)
        return None
    condition = node.args[0] if node.fn == "where" else None
    if not isinstance(condition, Call) or condition.fn not in ("eq", "ne"):
        return None
    there, elsewhere = node.args[1:] if condition.fn == "eq" else node.args[:0:-1]
    for place, index in (condition.args, condition.args[::-1]):
        if isinstance(place, AxisValue) and isinstance(index, Read):
            return _Chosen(place.axis, index, there, elsewhere)
    return None


def _simple(fn: str, own: Node, value: Node) -> Node:
    """The tensor with what is chosen added, subtracted or multiplied: itself, or 0, where that is all that is left."""
    if fn == "mul":
        return own if value == ONE else ZERO if value == ZERO else Call("mul", (own, value))
    return own if value == ZERO else Call(fn, (own, value))


def _names_a_place(printer: Printer, chosen: _Chosen) -> bool:
    """Whether the index holds places of the axis, one for each row of the others."""
    own = axes_along(chosen.index.index)
    whole = all(isinstance(i, str) for i in chosen.index.index) and chosen.axis not in own
    return whole and len(set(own)) == len(own) and printer.places.get(chosen.index.name) == base(chosen.axis)


def _elsewhere(printer: Printer, chosen: _Chosen, order: Dims) -> Value | None:
    """What stands at all other places; what is read at the one place is not written over before."""
    node = chosen.elsewhere
    if is_tensor(node) and not printer.dtypes.is_real(node):
        return None
    before = printer.spent
    printer.spent = before - reads(chosen.there)
    value = printer.value(node, order)
    printer.spent = before
    if value.boolean or value.weak:
        return None
    if value.scalar:
        return replace(printer.spread(value, order), owned=True)
    return value if value.dims == order else printer.spread(align(value, order), order)


def _own(printer: Printer, node: Call, elsewhere: Node, value: Value) -> Value:
    """A whole tensor of ours that only this choice reads, ours to be written over."""
    whole = isinstance(elsewhere, Read) and value.code == printer.named(elsewhere.name)
    inside = printer.memory.spent_inside(node, printer.at) if whole else ()
    return replace(value, owned=True) if whole and elsewhere.name in inside else value  # type: ignore[union-attr]


def _put(printer: Printer, chosen: _Chosen, order: Dims) -> Code | None:
    """Code of what is put at the place: a number, or a value a row, for which all is read at that place alone."""
    if not is_tensor(chosen.there):
        return printer.value(chosen.there, ()).code
    if not plain(chosen.there):
        return None
    there = with_axes(chosen.there, {chosen.axis: chosen.index})
    row = tuple(None if d == chosen.axis else d for d in order)
    at = [n for n in walk(there) if isinstance(n, Read) and chosen.index in n.index]
    whole = set(node_axes(there)) == {d for d in row if d is not None}
    columns = [n for n in at if n.index != (chosen.index,)]  # beside elements of a vector
    if not whole or not printer.dtypes.is_real(there) or any(gathered_column(n) != row for n in columns):
        return None
    value = align(printer.value(there, row), row)
    return value.code if value.dims == row and not value.boolean and not value.weak else None
