"""Axes taken from the other end: a sum of `w[k] * x[t - k + size(k) - 1]` is that of `w[size(k) - 1 - k] * x[t + k]`.

PyTorch has views and convolutions for windows that run forwards alone; a kernel with its taps turned is a `flip`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from sympy import Expr, expand

from derive.ir.lowering.lower import node as lowered
from derive.ir.lowering.raising import raised
from derive.ir.nodes.arithmetic import ONE, ZERO
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import index_axes, node_axes, rebuilt, walk
from derive.ir.program import (
    AxisValue,
    Call,
    Index,
    Node,
    Program,
    Read,
    Reduce,
    Scatter,
    SizeOf,
    Window,
    base,
)
from derive.ir.terms.axes import Axis, Size

Length = Callable[[str], Expr]


def own_length(axis: str) -> Expr:
    return Size(Axis(base(axis)))


def with_sums_forwards(program: Program, length: Length) -> Program:
    """The same program, where what is summed over runs forwards through every window, if it can.

    `length` says an axis's length, by the same name for axes that are equally long.
    """
    statements = []
    for s in program.statements:
        s = replace(s, value=_within(s.value, length))
        statements.append(_scattered(s, length) if isinstance(s, Scatter) else s)
    return check(replace(program, statements=tuple(statements)))


def _within(node: Node, length: Length) -> Node:
    node = rebuilt(node, lambda n: _within(n, length))
    if not isinstance(node, Reduce):
        return node
    turned = from_the_end(node.body, backwards(node.body) & set(node.axes), length)
    return node if turned is None else replace(node, body=turned)


def _scattered(s: Scatter, length: Length) -> Scatter:
    axes = {a for i in s.slots for a in _backwards(i)} - {i for i in s.slots if isinstance(i, str)}
    value = from_the_end(s.value, axes, length)
    slots = [_turned(i, axes, length) for i in s.slots]
    if value is None or None in slots or any(_backwards(i) for i in slots):
        return s
    return replace(s, value=value, slots=tuple(slots))  # type: ignore[arg-type]


def backwards(node: Node) -> set[str]:
    """The axes that run backwards through windows of several axes."""
    return {a for n in walk(node) if isinstance(n, Read) for i in n.index for a in _backwards(i)}


def _backwards(i: Index | None) -> set[str]:
    return {a for a, step in i.steps if step < 0} if isinstance(i, Window) and len(i.steps) > 1 else set()


def from_the_end(node: Node, axes: Collection[str], length: Length = own_length) -> Node | None:
    """The node at the opposite place of each of these axes.

    None where some index knows no such place, or some window of several axes still runs backwards along one of them.
    """
    turned = _at(node, axes, length) if axes else None
    return None if turned is None or backwards(turned) & set(axes) else turned


def forwards(window: Window, dim: object) -> tuple[Window | str, tuple[str, ...]]:
    """A window over a dimension whose axes all run forwards, and those that are to be flipped for it; itself where none
    can be. An axis alone is a window too over a dimension that may be longer.
    """
    axes = tuple(a for a, step in window.steps if step < 0)
    turned = _turned(window, axes, own_length)
    if isinstance(turned, str) and base(turned) != base(str(dim)):
        turned = Window(((turned, 1),), ZERO)
    return (window, ()) if not isinstance(turned, Window | str) else (turned, axes)


def _at(node: Node, axes: Collection[str], length: Length) -> Node | None:
    if not set(node_axes(node)) & set(axes):
        return node
    if isinstance(node, AxisValue):
        return Call("sub", (_last(node.axis), node))
    if isinstance(node, Read):
        index = [_turned(i, axes, length) for i in node.index]
        return None if None in index else replace(node, index=tuple(index))  # type: ignore[arg-type]
    if isinstance(node, Reduce):
        body = _at(node.body, [a for a in axes if a not in node.axes], length)
        return None if body is None else replace(node, body=body)
    if isinstance(node, Call):
        args = [_at(a, axes, length) for a in node.args]
        return None if None in args else replace(node, args=tuple(args))  # type: ignore[arg-type]
    return None


def _turned(i: Index, axes: Collection[str], length: Length) -> Index | None:
    if not set(index_axes(i)) & set(axes):
        return i
    steps, offset = ((i, 1),) if isinstance(i, str) else (i.steps if isinstance(i, Window) else ()), ZERO
    start = raised(i.offset if isinstance(i, Window) else offset, {}, _length)
    if not steps or start is None or any(a.startswith("...") for a, _ in steps):
        return None
    length = own_length if isinstance(i, str) else length  # a dimension goes by the axis that it is read with
    start += sum(step * (length(a) - 1) for a, step in steps if a in axes)
    moved = tuple((a, -step if a in axes else step) for a, step in steps)
    if expand(start) == 0 and len(moved) == 1 and moved[0][1] == 1:
        return moved[0][0]
    return Window(moved, lowered(expand(start)))


def _length(node: Node) -> Expr | None:
    return own_length(node.axis) if isinstance(node, SizeOf) else None


def _last(axis: str) -> Node:
    return Call("sub", (SizeOf(base(axis)), ONE))
