"""The loops of a program: which of its statements run place by place of an axis, for what is carried there."""

from __future__ import annotations

from dataclasses import dataclass

from derive.ir.circles import circles
from derive.ir.nodes.walking import reads
from derive.ir.program import Carry, Program, Scatter, Statement


@dataclass(frozen=True)
class Loop:
    """Statements, by number, that run place by place of one axis, and what is carried there.

    Without statements it only moves a finished tensor by one place.
    """

    carries: tuple[Carry, ...]
    statements: tuple[int, ...]
    goes_round: bool


def items(program: Program) -> list[int | Loop]:
    """The statements, by number, and the loops, each behind what it reads."""
    if not program.carries:
        return list(range(len(program.statements)))
    written: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    graph: dict[int | str, list[int | str]] = {}
    carried = {n for c in program.carries for n in (c.before, c.last)}
    for k, s in enumerate(program.statements):
        read = sorted(names_read(s))
        own = [j for n in (*read, s.name) for j in written.get(n, ())]
        graph[k] = [*own, *readers.get(s.name, ()), *(n for n in read if n in carried)]
        for first in written.get(s.name, ())[:1]:  # what one tensor is made of stands together
            graph[first].append(k)
        written.setdefault(s.name, []).append(k)
        for n in read:
            readers.setdefault(n, []).append(k)
    for c in program.carries:
        found: list[int | str] = [x for n in (c.after, c.start) for x in (*written.get(n, ()), *({n} & carried))]
        graph[c.before], graph[c.last] = found, [*found, c.before]
    out: list[int | Loop] = []
    for circle in circles(graph):
        numbers = tuple(n for n in circle if isinstance(n, int))
        carries = tuple(c for c in program.carries if c.before in circle)
        if carries:
            out.append(Loop(carries, numbers, len(circle) > 1 or carries[0].after == carries[0].before))
        else:
            out += numbers
    return out


def names_read(s: Statement) -> set[str]:
    """The tensors that a statement reads, and the one that it adds to."""
    onto = {s.onto} if isinstance(s, Scatter) and s.onto else set()
    return onto.union(*(reads(part) for part in (s.value, *s.slots)))
