"""Rows of a few elements: vectors run along the rows instead, which are columns then.

A loop of ten elements costs more before and after its vectors than in them, and the last vector computes again what the
one before has. How long an axis is shows when the kernel runs, so that both forms are printed wherever rows are folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce

from derive.backends.cpu.loops.columns import Columns
from derive.backends.cpu.loops.early import chosen_reads
from derive.backends.cpu.loops.groups import Group, memories
from derive.backends.cpu.loops.nests import Accumulate, extent, overlapping
from derive.backends.cpu.loops.stages import Plan, planned
from derive.backends.cpu.names import length, variable
from derive.backends.cpu.statements.normal import Loop, Normal
from derive.backends.cpu.work import calls, is_heavy, units
from derive.ir.nodes.walking import axes_along, index_axes
from derive.ir.program import Index, Merged, Read, Window

_ROWS = 4  # abreast, whose vectors are FOUR elements


def short_form(group: Group, form: Normal, outside: frozenset[str]) -> Plan | None:
    """The same loops with vectors along the last outer axis, if they can be."""
    inner = set(inner_axes(group))
    if group.lane is not None or not group.outer or not inner or not all(_fits(s, group) for s in group.loops):
        return None
    few = _few(group, form)
    if not _is_worth_it(group, inner) and not (inner <= few and _is_more_than_elements(group)):
        return None
    plan = planned(replace(group, lane=group.outer[-1], short=True), form, outside)
    kept = [index_axes(i) for n, place in plan.place.items() if place == "buffer" for i in form.dims[n]]
    return plan if all(set(axes) <= {*group.outer, *inner, *few} for axes in kept) else None


def inner_axes(group: Group) -> tuple[str, ...]:
    """The axes inside the rows."""
    return tuple(dict.fromkeys(a for s in group.loops for a in group.inner(s)))


def _fits(loop: Loop, group: Group) -> bool:
    """Whether columns can print it: an element, a fold of each row, a total over all, a change in each row."""
    if loop.changes:
        return not group.inner(loop) and group.outer[-1] in loop.slots
    if group.is_total(loop):
        return set(loop.over) == set(group.outer) and loop.kind == "sum"
    return not loop.is_fold or set(loop.free) == set(group.outer)


def _is_worth_it(group: Group, inner: set[str]) -> bool:
    """Whether rows are folded or take a costly function, or what is likely to be short lies apart in memory."""
    reads = [r for s in group.loops for r in s.reads()]
    indices = [i for r in reads for i in r.index] + [i for s in group.loops for i in s.slots]
    several = [i for i in indices if isinstance(i, Merged) or (isinstance(i, Window) and len(i.steps) > 1)]
    parts = inner <= set(axes_along(several))
    if any(s.is_fold and not group.is_total(s) for s in group.loops):
        return len(inner) == 1 or parts or _lies_across(group, inner)
    costly = any(is_heavy(call) for s in group.loops if group.inner(s) for call in calls(s.value))
    return (costly and len(inner) == 1) or (parts and len({m[-1:] for s in group.loops for m in memories(s)}) > 1)


def _few(group: Group, form: Normal) -> set[str]:
    """The axes of dimensions of which single places are read or written: such a dimension has few."""
    found = [(s.name, s.slots) for s in group.loops] + [(r.name, r.index) for s in group.loops for r in s.reads()]
    places = [dim for name, at in found for dim, i in zip(form.dims[name], at, strict=True) if _is_place(i)]
    return set(axes_along(places))


def _is_place(index: Index) -> bool:
    """Whether it is one place, whatever the axes."""
    return isinstance(index, Window) and not index.steps


def _is_more_than_elements(group: Group) -> bool:
    """Whether it folds rows, or puts something at single places of them: vectors along rows have no part in that."""
    folded = any(s.is_fold and not group.is_total(s) for s in group.loops)
    return folded or any(any(map(_is_place, s.slots)) for s in group.loops)


def _lies_across(group: Group, inner: set[str]) -> bool:
    """Whether neighbours in memory are elements of neighbouring rows: if no row is kept, rows may be long."""
    reads = [r for s in group.loops for r in s.reads()]
    across = [r for r in reads if group.outer[-1] in axes_along(r.index)]
    return all(r.index[-1] == group.outer[-1] for r in across) and any(inner & set(axes_along(r.index)) for r in across)


def reads_windows(group: Group) -> bool:
    """Whether neighbouring rows are neighbouring places of the same windows: they read what lies side by side."""
    inner = set(inner_axes(group))
    last = [r.index[-1] for s in group.loops for r in s.reads() if r.index and inner & set(axes_along(r.index))]
    return any(group.outer[-1] in index_axes(i) and inner & set(index_axes(i)) for i in filter(is_window, last))


def is_window(index: Index) -> bool:
    """Whether it is a place on several axes."""
    return isinstance(index, Window) and len(index.steps) > 1


@dataclass
class ShortRows(Columns):
    """Columns, BUNDLE at a time, that may have totals for each place inside and rows that are kept.

    Windows of a few places are one vector of `abreast` rows each: what they sum stays in registers. Rows of an image
    are no whole number of vectors; the last one overlaps the one before, and computes the same once more. Of several rows
    what they read alike, a filter's taps, is read once.
    """

    abreast: int = 0
    loaded: dict[Read, str] = field(default_factory=dict)  # variables that hold what a choice reads

    @property
    def room(self) -> str:
        return {0: "BUNDLE", 1: "LANES", _ROWS: "FOUR"}[self.abreast]

    @property
    def fits(self) -> bool:
        """Whether all may be computed twice, and no row is kept: nothing is summed over rows, or changed."""
        once = not self.group.totals and not any(s.changes for s in self.group.loops)
        several = self.abreast == 1 or bool(self.split()[0])
        return several and once and reads_windows(self.group) and "buffer" not in self.plan.place.values()

    @property
    def test(self) -> str:
        """The condition under which this form is better; what is kept of a row has less than SHORT places then."""
        slow, _, n = self.split()
        if self.abreast:
            rows = f" && {length(slow[-1])} >= {_ROWS}" if self.abreast > 1 else ""
            return f"{self.places} <= ROWS && {n} >= LANES{rows}"
        return f"{self.places} < {self.limit} && {n} >= {self.least}" if self.is_few else f"{n} >= {self.least}"

    @property
    def limit(self) -> str:
        """How long rows are columns: up to a vector, or longer, where to compute a costly function again in what
        vectors overlap costs more than to go through memory in steps of rows.
        """
        loops, axis = self.group.loops, inner_axes(self.group)[-1]
        indices = [(r.name, r.index) for s in loops for r in s.reads()] + [(s.name, s.slots) for s in loops]
        along = [(name, i) for name, i in indices if {axis, self.group.outer[-1]} <= set(axes_along(i))]
        lie_apart = len(inner_axes(self.group)) > 1 or any(i[-1] != axis for _, i in along)
        tensors = {name for name, _ in along if self.plan.place.get(name, "memory") == "memory"}
        cost = sum(units(call) for s in loops if self.group.inner(s) for call in calls(s.value) if is_heavy(call))
        if not (lie_apart or any(s.is_fold for s in loops)):
            return "NARROW"  # one vector, or two, take less than steps of rows
        return "SHORT" if lie_apart or cost > len(tensors) else "NARROW"

    @property
    def places(self) -> str:
        """How many places a row has."""
        inner = [*map(self.group.inner, self.group.loops)]
        kept = [n for n, place in self.plan.place.items() if place == "buffer"]
        inner += [tuple(a for a in self.axes(n) if a not in self.outer) for n in kept]
        every = dict.fromkeys(a for axes in inner for a in axes)
        rows = dict.fromkeys(tuple(a for a in every if a in axes) for axes in inner)
        longest = [r for r in rows if not any(set(r) < set(other) for other in rows)]
        counts = [length(r[0]) if len(r) == 1 else " * ".join(f"at_least({length(a)}, 1)" for a in r) for r in longest]
        return reduce(lambda most, n: f"at_least({most}, {n})", counts)

    @property
    def least(self) -> str:
        """How many rows are taken as columns: fewer where what neighbours read lies side by side, as of windows, and
        where rows are so short that they leave a vector emptier.
        """
        across = _lies_across(self.group, set(inner_axes(self.group)))
        if reads_windows(self.group):
            return "at_most(MANY, NARROW / 2)"
        if across:
            return "at_most(MANY, NARROW)"
        return f"many_rows({self.places})" if self.is_few else "MANY"

    @property
    def is_few(self) -> bool:
        """Whether rows have less than SHORT places, whose sums need no blocks; else no row is kept."""
        across = _lies_across(self.group, set(inner_axes(self.group))) or reads_windows(self.group)
        return bool(self.abreast) or not across or "buffer" in self.plan.place.values()

    def folded(self, axes: tuple[str, ...], folds: Sequence[Loop], loops: Sequence[Loop]) -> None:
        if not self.is_few or not folds:
            super().folded(axes, folds, loops)
            return
        self.begin(folds, "_block")
        with self.plain(axes):
            self.place(loops)

    def part(self, s: Loop, suffix: str) -> str:
        return super().part(s, "_block" if self.is_few else suffix)

    def print(self) -> None:
        if not self.abreast:
            self.blocks("BUNDLE")
            return
        (slow, _, n), out = self.split(), self.out
        row = slow[-1:] if self.abreast > 1 else ()
        self.starts()
        team = f"num_threads(team(threads, {self.work}))"
        out.line(f"#pragma omp parallel for {team} collapse({len(slow) + 1}) schedule(static)")
        with self.plain(slow[: len(slow) - len(row)]), ExitStack() as stack:
            for a in row:
                stack.enter_context(out.loop(f"{variable(a)}_block", "0", f"({length(a)} + {_ROWS - 1}) / {_ROWS}"))
            stack.enter_context(overlapping(out, n, "from"))
            out.line("const int64_t to = from + LANES;")
            for a in row:
                i, most = variable(a), f"{length(a)} - {_ROWS}"
                out.line(f"const int64_t {i}_from = at_most({i}_block * {_ROWS}, {most});")
            self.stages()

    @contextmanager
    def lane(self, clauses: str = "") -> Iterator[None]:
        with ExitStack() as stack:
            if self.abreast > 1:
                row = variable(self.split()[0][-1])
                self.out.line(f"#pragma GCC unroll {_ROWS}")
                stack.enter_context(self.out.loop("row", "0", str(_ROWS), kind="int"))
                self.out.line(f"const int64_t {row} = {row}_from + row;")
            stack.enter_context(super().lane(clauses))
            yield

    @property
    def in_block(self) -> str:
        return f"row * LANES + {super().in_block}" if self.abreast > 1 else super().in_block

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
        wanted = self.wanted(loops)
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
