"""Loops over long columns: every sweep goes through memory once, row after row, and threads share the rows.

A fold over the rows is taken in pieces, whose number depends on the rows alone, and is complete before the next sweep
begins. Short columns stay in the cache for all sweeps, a block at a time: for them the form of columns.py is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from derive.backends.cpu.loops.columns import Columns
from derive.backends.cpu.loops.nests import MERGE, decode, fold
from derive.backends.cpu.names import extent, length, variable
from derive.backends.cpu.schedule import ways
from derive.backends.cpu.schedule.stages import Sweep
from derive.backends.cpu.statements.normal import CHANGES, Loop
from derive.backends.cpu.writer import Count


@dataclass
class Streams(Columns):
    """Less columns than a vector has elements, of costly functions, are `narrow`: vectors run down one by one."""

    way: ways.Streams

    def print(self) -> None:
        self.out.line(f"const int64_t width = columns({self.count}, 1);")
        self.out.line(f"#pragma omp parallel num_threads({self.team})")
        with self.out.block(""):
            folded: list[tuple[Sweep, Loop]] = []
            for stage in self.plan.stages:
                self.values_of(folded, stage.values)
                for sweep in stage.sweeps:
                    self.notes(sweep.loops)
                    self.sweep(sweep)
                folded = [(sweep, s) for sweep in stage.sweeps for s in sweep.loops if s.is_fold]
            self.values_of(folded, [])

    @property
    def count(self) -> str:
        """How many columns there are."""
        return length(str(self.group.lane))

    @property
    def column(self) -> str:
        return variable(str(self.group.lane))

    def local(self, name: str) -> str:
        return f"{self.text.name(name)}_columns" if self.plan.place[name] == "value" else super().local(name)

    def kept_in(self, s: Loop) -> str:
        """Where a value of every column lies."""
        return f"{self.local(s.name)}{self.at_column}" if self.plan.place[s.name] == "value" else self.stored(s)

    def scratch(self) -> Iterator[tuple[str, str, Count]]:
        """Type, name and length of what lies between the sweeps."""
        for name, place in self.plan.place.items():
            if place == "value":
                yield self.normal.type(name), self.local(name), lambda size, _: extent(self.group.outer, size)
        for sweep in (sweep for stage in self.plan.stages for sweep in stage.sweeps):
            for s in (s for s in sweep.loops if s.is_fold):
                yield "real", f"{self.text.name(s.name)}_pieces", self._pieces(sweep)

    def _pieces(self, sweep: Sweep) -> Count:
        return lambda size, _: f"pieces({extent(sweep.axes, size)}) * {extent(self.group.outer, size)}"

    def values_of(self, folded: list[tuple[Sweep, Loop]], values: Sequence[Loop]) -> None:
        """What sweeps have folded, then what needs no inner axis: for every column."""
        if not folded and not values:
            return
        out = self.out
        out.line("#pragma omp for schedule(static)")
        with out.loop("block", "0", f"({self.count} + SPAN - 1) / SPAN"):
            out.line(f"const int64_t from = block * SPAN, to = at_most(from + SPAN, {self.count});")
            for sweep, s in folded:
                c, count = self.text.name(s.name), f"pieces({extent(sweep.axes)})"
                into = self.local(s.name) if self.plan.place[s.name] == "value" else c
                out.line(f"{MERGE[s.kind]}({into} + from, {c}_pieces + from, {count}, to - from, {self.count});")
            for note in dict.fromkeys(s.note for s in values):
                out.comment(note)
            if values:
                with self.lane():
                    for s in values:
                        into, value = self.kept_in(s), self.right(s)
                        out.line(fold(CHANGES[s.kind], into, value) if s.changes else f"{into} = {value};")

    def sweep(self, sweep: Sweep) -> None:
        """A thread's rows, a block of columns at a time, or a column after another."""
        out, axes, folds = self.out, sweep.axes, [s for s in sweep.loops if s.is_fold]
        rows, across = extent(axes), f"column_blocks({self.count})"
        ends = (f"first_of_piece(piece, {rows})", f"first_of_piece(piece + 1, {rows})")
        out.line("#pragma omp for schedule(static)")
        if self.way.narrow:
            with out.loop("piece", "0", f"pieces({rows})"), self.plain(self.group.outer):
                with out.loop(variable(axes[0]), *ends, f"simd{self.accumulators(folds, '_block')}"):
                    self.elements(sweep.loops, lambda s: self.reduce(s, f"{self.text.name(s.name)}_block"))
                for s in folds:
                    out.line(f"{self.piece(s)} = {self.accumulated(s, '_block')};")
            return
        with out.loop("task", "0", f"pieces({rows}) * {across}"):
            out.line(f"const int64_t piece = task / {across}, from = task % {across} * width;")
            out.line(f"const int64_t to = at_most(from + width, {self.count});")
            self.begin(folds, "_block")
            with out.loop(variable(axes[0]) if len(axes) == 1 else "at", *ends):
                if len(axes) > 1:
                    decode(out, axes, "at")
                self.place(sweep.loops)
            with self.lane() if folds else nullcontext():
                for s in folds:
                    out.line(f"{self.piece(s)} = {self.part(s, '_block')};")

    def piece(self, s: Loop) -> str:
        """What a thread has folded of a column."""
        return f"{self.text.name(s.name)}_pieces[piece * {self.count} + {self.column}]"
