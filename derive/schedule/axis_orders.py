"""An inner tensor has its axes in the order in which those who read it have theirs: nothing is transposed twice.

A product of matrices may be made either way round, `P @ dz.T` or `dz @ P.T`; what it is multiplied with elementwise
tells which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import replace

from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import axes_along, by_axes_once, children, node_axes, places, reads, top_down, walk
from derive.ir.program import Assign, Index, Merged, Node, Program, Read, Reduce, Statement, Window, base

Order = tuple[int, ...]
"""Which axis of a tensor comes first, second, and so on."""


def in_order(program: Program, written: Container[str]) -> Program:
    """The program with the axes of its inner tensors as what they are made of has them, or else as their readers do.

    Those that are `written` have the order of the spec.
    """
    fixed = {*program.returns, *program.added_to, *places(program)}
    for name in [s.name for s in program.statements if s.name not in fixed and s.name not in written]:
        made = next(s for s in program.statements if s.name == name)
        order = _order(made, program.statements) if isinstance(made, Assign) else None
        if order is not None:
            program = replace(program, statements=tuple(_turned(s, name, order) for s in program.statements))
    return check(program)


def _order(made: Assign, statements: tuple[Statement, ...]) -> Order | None:
    """The order in which a tensor is better made; None where it is as it should be."""
    axes = tuple(a for a in made.axes if isinstance(a, str))
    if len(axes) < 2 or len(axes) < len(made.axes):
        return None
    own = [n for n in walk(made.value) if isinstance(n, Read) and set(axes) <= set(node_axes(n))]
    if any(isinstance(i, Window) and len({a for a, _ in i.steps} & set(axes)) > 1 for n in own for i in n.index):
        return None  # the places of a window before its taps, wherever the window stands
    if own:
        wanted = Counter(_order_of(_fastest(n), axes) for n in own)
    else:
        found = (_order_of(o, r.index) for s in statements for r, o in _met(s, made.name) if by_axes_once(r))
        wanted = Counter(found)
    as_it_is = tuple(range(len(axes)))
    best = max(wanted, key=lambda o: wanted[o], default=as_it_is)
    return best if wanted[best] > wanted[as_it_is] else None


def _fastest(read: Read) -> tuple[Index, ...]:
    """The axes of a read, one that is read in parts where the last of them stands: it moves fastest.

    A part that shares a dimension with others moves as these do.
    """
    if any(isinstance(i, Merged) for i in read.index):
        return node_axes(read)
    found = [a for i in read.index[::-1] for a in axes_along((i,))[::-1]]
    return tuple(dict.fromkeys(found))[::-1]


def _order_of(order: tuple[Index, ...], axes: tuple[Index, ...]) -> Order:
    """Where each of these axes stands, in the order that others have; `...` first."""
    there = [axes.index(a) for a in order if a in axes]
    return tuple(sorted(dict.fromkeys(there), key=lambda k: base(str(axes[k])) != "..."))


def _met(s: Statement, name: str) -> Iterator[tuple[Read, tuple[Index, ...]]]:
    """Each read of a tensor, with the order of axes of a tensor that it meets there, or of what is computed."""
    if name not in reads(s.value):
        return
    for inside, scope in _scopes(s.value, False):
        here = [n for n in scope if isinstance(n, Read)]
        beside = [n.index for n in here if n.name != name and by_axes_once(n)]
        beside += [] if inside else [s.slots]
        for read in (n for n in here if n.name == name):
            order = next((o for o in beside if set(read.index) <= set(o)), None)
            if order is not None:
                yield read, order


def _scopes(node: Node, inside: bool) -> Iterator[tuple[bool, list[Node | Index]]]:
    """What is computed elementwise together: all outside of sums, and each sum's own; whether that is in a sum."""
    found: list[Node | Index] = []
    sums: list[Reduce] = []

    def gather(n: Node | Index) -> None:
        if isinstance(n, Reduce):
            sums.append(n)
            return
        found.append(n)
        for child in children(n):
            gather(child)

    gather(node)
    yield inside, found
    for n in sums:
        yield from _scopes(n.body, True)


def _turned(s: Statement, name: str, order: Order) -> Statement:
    """The statement with the axes of one tensor in another order, where it is made and where it is read."""

    def turned(n: Node) -> Node | None:
        return Read(name, tuple(n.index[k] for k in order)) if isinstance(n, Read) and n.name == name else None

    s = replace(s, value=top_down(s.value, turned))
    return replace(s, axes=tuple(s.axes[k] for k in order)) if isinstance(s, Assign) and s.name == name else s
