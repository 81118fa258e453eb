"""What reads some parts of an axis is computed over the parts, and merged: the rest is a view, nothing is gathered.

`u[n, c] = r[n, part(c, 0)] * x[n, c]` would read `r` at `c // size(k)`; `u[n, (h, k)] = r[n, h] * x[n, (h, k)]` is a
broadcast between two views. What is added up, as in the adjoint of a convolution in groups, is added over the parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from derive.ir.nodes.other_axes import with_axes
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import axes_along, node_axes, top_down, walk
from derive.ir.program import (
    Assign,
    Call,
    Index,
    Merged,
    Node,
    Num,
    PartOf,
    Program,
    Read,
    Reduce,
    Scal,
    Scatter,
    SizeOf,
)
from derive.ir.terms.names import free_name


def over_parts(program: Program) -> Program:
    """The same program, with such statements over the parts of their axes."""
    once = program.assigned
    statements = (_over_parts(once[s.name]) if s.name in once else s for s in program.statements)
    program = replace(program, statements=tuple(statements))
    for name in dict.fromkeys(s.name for s in program.statements if isinstance(s, Scatter)):
        program = _added_over_parts(program, name)
    return check(program)


def _added_over_parts(program: Program, name: str) -> Program:
    """The program with a tensor that scatters alone make made over the parts of its axes, and merged thereafter."""
    own = [s for s in program.statements if s.name == name]
    scatters = [s for s in own if isinstance(s, Scatter) and s.kind == "sum"]
    if len(scatters) < len(own):
        return program
    found = [(axis, _added_parts(scatters, axis)) for axis in scatters[0].axes]
    axis, parts = next((f for f in found if f[1]), ("", ()))
    if not parts:
        return program
    made, apart = free_name(f"{name}_apart", program.names, "_"), _apart(scatters[0].axes, axis, parts)

    def over(s: Scatter) -> Scatter:
        slots, value = _apart(s.slots, axis, parts), _by_parts(s.value, axis, parts)
        return replace(s, name=made, axes=apart, slots=slots, value=value, onto=s.onto and made)

    statements = [over(s) if isinstance(s, Scatter) and s.name == name else s for s in program.statements]
    last = max(k for k, s in enumerate(program.statements) if s.name == name)
    merged = Assign(name, _merged(scatters[0].axes, axis, parts), Read(made, apart))
    return replace(program, statements=(*statements[: last + 1], merged, *statements[last + 1 :]))


def _apart(index: tuple[Index, ...], axis: str, parts: tuple[str, ...]) -> tuple[Any, ...]:
    """Indices with the parts of an axis in its place, a dimension each."""
    return tuple(p for i in index for p in (parts if i == axis else (i,)))


def _merged(index: tuple[Index, ...], axis: str, parts: tuple[str, ...]) -> tuple[Index, ...]:
    """Indices with the parts of an axis in its place, merged into its dimension."""
    return tuple(Merged(parts) if i == axis else i for i in index)


def _added_parts(scatters: list[Scatter], axis: str) -> tuple[str, ...]:
    """Names for the parts of an axis along which all scatters add what they read at its own places; else none."""
    position = scatters[0].axes.index(axis)
    if any(s.slots[position] != axis for s in scatters):
        return ()
    if not all(isinstance(n, _KNOWN | Reduce) for s in scatters for n in walk(s.value)):
        return ()
    parts = {p for s in scatters if (p := _partly_read(s, axis))}
    taken = {a for s in scatters for n in walk(s.value) if isinstance(n, Reduce) for a in n.axes}
    return parts.pop() if len(parts) == 1 and not taken & set().union(*parts) else ()


_KNOWN = Read | Call | Num | Scal | SizeOf | PartOf | Merged | str
"""What the reads of a value may stand in."""


def _over_parts(s: Assign) -> Assign:
    """The statement over the parts of every axis that its reads take apart, and merged."""
    if not all(isinstance(n, _KNOWN) for n in walk(s.value)):
        return s
    for axis in s.axes:
        parts = _partly_read(s, axis) if isinstance(axis, str) else ()
        if parts:
            axis = str(axis)
            s = replace(s, axes=_merged(s.axes, axis, parts), value=_by_parts(s.value, axis, parts))
    return s


def _partly_read(s: Assign | Scatter, axis: str) -> tuple[str, ...]:
    """Names for the parts of an axis that some read takes apart without reading all of them; else none."""
    indices = [index for n in _reads(s) for index in (n.index, *(i.axes for i in n.index if isinstance(i, Merged)))]
    runs = [[i for i in index if isinstance(i, PartOf) and i.whole == axis] for index in indices]
    lengths = {i.lengths for run in runs for i in run}
    own = lengths.pop() if len(lengths) == 1 else ()
    names = tuple(size.axis for size in own if isinstance(size, SizeOf))  # a part is called by whose length it has
    partly = any(run and {i.position for i in run} != set(range(len(own))) for run in runs)
    taken = {*node_axes(s.value), *axes_along(s.axes), "..."}
    return names if partly and len(set(names)) == len(own) and not taken & set(names) else ()


def _reads(s: Assign | Scatter) -> list[Read]:
    return [n for n in walk(s.value) if isinstance(n, Read)]


def _by_parts(node: Node, axis: str, parts: tuple[str, ...]) -> Node:
    """The node with the parts of an axis under their own names, and the axis as these merged."""
    return top_down(node, lambda n: with_axes(n, {axis: Merged(parts)}) if isinstance(n, Read) else None)
