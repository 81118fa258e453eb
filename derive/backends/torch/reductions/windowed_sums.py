"""Sums of products of what windows read, in a loop over the places in a window: no table of all windows is made.

`sum(w[b, t, g] * x[b, c, t + g], over=g)` adds a slice of `x` in each turn, weighted; `sum(q[b, t, d] * k[b, t + g, d],
over=d)` is a sum of `q` times a slice for each `g`. From memory such a table takes ten times as long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from derive.backends.code import ALL, Item, Name, method
from derive.backends.torch.layout import is_product
from derive.backends.torch.memory import is_wide
from derive.backends.torch.reads.slices import subscript
from derive.backends.torch.reductions.taps import added, at_taps, loops, turn
from derive.backends.values import Dims, Line, is_pack
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import by_axes, node_axes, walk
from derive.ir.program import Assign, Call, Node, Read, Reduce, Window

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

MOST = 32  # places in a window of a known length, beyond which turns are short


def summed_in_turns(printer: Printer, s: Assign, order: Dims) -> list[Line] | None:
    """The lines of an assignment that is such a sum; None for any other."""
    if not isinstance(s.value, Reduce) or not order == s.axes == printer.layouts[s.name]:
        return None
    return _in_turns(printer, s.value, order, printer.named(s.name), str(s))


def with_sums_in_turns(printer: Printer, s: Assign) -> Assign:
    """The assignment with each such sum inside it made before, under a name of its own."""
    for node in [n for n in walk(s.value) if isinstance(n, Reduce) and n != s.value]:
        axes, name = tuple(a for a in s.axes if a in node_axes(node)), printer.unused("sums")
        if (lines := _in_turns(printer, node, axes, Name(name))) is not None:
            printer.lines += lines
            printer.layouts.dims[name] = axes
            s = replace(s, value=put(s.value, node, Read(name, axes)))
    return s


def _in_turns(printer: Printer, node: Reduce, order: Dims, name: Name, said: str = "") -> list[Line] | None:
    axes, body = tuple(a for a in order if a is not None), node_axes(node.body)
    taps = _taps(printer, node)
    if not taps or axes != order or set(axes) != set(body) - set(node.axes) or any(map(is_pack, body)):
        return None
    if set(node.axes) <= taps and node.kind == "sum":
        return added_in_turns(printer, node, axes, name, said)
    if set(node.axes) & taps or _is_made_anyway(printer, node):
        return None
    return made_in_turns(printer, node, axes, tuple(a for a in axes if a in taps), name, said)


def _taps(printer: Printer, node: Reduce) -> set[str]:
    """The axes of the places in the windows of a sum of products of no other kind, or of another function of several
    reads, where these places are known to be few; none of any other reduction.
    """
    windows = _windows(node)
    if node.kind not in ("sum", "mean") or not windows or is_product(node):
        return set()
    if any(is_wide(n) for n in walk(node.body) if isinstance(n, Call)):
        return set()
    if any(len(i.steps) > 2 or step <= 0 for i in windows for _, step in i.steps):
        return set()
    taps = {printer.sizes.ordered(i)[1][0] for i in windows}
    sizes = [printer.size(a) for a in sorted(taps)]
    known = [int(size) for size in sizes if size.isdigit()]
    if len(product_factors(node.body)) < 2:
        apart = any(step > 1 for i in windows for _, step in i.steps)
        if apart or len(known) < len(sizes) or not _is_costly(node.body):
            return set()
    return set() if any(size > MOST for size in known) else taps


def _is_costly(body: Node) -> bool:
    """Whether it is a function of several reads: the table that it is taken of is as large as all windows."""
    return isinstance(body, Call) and len({n for n in walk(body) if isinstance(n, Read)}) > 1


def _windows(node: Reduce) -> list[Window]:
    found = (i for n in walk(node.body) if isinstance(n, Read) for i in n.index)
    return [i for i in found if isinstance(i, Window) and len(i.steps) > 1]


def _is_made_anyway(printer: Printer, node: Reduce) -> bool:
    """Whether a factor is as large as the table, or windows are so far apart that it is hardly more than they read."""
    whole = set(node_axes(node.body))
    factors = [f for f in product_factors(node.body) if isinstance(f, Read) and by_axes(f)]
    apart = any(printer.sizes.ordered(i)[0][1] > 1 for i in _windows(node))
    return apart or any(set(node_axes(f)) == whole for f in factors)


def added_in_turns(printer: Printer, node: Reduce, axes: tuple[str, ...], name: Name, said: str) -> list[Line] | None:
    """The lines that add up what a sum takes at each place in a window, a slice in each turn."""
    each = at_taps(printer, node.body, name, frozenset(node.axes), axes)
    if each is None:
        return None
    around = loops(printer, node.axes)
    printer.spent = frozenset()  # every turn reads what the first one reads
    change = added(printer, name, each, axes)
    return [Line(printer.zeros(axes), name), *around, replace(change, note=said, depth=len(around))]


def made_in_turns(
    printer: Printer, node: Reduce, axes: tuple[str, ...], own: tuple[str, ...], name: Name, said: str
) -> list[Line] | None:
    """The lines that make a sum for each place in a window, which are `own` of its axes."""
    inner = tuple(a for a in node_axes(node.body) if a not in own)
    each = at_taps(printer, node.body, name, frozenset(own), inner) if own else None
    if each is None or set(node_axes(each)) != set(inner):
        return None
    made = Line(method(printer.like, "new_empty", *printer.lengths(axes)), name)
    around = loops(printer, own)
    printer.spent = frozenset()  # every turn reads what the first one reads
    kept = tuple(a for a in axes if a not in own)
    value = printer.value(_in_two(node, each, inner, kept), kept).code
    place = subscript([printer.named(turn(a)) if a in own else ALL for a in axes])
    return [made, *around, Line(value, Item(name, tuple(place)), note=said, depth=len(around))]


def _in_two(node: Reduce, each: Node, inner: tuple[str, ...], kept: tuple[str, ...]) -> Reduce:
    """A sum over dimensions before and behind one that is kept, over the first of them first.

    At once PyTorch takes twice as long, and ten times the error: it adds one row after the other to one number.
    """
    first = next((k for k, a in enumerate(inner) if a in kept), len(inner))
    before, behind = inner[:first], tuple(a for a in inner[first:] if a not in kept)
    if not before or not behind or first == len(inner):
        return Reduce(node.kind, node.axes, each)
    return Reduce(node.kind, behind, Reduce(node.kind, before, each))
