"""Loops over columns: a value is an array over a block of neighbouring columns, and vectors run along the block.

A fold over the rows adds whole rows of a block to its array, 64 rows at a time into an array of its own, so that long
sums stay accurate.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from derive.backends.cpu.loops.nests import START, Nest, fold, in_real, of_total
from derive.backends.cpu.names import Sizes, extent, length, times, variable
from derive.backends.cpu.schedule.stages import Stage, Sweep
from derive.backends.cpu.statements.normal import Loop


@dataclass
class Columns(Nest):
    @property
    def room(self) -> str:
        """How many columns a block has at most."""
        return "COLUMNS"

    def print(self) -> None:
        slow, _, n = self.split()
        sharing = f"threads / at_most(threads, {extent(slow)})" if slow else "threads"
        # totals add alike for any number of threads
        self.in_blocks(f"columns({n}, {'1' if self.group.totals else sharing})")

    def in_blocks(self, width: str) -> None:
        """The stages of all blocks of so many columns."""
        self.out.line(f"const int64_t width = {width};")
        count = f"({extent(self.plan.run)} + width - 1) / width"
        with self.blocks("width", count, f"({count})"):
            self.stages()

    def stages(self) -> None:
        """One stage after another, for a block."""
        self.begin_block()
        for stage in self.plan.stages:
            self.values(stage)
            for sweep in stage.sweeps:
                self.notes(sweep.loops)
                self.sweep(sweep)

    def parts(self, size: Sizes = length) -> str:
        return times(extent(self.plan.slow, size), self.blocks_of(extent(self.plan.run, size)))

    def blocks_of(self, n: str) -> str:
        """How many blocks so many columns are, whatever the threads."""
        return f"column_blocks({n})"

    def begin_block(self) -> None:
        """What a block declares first."""

    @property
    def at_column(self) -> str:
        return f"[{self.column}]"

    @property
    def column(self) -> str:
        """Where a column stands among those whose values are kept."""
        return self.in_block

    @property
    def in_block(self) -> str:
        """Where it stands in its block."""
        return f"{variable(str(self.group.lane))} - from"

    def lane(self, clauses: str = "") -> AbstractContextManager[None]:
        """The loop over the columns of a block."""
        return self.out.loop(variable(str(self.group.lane)), "from", "to", f"simd{clauses}")

    def declare(self, s: Loop) -> None:
        self.out.line(f"{self.normal.type(s.name)} {self.local(s.name)}[{self.room}];")

    def values(self, stage: Stage) -> None:
        """What needs no inner axis: for every column of the block."""
        if not stage.values:
            return
        totals = [s for s in stage.values if self.group.is_total(s)]
        single = [s for s in stage.values if s not in totals and not s.changes and not self.in_parts(s)]
        for note in dict.fromkeys(s.note for s in stage.values if self.in_parts(s)):
            self.out.comment(note)
        for s in single:
            self.out.comment(s.note)
            self.declare(s)
        clauses = self.accumulators(totals, "_part")
        with self.lane(clauses):
            for s in stage.values:
                if s in totals:
                    self.reduce(s, f"{self.text.name(s.name)}_part")
                elif s.changes:
                    self.change(s)
                elif s in single:
                    self.out.line(f"{self.local(s.name)}{self.at_column} = {self.right(s)};")
                    self.kept(s)
                else:
                    self.out.line(f"{self.stored(s)} = {self.text.real(s.value)};")
        for s in totals:
            self.out.line(f"{self.text.name(s.name)}_parts[block] = {self.accumulated(s, '_part')};")

    def kept(self, s: Loop) -> None:
        """The value goes to memory as well where that is wanted."""
        if self.plan.place[s.name] == "memory":
            self.out.line(f"{self.stored(s)} = {self.local(s.name)}{self.at_column};")
            self.here.add(s.name)

    def sweep(self, sweep: Sweep) -> None:
        if sweep.nested:
            (s,) = sweep.loops
            with self.plain(sweep.axes):
                self.folded(sweep.nested, [s], [s])
                with self.lane():
                    self.out.line(f"{self.stored(s)} = {in_real(s, self.part(s, '_total'))};")
            return
        folds = [s for s in sweep.loops if s.is_fold and not self.group.is_total(s)]
        self.folded(sweep.axes, folds, sweep.loops)
        if folds:
            for s in folds:
                self.declare(s)
            with self.lane():
                for s in folds:
                    self.out.line(f"{self.local(s.name)}{self.at_column} = {in_real(s, self.part(s, '_total'))};")
                    self.kept(s)

    def folded(self, axes: tuple[str, ...], folds: Sequence[Loop], loops: Sequence[Loop]) -> None:
        """Loops over the inner axes, the block's columns innermost."""
        *slow, fast = axes
        i, n, out = variable(fast), length(fast), self.out
        self.begin(folds, "_total")
        with ExitStack() as stack:
            stack.enter_context(self.plain(tuple(slow)))
            if not folds:
                with out.loop(i, "0", n):
                    self.place(loops)
                return
            stack.enter_context(out.blocks(i, n, "ROWS"))
            self.begin(folds, "_block")
            with out.loop(i, f"{i}_block", f"{i}_end"):
                self.place(loops)
            with self.lane():
                for s in folds:
                    out.line(fold(s.kind, self.part(s, "_total"), self.part(s, "_block")))

    def place(self, loops: Sequence[Loop]) -> None:
        """One place of the inner axes, for every column of the block."""
        with self.lane():
            self.elements(loops, self.accumulate)

    def begin(self, folds: Sequence[Loop], suffix: str) -> None:
        """Arrays over the block's columns that loops fold into. Totals of sums have more digits."""
        for s in folds:
            kind = of_total(s) if suffix == "_total" else "real"
            self.out.line(f"{kind} {self.text.name(s.name)}{suffix}[{self.room}];")
        if folds:
            with self.lane():
                for s in folds:
                    self.out.line(f"{self.part(s, suffix)} = {START[s.kind]};")

    def part(self, s: Loop, suffix: str) -> str:
        """What such an array holds for one column."""
        return f"{self.text.name(s.name)}{suffix}[{self.in_block}]"

    def accumulate(self, s: Loop) -> None:
        self.out.line(fold(s.kind, self.part(s, "_block"), self.text.real(s.value)))


@dataclass
class Elements(Nest):
    """All places at once, cut into blocks that threads share, vectors along the last outer axis; nothing is inside."""

    def print(self) -> None:
        out = self.out
        loops = [s for stage in self.plan.stages for s in stage.values]
        self.notes(loops)
        count = f"blocks({extent(self.plan.run)})"
        with self.blocks("STRETCH", count, count):
            totals = list(self.group.totals)
            clauses = self.accumulators(totals, "_part")
            with out.loop(variable(self.group.outer[-1]), "from", "to", f"simd{clauses}"):
                self.elements(loops, lambda s: self.reduce(s, f"{self.text.name(s.name)}_part"))
            for s in totals:
                out.line(f"{self.text.name(s.name)}_parts[block] = {self.accumulated(s, '_part')};")

    def parts(self, size: Sizes = length) -> str:
        return times(extent(self.plan.slow, size), f"blocks({extent(self.plan.run, size)})")
