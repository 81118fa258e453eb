"""A sum over the places at most so far from one, before and behind it, is one of as many shifted slices.

`sum(where((d - c <= 2) & (c - d <= 2), x[n, d], 0), over=d)` adds five slices of `x` between zeros, where a product
with the table of which places are near takes as many operations a place as there are places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr, Integer

from derive.backends.code import ALL, REST, Each, Item, Slice, as_code
from derive.backends.torch.reads.slices import padded, subscript
from derive.backends.values import Dims, Line, Value, is_pack
from derive.ir.lowering.raising import expanded
from derive.ir.nodes.arithmetic import ONE, ZERO, multiplied
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import node_axes
from derive.ir.program import AxisValue, Call, Node, Read, Reduce, base

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_MOST = 16
"""Slices, beyond which a table of the places that are near is made and multiplied with."""

_WAYS = {"le": (-1, 0), "lt": (-1, -1), "ge": (1, 0), "gt": (1, -1)}
"""What is at least 0 where a comparison of places holds: a difference of its sides, and a number."""


@dataclass(frozen=True)
class _Band:
    """From where to where the places lie that are near one: `c - before` to `c + behind`."""

    at: str
    before: int
    behind: int


def in_band(printer: Printer, node: Reduce, order: Dims) -> Value | None:
    """The sum of what is near each place; None for any other reduction."""
    factors = product_factors(node.body) if node.kind == "sum" and len(node.axes) == 1 else []
    choices = [f for f in factors if isinstance(f, Call) and f.fn == "where" and f.args[2] == ZERO]
    if len(choices) != 1 or not printer.fuse:
        return None
    (over,), (condition, value, _) = node.axes, choices[0].args
    band = _band(condition, over)
    if band is None or not _is_narrow(printer, band, over):
        return None
    factors = [*(f for f in factors if f is not choices[0]), *product_factors(value)]
    summed = [f for f in factors if over in node_axes(f)]
    rest = [f for f in factors if f not in summed and f != ONE]
    near = _near(printer, multiplied(summed), over, band, order) if summed else None
    return None if near is None else printer.value(multiplied([near, *rest]), order)


def _is_narrow(printer: Printer, band: _Band, over: str) -> bool:
    """Whether both axes are of one length, and one that is not known to be as small as the band."""
    one, other = (printer.size_names.get(base(a)) for a in (band.at, over))
    return one is not None and one == other and not (one.isdecimal() and int(one) <= band.before + band.behind + 1)


def _near(printer: Printer, value: Node, over: str, band: _Band, order: Dims) -> Read | None:
    """What is added up, under a name, with the lines that make it; None where it differs from place to place."""
    own = node_axes(value)
    axes = tuple(str(d) for d in order if d == band.at or (d is not None and d in own))
    inside = tuple(over if a == band.at else a for a in axes)
    k = axes.index(band.at) if band.at in axes else -1
    if k < 0 or band.at in own or set(inside) != set(own) or any(map(is_pack, axes[k:])):
        return None
    name = printer.unused("near")
    wide = as_code(f"{name}_padded")
    ends = ["0", "0"] * (len(axes) - k - 1) + [str(band.before), str(band.behind)]
    at, size = printer.unused("shift"), printer.size(over)
    pieces = [REST if is_pack(a) else Slice(at, f"{at} + {size}") if a == band.at else ALL for a in axes]
    printer.layouts.dims[name] = axes
    printer.line(wide, padded(printer.value(value, inside), ends))
    printer.line(name, printer.zeros(axes))
    printer.lines.append(Line(Each(at, str(band.before + band.behind + 1))))
    printer.line(name, Item(wide, tuple(subscript(pieces))), "+=", depth=1)
    return Read(name, axes)


def _band(condition: Node, over: str) -> _Band | None:
    """The band that both comparisons of a condition are about; None for any other condition."""
    if not isinstance(condition, Call) or condition.fn != "and" or len(condition.args) != 2:
        return None
    found = [f for side in condition.args if (f := _side(side, over)) is not None]
    ends = {way: (at, number) for at, way, number in found}
    if len(ends) != 2 or ends[1][0] != ends[-1][0]:
        return None
    band = _Band(ends[1][0], ends[1][1], ends[-1][1])
    return band if min(band.before, band.behind) >= 0 and band.before + band.behind < _MOST else None


def _side(asked: Node, over: str) -> tuple[str, int, int] | None:
    """`(c, 1, k)` for `d - c + k >= 0`, `(c, -1, k)` for `c - d + k >= 0`; None for any other condition."""
    if not isinstance(asked, Call) or asked.fn not in _WAYS:
        return None
    way, more = _WAYS[asked.fn]
    names: dict[Node, Expr] = {}
    gap = way * expanded(Call("sub", asked.args), names) + more
    places = {n.axis: s for n, s in names.items() if isinstance(n, AxisValue)}
    if len(places) != 2 or len(names) != 2 or over not in places:
        return None
    (at,) = (a for a in places if a != over)
    for sign in (1, -1):
        number = gap - sign * (places[over] - places[at])
        if isinstance(number, Integer):
            return at, sign, int(number)
    return None
