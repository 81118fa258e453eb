"""Choices made for a whole row before the row: a line of their own, so that what reads them stays one operation."""

from __future__ import annotations

from dataclasses import replace

from derive.ir.nodes.naming import name_of
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import axes_along, node_axes, reads
from derive.ir.program import Assign, Call, Node, Program, Read, Reduce, Scatter, Statement, base
from derive.ir.terms.names import free_name


def choices_first(program: Program) -> Program:
    """The same program with a name for every choice over some of its statement's axes, inside a longer expression.

    One that has a name already, in this statement or behind it, keeps that.
    """
    taken = program.names
    changed = {n for s in program.statements if isinstance(s, Scatter) for n in (s.name, s.onto)}
    lasting = (s for s in program.statements if isinstance(s, Assign) and not {s.name, *reads(s.value)} & changed)
    whole = {s.value: s for s in reversed(list(lasting))}
    out: dict[int | str, Statement] = {}
    for k, s in enumerate(program.statements):
        if isinstance(s, Assign) and isinstance(s.value, Call):
            for choice in dict.fromkeys(_small(s.value, {base(a) for a in axes_along(s.axes)})):
                axes = tuple(dict.fromkeys(a for a in axes_along(s.axes) if a in node_axes(choice)))
                own = whole.get(choice)
                if own is None or set(own.axes) != set(axes):
                    own = Assign(free_name(name_of(choice, taken), taken, "_"), axes, choice)
                    taken.add(own.name)
                    if not reads(choice) & changed:
                        whole.setdefault(choice, own)
                out.setdefault(own.name, own)
                s = replace(s, value=put(s.value, choice, Read(own.name, own.axes)))
        out.setdefault(k if isinstance(s, Scatter) else s.name, s)
    statements = tuple(out.values())
    return program if statements == program.statements else check(replace(program, statements=statements))


def _small(node: Node, axes: set[str]) -> list[Node]:
    """The largest choices below a node that read tensors over fewer axes than these, and over one at least."""
    if isinstance(node, Reduce) or not isinstance(node, Call):
        return []
    own = {base(a) for a in node_axes(node)}
    if node.fn == "where" and reads(node):
        return [node] if own and own < axes else []
    return [found for a in node.args for found in _small(a, axes)]
