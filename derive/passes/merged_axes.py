"""What reads some parts of an axis is computed over the parts, and merged: the rest is a view, nothing is gathered.

`u[n, c] = r[n, part(c, 0)] * x[n, c]` would read `r` at `c // size(k)`; `u[n, (h, k)] = r[n, h] * x[n, (h, k)]` is a
broadcast between two views.
"""

from __future__ import annotations

from dataclasses import replace

from derive.program import Assign, Call, Index, Merged, Node, Num, PartOf, Program, Read, Scal, SizeOf
from derive.soundness import check
from derive.walking import axes_along, node_axes, walk


def over_parts(program: Program) -> Program:
    """The same program, with such statements over the parts of their axes."""
    once = program.assigned
    statements = (_over_parts(once[s.name]) if s.name in once else s for s in program.statements)
    return check(replace(program, statements=tuple(statements)))


def _over_parts(s: Assign) -> Assign:
    if not all(isinstance(n, Read | Call | Num | Scal | SizeOf | PartOf | str) for n in walk(s.value)):
        return s
    for axis in s.axes:
        parts = _partly_read(s, axis) if isinstance(axis, str) else ()
        if parts:
            merged = Merged(parts)
            s = replace(
                s,
                axes=tuple(merged if i == axis else i for i in s.axes),
                value=_put(s.value, str(axis), merged),
            )
    return s


def _partly_read(s: Assign, axis: str) -> tuple[str, ...]:
    """Names for the parts of an axis that some read takes apart without reading all of them; else none."""
    runs = [[i for i in n.index if isinstance(i, PartOf) and i.whole == axis] for n in _reads(s)]
    lengths = {i.lengths for run in runs for i in run}
    own = lengths.pop() if len(lengths) == 1 else ()
    names = tuple(size.axis for size in own if isinstance(size, SizeOf))
    partly = any(run and {i.position for i in run} != set(range(len(own))) for run in runs)
    taken = {*node_axes(s.value), *axes_along(s.axes), "..."}
    return names if partly and len(set(names)) == len(own) and not taken & set(names) else ()


def _reads(s: Assign) -> list[Read]:
    return [n for n in walk(s.value) if isinstance(n, Read)]


def _put(node: Node, axis: str, merged: Merged) -> Node:
    """The node with the parts of an axis under their own names, and the axis as these merged."""
    if isinstance(node, Read):
        return replace(node, index=tuple(_index(i, axis, merged) for i in node.index))
    return replace(node, args=tuple(_put(a, axis, merged) for a in node.args)) if isinstance(node, Call) else node


def _index(i: Index, axis: str, merged: Merged) -> Index:
    if isinstance(i, Read):  # a gather: where it gathers from
        return replace(i, index=tuple(_index(j, axis, merged) for j in i.index))
    if isinstance(i, PartOf) and i.whole == axis:
        return merged.axes[i.position]
    return merged if i == axis else i
