"""A sum over an axis of two to four places is their sum: `x[:, 0::2] + x[:, 1::2]`.

PyTorch adds up so short an axis eight times as slowly on a CPU. Only what is read as it lies is taken apart so: of
anything else each place would be computed by itself. What is computed is multiplied by ones, up to sixteen places.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from derive.backends.code import call, infix
from derive.backends.values import Dims, Value, is_pack
from derive.ir.nodes.arithmetic import ZERO
from derive.ir.nodes.walking import index_axes
from derive.ir.program import Call, Index, Merged, Node, Num, Place, Read, Reduce, SizeOf, Window, base

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_MOST = 4
_FEW = 16  # places of the last dimension of which a product with ones takes less than a sum


def place_by_place(printer: Printer, node: Reduce) -> Node | None:
    """The reduction as a sum of reads at each of its places; None where there are many, or none in particular."""
    body = node.body
    if node.kind not in ("sum", "mean") or not isinstance(body, Read) or any(map(is_pack, node.axes)):
        return None
    lengths = [printer.size_names.get(base(a), "") for a in node.axes]
    if not all(n.isdecimal() for n in lengths) or not 1 < prod(map(int, lengths)) <= _MOST:
        return None
    own = [a for i in body.index for a in index_axes(i)]
    inside = [i for i in body.index if set(index_axes(i)) & set(node.axes)]
    whole_axes = all(isinstance(a, str) for i in inside for a in (i.axes if isinstance(i, Merged) else (i,)))
    if not whole_axes or any(own.count(a) != 1 for a in node.axes) or printer.layouts[body.name].count(None):
        return None
    known = {a: int(n) for a, n in zip(node.axes, lengths, strict=True)}
    places = (dict(zip(node.axes, at, strict=True)) for at in product(*map(range, known.values())))
    first, *rest = (replace(body, index=tuple(_at(i, at, known) for i in body.index)) for at in places)
    whole: Node = first
    for read in rest:
        whole = Call("add", (whole, read))
    return whole if node.kind == "sum" else Call("div", (whole, Num(Fraction(prod(known.values())))))


def sum_of_few(printer: Printer, node: Reduce, body: Value, keepdim: bool) -> Value | None:
    """The sum over a last dimension of a few places; None of more, of whole numbers, or along another dimension."""
    dims = [d for d in body.dims if d is not None]
    if len(dims) < 2 or node.kind not in ("sum", "mean") or node.axes != body.dims[-1:]:
        return None
    length = printer.known(dims[-1])
    if length is None or not 1 < length <= _FEW or not printer.dtypes.is_real(node.body) or body.boolean:
        return None
    kept: Dims = (None,) if keepdim else ()
    total = call("sum_of_few", body, keepdim=True if keepdim else None)
    return Value(total if node.kind == "sum" else infix("/", total, length), (*body.dims[:-1], *kept))


def _at(index: Index, places: dict[str, int], lengths: dict[str, int]) -> Index:
    """An index with a place in the place of each of these axes: of two merged axes, every so-manieth or a stretch."""
    if isinstance(index, Merged):
        slow, fast, *more = map(str, index.axes)
        if not more and fast in places and slow not in places:
            return Window(((slow, lengths[fast]),), Num(Fraction(places[fast])))
        if not more and slow in places and fast not in places:
            return Window(((fast, 1),), _times(places[slow], SizeOf(fast)))
        return Merged(tuple(Place(_at(a, places, lengths), SizeOf(str(a))) if a in places else a for a in index.axes))
    return Window((), Num(Fraction(places[index]))) if isinstance(index, str) and index in places else index


def _times(number: int, length: Node) -> Node:
    return length if number == 1 else Call("mul", (Num(Fraction(number)), length)) if number else ZERO
