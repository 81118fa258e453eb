"""Reductions of what windows read in torch, tap by tap: a loop over the places in a window, a slice in each turn.

Rows of a few elements are slow to add up or to compare, and a table of all windows is several times what they read.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from derive.backends.code import Item, call, method
from derive.backends.torch.reductions.pools import is_pool
from derive.backends.torch.reductions.runs import BEYOND
from derive.backends.torch.reductions.taps import at_taps, loops, turn
from derive.backends.values import Dims, Line, is_pack
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import node_axes, walk
from derive.ir.program import COMPARISONS, Assign, Call, Node, Num, Read, Reduce, Scal, Window

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_CHOSEN = {"amax": "maximum", "amin": "minimum"}
_MOST = 16  # places in a window of a known length, beyond which its rows are no longer short


def tap_by_tap(printer: Printer, s: Assign, order: Dims) -> list[Line] | None:
    """A reduction over the taps of windows, or at each of them, as a loop; None for any other assignment."""
    found = [n for n in walk(s.value) if isinstance(n, Reduce)]
    plain = tuple(a for a in s.axes if isinstance(a, str))
    if len(found) != 1 or order != s.axes or order != plain or printer.layouts[s.name] != order:
        return None
    (node,) = found
    windows = {i for n in walk(node.body) if isinstance(n, Read) for i in n.index if isinstance(i, Window)}
    taps = {printer.sizes.ordered(i)[1][0] for i in windows if len(i.steps) == 2}
    if any(map(is_pack, (*order, *node.axes))) or any(step <= 0 for i in windows for _, step in i.steps):
        return None
    if set(node.axes) <= taps:
        return _over_taps(printer, s, node, order) if node == s.value else None
    return _at_each_tap(printer, s, node, plain) if plain and set(plain) <= taps else None


def _over_taps(printer: Printer, s: Assign, node: Reduce, order: Dims) -> list[Line] | None:
    """How many places in each window satisfy a comparison, or the largest or smallest of what stands at them."""
    body, start = (_asked(node.body), None) if node.kind == "sum" else (_compared(printer, node), BEYOND.get(node.kind))
    name = printer.named(s.name)
    each = None if body is None else at_taps(printer, body, name, frozenset(node.axes), order)
    if each is None or set(node_axes(each)) != set(order):
        return None
    made = printer.zeros(order)
    if start is not None:
        made = method(printer.like, "new_full", printer.shape(order), printer.number(start))
    around = loops(printer, node.axes)
    printer.spent = frozenset()  # every turn reads what the first one reads
    value = printer.value(each, order).code
    if start is None:  # added up twice as fast as truth values
        change = Line(method(value, "view", "torch.int8"), name, "+=", str(s), depth=len(around))
    else:
        change = Line(call(f"torch.{_CHOSEN[node.kind]}", name, value), name, "=", str(s), depth=len(around))
    return [Line(made, name), *around, change]


def _at_each_tap(printer: Printer, s: Assign, node: Reduce, axes: tuple[str, ...]) -> list[Line] | None:
    """What is made, at each place in a window, of the sum of what a comparison of what windows read chooses there."""
    if node.kind != "sum" or not any(map(_is_chosen, product_factors(node.body))):
        return None
    name, taps, summed = printer.named(s.name), frozenset(axes), Scal("the sum")
    inner = tuple(a for a in node_axes(node.body) if a not in taps)
    each = at_taps(printer, node.body, name, taps, inner)
    rest = at_taps(printer, put(s.value, node, summed), name, taps, ())
    if each is None or rest is None or set(inner) != set(node.axes) or set(node_axes(each)) != set(inner):
        return None
    made, around = method(printer.like, "new_empty", *printer.lengths(axes)), loops(printer, axes)
    printer.spent = frozenset()  # every turn reads what the first one reads
    value = printer.value(put(rest, summed, Reduce("sum", node.axes, each)), ()).code
    place = Item(name, tuple(printer.named(turn(a)) for a in axes))
    return [Line(made, name), *around, Line(value, place, note=str(s), depth=len(around))]


def _compared(printer: Printer, node: Reduce) -> Node | None:
    """What an extremum over short windows is sought among, unless they are pooled; else None.

    Of a tensor alone only where they run along its last dimension: along others torch compares whole rows as it is.
    """
    if node.kind not in _CHOSEN or is_pool(node) or not printer.dtypes.is_real(node):
        return None
    in_rows = not isinstance(node.body, Read) or isinstance(node.body.index[-1], Window)
    few = all(int(size) <= _MOST for size in map(printer.size, node.axes) if size.isdigit())
    return node.body if in_rows and few else None


def _asked(node: Node) -> Node | None:
    """The comparison that a node is 1 for, or true; None for any other node."""
    if isinstance(node, Call) and node.fn == "where" and node.args[1:] == (Num(Fraction(1)), Num(Fraction(0))):
        node = node.args[0]
    return node if isinstance(node, Call) and node.fn in COMPARISONS else None


def _is_chosen(node: Node) -> bool:
    return isinstance(node, Call) and node.fn == "where" and _asked(node.args[0]) is not None
