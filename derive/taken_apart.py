"""A tensor that is computed at the parts of an axis is computed over the parts, and merged.

`xh[n, c] = r[n, part(c, 0)] * z[n, part(c, 0), part(c, 1)]` would gather `r` for every c; it is
`xh[n, (g, k)] = r[n, g] * z[n, g, k]`, which broadcasts.
"""

from __future__ import annotations

from dataclasses import replace

from derive.program import Assign, Call, Index, Merged, Node, PartOf, Program, Read, Reduce, SizeOf, Statement
from derive.soundness import check
from derive.walking import node_axes, walk


def over_parts(program: Program) -> Program:
    """The same program, with such statements over the parts of their axes."""
    return check(replace(program, statements=tuple(_over_parts(s) for s in program.statements)))


def _over_parts(s: Statement) -> Statement:
    if not isinstance(s, Assign) or not isinstance(s.value, Call):
        return s
    for axis in [a for a in s.axes if isinstance(a, str)]:
        names = _parts(s.value, axis)
        taken = {*s.axes, *node_axes(s.value), *(a for n in walk(s.value) if isinstance(n, Reduce) for a in n.axes)}
        if not names or taken & set(names):
            continue
        value = _read_at(s.value, axis, names)
        if axis not in node_axes(value) and not any(isinstance(n, SizeOf) and n.axis == axis for n in walk(value)):
            merged = Merged(names)
            s = replace(s, axes=tuple(merged if a == axis else a for a in s.axes), value=value)
    return s


def _parts(value: Node, axis: str) -> tuple[str, ...]:
    """The axes that an axis is taken apart into, everywhere alike; none where it is not."""
    found = {n.lengths for n in walk(value) if isinstance(n, PartOf) and n.whole == axis}
    if len(found) != 1:
        return ()
    names = tuple(x.axis for x in found.pop() if isinstance(x, SizeOf))
    lengths = next(n.lengths for n in walk(value) if isinstance(n, PartOf) and n.whole == axis)
    return names if len(set(names)) == len(lengths) else ()


def _read_at(node: Node, axis: str, names: tuple[str, ...]) -> Node:
    def index(i: Index) -> Index:
        if isinstance(i, PartOf) and i.whole == axis:
            return names[i.position]
        if isinstance(i, Read):
            return replace(i, index=tuple(map(index, i.index)))
        return i

    if isinstance(node, Read):
        return replace(node, index=tuple(map(index, node.index)))
    if isinstance(node, Call):
        return replace(node, args=tuple(_read_at(a, axis, names) for a in node.args))
    return replace(node, body=_read_at(node.body, axis, names)) if isinstance(node, Reduce) else node
