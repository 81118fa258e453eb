"""Frames that follow one another in steps of several places, overlapped and added in torch: one call of `fold`.

Such frames are long, a spectrogram's has hundreds of places, and a loop over these would add strided slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from derive.backends.code import ALL, NEW, Item, Name, call
from derive.backends.torch.reads.slices import reached, stretch, subscript
from derive.backends.values import Value, is_pack, permute
from derive.ir.nodes.walking import node_axes
from derive.ir.program import Scatter, Window

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


_FEW = 8  # places in a frame of a known length that a loop adds


def frames_added(printer: Printer, s: Scatter, name: Name, loops: Mapping[int, tuple[str, int]]) -> bool:
    """The lines that add frames along the last dimension; False where these are no frames, or one alone."""
    *rest, window = s.slots
    if not isinstance(window, Window) or set(loops) != {len(rest)} or tuple(rest) != s.axes[:-1]:
        return False
    (place, step), (tap, dilation) = printer.sizes.ordered(window)
    own = tuple(a for a in rest if isinstance(a, str))
    axes = (*own, tap, place)
    few = printer.size(tap).isdecimal() and int(printer.size(tap)) <= _FEW
    if step == 1 or dilation != 1 or few or set(node_axes(s.value)) != set(axes) or any(map(is_pack, axes)):
        return False
    frames = permute(_named(printer, s, (*own, place, tap)), axes)
    if len(own) != 1:
        frames = frames.method("flatten", 0, len(own) - 1) if own else frames.at(NEW)
    start, size = printer.number(window.offset), printer.size
    whole = printer.sizes.tight(s.axes[-1], window) and start == "0"
    reach = size(s.axes[-1]) if whole else reached(step, size(place), 1, size(tap))
    folded = call("functional.fold", frames, f"(1, {reach})", f"(1, {size(tap)})", stride=f"(1, {step})")
    added = Value(folded).at(*([ALL] if own else [0]), 0, 0)
    added = added.method("unflatten", 0, printer.shape(own)) if len(own) > 1 else added
    if s.onto is None and not whole:
        printer.line(name, printer.zeros(s.axes))
    part = name if whole else Item(name, tuple(subscript([*(ALL for _ in own), stretch(start, reach)])))
    printer.line(part, added, "=" if s.onto is None else "+=", str(s))
    return True


def _named(printer: Printer, s: Scatter, axes: tuple[str, ...]) -> Value:
    """What is added, over these axes, under a name of its own unless it has one."""
    value = printer.full(s.value, axes)
    if isinstance(value.code, Name):
        return value
    name = Name(printer.unused("patches"))
    printer.line(name, value, note=str(s))
    return Value(name, value.dims)
