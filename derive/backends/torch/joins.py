"""Parts one after another in torch: `torch.cat`, `torch.stack` where each is one place, `pad` between numbers.

Along the last dimension `torch.stack` goes element by element on one thread: `stacked_last` copies part after part.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from typing import TYPE_CHECKING

from derive.backends.code import Code, Listed, Slice, call
from derive.backends.torch.reads.slices import padded, sliced
from derive.backends.values import Dims, Value, is_pack, position
from derive.ir.nodes.products import is_tensor
from derive.ir.program import Call, Join, Node, Num, Read, SizeOf, Window

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def joined(printer: Printer, node: Join, order: Dims) -> Value:
    """The parts in a new tensor of these dimensions."""
    padded = _padded(printer, node, order)
    if padded is not None:
        return padded
    at = position(order, order.index(node.axis))
    if not any(node.own):
        rest = tuple(d for d in order if d != node.axis)
        stack = Listed(tuple(printer.full(p, rest).code for p in node.parts))
        last = len(order) > 1 and node.axis == order[-1]
        return Value(call("stacked_last", stack) if last else call("torch.stack", stack, at), order)
    parts = [_part(printer, part, own, node.axis, order) for part, own in zip(node.parts, node.own, strict=True)]
    return Value(call("torch.cat", Listed(tuple(parts)), at), order)


def _part(printer: Printer, part: Node, own: str, axis: str, order: Dims) -> Code:
    """One part with all the dimensions."""
    if own:
        return printer.full(part, tuple(own if d == axis else d for d in order)).code
    if (place := _one_place(printer, part, axis, order)) is not None:
        return place
    at = position(order, order.index(axis))
    return printer.full(part, tuple(d for d in order if d != axis)).method("unsqueeze", at).code


def _one_place(printer: Printer, part: Node, axis: str, order: Dims) -> Code | None:
    """One place of a tensor that has a dimension of its own where parts are joined: `x[:, :1]`.

    None for any other part.
    """
    slots = [k for k, i in enumerate(part.index) if not isinstance(i, str)] if isinstance(part, Read) else []
    if not isinstance(part, Read) or len(slots) != 1 or len(part.index) != len(order):
        return None
    (slot,) = slots
    place, stored = part.index[slot], printer.stored(part.name)
    read = tuple(axis if k == slot else i for k, i in enumerate(part.index))
    if not isinstance(place, Window) or place.steps or is_tensor(place.offset) or read != order:
        return None
    if None in stored.dims or len(stored.dims) != len(order):
        return None
    start, last = printer.number(place.offset), Call("sub", (SizeOf(str(stored.dims[slot])), Num(Fraction(1))))
    if start.isdecimal():
        piece = Slice("" if start == "0" else start, str(int(start) + 1))
    else:
        piece = Slice(start, "" if place.offset == last else f"{start} + 1")
    return sliced(stored, position(order, slot), piece).code


def _padded(printer: Printer, node: Join, order: Dims) -> Value | None:
    """One part between places of one number: `functional.pad`, which writes nothing twice. None for any other."""
    found = _between(printer, node)
    if found is None or not printer.dtypes.is_real(node):
        return None  # whole numbers would be padded with whole numbers
    number = found.number
    widths, inside = {node.axis: found.widths}, {node.axis: found.own}
    while isinstance(found.part, Join):
        inner = _between(printer, found.part)
        if inner is None or inner.number != number:
            break
        widths[found.part.axis], inside[found.part.axis] = inner.widths, inner.own  # along another dimension as well
        found = inner
    if any(is_pack(d) for d in order[min(order.index(a) for a in widths) :]):
        return None
    value = printer.full(found.part, tuple(inside.get(str(d), d) for d in order))
    ends = [width for d in order[::-1] for width in widths.get(str(d), ("0", "0"))]
    return Value(padded(value, ends, None if number == Num(Fraction(0)) else printer.number(number)), order)


@dataclass(frozen=True)
class _Between:
    """One part between places of one number."""

    part: Node
    own: str  # the part's axis
    number: Node
    widths: tuple[str, str]


def _between(printer: Printer, node: Join) -> _Between | None:
    front = list(takewhile(lambda k: isinstance(node.parts[k], Num), range(len(node.parts))))
    back = list(takewhile(lambda k: isinstance(node.parts[k], Num), range(len(node.parts) - 1, len(front), -1)))
    numbers = {node.parts[k] for k in (*front, *back)}
    if len(numbers) != 1 or len(front) + len(back) + 1 != len(node.parts):
        return None
    widths = (_width(printer, [node.own[k] for k in side]) for side in (front, back))
    return _Between(node.parts[len(front)], node.own[len(front)], numbers.pop(), (next(widths), next(widths)))


def _width(printer: Printer, own: list[str]) -> str:
    """How many places parts have together, each as many as its axis, or one."""
    single, axes = sum(not a for a in own), [a for a in own if a]
    return " + ".join([*(printer.size(a) for a in axes), *([str(single)] if single or not axes else [])])
