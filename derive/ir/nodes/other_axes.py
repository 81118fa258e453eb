"""Nodes under other axes: a value where another index reads it, copies of axes as those themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from types import MappingProxyType
from typing import Any

from derive.ir.nodes.arithmetic import ONE, ZERO, multiplied, summed
from derive.ir.nodes.walking import axes_along, index_axes, kept, node_axes, rebuilt, top_down, walk
from derive.ir.program import (
    Arithmetic,
    Assign,
    AxisValue,
    Call,
    Index,
    Join,
    Merged,
    Node,
    Num,
    PartOf,
    Place,
    Read,
    Reduce,
    Scal,
    Scatter,
    SizeOf,
    Statement,
    Window,
    base,
)

Renaming = Mapping[str, Index]
"""Axes, each with the index that is put in its place."""

_PLAIN = Read | Call | Num | Scal | SizeOf | Merged | PartOf | str


@kept
def plain(n: Node | Index) -> bool:
    """Whether the axes of a node may have other names: none is bound in it, and none stands in a window."""
    return all(isinstance(m, _PLAIN) for m in walk(n))


def plain_by_axes(n: Node) -> bool:
    """Whether the axes of a node may be other axes: it may ask for their places as well, `i < j`."""
    return all(isinstance(m, AxisValue | _PLAIN) for m in walk(n))


def plain_but_windows(n: Node) -> bool:
    """Whether the axes of a node may be other axes, windows' too: `x[u + k]` is `x[u + j]`."""
    return all(isinstance(m, Window | _PLAIN) for m in walk(n))


def value_at(made: Assign, index: Sequence[Index]) -> Node:
    """The plain value of a statement as a read at this index has it."""
    return with_axes(made.value, dict(zip(axes_along(made.axes), index, strict=True)))


def uncopied(node: Node) -> Node | None:
    """What is made of places alone with axes for their copies in sums, `k` for `k'`; None where it has two of one."""
    axes = node_axes(node)
    if len({base(a) for a in axes}) < len(axes):
        return None
    return top_down(node, lambda n: AxisValue(base(n.axis)) if isinstance(n, AxisValue) else None)


def with_axes(n: Node | Index, names: Renaming, sizes: Mapping[str, str] = MappingProxyType({})) -> Any:
    """A node or index with other indices for its axes, those bound in it among them; lengths stay, but for `sizes`."""
    within = partial(with_axes, names=names, sizes=sizes)
    if isinstance(n, str):
        return names.get(n, n)
    if isinstance(n, AxisValue):
        return place(within(n.axis))
    if isinstance(n, SizeOf):
        return SizeOf(sizes.get(n.axis, n.axis))
    if isinstance(n, Read):
        return replace(n, index=tuple(map(within, n.index)))
    if isinstance(n, Merged):
        inner = map(within, n.axes)
        return Merged(tuple(j for i in inner for j in (i.axes if isinstance(i, Merged) else (i,))))
    if isinstance(n, Place):
        return Place(within(n.index), within(n.length))
    if isinstance(n, PartOf):
        whole, lengths = within(n.whole), tuple(map(within, n.lengths))
        fits = isinstance(whole, Merged) and len(whole.axes) == len(lengths)
        return whole.axes[n.position] if fits else PartOf(whole, n.position, lengths)
    if isinstance(n, Window | Arithmetic):
        steps = tuple((within(i), step) for i, step in n.steps)
        kind = Window if all(isinstance(i, str) for i, _ in steps) else Arithmetic
        return kind(steps, within(n.offset))
    if isinstance(n, Reduce):
        return Reduce(n.kind, axes_along(map(within, n.axes)), within(n.body))
    if isinstance(n, Join):
        return Join(within(n.axis), tuple(map(within, n.parts)), tuple(own and within(own) for own in n.own))
    return rebuilt(n, within)


def without_axis(s: Statement, axis: str) -> Statement:
    """A statement of one place of an axis, which each tensor that has it is read at: without the axis."""

    def at_place(n: Node) -> Node:
        return replace(n, index=_others(n.index, axis)) if isinstance(n, Read) else rebuilt(n, at_place)

    made = replace(s, axes=_others(s.axes, axis), value=at_place(s.value))
    return replace(made, slots=_others(s.slots, axis)) if isinstance(made, Scatter) else made


def _others(index: Sequence[Index], axis: str) -> Any:
    return tuple(i for i in index if i != axis)


def place(i: Index) -> Node:
    """The place that an index is, as a number."""
    if isinstance(i, str):
        return AxisValue(i)
    if isinstance(i, Place):
        return place(i.index)
    if isinstance(i, Merged):
        return reduce(_slower, i.axes[1:], place(i.axes[0]))
    if isinstance(i, PartOf):
        inner = i.lengths[i.position + 1 :]
        whole = Call("floordiv", (place(i.whole), multiplied(list(inner)))) if inner else place(i.whole)
        return Call("mod", (whole, i.lengths[i.position])) if i.position else whole
    if isinstance(i, Window | Arithmetic):
        steps = [(_times(place(j), Num(Fraction(abs(step)))), step < 0) for j, step in i.steps]
        return summed([*steps, (i.offset, False)] if i.offset != ZERO or not steps else steps)
    return i


def length(i: Index) -> Node:
    """How many places an axis has, or several merged."""
    if isinstance(i, Merged):
        return multiplied([length(a) for a in i.axes])
    return i.length if isinstance(i, Place) else SizeOf(index_axes(i)[0])


def _slower(count: Node, inner: Index) -> Node:
    """What a merge counts up to one of its indices, the next one's length at a time."""
    whole = _times(count, length(inner))
    return place(inner) if whole == ZERO else whole if place(inner) == ZERO else Call("add", (whole, place(inner)))


def _times(count: Node, number: Node) -> Node:
    return ZERO if ZERO in (count, number) else count if number == ONE else Call("mul", (number, count))
