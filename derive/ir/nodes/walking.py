"""What stands in a node: what is below it, the tensors it reads, the axes it runs over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import wraps
from operator import is_
from typing import Any, TypeVar

from derive.ir.program import (
    Arithmetic,
    AxisValue,
    Call,
    Index,
    Join,
    Merged,
    Node,
    PartOf,
    Place,
    Program,
    Read,
    Reduce,
    Run,
    Scan,
    Shares,
    Statement,
    Window,
)

_BELOW: dict[type, Callable[[Any], tuple[Node | Index, ...]]] = {
    Call: lambda n: n.args,
    Run: lambda n: (n.body, n.same),
    Reduce: lambda n: (n.body,),
    Scan: lambda n: (n.body,),
    Shares: lambda n: (n.body,),
    Join: lambda n: n.parts,
    Read: lambda n: n.index,
    Merged: lambda n: n.axes,
    Place: lambda n: (n.index, n.length),
    PartOf: lambda n: (n.whole, *n.lengths),
    Window: lambda n: (n.offset,),
    Arithmetic: lambda n: (*(i for i, _ in n.steps), n.offset),
}

def children(node: Node | Index) -> tuple[Node | Index, ...]:
    """What a node is made of: its arguments, its body, its indices."""
    below = _BELOW.get(type(node))
    return below(node) if below is not None else ()


def walk(node: Node | Index) -> Iterator[Node | Index]:
    """The node and everything below it, each before what is below it."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(children(current)))


T = TypeVar("T")


def kept(fact: Callable[[Any], T]) -> Callable[[Any], T]:
    """A fact about a node that is found once, and stays with the node: passes ask it of deep sums over and over.

    Not with all that are equal: to see that two deep sums are takes as long as to find it anew.
    """

    @wraps(fact)
    def known(node: Node | Index) -> T:
        if not isinstance(node, Call):
            return fact(node)
        if fact not in node.facts:
            node.facts[fact] = fact(node)
        return node.facts[fact]

    return known


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with what it is made of changed: a call's arguments, what a sum is of, the parts of a concatenation.

    It is the very node where nothing changes, so that what is known of it stays known.
    """
    if isinstance(node, Call):
        args = tuple(map(change, node.args))
        return node if all(map(is_, args, node.args)) else Call(node.fn, args)
    if isinstance(node, Run):
        return replace(node, body=change(node.body), same=change(node.same))  # type: ignore[arg-type]
    if isinstance(node, Reduce | Scan | Shares):
        body = change(node.body)
        return node if body is node.body else replace(node, body=body)
    if isinstance(node, Join):
        parts = tuple(map(change, node.parts))
        return node if all(map(is_, parts, node.parts)) else replace(node, parts=parts)
    return node


def bottom_up(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with every node in it changed, inner ones first."""

    def within(n: Node) -> Node:
        return change(rebuilt(n, within))

    return within(node)


def top_down(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """The node with every node in it changed of which `change` makes another, whose parts are left as they are."""

    def within(n: Node) -> Node:
        changed = change(n)
        return rebuilt(n, within) if changed is None else changed

    return within(node)


def with_sums(program: Program, change: Callable[[Reduce], Node]) -> Program:
    """The program with every sum and mean in its values changed, inner ones first."""

    def changed(n: Node) -> Node:
        return change(n) if isinstance(n, Reduce) and n.kind in ("sum", "mean") else n

    return program.with_values(lambda value: bottom_up(value, changed))


@kept
def reads(node: Node | Index) -> frozenset[str]:
    """The names of the tensors a node reads."""
    if isinstance(node, Reduce):
        return reads(node.body)
    return frozenset(n.name for n in walk(node) if isinstance(n, Read))


def uses(name: str, statements: Iterable[Statement]) -> list[tuple[Statement, Read]]:
    """Every read of a tensor in the values of statements, with the statement that it stands in."""
    readers = (s for s in statements if name in reads(s.value))
    return [(s, n) for s in readers for n in walk(s.value) if isinstance(n, Read) and n.name == name]


def places(program: Program) -> set[str]:
    """The tensors that say where others are read or added to."""
    indices = [i for s in program.statements for n in walk(s.value) if isinstance(n, Read) for i in n.index]
    indices += [i for s in program.statements for i in s.slots]
    return {name for i in indices for name in reads(i)}


def by_axes(read: Read) -> bool:
    """Whether a tensor is read by axes alone: `mask[n, n]`, not `mask[n, t - 1]`."""
    return all(isinstance(i, str) for i in read.index)


def by_axes_once(read: Read) -> bool:
    """Whether every element is read in its own place: `mask[n, t]`, not `mask[n, n]`."""
    return by_axes(read) and len(set(read.index)) == len(read.index)


def index_axes(index: Index | Node) -> tuple[str, ...]:
    """The axes an index runs over, in order."""
    if isinstance(index, str):
        return (index,)
    if isinstance(index, Merged):
        return axes_along(index.axes)
    if isinstance(index, Place):
        return index_axes(index.index)
    if isinstance(index, PartOf):
        return index_axes(index.whole)
    if isinstance(index, Window):
        return tuple(a for a, _ in index.steps)
    if isinstance(index, Arithmetic):
        return tuple(dict.fromkeys(axes_along(i for i, _ in index.steps)))
    return node_axes(index)


def axes_along(indices: Iterable[Index]) -> tuple[str, ...]:
    """The axes that indices run over, in order, each as often as it stands there."""
    return tuple(a for i in indices for a in index_axes(i))


@kept
def node_axes(node: Node) -> tuple[str, ...]:
    """The free axes of a node, in order of first appearance."""
    if isinstance(node, AxisValue):
        return (node.axis,)
    if isinstance(node, Read):
        return tuple(dict.fromkeys(axes_along(node.index)))
    if isinstance(node, Call):
        found: dict[str, None] = {}
        pending: list[Node] = [node]  # calls are taken apart here: a sum of hundreds of terms is as deep
        while pending:
            current = pending.pop()
            if isinstance(current, Call):
                pending.extend(reversed(current.args))
            else:
                found.update(dict.fromkeys(node_axes(current)))
        return tuple(found)
    if isinstance(node, Reduce):
        return tuple(a for a in node_axes(node.body) if a not in node.axes)
    if isinstance(node, Shares):
        return node_axes(node.body)
    if isinstance(node, Scan):
        body = (node.to if a == node.over else a for a in node_axes(node.body))
        return tuple(dict.fromkeys((*body, *(node_axes(node.same) if isinstance(node, Run) else ()))))
    if isinstance(node, Join):
        parts = zip(node.parts, node.own, strict=True)
        runs = [
            [*([] if own else [node.axis]), *(node.axis if a == own else a for a in node_axes(p))] for p, own in parts
        ]
        return tuple(dict.fromkeys(a for run in runs for a in run))
    return ()
