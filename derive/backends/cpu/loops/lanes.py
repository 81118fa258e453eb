"""Rows of which the last axis lies behind their own in memory: vectors run along both, over several rows.

`x[n, s, (g, k)]` summed over s and k, for every n and g, the channels of an image in groups: along k a row has a few
elements side by side. But what is summed over s is as many sums as g and k have places together, which lie side by
side, and those of a g are added up at the end. What there is one of for each g stands in all its lanes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from derive.backends.cpu.loops.columns import Columns
from derive.backends.cpu.loops.nests import START, fold, in_real, of_total
from derive.backends.cpu.names import length, variable
from derive.backends.cpu.schedule.stages import Stage
from derive.backends.cpu.statements.normal import Loop
from derive.ir.program import Read


@dataclass
class Lanes(Columns):
    apart: bool = False  # whether loops count rows and their lanes, not all lanes together
    first: bool = False  # whether a row's first lane speaks for all
    known: set[str] = field(default_factory=set)  # what there is one of, and a variable holds

    def in_blocks(self, width: str) -> None:
        super().in_blocks(f"whole_rows({width}, {length(str(self.group.lane))})")

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
            self.out.line(f"{of_total(s)} {total} = {START[s.kind]};")
            with self.out.loop(variable(lane), "0", length(lane)):
                self.out.line(fold(s.kind, total, value))
            value = in_real(s, total)
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
