"""Filters that take each channel by itself, with channels last in memory: a loop over a few taps, a slice in each turn.

PyTorch convolves channels that stand first, a group each, from a copy; that takes a CPU three times as long. What lies
outside of a signal is not read, nor multiplied by an infinite weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.backends.convolution_roles import Convolution, one_signal, roles
from derive.backends.torch.fusions import added_to
from derive.backends.torch.reductions.taps import at_taps, turn
from derive.backends.values import Dims, Line, is_pack
from derive.nodes.arithmetic import multiplied
from derive.nodes.products import fraction
from derive.nodes.walking import axes_along, node_axes
from derive.program import Assign, Index, Read, Reduce, Scatter, Window

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_MOST = 8  # taps


def filtered(printer: Printer, s: Assign, order: Dims) -> list[Line] | None:
    """A signal filtered so, or the gradient of the filter, as a loop over the taps; None for any other assignment."""
    found = one_signal(s.value)
    plain = tuple(a for a in s.axes if isinstance(a, str))
    if found is None or not isinstance(s.value, Reduce) or not order == s.axes == plain == printer.layouts[s.name]:
        return None
    (signal, other), result = found, node_axes(s.value)
    if _is_by_tap(printer, roles(signal.index, node_axes(other), result), signal.index):
        return _filtered(printer, s, s.value, plain)
    if _is_by_tap(printer, roles(signal.index, result, node_axes(other)), signal.index):
        return _filter(printer, s, s.value, signal, plain)
    return None


def adds_by_tap(printer: Printer, s: Scatter) -> bool:
    """Whether a scatter through windows is the gradient of a signal that was filtered so."""
    windows = [i for i in s.slots if isinstance(i, Window)]
    factors, divisors = fraction(s.value)
    taps = {printer.sizes.ordered(w)[1][0] for w in windows if len(w.steps) == 2}
    over = [f for f in factors if set(node_axes(f)) & taps]
    into = [f for f in factors if f not in over]
    if not over or not into or divisors or any(isinstance(f, Reduce) for f in factors):
        return False
    return _is_by_tap(printer, roles(s.slots, node_axes(multiplied(over)), node_axes(multiplied(into))), s.slots)


def _is_by_tap(printer: Printer, c: Convolution | None, index: tuple[Index, ...]) -> bool:
    """Whether the last dimension has the groups, which have one channel each, and few taps filter one dimension."""
    if c is None or c.inner or c.outer or len(c.windowed) != 1 or index[-1] not in c.groups:
        return False
    taps = printer.size_names.get(c.windowed[0].tap, "")
    packs = any(map(is_pack, axes_along(index)))
    return not packs and taps.isdecimal() and 1 < int(taps) <= _MOST and printer.fuse


def _filtered(printer: Printer, s: Assign, node: Reduce, order: tuple[str, ...]) -> list[Line] | None:
    name = printer.names.get(s.name, s.name)
    each = at_taps(printer, node.body, name, frozenset(node.axes), order)
    if each is None or node.kind != "sum":
        return None
    printer.spent = frozenset()  # every turn reads what the first one reads
    added = added_to(printer, each, order) or f" += {printer.value(each, order).code}"
    zeros = f"{printer.like}.new_zeros({', '.join(printer.lengths(order))})"
    return [Line(f"{name} = {zeros}"), _loop(printer, node.axes[0]), Line(f"    {name}{added}", str(s))]


def _filter(printer: Printer, s: Assign, node: Reduce, signal: Read, axes: tuple[str, ...]) -> list[Line] | None:
    tap = next(a for a in axes for i in signal.index if isinstance(i, Window) and a in dict(i.steps))
    name, rest = printer.names.get(s.name, s.name), tuple(a for a in axes if a != tap)
    each = at_taps(printer, node.body, name, frozenset({tap}), node_axes(node.body))
    if each is None or node.kind != "sum":
        return None
    printer.spent = frozenset()
    value = printer.value(Reduce("sum", node.axes, each), rest).code
    pieces = ", ".join(turn(tap) if a == tap else ":" for a in axes[: axes.index(tap) + 1])
    made = Line(f"{name} = {printer.like}.new_empty({', '.join(printer.lengths(axes))})")
    return [made, _loop(printer, tap), Line(f"    {name}[{pieces}] = {value}", str(s))]


def _loop(printer: Printer, tap: str) -> Line:
    return Line(f"for {turn(tap)} in range({printer.size(tap)}):")
