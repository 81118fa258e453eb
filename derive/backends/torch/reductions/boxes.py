"""What is added all over each of the windows that overlap place by place, in torch: one dimension after another.

The adjoint of a sum over windows, and of a mean. One loop inside another adds as many slices as a window has places.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from derive.backends.code import Name, call
from derive.backends.values import is_pack
from derive.ir.nodes.walking import node_axes
from derive.ir.program import Scatter, Window

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_FEW = 9  # places in a window over which one loop inside another does as well


def spread_over_boxes(printer: Printer, s: Scatter, name: Name) -> bool:
    """The line that adds a value all over each window; False for other windows, and for those of few places."""
    sides: dict[int, str] = {}
    inner: list[str] = []
    for k, i in enumerate(s.slots):
        if isinstance(i, Window) and len(i.steps) == 2 and printer.sizes.tight(str(s.axes[k]), i):
            (place, step), (sides[k], dilation) = printer.sizes.ordered(i)
            if (step, dilation, printer.number(i.offset)) != (1, 1, "0"):
                return False
            inner.append(place)
        elif isinstance(i, str):
            inner.append(i)
        else:
            return False
    widths = {k: printer.size(tap) for k, tap in sides.items()}
    few = len(widths) > 1 and all(w.isdecimal() for w in widths.values()) and prod(map(int, widths.values())) <= _FEW
    axes = node_axes(s.value)
    if not sides or few or set(axes) & set(sides.values()) or any(map(is_pack, inner)):
        return False
    added = call("spread_over_windows", printer.full(s.value, tuple(inner)), said(widths))
    printer.line(name, added, "=" if s.onto is None else "+=", str(s))
    return True


def said(widths: dict[int, str]) -> str:
    """How long windows are in each dimension, as code."""
    return f"{{{', '.join(f'{k}: {w}' for k, w in widths.items())}}}"
