"""Loops over rows: values are variables, and vectors run along the last inner axis.

Rows are seldom a whole number of vectors. What is left over took longer, place by place, than all vectors together
where something is folded, or a costly function taken: there the last vector overlaps the one before. What overlaps is
computed twice, and summed once. Sums stand in the lanes of a vector, which are put together when the row ends; they are
taken in blocks, each added to a total in double precision. Totals over the rows are taken in chunks of rows whose
number depends on the rows alone, so that any number of threads gives the same result.

Axes of a few places, as many as is known when a kernel is printed, compilers write out. A point has three coordinates:
a vector along them would be one of empty lanes, so that vectors run along another axis, in steps of rows; what is
folded over the few is folded in each lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from derive.backends.cpu.loops.nests import START, Nest, decode, fold, in_real, in_vectors, of_total
from derive.backends.cpu.loops.windows import Blocks, Planes, plane
from derive.backends.cpu.names import Sizes, extent, length, times, variable
from derive.backends.cpu.schedule import ways
from derive.backends.cpu.schedule.stages import Sweep
from derive.backends.cpu.statements.normal import Loop, as_one, in_memory_order
from derive.backends.cpu.work import calls, is_heavy
from derive.backends.cpu.writer import Count
from derive.ir.program import Read

LEAST = 8  # places that are worth a vector
_SLOW = ("div", "sqrt", "rsqrt")  # an element at a time
_OF = {"sum": "sum", "amax": "largest", "amin": "smallest"}  # what puts lanes together


@dataclass(frozen=True)
class Width:
    """How many lanes fold at once, and how many elements before what they sum is added to a total."""

    macro: str
    block: str
    lanes: str
    together: str  # how functions end that put the lanes together


ONE = Width("IN_VECTORS", "BLOCK", "LANES", "of_lanes")
FOUR = Width("IN_FOURS", "LONG", "FOUR", "of_four")


@dataclass
class Rows(Nest):
    width = ONE

    @property
    def overlapping(self) -> bool:
        """Whether the last vector of a row may overlap the one before."""
        return not isinstance(self.way, ways.Rows) or self.way.overlapping

    def print(self) -> None:
        outer, out = self.group.outer, self.out
        buffers = [n for n, p in self.plan.place.items() if p == "buffer"]
        if not outer:
            self.body()
            return
        team = f"num_threads({self.team})"
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

    def parts(self, size: Sizes = length) -> str:
        return f"chunks{'_of' if self.inside else ''}({self.cut(size)})"

    def cut(self, size: Sizes = length) -> str:
        """How many rows are cut into chunks, and, where a row has several axes, how many elements each has."""
        return ", ".join(extent(axes, size) for axes in (self.group.outer, self.inside) if axes)

    @property
    def inside(self) -> tuple[str, ...]:
        """The axes of a row, where it has several: few such rows are shared out too."""
        inner = self.group.inner(max(self.group.loops, key=lambda s: len(self.group.inner(s))))
        return inner if len(inner) > 1 else ()

    def row(self, name: str, size: Sizes = length) -> str:
        """How many elements one thread's row of a buffer has."""
        return extent((a for a in self.axes(name) if a not in self.outer), size)

    def buffers(self, name: str) -> Count:
        """How many those of all threads have."""
        return lambda size, threads: f"{threads} * ({self.row(name, size)})"

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
        first = f"first_of_chunk{'s' if self.inside else ''}"
        with out.loop("chunk", "0", self.parts()):
            for s in self.group.totals:
                name, size = self.text.name(s.name), extent(s.free)
                if self.is_number(s):
                    out.line(f"double {name}_part = 0;")
                    continue
                at = times("chunk", f"({size})" if size != "1" else size)
                out.line(f"real *const {name}_part = {name}_parts + {at};")
                out.line(f"fill({name}_part, {START[s.kind]}, {size});")
            out.line(f"const int64_t from = {first}(chunk, {self.cut()});")
            out.line(f"const int64_t to = {first}(chunk + 1, {self.cut()});")
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
            if self.plan.is_elements(sweep):
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
        if self.group.is_total(s) or s.changes:
            self.change(s)
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
        if slow and as_one(order, self.plan.computed(sweep.loops), self.normal):
            with self.out.block(""):
                for a in slow:
                    self.out.line(f"const int64_t {variable(a)} = 0; // {fast} counts on to the next")
                self.vectors(fast, extent(order), folds, sweep)
        else:
            with ExitStack() as stack:
                self.in_windows(tuple(slow), fast, folds, sweep, stack)
                *slow, fast = first = self.few_first(order, sweep, folds)
                stack.enter_context(self.plain(tuple(slow)))
                self.vectors(fast, length(fast), folds, sweep, in_steps=first != order)
        for s in folds:
            self.finish(s)

    def in_windows(
        self, slow: tuple[str, ...], fast: str, folds: Sequence[Loop], sweep: Sweep, stack: ExitStack
    ) -> None:
        """What pairs of places and taps add or sum, in forms of their own; what follows is for other lengths."""
        blocks = Blocks(self)
        added = blocks.adds_in_windows(sweep)
        if not added and not (slow and blocks.sums_pairs(sweep)):
            return
        (s, *others) = sweep.loops
        found = plane(s, self.normal.dims[s.name], fast) if added and not others else None
        if found:
            planes = Planes(self)
            with self.out.block(f"if ({planes.fits(found, slow)})"):
                planes.added(found, slow)
        with self.out.otherwise(in_vectors(fast)) if found else self.out.block(f"if ({in_vectors(fast)})"):
            if added:
                blocks.added(slow, fast, sweep.loops)
            else:
                blocks.sums_of_rows(folds[0], slow, fast)
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
                self.out.line(f"{self.stored(s)} = {in_real(s, f'{self.text.name(s.name)}_total')};")
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
                    Blocks(self).sums_of_few(s, tuple(slow), fast, places)
                stack.enter_context(self.out.otherwise())
            stack.enter_context(self.plain(places))
            self.start([s])
            with self.plain(tuple(slow)):
                self.vectors(fast, length(fast), [s], sweep.inside)
            self.out.line(f"{self.stored(s)} = {in_real(s, f'{self.text.name(s.name)}_total')};")

    def _across(self, sweep: Sweep) -> None:
        """Neighbouring values at once, in arrays: sums of ROWS places each, added to totals in double precision."""
        (s,) = sweep.loops
        *slow, lane = sweep.axes
        *outer, fast = sweep.nested
        i, j, out, name = variable(lane), variable(fast), self.out, self.text.name(s.name)
        total, block = (f"{name}_{part}[{i} - {i}_from]" for part in ("total", "block"))
        with self.plain(tuple(slow)), out.blocks(i, length(lane), "SPAN", "from", "to"):

            def each(line: str) -> None:
                with out.loop(i, f"{i}_from", f"{i}_to", "simd"):
                    out.line(line)

            out.line(f"{of_total(s)} {name}_total[SPAN];")
            out.line(f"real {name}_block[SPAN];")
            each(f"{total} = {START[s.kind]};")
            with self.plain(tuple(outer)), out.blocks(j, length(fast), "ROWS"):
                each(f"{block} = {START[s.kind]};")
                with out.loop(j, f"{j}_block", f"{j}_end"):
                    each(fold(s.kind, block, self.text.real(s.value)))
                each(fold(s.kind, total, block))
            each(f"{self.stored(s)} = {in_real(s, total)};")

    # --- the innermost loop: whole vectors, of which the last overlaps the one before ---------------------------

    def start(self, folds: Sequence[Loop]) -> None:
        for s in folds:
            self.out.line(f"{of_total(s)} {self.text.name(s.name)}_total = {START[s.kind]};")

    def vectors(self, fast: str, n: str, folds: Sequence[Loop], sweep: Sweep, in_steps: bool = False) -> None:
        """The innermost loop over so many places, in blocks where it sums; GCC takes places that lie apart in memory,
        `in_steps`, as they come.
        """
        i, out, width = variable(fast), self.out, self.width if folds else ONE
        in_lanes = self.overlaps(sweep, folds) and not (in_steps or self.is_written_out(fast, sweep))
        with ExitStack() as stack:
            stack.enter_context(self.indices_first(fast, sweep.loops))
            start, stop = "0", n
            if any(s.kind == "sum" for s in folds):
                size = width.block if in_lanes else ONE.block
                stack.enter_context(out.blocks(i, n, size))
                start, stop = f"{i}_block", f"{i}_end"
            elif folds:
                stack.enter_context(out.block(""))
            if in_lanes:
                self._in_lanes(i, (start, stop), width, sweep, folds)
            else:
                self._by_places(i, (start, stop), sweep, folds)

    def overlaps(self, sweep: Sweep, folds: Sequence[Loop]) -> bool:
        """Whether places may be computed twice, and what is left over would be dear."""
        loops = self.plan.computed(sweep.loops)
        once = any(s.changes or s.name in {r.name for r in s.reads()} for s in loops)
        if once or sweep.ordered or not self.overlapping:
            return False
        return bool(folds) or any(is_heavy(call) or call.fn in _SLOW for s in loops for call in calls(s.value))

    def is_written_out(self, fast: str, sweep: Sweep) -> bool:
        """Whether a compiler writes out places, fewer than half a vector: most lanes would be computed for nothing."""
        heavy = any(is_heavy(call) for s in self.plan.computed(sweep.loops) for call in calls(s.value))
        return self.are_few((fast,)) and not heavy

    def are_few(self, axes: tuple[str, ...]) -> bool:
        """Whether the places of all these axes, as many as is known, are fewer than are worth a vector."""
        return bool(axes) and prod(self.normal.fixed.get(a, LEAST) for a in axes) < LEAST

    def _in_lanes(self, i: str, ends: tuple[str, str], width: Width, sweep: Sweep, folds: Sequence[Loop]) -> None:
        names = {s.name: self.text.name(s.name) for s in folds}
        for s in folds:
            self.out.line(f"real {names[s.name]}_lanes[{width.lanes}];")
            self.out.line(f"fill({names[s.name]}_lanes, {START[s.kind]}, {width.lanes});")
        with self.out.call(f"{width.macro}({i}, {', '.join(ends)}"):
            self.elements(sweep.loops, self._into_lane)
        for s in folds:
            lanes = f"{_OF[s.kind]}_{width.together}({names[s.name]}_lanes)"
            self.out.line(fold(s.kind, f"{names[s.name]}_total", lanes))

    def _by_places(self, i: str, ends: tuple[str, str], sweep: Sweep, folds: Sequence[Loop]) -> None:
        clauses = self.accumulators(folds, "_block")
        with self.out.loop(i, *ends, "" if sweep.ordered else f"simd{clauses}"):
            self.elements(sweep.loops, self._into_block)
        for s in folds:
            self.out.line(fold(s.kind, f"{self.text.name(s.name)}_total", self.accumulated(s, "_block")))

    def _into_block(self, s: Loop) -> None:
        """One more element of a fold, in a number that becomes a vector; a total adds to memory of its chunk."""
        if self.group.is_total(s):
            self.change(s)
        else:
            self.reduce(s, f"{self.text.name(s.name)}_block")

    def _into_lane(self, s: Loop) -> None:
        """The same in a lane of a vector that may overlap the one before."""
        into = self.stored(s) if self.group.is_total(s) else f"{self.text.name(s.name)}_lanes[lane]"
        new = f"{self.text.name(s.name)}_new"
        self.out.line(f"const real {new} = {self.text.real(s.value)};")
        self.out.line(fold(s.kind, into, f"lane >= done ? {new} : 0" if s.kind == "sum" else new))

    def finish(self, s: Loop) -> None:
        """A fold is complete: its value, in memory too where that is wanted."""
        self.out.line(f"const real {self.local(s.name)} = {in_real(s, f'{self.text.name(s.name)}_total')};")
        if self.plan.place[s.name] != "value":
            self.out.line(f"{self.stored(s)} = {self.local(s.name)};")
            self.here.add(s.name)

    # --- axes of a few places -----------------------------------------------------------------------------------

    def few_first(self, order: tuple[str, ...], sweep: Sweep, folds: Sequence[Loop]) -> tuple[str, ...]:
        """The axes of a sweep, one of many places last where that may be: no sums, and no places that may meet."""
        computed = self.plan.computed(sweep.loops)
        if folds or sweep.ordered or any(s.changes for s in computed) or not self.are_few(order[-1:]):
            return order
        many = [a for a in order if not self.are_few((a,))]
        return (*(a for a in order if a not in many[-1:]), *many[-1:])

    def folds_few(self, sweep: Sweep, partial: Sequence[Loop], whole: Sequence[Loop]) -> bool:
        """Whether all that a sweep folds are sums over few places: lanes are what it is for."""
        others = whole or sweep.ordered or any(s.changes or self.group.is_total(s) for s in sweep.loops)
        sums = all(s.kind == "sum" for s in partial)
        return sums and not others and self.are_few(sweep.axes[sweep.first :])

    def in_each_lane(self, sweep: Sweep, folds: Sequence[Loop]) -> None:
        """Vectors along the last axis that sums have, each lane its own sums."""
        *slow, lane = sweep.axes[: sweep.first]
        with self.plain(tuple(slow)), self.out.loop(variable(lane), "0", length(lane), "simd"):
            for s in folds:
                self.out.line(f"real {self.text.name(s.name)}_block = 0;")
            with self.plain(sweep.axes[sweep.first :]):
                self.elements(sweep.loops, self._into_block)
            for s in folds:
                self.out.line(f"{self.stored(s)} = {self.text.name(s.name)}_block;")
