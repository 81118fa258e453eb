"""A function of how far two places are apart is computed once for every distance, and laid along the diagonals.

`gamma ** (t - s)` is as many numbers as there are distances, not pairs, and a power costs ten times what it costs to
copy one. They are made from a distance on that no pair has, `-size(s)`, so that neither axis needs to have a place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from derive.backends.code import ALL, REST, Slice, as_code, negative
from derive.backends.values import Dims, Value, align, is_pack, position
from derive.facts.costs.cost import is_dear
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import node_axes, walk
from derive.ir.program import AxisValue, Call, Node, Num, Read, Scal, SizeOf

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

DISTANCE = " apart"
"""How a dimension of distances is called: no axis of a spec has such a name."""


def along_diagonals(printer: Printer, node: Call, order: Dims) -> Value | None:
    """The values for all pairs of places, alike at one distance; None where a node depends on more, or is cheap."""
    pair = _pair(node)
    if pair is None or printer.counts or not {*pair} <= {*order}:
        return None
    plus, minus = pair
    table = put(node, Call("sub", (AxisValue(plus), AxisValue(minus))), AxisValue(DISTANCE))
    small = tuple(d for d in order if d in node_axes(table))
    printer.distances = (negative(as_code(printer.size(minus))), as_code(printer.size(plus)))
    values = printer.value(table, (*small, DISTANCE))
    rows, columns = sorted(pair, key=order.index)
    at, dims = len(small), (*small, rows, columns)
    several = any(map(is_pack, small))
    windows = values.method("unfold", position((*small, DISTANCE), at), printer.size(columns), 1)
    windows = windows.at(*([REST, Slice("1"), ALL] if several else [*[ALL] * at, Slice("1")]))
    turned = position(dims, at + 1 if columns == minus else at)
    return align(windows.method("flip", turned, dims=dims), order)


def _pair(node: Call) -> tuple[str, str] | None:
    """Two axes on whose difference alone something dear depends, beside small tensors: what is added, what is taken."""
    below = list(walk(node))
    if not all(isinstance(n, Call | Num | Scal | SizeOf | AxisValue | Read | str) for n in below):
        return None
    dear = any(isinstance(n, Call) and (n.fn == "exp" or is_dear(n)) for n in below)
    apart = list(_distances(node))
    found = {(a.axis, b.axis) for a, b in apart}
    places = [n.axis for n in below if isinstance(n, AxisValue)]
    read = {a for n in below if isinstance(n, Read) for a in node_axes(n)}
    if not dear or len(found) != 1 or len(places) != 2 * len(apart):
        return None
    (pair,) = found
    return None if pair[0] == pair[1] or {*pair} & read or any(map(is_pack, pair)) else pair


def _distances(node: Node) -> Iterator[tuple[AxisValue, AxisValue]]:
    """Every difference of two places."""
    for n in walk(node):
        if isinstance(n, Call) and n.fn == "sub":
            a, b = n.args
            if isinstance(a, AxisValue) and isinstance(b, AxisValue):
                yield a, b
