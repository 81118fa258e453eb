"""Rows of which the last axis lies behind their own in memory: vectors run along both, over several rows.

`x[n, s, (g, k)]` summed over s and k, for every n and g, the channels of an image in groups: along k a row has a few
elements side by side. But what is summed over s is as many sums as g and k have places together, which lie side by
side, and those of a g are added up at the end. What there is one of for each g stands in all its lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from derive.backends.cpu.loops.columns import Columns
from derive.backends.cpu.loops.contiguous import as_one
from derive.backends.cpu.loops.groups import Group
from derive.backends.cpu.loops.nests import START, fold
from derive.backends.cpu.loops.stages import Plan, Stage, planned
from derive.backends.cpu.names import length, variable
from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import axes_along
from derive.ir.program import Read


def lanes_form(group: Group, form: Normal, outside: frozenset[str]) -> Plan | None:
    """The same loops with vectors along the last outer axis and the inner one behind it, if they can be."""
    fast = _behind(group)
    if group.lane is not None or group.totals or fast is None:
        return None
    outer = (*group.outer, fast)
    loops = [x for s in group.loops for x in _by_lanes(s, outer, form)]
    if not all(_fits(s, outer, fast) for s in loops):
        return None
    found = replace(group, outer=outer, loops=tuple(_with_values(loops, outer, form)), lane=fast, short=True)
    sweeping = [s for s in found.loops if found.inner(s)]
    if not any(s.is_fold for s in sweeping) or not as_one(outer[-2:], _of_memory(sweeping, found), form):
        return None
    plan = planned(found, form, outside)
    made = {s.name for s in group.loops}
    own = (n for n, place in plan.place.items() if place == "buffer" or (place == "memory" and n not in made))
    return plan if next(own, None) is None else None


def _behind(group: Group) -> str | None:
    """The inner axis that lies behind the last outer one, last in memory, in what has most axes."""
    last = group.outer[-1:]
    inner = {a for s in group.loops for a in group.inner(s)}
    reads = [axes_along(r.index) for s in group.loops for r in s.reads()]
    longest = max(reads, key=len, default=())
    return longest[-1] if longest[-2:-1] == last and last and longest[-1] in inner else None


def _by_lanes(loop: Loop, outer: tuple[str, ...], form: Normal) -> Iterator[Loop]:
    """A fold over the axis of lanes and others as one over the others, and one of lanes."""
    fast, rest = outer[-1], tuple(a for a in loop.over if a != outer[-1])
    if fast not in loop.over or not rest:
        yield loop
        return
    name = form.fresh(f"{loop.name}_lane")
    form.dims[name] = outer
    yield replace(loop, name=name, slots=outer, over=rest)
    yield replace(loop, value=Read(name, outer), over=(fast,), note="")


def _fits(loop: Loop, outer: tuple[str, ...], fast: str) -> bool:
    """Whether it is an element, or a fold in a lane or over the lanes of a row."""
    indices = [r for r in loop.reads() if any(isinstance(i, Read) for i in r.index)]
    own = [s for s in loop.slots if isinstance(s, Read)]
    if loop.changes or indices or own or loop.kind not in ("set", *START):
        return False
    if fast in loop.over:
        return loop.over == (fast,) and set(loop.free) == set(outer[:-1])
    inside = set(loop.domain) - set(outer)
    return (not loop.is_fold or set(loop.free) == set(outer)) and (not inside or fast in loop.domain)


def _with_values(loops: Sequence[Loop], outer: tuple[str, ...], form: Normal) -> Iterator[Loop]:
    """The loops, with what there is one of for each row read before the sweeps that ask for it."""
    made = {s.name for s in loops}
    names: dict[Read, Read] = {}
    for s in loops:
        for r in s.reads() if set(s.domain) - set(outer) else ():
            axes = axes_along(r.index)
            if r.name not in made and outer[-2] in axes and set(axes) < set(outer) and outer[-1] not in axes:
                if r not in names:
                    name = form.fresh(f"this_{r.name}")
                    form.dims[name] = outer[:-1]
                    names[r] = Read(name, outer[:-1])
                    yield Loop(name, outer[:-1], r)
                s = replace(s, value=put(s.value, r, names[r]))
        yield s


def _of_memory(loops: Sequence[Loop], group: Group) -> list[Loop]:
    """The loops without what lanes hold of the group's own."""
    values = {s.name for s in group.loops if set(s.free) <= set(group.outer) and not group.inner(s)}
    values |= {s.name for s in group.loops if s.is_fold}
    found = []
    for s in loops:
        for r in s.reads():
            if r.name in values:
                s = replace(s, value=put(s.value, r, Read(r.name, ())))
        found.append(replace(s, name="", slots=()) if s.is_fold else s)
    return found


@dataclass
class Lanes(Columns):
    apart: bool = False  # whether loops count rows and their lanes, not all lanes together
    first: bool = False  # whether a row's first lane speaks for all
    known: set[str] = field(default_factory=set)  # what there is one of, and a variable holds

    @property
    def test(self) -> str:
        """The condition under which this form is better: rows of more elements side by side make vectors."""
        return f"{length(str(self.group.lane))} < SPAN / 2"

    def split(self) -> tuple[tuple[str, ...], str, str]:
        *slow, row, lane = self.group.outer
        return tuple(slow), lane, f"{length(row)} * {length(lane)}"

    def blocks(self, width: str) -> None:
        super().blocks(f"whole_rows({width}, {length(str(self.group.lane))})")

    def starts(self) -> None:
        """A block says where its rows begin."""

    def begin_block(self) -> None:
        self.out.line(f"const int64_t {self.row} = 0; // {self.group.lane} counts on to the next")

    @property
    def row(self) -> str:
        return variable(self.group.outer[-2])

    @property
    def column(self) -> str:
        lane = str(self.group.lane)
        here = f"{self.row} * {length(lane)} + {variable(lane)}" if self.apart else variable(lane)
        here = f"{self.row} * {length(lane)}" if self.first else here
        return f"{here} - from"

    def values(self, stage: Stage) -> None:
        """What needs no inner axis, row by row: what there is one of, then copies of that for all lanes."""
        if not stage.values:
            return
        lane, out = str(self.group.lane), self.out
        copied = [s for s in stage.values if self.is_one(s.name) and self.is_read_in_lanes(s.name, stage)]
        for note in dict.fromkeys(s.note for s in stage.values):
            out.comment(note)
        for s in stage.values:
            if s in copied or not self.is_one(s.name):
                self.declare(s)
        with out.loop(self.row, f"from / {length(lane)}", f"to / {length(lane)}"):
            self.known = set()
            self.apart = True
            for s in stage.values:
                if self.is_one(s.name):
                    self.one(s)
                else:
                    with self.lanes_of_a_row():
                        out.line(f"{self.local(s.name)}{self.at_column} = {self.right(s)};")
                        self.kept(s)
            if copied:
                with self.lanes_of_a_row():
                    for s in copied:
                        out.line(f"{self.local(s.name)}{self.at_column} = {self.single(s.name)};")
            self.apart, self.known = False, set()
        self.here |= {s.name for s in copied if self.plan.place[s.name] == "memory"}

    def one(self, s: Loop) -> None:
        """What there is one of for each row, perhaps folded from its lanes."""
        lane, kind = str(self.group.lane), self.type(s.name)
        self.first = not s.is_fold
        value, self.first = self.right(s), False
        if s.is_fold:
            total = f"{self.text.name(s.name)}_total"
            self.out.line(f"{'double' if s.kind == 'sum' else 'real'} {total} = {START[s.kind]};")
            with self.out.loop(variable(lane), "0", length(lane)):
                self.out.line(fold(s.kind, total, value))
            value = f"(real){total}" if s.kind == "sum" else total
        self.out.line(f"const {kind} {self.single(s.name)} = {value};")
        if self.plan.place[s.name] == "memory":
            self.out.line(f"{self.stored(s)} = {self.single(s.name)};")
        self.known.add(s.name)

    def lanes_of_a_row(self) -> AbstractContextManager[None]:
        lane = str(self.group.lane)
        return self.out.loop(variable(lane), "0", length(lane), "simd")

    def single(self, name: str) -> str:
        return f"{self.text.name(name)}_one"

    def is_one(self, name: str) -> bool:
        """Whether the lanes of a row share it."""
        return self.group.lane not in self.plan.written[name].free

    def is_read_in_lanes(self, name: str, stage: Stage) -> bool:
        """Whether something else than what there is one of reads it, or a later stage."""
        own = [s for s in stage.values if self.is_one(s.name)]
        return any(r.name == name for s in self.group.loops if s not in own for r in s.reads())

    def element(self, read: Read) -> str | None:
        if read.name in self.known:
            return self.single(read.name)
        return super().element(read)
