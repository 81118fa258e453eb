"""Loops over rows: values are variables, and vectors run along the last inner axis.

Sums are taken in blocks, each added to a total in double precision. Totals over the rows are taken in chunks of rows
whose number depends on the rows alone, so that any number of threads gives the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from derive.backends.cpu.loops.contiguous import as_one, in_memory_order
from derive.backends.cpu.loops.few import InFew
from derive.backends.cpu.loops.nests import START, decode, extent, fold
from derive.backends.cpu.loops.planes import plane
from derive.backends.cpu.loops.stages import Sweep
from derive.backends.cpu.loops.taps import in_vectors
from derive.backends.cpu.names import length, variable
from derive.backends.cpu.statements.normal import CHANGES, Loop
from derive.ir.program import Read


@dataclass
class Rows(InFew):
    def print(self) -> None:
        outer, out = self.group.outer, self.out
        buffers = [n for n, p in self.plan.place.items() if p == "buffer"]
        if not outer:
            self.body()
            return
        team = f"num_threads(team(threads, {self.work}))"
        with ExitStack() as stack:
            if buffers:
                out.line(f"#pragma omp parallel {team}")
                stack.enter_context(out.block(""))
                for name in buffers:
                    c = self.text.name(name)
                    out.line(f"real *const {self.buffer(c)} = {c}_rows + omp_get_thread_num() * ({self.row(name)});")
            pragma = f"#pragma omp {'for' if buffers else f'parallel for {team}'}"
            if self.group.totals:
                self.chunked(f"{pragma} schedule(static)")
            else:
                self.shared_out(pragma)

    def shared_out(self, pragma: str) -> None:
        """The rows, by themselves, among threads."""
        outer = self.group.outer
        self.out.line(f"{pragma}{f' collapse({len(outer)})' if len(outer) > 1 else ''} schedule(static)")
        with self.plain(outer):
            self.body()

    def buffer(self, name: str) -> str:
        """What a thread's memory for a row that is kept is called."""
        return name

    @property
    def parts(self) -> str:
        return f"chunks({extent(self.group.outer)})" if not self.each else f"chunks_of({self.cut})"

    @property
    def cut(self) -> str:
        """How many rows are cut into chunks, and, where a row has several axes, how many elements each has."""
        return ", ".join(filter(None, (extent(self.group.outer), self.each)))

    @property
    def each(self) -> str:
        """How many elements a row has, where it has several axes: few such rows are shared out too."""
        inner = self.group.inner(max(self.group.loops, key=lambda s: len(self.group.inner(s))))
        return extent(inner) if len(inner) > 1 else ""

    def row(self, name: str) -> str:
        """How many elements one thread's row of a buffer has."""
        return extent(tuple(a for a in self.axes(name) if a not in self.outer))

    def rows(self, start: str, stop: str) -> None:
        """The rows from one number to another, without a division for each."""
        outer, out = self.group.outer, self.out
        if len(outer) == 1:
            with out.loop(variable(outer[0]), start, stop):
                self.body()
            return
        with out.block(f"if ({start} < {stop})"):  # of an axis without places there is no place to begin with
            decode(out, outer, start, stays=False)
            with out.loop("at", start, stop):
                self.body()
                with ExitStack() as carried:
                    for a in outer[:0:-1]:
                        carried.enter_context(out.block(f"if (++{variable(a)} == {length(a)})"))
                        out.line(f"{variable(a)} = 0;")
                    out.line(f"{variable(outer[0])}++;")

    def chunked(self, pragma: str) -> None:
        """Totals: each chunk of rows adds into memory of its own."""
        out = self.out
        out.line(pragma)
        first = f"first_of_chunk{'s' if self.each else ''}"
        with out.loop("chunk", "0", self.parts):
            for s in self.group.totals:
                name, size = self.text.name(s.name), extent(s.free)
                if self.is_number(s):
                    out.line(f"double {name}_part = 0;")
                    continue
                out.line(f"real *const {name}_part = {name}_parts + chunk * ({size});".replace(" * (1)", ""))
                out.line(f"fill({name}_part, {START[s.kind]}, {size});")
            out.line(f"const int64_t from = {first}(chunk, {self.cut});")
            out.line(f"const int64_t to = {first}(chunk + 1, {self.cut});")
            self.rows("from", "to")
            for s in filter(self.is_number, self.group.totals):
                out.line(f"{self.text.name(s.name)}_parts[chunk] = (real){self.text.name(s.name)}_part;")

    def is_number(self, s: Loop) -> bool:
        """Whether it is a total of one number, which is summed in double precision."""
        return self.group.is_total(s) and s.kind == "sum" and not s.free

    def stored(self, loop: Loop) -> str:
        return f"{self.text.name(loop.name)}_part" if self.is_number(loop) else super().stored(loop)

    def body(self) -> None:
        for stage in self.plan.stages:
            for s in stage.values:
                self.value(s)
            self.sweeps(stage.sweeps)

    def sweeps(self, sweeps: Sequence[Sweep]) -> None:
        """The sweeps of a stage, but for what is computed where it is read."""
        for sweep in sweeps:
            if all(self.plan.place[s.name] == "element" for s in sweep.loops):
                continue
            self.notes(sweep.loops)
            if sweep.nested:
                self.nested(sweep)
            else:
                self.sweep(sweep)

    def value(self, s: Loop) -> None:
        """A statement that needs no inner axis."""
        if s.note and not self.group.is_total(s):
            self.out.comment(s.note)
        if self.group.is_total(s):
            self.out.line(fold(s.kind, self.stored(s), self.text.real(s.value)))
        elif s.changes:
            self.out.line(fold(CHANGES[s.kind], self.stored(s), self.text.real(s.value)))
        elif self.plan.place[s.name] == "value":
            self.out.line(f"const {self.type(s.name)} {self.local(s.name)} = {self.right(s)};")
        else:
            self.keep(s)

    # --- sweeps --------------------------------------------------------------------------------------------

    def sweep(self, sweep: Sweep) -> None:
        *slow, fast = order = sweep.axes
        folds = [s for s in sweep.loops if s.is_fold and not self.group.is_total(s)]
        if sweep.first:
            self.with_partial(sweep, folds)
            return
        self.start(folds)
        if slow and as_one(order, self.computed(sweep.loops), self.normal):
            with self.out.block(""):
                for a in slow:
                    self.out.line(f"const int64_t {variable(a)} = 0; // {fast} counts on to the next")
                self.vectors(fast, extent(order), folds, sweep)
        else:
            with ExitStack() as stack:
                self.in_windows(tuple(slow), fast, folds, sweep, stack)
                *slow, fast = first = self.few_first(order, sweep, folds)
                self.in_steps = first != order
                stack.enter_context(self.plain(tuple(slow)))
                self.vectors(fast, length(fast), folds, sweep)
        for s in folds:
            self.finish(s)

    def in_windows(
        self, slow: tuple[str, ...], fast: str, folds: Sequence[Loop], sweep: Sweep, stack: ExitStack
    ) -> None:
        """What pairs of places and taps add or sum, in forms of their own; what follows is for other lengths."""
        added = self.adds_in_windows(sweep)
        if not added and not (slow and self.sums_pairs(sweep)):
            return
        (s, *others) = sweep.loops
        found = plane(s, self.normal.dims[s.name], fast) if added and not others else None
        if found:
            with self.out.block(f"if ({self.in_plane(found, slow)})"):
                self.added_in_plane(found, slow)
        with self.out.otherwise(in_vectors(fast)) if found else self.out.block(f"if ({in_vectors(fast)})"):
            if added:
                self.added(slow, fast, sweep.loops)
            else:
                self.sums_of_rows(folds[0], slow, fast)
        stack.enter_context(self.out.otherwise())

    def with_partial(self, sweep: Sweep, folds: Sequence[Loop]) -> None:
        """A sweep of which some folds go over the last axes, for every value of the first."""
        partial = list(filter(sweep.is_partial, folds))
        whole = [s for s in folds if s not in partial]
        if self.folds_few(sweep, partial, whole):
            self.in_each_lane(sweep, partial)
            return
        *slow, fast = sweep.axes[sweep.first :]
        self.start(whole)
        with self.plain(sweep.axes[: sweep.first]):
            self.start(partial)
            with self.plain(tuple(slow)):
                self.vectors(fast, length(fast), folds, sweep)
            for s in partial:
                total = f"{self.text.name(s.name)}_total"
                self.out.line(f"{self.stored(s)} = {'(real)' if s.kind == 'sum' else ''}{total};")
        for s in whole:
            self.finish(s)

    # --- folds with inner axes of their own: one value for each place of these ------------------------------

    def nested(self, sweep: Sweep) -> None:
        """Vectors run along the axis that lies last in memory, or, where that is short, along the other: but for a fold
        of chosen rows, which may lie anywhere.
        """
        *_, fastest = in_memory_order((*sweep.axes, *sweep.nested), sweep.loops)
        along, across = self._along, self._across
        short, long = (across, along) if fastest in sweep.nested else (along, across)
        chosen = any(isinstance(i, Read) for s in sweep.loops for r in s.reads() for i in r.index)
        if chosen and fastest in sweep.axes:
            long(sweep)
            return
        with self.out.block(f"if ({length(fastest)} < NARROW)"):
            short(sweep)
        with self.out.otherwise():
            long(sweep)

    def _along(self, sweep: Sweep) -> None:
        """One value after the other, vectors along what is folded."""
        (s,) = sweep.loops
        *slow, fast = sweep.nested
        places = sweep.axes
        with ExitStack() as stack:
            if slow and s.kind == "sum":
                with self.out.block(f"if ({in_vectors(fast)})"):
                    self.sums_of_few(s, tuple(slow), fast, places)
                stack.enter_context(self.out.otherwise())
            stack.enter_context(self.plain(places))
            self.start([s])
            with self.plain(tuple(slow)):
                self.vectors(fast, length(fast), [s], sweep.inside)
            total = f"{self.text.name(s.name)}_total"
            self.out.line(f"{self.stored(s)} = {'(real)' if s.kind == 'sum' else ''}{total};")

    def _across(self, sweep: Sweep) -> None:
        """Neighbouring values at once, in arrays: sums of ROWS places each, added to totals in double precision."""
        (s,) = sweep.loops
        *slow, lane = sweep.axes
        *outer, fast = sweep.nested
        i, j, out, name = variable(lane), variable(fast), self.out, self.text.name(s.name)
        total, block = (f"{name}_{part}[{i} - {i}_from]" for part in ("total", "block"))
        span = f"for (int64_t {i}_from = 0; {i}_from < {length(lane)}; {i}_from += SPAN)"
        rows = f"for (int64_t {j}_block = 0; {j}_block < {length(fast)}; {j}_block += ROWS)"
        with self.plain(tuple(slow)), out.block(span):
            out.line(f"const int64_t {i}_to = at_most({i}_from + SPAN, {length(lane)});")

            def each(line: str) -> None:
                with out.loop(i, f"{i}_from", f"{i}_to", "simd"):
                    out.line(line)

            out.line(f"{'double' if s.kind == 'sum' else 'real'} {name}_total[SPAN];")
            out.line(f"real {name}_block[SPAN];")
            each(f"{total} = {START[s.kind]};")
            with self.plain(tuple(outer)), out.block(rows):
                out.line(f"const int64_t {j}_end = at_most({j}_block + ROWS, {length(fast)});")
                each(f"{block} = {START[s.kind]};")
                with out.loop(j, f"{j}_block", f"{j}_end"):
                    each(fold(s.kind, block, self.text.real(s.value)))
                each(fold(s.kind, total, block))
            each(f"{self.stored(s)} = {'(real)' if s.kind == 'sum' else ''}{total};")
