"""Loops over long columns: every sweep goes through memory once, row after row, and threads share the rows.

A fold over the rows is taken in pieces, whose number depends on the rows alone, and is complete before the next sweep
begins. Short columns stay in the cache for all sweeps, a block at a time: for them the form of columns.py is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from derive.backends.cpu.loops.columns import Columns
from derive.backends.cpu.loops.nests import MERGE, extent, fold
from derive.backends.cpu.loops.stages import Plan, Sweep
from derive.backends.cpu.names import length, variable
from derive.backends.cpu.statements.normal import CHANGES, Loop
from derive.backends.cpu.work import calls, is_heavy
from derive.ir.nodes.walking import node_axes


def streams(plan: Plan) -> bool:
    """Whether the rows of every sweep may be shared out among threads, and something is folded over them."""
    sweeps = [sweep for stage in plan.stages for sweep in stage.sweeps]
    loops = [s for sweep in sweeps for s in sweep.loops]
    folds = [s for s in loops if s.is_fold]
    group = plan.group
    if len(group.outer) > 1 or group.totals or any(sweep.nested or sweep.ordered for sweep in sweeps):
        return False
    once = [s for stage in plan.stages for s in stage.values if s.slots == group.outer]
    added = any(s.changes and s not in once for s in group.loops)  # but a number a column, as in an update
    return bool(folds) and not added and all(s.slots == group.outer for s in folds)


@dataclass
class Streams(Columns):
    """Less columns than a vector has elements, of costly functions, are `narrow`: vectors run down one by one."""

    narrow: bool = False

    @property
    def fits(self) -> bool:
        """Whether narrow ones do: rows are counted by one axis, and something costs more than from a row to the next.

        What a column alone decides is a branch to GCC, which then makes no vectors.
        """
        sweeps = [sweep for stage in self.plan.stages for sweep in stage.sweeps]
        done = [(call, set(sweep.axes)) for sweep in sweeps for s in sweep.loops for call in calls(s.value)]
        branches = any(call.fn == "where" and not set(node_axes(call.args[0])) & rows for call, rows in done)
        costly = any(is_heavy(call) for call, _ in done)
        return costly and not branches and all(len(sweep.axes) == 1 for sweep in sweeps)

    def print(self) -> None:
        self.out.line(f"const int64_t width = columns({self.count}, 1);")
        self.out.line(f"#pragma omp parallel num_threads(team(threads, {self.work}))")
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

    def tall(self) -> str:
        """The condition under which this form is better."""
        axes = max((sweep.axes for stage in self.plan.stages for sweep in stage.sweeps), key=len)
        return f"{extent(axes)} >= TALL{f' && {self.count} < NARROW' if self.narrow else ''}"

    def scratch(self) -> Iterator[tuple[str, str, str]]:
        """Type, name and length of what lies between the sweeps."""
        for name, place in self.plan.place.items():
            if place == "value":
                yield self.normal.type(name), self.local(name), self.count
        for sweep in (sweep for stage in self.plan.stages for sweep in stage.sweeps):
            for s in (s for s in sweep.loops if s.is_fold):
                yield "real", f"{self.text.name(s.name)}_pieces", f"pieces({extent(sweep.axes)}) * {self.count}"

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

    @contextmanager
    def rows(self, sweep: Sweep, folds: Sequence[Loop]) -> Iterator[None]:
        """A thread's rows of a sweep, a block of columns at a time."""
        out, axes = self.out, sweep.axes
        rows, across = extent(axes), f"column_blocks({self.count})"
        out.line("#pragma omp for schedule(static)")
        with out.loop("task", "0", f"pieces({rows}) * {across}"):
            out.line(f"const int64_t piece = task / {across}, from = task % {across} * width;")
            out.line(f"const int64_t to = at_most(from + width, {self.count});")
            self.begin(folds, "_block")
            row = variable(axes[0]) if len(axes) == 1 else "at"
            with out.loop(row, f"first_of_piece(piece, {rows})", f"first_of_piece(piece + 1, {rows})"):
                if len(axes) > 1:
                    self.decode(axes, "at")
                with self.lane():
                    yield
            if folds:
                with self.lane():
                    for s in folds:
                        out.line(f"{self.piece(s)} = {self.part(s, '_block')};")

    def sweep(self, sweep: Sweep) -> None:
        folds = [s for s in sweep.loops if s.is_fold]
        if not self.narrow:
            with self.rows(sweep, folds):
                self.elements(sweep.loops, self.accumulate)
            return
        out, (row,) = self.out, sweep.axes
        out.line("#pragma omp for schedule(static)")
        with out.loop("piece", "0", f"pieces({length(row)})"), self.plain((str(self.group.lane),)):
            start, stop = (f"first_of_piece({at}, {length(row)})" for at in ("piece", "piece + 1"))
            with out.loop(variable(row), start, stop, f"simd{self.accumulators(folds, '_block')}"):
                self.elements(sweep.loops, lambda s: self.reduce(s, f"{self.text.name(s.name)}_block"))
            for s in folds:
                out.line(f"{self.piece(s)} = {self.accumulated(s, '_block')};")

    def piece(self, s: Loop) -> str:
        """What a thread has folded of a column."""
        return f"{self.text.name(s.name)}_pieces[piece * {self.count} + {self.column}]"
