"""Sums and additions in blocks of one vector, where rows are short: those of an image are no whole number of vectors.

The last block of a row overlaps the one before (`nests.py`). Several sums that read alike are taken at once, and what
several taps add to one place is summed before memory is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from derive.backends.cpu.loops.nests import START, Nest, fold, lanes, overlapping
from derive.backends.cpu.names import length, variable
from derive.backends.cpu.schedule.stages import Sweep
from derive.backends.cpu.schedule.ways import is_window
from derive.backends.cpu.statements.normal import CHANGES, Loop
from derive.ir.nodes.walking import axes_along, index_axes
from derive.ir.program import Window

_FEW = 3
"""Sums at once along an axis: more would leave more to be taken again at the end."""


@dataclass(frozen=True)
class Blocks:
    """What a nest of rows of such lengths does in place of vectors that run on."""

    nest: Nest

    def adds_in_windows(self, sweep: Sweep) -> bool:
        """Whether it only adds to neighbouring places in windows: a vector of every other place is dear to add to."""
        *_, fast = sweep.axes
        last = [s.slots[-1] for s in sweep.loops if s.changes and s.slots]
        windows = [i for i in last if isinstance(i, Window) and is_window(i) and dict(i.steps).get(fast, 1) == 1]
        alone = self.nest.plan.computed(sweep.loops) == sweep.loops
        return alone and len(windows) == len(sweep.loops) and not sweep.ordered

    def sums_pairs(self, sweep: Sweep) -> bool:
        """Whether a sweep only sums what it computes of pairs: of what it reads, nothing has all its axes."""
        (s, *others) = self.nest.plan.computed(sweep.loops)
        alone = not others and s.kind == "sum" and not self.nest.group.is_total(s)
        return alone and all(set(sweep.axes) - set(axes_along(r.index)) for r in s.reads())

    def added(self, slow: tuple[str, ...], fast: str, loops: Sequence[Loop]) -> None:
        """Additions to places in windows, whole vectors at a time."""
        ends = self._meeting(loops[0], slow) if len(loops) == 1 else None
        if ends is None:
            self._added_in_turn(slow, fast, loops)
            return
        with self.nest.out.block(f"if ({length(ends[1])} > 1)"):
            self._added_at_once(loops[0], slow, fast, *ends)
        with self.nest.out.otherwise():
            self._added_in_turn(slow, fast, loops)

    def _added_in_turn(self, slow: tuple[str, ...], fast: str, loops: Sequence[Loop]) -> None:
        out = self.nest.out
        with self.nest.plain(slow), overlapping(out, length(fast)), lanes(out, fast):
            for s in loops:
                new, kind = f"{self.nest.text.name(s.name)}_new", CHANGES[s.kind]
                out.line(f"const real {new} = {self.nest.text.real(s.value)};")
                out.line(fold(kind, self.nest.stored(s), f"lane >= done ? {new} : {START[kind]}"))

    def _meeting(self, s: Loop, slow: tuple[str, ...]) -> tuple[str, str] | None:
        """Two axes of which many pairs meet at a row, `i + p`, the longer first: what they add there is summed first.

        So it is where neither says anything else of the place: `dx[i + p, k + p]` has no other pair there.
        """
        for k, i in enumerate(s.slots[:-1]):
            axes = set(index_axes(i))
            at_one = isinstance(i, Window) and {step for _, step in i.steps} == {1} and len(axes) == 2
            others = {a for other in (*s.slots[:k], *s.slots[k + 1 :]) for a in index_axes(other)}
            if at_one and axes <= set(slow) - others and CHANGES[s.kind] == "sum":
                place = self.nest.normal.nominal.longest(index_axes(i))
                return place, next(a for a in axes if a != place)
        return None

    def _added_at_once(self, s: Loop, slow: tuple[str, ...], fast: str, place: str, tap: str) -> None:
        """What all taps add to a row, in registers, and then to memory once."""
        i, k, out, row = variable(place), variable(tap), self.nest.out, f"{self.nest.text.name(s.name)}_lanes"
        rows = f"{length(place)} + {length(tap)} - 1"
        others = self.nest.plain(tuple(a for a in slow if a not in (place, tap)))
        with others, out.loop(f"{i}_at", "0", rows), overlapping(out, length(fast)):
            out.line(f"const int64_t from = at_least({i}_at - {length(place)} + 1, 0);")
            out.line(f"real {row}[LANES] = {{0}};")
            with out.loop(k, "from", f"at_most({i}_at + 1, {length(tap)})"):
                out.line(f"const int64_t {i} = {i}_at - {k};")
                with lanes(out, fast):
                    out.line(f"{row}[lane] += {self.nest.text.real(s.value)};")
            out.line(f"const int64_t {k} = from, {i} = {i}_at - from;")
            with lanes(out, fast):
                out.line(f"{self.nest.stored(s)} += lane >= done ? {row}[lane] : 0;")

    def sums_of_rows(self, s: Loop, slow: tuple[str, ...], fast: str, last: tuple[str, ...] = ()) -> None:
        """Rows are added up, ROWS at once, and then summed: a sum of each would wait for its last addition.

        On each of the `last` axes a few neighbouring sums at once: what they read alike is read once.
        """
        *outer, row = slow
        i, out, name = variable(row), self.nest.out, self.nest.text.name(s.name)
        several, at = f"[{_FEW}]" * len(last), _at(last)
        rows = out.block(f"for (int64_t {i}_block = 0; {i}_block < {length(row)}; {i}_block += ROWS)")
        with self.nest.plain(tuple(outer)), overlapping(out, length(fast)), rows:
            out.line(f"const int64_t {i}_end = at_most({i}_block + ROWS, {length(row)});")
            out.line(f"real {name}_block{several}[LANES] = {{0}};")
            with out.loop(i, f"{i}_block", f"{i}_end"), self._neighbours(last):
                self._places(last)
                with lanes(out, fast):
                    out.line(f"const real {name}_new = {self.nest.text.real(s.value)};")
                    out.line(f"{name}_block{at}[lane] += lane >= done ? {name}_new : 0;")
            with self._neighbours(last):
                out.line(f"{name}_total{at} += sum_of_lanes({name}_block{at});")

    def sums_of_few(self, s: Loop, slow: tuple[str, ...], fast: str, places: tuple[str, ...]) -> None:
        """Neighbouring sums, some at once on one axis or two; what is left on the one before the last, row by row."""
        *outer, last = places
        if not outer:
            self._sums_of_a_row(s, slow, fast, last)
            return
        *outer, row = outer
        p, q, out = variable(row), variable(last), self.nest.out
        with self.nest.plain(tuple(outer)):
            out.line(f"int64_t {p}_from = 0;")
            more = f"{length(last)} > 1 && {p}_from + {_FEW - 1} < {length(row)}"
            columns = f"for (int64_t {q}_from = 0; {q}_from < {length(last)}; {q}_from += {_FEW})"
            with out.block(f"for (; {more}; {p}_from += {_FEW})"), out.block(columns):
                self._sums_at_once(s, slow, fast, (row, last))
            with out.loop(p, f"{p}_from", length(row)):
                self._sums_of_a_row(s, slow, fast, last)

    def _sums_of_a_row(self, s: Loop, slow: tuple[str, ...], fast: str, last: str) -> None:
        """Where two sums are left the last of them is taken again, and one by itself."""
        q, out = variable(last), self.nest.out
        out.line(f"int64_t {q}_from = 0;")
        with out.block(f"for (; {q}_from + 1 < {length(last)}; {q}_from += {_FEW})"):
            self._sums_at_once(s, slow, fast, (last,))
        with out.loop(q, f"{q}_from", length(last)):
            self._sums_at_once(s, slow, fast, ())

    def _sums_at_once(self, s: Loop, slow: tuple[str, ...], fast: str, last: tuple[str, ...]) -> None:
        """A few sums along each of these axes, from their totals to memory."""
        name = self.nest.text.name(s.name)
        start = " = {0}" if last else " = 0"
        self.nest.out.line(f"double {name}_total{f'[{_FEW}]' * len(last)}{start};")
        self.sums_of_rows(s, slow, fast, last)
        with self._neighbours(last):
            self._places(last)
            self.nest.out.line(f"{self.nest.stored(s)} = (real){name}_total{_at(last)};")

    @contextmanager
    def _neighbours(self, axes: tuple[str, ...]) -> Iterator[None]:
        """Several sums, written out."""
        with ExitStack() as stack:
            for a in axes:
                self.nest.out.line(f"#pragma GCC unroll {_FEW}")
                stack.enter_context(self.nest.out.loop(f"{variable(a)}_few", "0", str(_FEW), kind="int"))
            yield

    def _places(self, axes: tuple[str, ...]) -> None:
        """Where one of them is; past the end of an axis its last place once more."""
        for a in axes:
            i = variable(a)
            self.nest.out.line(f"const int64_t {i} = at_most({i}_from + {i}_few, {length(a)} - 1);")


def _at(axes: tuple[str, ...]) -> str:
    """Which of them it is."""
    return "".join(f"[{variable(a)}_few]" for a in axes)
