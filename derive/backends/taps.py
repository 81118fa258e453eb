"""A loop over the places in a window: what stands in the window at one of them, and the slice that it is."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from derive.backends.slices import span
from derive.backends.values import Dims, Line
from derive.cost import is_tensor
from derive.program import (
    Arithmetic,
    AxisValue,
    Call,
    Index,
    Join,
    Merged,
    Node,
    Num,
    PartOf,
    Read,
    Reduce,
    Scal,
    Scan,
    Scatter,
    Window,
)
from derive.walking import index_axes, node_axes, walk

if TYPE_CHECKING:
    from derive.backends.torch import Printer


def at_taps(printer: Printer, s: Scatter, name: str, taps: frozenset[str], inner: Dims) -> Node | None:
    """A pointwise value at one place in the window, with what is the same at every place computed before the loops."""
    if any(isinstance(n, Reduce | Join | Scan) for n in walk(s.value)) or any(
        isinstance(i, Merged | PartOf | Read | Arithmetic) and set(index_axes(i)) & taps
        for n in walk(s.value)
        if isinstance(n, Read)
        for i in n.index
    ):
        return None

    def at(node: Node) -> Node:
        if not set(node_axes(node)) & taps:
            return kept(node) if isinstance(node, Call) and is_tensor(node) else node
        if isinstance(node, Call):
            return Call(node.fn, tuple(at(a) for a in node.args))
        if isinstance(node, Read):
            return Read(node.name, tuple(_at_tap(i, taps) for i in node.index))
        return Scal(turn(node.axis)) if isinstance(node, AxisValue) else node

    def kept(node: Call) -> Node:
        own = printer.unused(f"{name}_share")
        value = printer.value(node, inner)
        axes = tuple(d for d in value.dims if d is not None)
        printer.layouts.dims[own] = value.dims
        printer.lines.append(Line(f"{own} = {value.code}"))
        return Read(own, axes)

    return at(s.value)


def turn(axis: str) -> str:
    """The name of a loop's place along an axis, a bound one (`d'`) too."""
    return f"at_{axis}".replace("'", "_")


def _at_tap(i: Index, taps: frozenset[str]) -> Index:
    """An index with each axis that is looped over as the number it has in that turn."""
    if isinstance(i, str) and i in taps:
        return Window((), Scal(turn(i)))
    if not isinstance(i, Window):
        return i
    offset: Node = i.offset
    for axis, step in i.steps:
        if axis in taps:
            place: Node = Scal(turn(axis))
            place = place if step in (1, -1) else Call("mul", (Num(Fraction(abs(step))), place))
            if step < 0:
                offset = Call("sub", (offset, place))
            else:
                offset = place if offset == Num(Fraction(0)) else Call("add", (offset, place))
    return Window(tuple(st for st in i.steps if st[0] not in taps), offset)


def taps_slice(printer: Printer, window: Window, dim: str, fast: tuple[str, int] | None) -> str:
    """The slice of a window along a dimension; of one that is looped over, at the loop's place."""
    if not window.steps:
        return printer.number(window.offset)
    if fast is None:
        return span(window, dim, printer.sizes)
    axis, dilation = fast
    ((slow, step),) = [st for st in window.steps if st[0] != axis]
    start = turn(axis) if dilation == 1 else f"{dilation} * {turn(axis)}"
    offset = printer.number(window.offset)
    start = start if offset == "0" else f"{offset} + {start}"
    length = printer.size(slow)
    stop = f"{start} + {length}" if step == 1 else f"{start} + {step} * ({length} - 1) + 1"
    return f"{start}:{stop}" + ("" if step == 1 else f":{step}")
