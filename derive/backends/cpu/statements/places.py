"""Indices that are themselves computed: integers filled in before the loops, checked, and read like an input's.

`z[n, r[n]]` with `r[n] = where(y[n] != ignore_index, y[n], 0)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from derive.backends.cpu.statements.normal import Unsupported
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import places, walk
from derive.ir.program import Assign, Node, Program, Read


@dataclass(frozen=True)
class Places:
    """One integer tensor that the function computes, in terms of its integer inputs."""

    name: str
    axes: tuple[str, ...]
    value: Node
    note: str


def with_places(program: Program, integers: frozenset[str]) -> tuple[Program, tuple[Places, ...]]:
    """The program with computed indices as if they were given, and these. Raises Unsupported for what is no integer."""
    made = {s.name: s for s in program.statements if isinstance(s, Assign)}
    found: dict[str, Places] = {}
    for name in sorted(places(program) - integers):
        s = made.get(name)
        if s is None or name in program.returns or not all(isinstance(a, str) for a in s.axes):
            raise Unsupported(f"an index by {name}, which is no integer input")
        axes = tuple(str(a) for a in s.axes)
        found[name] = Places(name, axes, _in_inputs(s.value, made, integers), str(s))
    given = (*program.given, *((p.name, p.axes) for p in found.values()))
    statements = tuple(s for s in program.statements if s.name not in found)
    return replace(program, given=given, statements=statements), tuple(found.values())


def _in_inputs(value: Node, made: Mapping[str, Assign], integers: frozenset[str]) -> Node:
    """A value in terms of integer inputs alone. Raises Unsupported where it has others."""
    while others := [n for n in walk(value) if isinstance(n, Read) and n.name not in integers]:
        s = made.get(others[0].name)
        if s is None or s.axes != others[0].index:
            raise Unsupported(f"an index that is computed of {others[0].name}")
        value = put(value, others[0], s.value)
    return value
