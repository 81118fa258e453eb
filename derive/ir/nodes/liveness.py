"""Liveness: for which of a program's results each statement is computed, and each tensor that it is given read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.ir.nodes.walking import reads
from derive.ir.program import Program, Scatter

Results = frozenset[int]
"""Some of what a program returns, by number."""


@dataclass(frozen=True)
class Liveness:
    statements: tuple[Results, ...]
    tensors: Mapping[str, Results]  # the given ones among them


def liveness(program: Program) -> Liveness:
    """What each statement of a program, and each of its tensors, is live for.

    Statements of one name fill one tensor together, and are live alike.
    """
    live: dict[str, Results] = {name: frozenset() for name in program.names}
    for k, name in enumerate(program.returns):
        live[name] |= {k}
    for _ in range(len(program.carries) + 1):  # each turn reaches through one recurrence more
        for s in reversed(program.statements):
            read = {name for node in (s.value, *s.slots) for name in reads(node)}
            read |= {s.onto} if isinstance(s, Scatter) and s.onto else set()
            for name in read:
                live[name] |= live[s.name]
        for c in program.carries:
            for name in (c.start, c.after):
                live[name] |= live[c.before] | live[c.last]
    return Liveness(tuple(live[s.name] for s in program.statements), live)
