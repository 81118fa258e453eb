"""Nodes under other axes: a value where another index reads it, copies of axes as those themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from derive.ir.nodes.walking import axes_along, kept, node_axes, top_down, walk
from derive.ir.program import (
    Assign,
    AxisValue,
    Call,
    Index,
    Merged,
    Node,
    Num,
    PartOf,
    Read,
    Scal,
    SizeOf,
    Window,
    base,
)

Renaming = Mapping[str, Index]
"""Axes, each with the index that is put in its place."""

_N = TypeVar("_N", Node, Read)
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


def with_axes(node: _N, names: Renaming) -> _N:
    """A plain node with other indices for its axes; with other axes, whose places it may ask for."""
    if isinstance(node, AxisValue):
        place = names.get(node.axis, node.axis)
        assert isinstance(place, str), place
        return AxisValue(place)  # type: ignore[return-value]
    if isinstance(node, Read):
        return replace(node, index=tuple(_index(i, names) for i in node.index))
    return replace(node, args=tuple(with_axes(a, names) for a in node.args)) if isinstance(node, Call) else node


def _index(index: Index, names: Renaming) -> Index:
    if isinstance(index, str):
        return names.get(index, index)
    if isinstance(index, Merged):
        inner = [_index(i, names) for i in index.axes]
        return Merged(tuple(j for i in inner for j in (i.axes if isinstance(i, Merged) else (i,))))
    if isinstance(index, PartOf):
        whole = _index(index.whole, names)
        fits = isinstance(whole, Merged) and len(whole.axes) == len(index.lengths)
        return whole.axes[index.position] if fits and isinstance(whole, Merged) else replace(index, whole=whole)
    if isinstance(index, Window):
        steps = tuple((_index(a, names), step) for a, step in index.steps)
        assert all(isinstance(a, str) for a, _ in steps), steps
        return replace(index, steps=steps)  # type: ignore[arg-type]
    return with_axes(index, names) if isinstance(index, Read) else index


def uncopied(node: Node) -> Node | None:
    """What is made of places alone with axes for their copies in sums, `k` for `k'`; None where it has two of one."""
    axes = node_axes(node)
    if len({base(a) for a in axes}) < len(axes):
        return None
    return top_down(node, lambda n: AxisValue(base(n.axis)) if isinstance(n, AxisValue) else None)
