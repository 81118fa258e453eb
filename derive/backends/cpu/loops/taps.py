"""Windows of a few places: neighbouring windows are one vector, and what they sum stays in registers.

Rows of an image are no whole number of vectors. The last vector of a row overlaps the one before: what it computes once
more is the same, and what it adds is left out where that was added already.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from derive.backends.cpu.loops.nests import overlapping
from derive.backends.cpu.loops.short import ShortRows, reads_windows
from derive.backends.cpu.names import length, variable

_ROWS = 4  # whose vectors are FOUR elements


@dataclass
class VectorRows(ShortRows):
    """As many rows as a vector has elements, in blocks that may overlap."""

    room = "LANES"

    @property
    def fits(self) -> bool:
        """Whether all may be computed twice, and no row is kept: nothing is summed over rows, or changed."""
        once = not self.group.totals and not any(s.changes for s in self.group.loops)
        return once and reads_windows(self.group) and "buffer" not in self.plan.place.values()

    @property
    def test(self) -> str:
        return f"{self.places} <= ROWS && {self.split()[2]} >= LANES"

    @property
    def is_few(self) -> bool:
        return True

    def print(self) -> None:
        (slow, _, n), out = self.split(), self.out
        self.starts()
        team = f"num_threads(team(threads, {self.work}))"
        out.line(f"#pragma omp parallel for {team} collapse({len(slow) + 1}) schedule(static)")
        with self.plain(slow), overlapping(out, n, "from"):
            out.line("const int64_t to = from + LANES;")
            self.stages()


@dataclass
class VectorsTogether(VectorRows):
    """Vectors of a few neighbouring rows: what they read alike, a filter's taps, is read once."""

    room = "FOUR"

    @property
    def fits(self) -> bool:
        return bool(self.split()[0]) and super().fits

    @property
    def test(self) -> str:
        return f"{super().test} && {length(self.split()[0][-1])} >= {_ROWS}"

    def print(self) -> None:
        (*slow, row), _, n = self.split()
        i, out = variable(row), self.out
        self.starts()
        team = f"num_threads(team(threads, {self.work}))"
        out.line(f"#pragma omp parallel for {team} collapse({len(slow) + 2}) schedule(static)")
        rows = out.loop(f"{i}_block", "0", f"({length(row)} + {_ROWS - 1}) / {_ROWS}")
        with self.plain(tuple(slow)), rows, overlapping(out, n, "from"):
            out.line("const int64_t to = from + LANES;")
            out.line(f"const int64_t {i}_from = at_most({i}_block * {_ROWS}, {length(row)} - {_ROWS});")
            self.stages()

    @contextmanager
    def lane(self, clauses: str = "") -> Iterator[None]:
        row = self.split()[0][-1]
        self.out.line(f"#pragma GCC unroll {_ROWS}")
        with self.out.loop("row", "0", str(_ROWS), kind="int"):
            self.out.line(f"const int64_t {variable(row)} = {variable(row)}_from + row;")
            with super().lane(clauses):
                yield

    @property
    def in_block(self) -> str:
        return f"row * LANES + {super().in_block}"
