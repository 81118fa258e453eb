"""Merged axes taken apart: where a program reads one dimension both as `c` and as `(g, k)`, it loops over g and k.

What the layout in memory makes one dimension, loops may run over by its parts; statements that name the dimension
differently can then share a loop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from derive.ir.nodes.walking import axes_along, index_axes, node_axes, rebuilt, walk
from derive.ir.program import (
    AxisValue,
    Call,
    Index,
    Join,
    Merged,
    Node,
    PartOf,
    Program,
    Read,
    Reduce,
    Scan,
    Scatter,
    SizeOf,
    Statement,
    Window,
    base,
)

Parts = dict[str, tuple[str, ...]]


def split_merged(program: Program, fixed: Mapping[str, int]) -> Program:
    """The same program with axes that are read as merges of others replaced by those others.

    A part whose length is a number is an axis of that length where it is merged anew: `fixed` says which there are.
    """
    parts = _known(program)
    return replace(program, statements=tuple(_split(s, parts, fixed) for s in program.statements))


def taken_apart(program: Program) -> Parts:
    """What the length of an axis is made of, axes and whole numbers: a merge says so, or a read that takes it apart."""
    found = {axis: min(ways) for axis, ways in _ways(program).items()}  # as long in any of them
    for s in program.statements:
        for n in walk(s.value):
            if isinstance(n, PartOf) and isinstance(n.whole, str):
                lengths = [base(x.axis) if isinstance(x, SizeOf) else str(x) for x in n.lengths]
                if all(isinstance(x, SizeOf) or str(x).isdecimal() for x in n.lengths):
                    found.setdefault(base(n.whole), tuple(lengths))
    return found


def _lengths(part: PartOf, fixed: Mapping[str, int], taken: Collection[str]) -> tuple[str, ...]:
    """The axes that have the lengths of all parts, or none; of `fixed` ones such that are not taken, if there are."""
    names: list[str] = []
    for x in part.lengths:
        alike = [a for a, n in fixed.items() if str(x) == str(n)]
        free = [a for a in alike if a not in (*taken, *names)]
        names += [base(x.axis)] if isinstance(x, SizeOf) else (free or alike)[:1]
    return tuple(names) if len(names) == len(part.lengths) else ()


def _known(program: Program) -> Parts:
    """Which axes are merges of which, those that are so in one way."""
    return {axis: next(iter(ways)) for axis, ways in _ways(program).items() if len(ways) == 1}


def _ways(program: Program) -> dict[str, set[tuple[str, ...]]]:
    """Which axes are merges of which: a dimension read under both names says so."""
    dims: dict[str, tuple[Index, ...]] = dict(program.given)
    found: dict[str, set[tuple[str, ...]]] = {}
    for s in program.statements:
        nodes = [*walk(s.value), *(n for i in s.slots for n in walk(i))]
        for read in (n for n in nodes if isinstance(n, Read)):
            for dim, index in zip(dims[read.name], read.index, strict=True):
                for one, other in ((dim, index), (index, dim)):
                    whole = isinstance(other, Merged) and all(isinstance(a, str) for a in other.axes)
                    if isinstance(one, str) and whole and "..." not in base(one):
                        found.setdefault(base(one), set()).add(tuple(base(a) for a in index_axes(other)))
        dims[s.name] = s.axes
    return {axis: ways for axis, ways in found.items() if all(axis not in way for way in ways)}


def _split(s: Statement, parts: Parts, fixed: Mapping[str, int]) -> Statement:
    own = _of_statement(s, parts, fixed)
    if not own:
        return s
    value = _node(s.value, own)
    if isinstance(s, Scatter):
        return replace(s, slots=tuple(_index(i, own) for i in s.slots), value=value)
    return replace(s, axes=tuple(_index(i, own) for i in s.axes), value=value)


def _index(i: Index, own: Parts) -> Index:
    """An index by the parts of the axes that split."""
    if isinstance(i, str) and i in own:
        return Merged(own[i])
    if isinstance(i, Merged):
        return Merged(tuple(x for a in i.axes for x in _flat(_index(a, own))))
    if isinstance(i, PartOf):
        whole = _index(i.whole, own)
        if isinstance(whole, Merged) and len(whole.axes) == len(i.lengths):
            return whole.axes[i.position]
        return replace(i, whole=whole)
    if isinstance(i, Read):
        return replace(i, index=tuple(_index(k, own) for k in i.index))
    return i


def _node(n: Node, own: Parts) -> Node:
    """A node by the parts of the axes that split."""
    if isinstance(n, Read):
        return replace(n, index=tuple(_index(i, own) for i in n.index))
    if isinstance(n, AxisValue) and n.axis in own:
        return _place(own[n.axis])
    n = rebuilt(n, lambda part: _node(part, own))
    return replace(n, axes=tuple(x for a in n.axes for x in own.get(a, (a,)))) if isinstance(n, Reduce) else n


def _place(axes: tuple[str, ...]) -> Node:
    """The place on a merged axis by those on its parts, the first of them slowest."""
    first, *rest = axes
    value: Node = AxisValue(first)
    for a in rest:
        value = Call("add", (Call("mul", (value, SizeOf(a))), AxisValue(a)))
    return value


def _flat(i: Index) -> tuple[Index, ...]:
    return i.axes if isinstance(i, Merged) else (i,)


def _of_statement(s: Statement, parts: Parts, given: Mapping[str, int]) -> Parts:
    """The axes of one statement that split, and into what; a part that the statement has already gets a copy."""
    nodes = [*walk(s.value), *(n for i in (*s.axes, *s.slots) for n in walk(i))]
    tops: list[Index] = [*s.axes, *s.slots]
    axes = {*axes_along(tops), *_all_axes(s.value)}
    fixed = {a for n in nodes if isinstance(n, Window) for a in index_axes(n)}
    fixed |= {a for n in nodes if isinstance(n, Join) for a in (n.axis, *n.own)}
    fixed |= {a for n in nodes if isinstance(n, Scan) for a in (n.to, n.over)}
    fixed |= set(s.axes if isinstance(s, Scatter) else ())
    here = {a: parts[base(a)] for a in axes if base(a) in parts and a not in fixed}
    merged = {i.whole for n in nodes if isinstance(n, Merged) for i in n.axes if isinstance(i, PartOf)}
    for n in nodes:
        if isinstance(n, PartOf) and isinstance(n.whole, str) and n.whole not in fixed | set(here):
            lengths = _lengths(n, given if n.whole in merged else {}, {p for own in here.values() for p in own})
            if lengths:
                here[n.whole] = lengths
    taken = (axes | fixed) - set(here)
    out: Parts = {}
    for axis in sorted(here):
        own = tuple(p if p not in taken else f"{p}'{base(axis)}" for p in here[axis])
        out[axis] = own
        taken |= set(own)
    return out


def _all_axes(node: Node) -> tuple[str, ...]:
    bound = tuple(a for n in walk(node) if isinstance(n, Reduce) for a in n.axes)
    return (*node_axes(node), *bound)
