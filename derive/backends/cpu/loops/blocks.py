"""Sums and additions in blocks of one vector, where rows are short: those of an image are no whole number of vectors.

The last block of a row overlaps the one before (`taps.py`). Several sums that read alike are taken at once, and what
several taps add to one place is summed before memory is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from derive.backends.cpu.loops.nests import START, fold
from derive.backends.cpu.loops.short import is_window
from derive.backends.cpu.loops.stages import Sweep
from derive.backends.cpu.loops.taps import lanes, overlapping
from derive.backends.cpu.loops.vectors import InVectors
from derive.backends.cpu.names import length, variable
from derive.backends.cpu.statements.normal import CHANGES, Loop
from derive.nodes.walking import axes_along, index_axes
from derive.program import Window

_FEW = 3
"""Sums at once: more would share what they read with others, and leave more to be taken again at the end."""


@dataclass
class InBlocks(InVectors):
    """What rows of such lengths do in place of vectors that run on."""

    def adds_in_windows(self, sweep: Sweep) -> bool:
        """Whether it only adds to neighbouring places in windows: a vector of every other place is dear to add to."""
        *_, fast = self.order(sweep)
        last = [s.slots[-1] for s in sweep.loops if s.changes and s.slots]
        windows = [i for i in last if isinstance(i, Window) and is_window(i) and dict(i.steps).get(fast, 1) == 1]
        return len(windows) == len(sweep.loops) and self.computed(sweep.loops) == sweep.loops and not sweep.ordered

    def sums_pairs(self, sweep: Sweep) -> bool:
        """Whether a sweep only sums what it computes of pairs: of what it reads, nothing has all its axes."""
        (s, *others) = self.computed(sweep.loops)
        alone = not others and s.kind == "sum" and not self.group.is_total(s)
        return alone and all(set(sweep.axes) - set(axes_along(r.index)) for r in s.reads())

    def added(self, slow: tuple[str, ...], fast: str, loops: list[Loop]) -> None:
        """Additions to places in windows, whole vectors at a time."""
        out = self.out
        if len(loops) == 1 and (ends := self._meeting(loops[0], slow)) is not None:
            self._added_at_once(loops[0], slow, fast, *ends)
            return
        with self.plain(slow), overlapping(out, length(fast)), lanes(out, fast):
            for s in loops:
                new, kind = f"{self.text.name(s.name)}_new", CHANGES[s.kind]
                out.line(f"const real {new} = {self.text.real(s.value)};")
                out.line(fold(kind, self.stored(s), f"lane >= done ? {new} : {START[kind]}"))

    def _meeting(self, s: Loop, slow: tuple[str, ...]) -> tuple[str, str] | None:
        """Two axes of which pairs meet at a row, `i + p`, the longer first: what they add there is summed first."""
        for i in s.slots[:-1]:
            axes = index_axes(i)
            at_one = isinstance(i, Window) and {step for _, step in i.steps} == {1} and len(axes) == 2
            if at_one and set(axes) <= set(slow) and CHANGES[s.kind] == "sum":
                place = self.normal.nominal.longest(axes)
                return place, next(a for a in axes if a != place)
        return None

    def _added_at_once(self, s: Loop, slow: tuple[str, ...], fast: str, place: str, tap: str) -> None:
        """What all taps add to a row, in registers, and then to memory once."""
        i, k, out, name = variable(place), variable(tap), self.out, self.text.name(s.name)
        rows = f"{length(place)} + {length(tap)} - 1"
        others = self.plain(tuple(a for a in slow if a not in (place, tap)))
        with others, out.loop(f"{i}_at", "0", rows), overlapping(out, length(fast)):
            out.line(f"const int64_t from = at_least({i}_at - {length(place)} + 1, 0);")
            out.line(f"real {name}_sum[LANES] = {{0}};")
            with out.loop(k, "from", f"at_most({i}_at + 1, {length(tap)})"):
                out.line(f"const int64_t {i} = {i}_at - {k};")
                with lanes(out, fast):
                    out.line(f"{name}_sum[lane] += {self.text.real(s.value)};")
            out.line(f"const int64_t {k} = from, {i} = {i}_at - from;")
            with lanes(out, fast):
                out.line(f"{self.stored(s)} += lane >= done ? {name}_sum[lane] : 0;")

    def sums_of_rows(self, s: Loop, slow: tuple[str, ...], fast: str) -> None:
        """Rows are added up, ROWS at once, and then summed: a sum of each would wait for its last addition."""
        *outer, row = slow
        i, out, name = variable(row), self.out, self.text.name(s.name)
        with self.plain(tuple(outer)), overlapping(out, length(fast)):
            rows = f"for (int64_t {i}_block = 0; {i}_block < {length(row)}; {i}_block += ROWS)"
            with out.block(rows):
                out.line(f"const int64_t {i}_end = at_most({i}_block + ROWS, {length(row)});")
                out.line(f"real {name}_block[LANES] = {{0}}, {name}_sum = 0;")
                with out.loop(i, f"{i}_block", f"{i}_end"), lanes(out, fast):
                    out.line(f"const real {name}_new = {self.text.real(s.value)};")
                    out.line(f"{name}_block[lane] += lane >= done ? {name}_new : 0;")
                with out.loop("lane", "0", "LANES", f"simd reduction(+ : {name}_sum)", "int"):
                    out.line(f"{name}_sum += {name}_block[lane];")
                out.line(f"{name}_total += {name}_sum;")

    def sums_of_few(self, s: Loop, slow: tuple[str, ...], fast: str, last: str) -> None:
        """Neighbouring sums at once: what they read alike is read once, and none waits for the one before it.

        Where fewer are left the last of them is taken again.
        """
        *outer, row = slow
        i, q, out, name = variable(row), variable(last), self.out, self.text.name(s.name)
        few = range(_FEW)
        with out.block(f"for (int64_t {q}_from = 0; {q}_from < {length(last)}; {q}_from += {_FEW})"):
            out.line(f"double {', '.join(f'{name}_total_{k} = 0' for k in few)};")
            rows = out.block(f"for (int64_t {i}_block = 0; {i}_block < {length(row)}; {i}_block += ROWS)")
            with self.plain(tuple(outer)), overlapping(out, length(fast)), rows:
                out.line(f"const int64_t {i}_end = at_most({i}_block + ROWS, {length(row)});")
                out.line(f"real {', '.join(f'{name}_block_{k}[LANES] = {{0}}, {name}_sum_{k} = 0' for k in few)};")
                with out.loop(i, f"{i}_block", f"{i}_end"), lanes(out, fast):
                    for k in few:
                        with self._neighbour(last, k):
                            out.line(f"const real {name}_new = {self.text.real(s.value)};")
                            out.line(f"{name}_block_{k}[lane] += lane >= done ? {name}_new : 0;")
                sums = ", ".join(f"{name}_sum_{k}" for k in few)
                with out.loop("lane", "0", "LANES", f"simd reduction(+ : {sums})", "int"):
                    for k in few:
                        out.line(f"{name}_sum_{k} += {name}_block_{k}[lane];")
                for k in few:
                    out.line(f"{name}_total_{k} += {name}_sum_{k};")
            for k in few:
                with self._neighbour(last, k):
                    out.line(f"{self.stored(s)} = (real){name}_total_{k};")

    @contextmanager
    def _neighbour(self, axis: str, k: int) -> Iterator[None]:
        """One of the places at once."""
        at = variable(axis)
        with self.out.block(""):
            self.out.line(f"const int64_t {at} = at_most({at}_from + {k}, {length(axis)} - 1);")
            yield
