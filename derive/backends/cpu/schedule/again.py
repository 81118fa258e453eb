"""What is larger than all that it is made of, and cheap, is made again by every pass that reads it, and never kept.

A table of differences, `x[i] - y[j]`, or of what windows read less their mean, costs more to write and to read than to
compute. Inside a pass it is an element that a variable holds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from derive.backends.cpu.products.matrices import Product
from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.schedule.stages import is_cheap
from derive.backends.cpu.statements.normal import Loop, Normal, Running
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import axes_along, reads
from derive.ir.program import Read

Step = Group | Product | Running


def made_again(steps: list[Step], form: Normal) -> list[Step]:
    """The steps with such loops in every group that reads what they write."""
    tables = _Tables(form, Counter(s.name for g in steps if isinstance(g, Group) for s in g.loops))
    others = {n for s in steps if not isinstance(s, Group) for n in s.reads} | set(form.program.returns)
    made = [tables.within(s, others) if isinstance(s, Group) else s for s in steps]
    return _without_unread(made, frozenset(tables.found))


def _without_unread(steps: list[Step], names: frozenset[str]) -> list[Step]:
    """The steps without the loops that write such tables where nothing reads them any more, and without empty ones."""
    wanted: set[str] = set()
    out: list[Step] = []
    for step in reversed(steps):
        if isinstance(step, Group):
            kept: list[Loop] = []
            for loop in reversed(step.loops):
                if loop.name not in names or loop.name in wanted:
                    kept.append(loop)
                    wanted |= {r.name for r in loop.reads()}
            step = replace(step, loops=tuple(reversed(kept)))
        if not isinstance(step, Group) or step.loops:
            out.append(step)
    return out[::-1]


@dataclass
class _Tables:
    """Such loops so far; the value of each says what it is made of, down to tensors that are smaller."""

    form: Normal
    written: Counter[str]  # how many loops write a tensor
    found: dict[str, Loop] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)  # what groups so far have changed, as a step does its inputs

    def within(self, group: Group, others: set[str]) -> Group:
        """The group with the tables that it reads; `others` are tensors that lie in memory in any case."""
        own: dict[str, str] = {}  # names of tables in this group
        loops: list[Loop] = []
        for loop in group.loops:
            table = self._inlined(loop)
            for name in sorted({r.name for r in loop.reads()} & self.found.keys()):
                if self._is_read_at_its_places(name, group):
                    loop = self._without(loop, name, group, own, loops)
            loops.append(loop)
            if loop.name not in others and self._is_table(table):
                self.found[loop.name] = table
                own[loop.name] = loop.name
        self.changed |= {s.name for s in group.loops if s.changes}
        return replace(group, loops=tuple(loops))

    def _is_read_at_its_places(self, name: str, group: Group) -> bool:
        """Whether a group reads it at its own places alone, and nothing that it is made of changes before or there."""
        table = self.found[name]
        places = {r.index for s in group.loops for r in s.reads() if r.name == name}
        changed = self.changed | {s.name for s in group.loops if s.changes}
        return places == {table.slots} and set(group.outer) <= set(table.slots) and not changed & reads(table.value)

    def _without(self, loop: Loop, name: str, group: Group, own: dict[str, str], loops: list[Loop]) -> Loop:
        """A loop that reads the group's own table instead, or what that is made of: of a condition, or to fold rows."""
        table = self.found[name]
        read = Read(name, table.slots)
        by_rows = loop.is_fold and not group.is_total(loop) and set(loop.free) - set(group.outer)
        if by_rows or name in self.form.booleans:
            return replace(loop, value=put(loop.value, read, table.value))
        if name not in own:
            own[name] = self.form.fresh(f"{name}_again")
            self.form.dims[own[name]] = table.slots
            loops.append(replace(table, name=own[name]))
        return replace(loop, value=put(loop.value, read, Read(own[name], table.slots)))

    def _inlined(self, loop: Loop) -> Loop:
        for name in sorted({r.name for r in loop.reads()}):
            if name in self.found:
                table = self.found[name]
                loop = replace(loop, value=put(loop.value, Read(name, table.slots), table.value))
        return loop

    def _is_table(self, loop: Loop) -> bool:
        """Whether it has more axes than any tensor that it reads, each of which is written at once, and is cheap."""
        read = {r.name for r in loop.reads()}
        smaller = all(len(axes_along(self.form.dims[n])) < len(loop.slots) and self.written[n] <= 1 for n in read)
        plain = all(isinstance(i, str) for i in loop.slots) and len(set(loop.slots)) == len(loop.slots)
        made = loop.kind == "set" and loop.name not in self.form.integers
        return made and plain and smaller and bool(read) and self.written[loop.name] == 1 and is_cheap(loop.value)
