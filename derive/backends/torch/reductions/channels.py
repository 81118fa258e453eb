"""Filters that take each channel by itself, with channels behind places: a loop over a few taps, a slice in each turn.

PyTorch convolves channels that stand first, a group each, from a copy; that takes a CPU three times as long. What lies
outside of a signal is not read, nor multiplied by an infinite weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.backends.convolution_roles import Convolution, one_signal, roles
from derive.backends.torch.reductions.windowed_sums import added_in_turns, made_in_turns
from derive.backends.values import Dims, Line, is_pack
from derive.ir.nodes.arithmetic import multiplied
from derive.ir.nodes.products import fraction
from derive.ir.nodes.walking import axes_along, node_axes
from derive.ir.program import Assign, Index, Reduce, Scatter, Window

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_MOST = 8  # taps


def filtered(printer: Printer, s: Assign, order: Dims) -> list[Line] | None:
    """A signal filtered so, or the gradient of the filter, as a loop over the taps; None for any other assignment."""
    found = one_signal(s.value)
    plain = tuple(a for a in s.axes if isinstance(a, str))
    if found is None or not isinstance(s.value, Reduce) or s.value.kind != "sum":
        return None
    if not order == s.axes == plain == printer.layouts[s.name]:
        return None
    (signal, other), result, name = found, node_axes(s.value), printer.named(s.name)
    if _is_by_tap(printer, roles(signal.index, node_axes(other), result), signal.index):
        return added_in_turns(printer, s.value, plain, name, str(s))
    if _is_by_tap(printer, roles(signal.index, result, node_axes(other)), signal.index):
        steps = {a for i in signal.index if isinstance(i, Window) for a, _ in i.steps}
        return made_in_turns(printer, s.value, plain, tuple(a for a in plain if a in steps), name, str(s))
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
    """Whether groups, which have one channel each, lie behind the one dimension that few taps filter."""
    if c is None or c.inner or c.outer or len(c.windowed) != 1:
        return False
    if not set(index[c.windowed[0].slot + 1 :]) & set(c.groups):
        return False
    taps = printer.size_names.get(c.windowed[0].tap, "")
    packs = any(map(is_pack, axes_along(index)))
    return not packs and taps.isdecimal() and 1 < int(taps) <= _MOST and printer.fuse
