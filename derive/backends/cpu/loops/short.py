"""Rows of a few elements: vectors run along the rows instead, which are columns then.

A loop of ten elements costs more before and after its vectors than in them, and the last vector computes again what the
one before has. How long an axis is shows when the kernel runs, so that both forms are printed wherever rows are folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from derive.backends.cpu.loops.columns import Columns
from derive.backends.cpu.loops.nests import Accumulate, overlapping
from derive.backends.cpu.names import extent, length, variable
from derive.backends.cpu.schedule import ways
from derive.backends.cpu.schedule.early import chosen_reads
from derive.backends.cpu.schedule.ways import ROWS_ABREAST
from derive.backends.cpu.statements.normal import Loop
from derive.ir.program import Read


@dataclass
class ShortRows(Columns):
    """Columns, BUNDLE at a time, that may have totals for each place inside and rows that are kept.

    Windows of a few places are one vector of `abreast` rows each: what they sum stays in registers. Rows of an image
    are no whole number of vectors; the last one overlaps the one before, and computes the same once more. What several
    rows read alike, a filter's taps, is read once.
    """

    way: ways.ShortRows
    loaded: dict[Read, str] = field(default_factory=dict)  # variables that hold what a choice reads

    @property
    def room(self) -> str:
        return {0: "BUNDLE", 1: "LANES", ROWS_ABREAST: "FOUR"}[self.way.abreast]

    def folded(self, axes: tuple[str, ...], folds: Sequence[Loop], loops: Sequence[Loop]) -> None:
        if not self.way.few or not folds:
            super().folded(axes, folds, loops)
            return
        self.begin(folds, "_block")
        with self.plain(axes):
            self.place(loops)

    def part(self, s: Loop, suffix: str) -> str:
        return super().part(s, "_block" if self.way.few else suffix)

    def print(self) -> None:
        if not self.way.abreast:
            self.in_blocks("BUNDLE")
            return
        (slow, _, n), out = self.split(), self.out
        row = slow[-1:] if self.way.abreast > 1 else ()
        self.starts()
        out.parallel(self.team, len(slow) + 1)
        with self.plain(slow[: len(slow) - len(row)]), ExitStack() as stack:
            for a in row:
                blocks = f"({length(a)} + {ROWS_ABREAST - 1}) / {ROWS_ABREAST}"
                stack.enter_context(out.loop(f"{variable(a)}_block", "0", blocks))
            stack.enter_context(overlapping(out, n, "from"))
            out.line("const int64_t to = from + LANES;")
            for a in row:
                i, most = variable(a), f"{length(a)} - {ROWS_ABREAST}"
                out.line(f"const int64_t {i}_from = at_most({i}_block * {ROWS_ABREAST}, {most});")
            self.stages()

    @contextmanager
    def lane(self, clauses: str = "") -> Iterator[None]:
        with ExitStack() as stack:
            if self.way.abreast > 1:
                row = variable(self.split()[0][-1])
                self.out.line(f"#pragma GCC unroll {ROWS_ABREAST}")
                stack.enter_context(self.out.loop("row", "0", str(ROWS_ABREAST), kind="int"))
                self.out.line(f"const int64_t {row} = {row}_from + row;")
            stack.enter_context(super().lane(clauses))
            yield

    @property
    def in_block(self) -> str:
        return f"row * LANES + {super().in_block}" if self.way.abreast > 1 else super().in_block

    def blocks_of(self, n: str) -> str:
        return f"(({n} + BUNDLE - 1) / BUNDLE)"

    def begin_block(self) -> None:
        for name, place in self.plan.place.items():
            if place == "buffer":
                self.out.line(f"{self.normal.type(name)} {self.text.name(name)}[SHORT * {self.room}];")

    def elements(self, loops: Sequence[Loop], accumulate: Accumulate) -> None:
        """The statements for one element, after what a choice reads.

        GCC makes no vectors of a load in steps of rows that only some elements need.
        """
        wanted = self.plan.wanted(loops)
        for s in self.group.loops:
            if s in loops or s.name in wanted:
                for read in chosen_reads(s.value):
                    self._load(read)
        super().elements(loops, accumulate)
        self.loaded.clear()

    def _load(self, read: Read) -> None:
        others = self.normal.integers | self.normal.booleans | set(self.normal.numbers) | set(self.plan.place)
        if read in self.loaded or read.name in others:
            return
        name = f"{self.text.name(read.name)}_{len(self.loaded)}_here"
        self.out.line(f"const real {name} = {self.text.read(read).code};")
        self.loaded[read] = name

    def element(self, read: Read) -> str | None:
        if read in self.loaded:
            return self.loaded[read]
        kept = self.plan.place.get(read.name) == "buffer" and not self.is_here(read)
        return self.kept_at(read) if kept else super().element(read)

    def stored(self, loop: Loop) -> str:
        if self.plan.place[loop.name] == "buffer":
            return self.kept_at(Read(loop.name, loop.slots))
        return super().stored(loop)

    def kept_at(self, read: Read) -> str:
        """An element of a row that is kept."""
        return f"{self.text.name(read.name)}[({self.text.offset(read, self.outer)}) * {self.room} + {self.column}]"

    def accumulate(self, s: Loop) -> None:
        if self.group.is_total(s):
            self.reduce(s, f"{self.text.name(s.name)}_part")
        else:
            super().accumulate(s)

    def place(self, loops: Sequence[Loop]) -> None:
        totals = [s for s in loops if self.group.is_total(s)]
        with self.lane(self.accumulators(totals, "_part")):
            self.elements(loops, self.accumulate)
        for s in totals:
            at = f"block * ({extent(s.free)}) + {self.text.offset(Read(s.name, s.slots))}"
            self.out.line(f"{self.text.name(s.name)}_parts[{at}] = {self.accumulated(s, '_part')};")
