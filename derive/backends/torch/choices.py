"""Choices made for a whole row before the row: a line of their own, so that what reads them stays one operation."""

from __future__ import annotations

from dataclasses import replace

from derive.nodes.naming import free_name, name_of
from derive.nodes.soundness import check
from derive.nodes.walking import axes_along, node_axes, reads
from derive.passes.share import put
from derive.program import Assign, Call, Node, Program, Read, Reduce, Statement, base


def choices_first(program: Program) -> Program:
    """The same program with a name for every choice over some of its statement's axes, inside a longer expression."""
    taken = program.names
    out: list[Statement] = []
    for s in program.statements:
        if isinstance(s, Assign) and isinstance(s.value, Call):
            for choice in dict.fromkeys(_small(s.value, {base(a) for a in axes_along(s.axes)})):
                name = free_name(name_of(choice, taken), taken, "_")
                taken.add(name)
                axes = tuple(dict.fromkeys(a for a in axes_along(s.axes) if a in node_axes(choice)))
                out.append(Assign(name, axes, choice))
                s = replace(s, value=put(s.value, choice, Read(name, axes)))
        out.append(s)
    return program if len(out) == len(program.statements) else check(replace(program, statements=tuple(out)))


def _small(node: Node, axes: set[str]) -> list[Node]:
    """The largest choices below a node that read tensors over fewer axes than these, and over one at least."""
    if isinstance(node, Reduce) or not isinstance(node, Call):
        return []
    own = {base(a) for a in node_axes(node)}
    if node.fn == "where" and reads(node):
        return [node] if own and own < axes else []
    return [found for a in node.args for found in _small(a, axes)]
