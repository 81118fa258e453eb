"""Sums and additions in blocks of one vector, where rows are short: those of an image are no whole number of vectors.

The last block of a row overlaps the one before (`nests.py`). Several sums that read alike are taken at once, and what
several taps add to one place is summed before memory is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import product

from derive.backends.cpu.loops.nests import START, Nest, fold, lanes, overlapping
from derive.backends.cpu.names import length, variable
from derive.backends.cpu.schedule.stages import Sweep
from derive.backends.cpu.schedule.ways import is_window
from derive.backends.cpu.statements.normal import CHANGES, Loop
from derive.ir.nodes.arithmetic import ZERO, multiplied
from derive.ir.nodes.products import by_axes, product_factors
from derive.ir.nodes.walking import axes_along, index_axes, node_axes
from derive.ir.program import Index, Node, Window

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
        with self.nest.plain(tuple(outer)), overlapping(out, length(fast)), out.blocks(i, length(row), "ROWS"):
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


@dataclass(frozen=True)
class Side:
    """One dimension of a plane, `i + 2*p`: the places that add to it, and the taps, which may lie apart."""

    dim: str
    place: str
    tap: str
    apart: int

    @property
    def reach(self) -> str:
        """How far the last tap lies from the first."""
        return self._times(f"at_least({length(self.tap)} - 1, 0)")

    @property
    def at(self) -> str:
        """How far this tap lies from the first."""
        return self._times(variable(self.tap))

    def _times(self, count: str) -> str:
        return f"{self.apart} * {count}" if self.apart > 1 else count


@dataclass(frozen=True)
class Plane:
    """An addition to a plane: its columns, if it has any, its rows, what is read at places, and what at taps."""

    loop: Loop
    column: Side | None
    row: Side
    places: Node
    taps: Node

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.column, self.row) if self.column else (self.row,)

    @property
    def axes(self) -> set[str]:
        return {a for side in self.sides for a in (side.place, side.tap)}


def plane(s: Loop, dims: tuple[Index, ...], fast: str) -> Plane | None:
    """How a loop adds products of what places have and what taps have; None where it does not."""
    if not s.changes or CHANGES[s.kind] != "sum" or not s.slots:
        return None
    two = len(s.slots) > 1 and len(index_axes(s.slots[-2])) > 1
    columns = list(_sides(s.slots[-2], dims[-2])) if two else [None]
    for row, column in product(_sides(s.slots[-1], dims[-1]), columns):
        found = _product(s, row, column)
        if found and row.place == fast and _stand_alone(found):
            return found
    return None


def _product(s: Loop, row: Side, column: Side | None) -> Plane | None:
    """A loop's value as what the places have times what the taps have."""
    sides = (column, row) if column else (row,)
    here, there = by_axes(product_factors(s.value), {side.place for side in sides})
    mixed = {side.tap for side in sides} & {a for f in here for a in node_axes(f)}
    return Plane(s, column, row, multiplied(here), multiplied(there)) if here and there and not mixed else None


def _stand_alone(p: Plane) -> bool:
    """Whether nothing else has to do with its axes: no other dimension, and no other loop over one of the two."""
    elsewhere = p.axes & set(axes_along(p.loop.slots[: -len(p.sides)]))
    dims = {side.dim for side in p.sides}
    alike = len(p.axes) < 2 * len(p.sides) or len(dims) < len(p.sides)
    return not (elsewhere or alike or dims & set(p.loop.domain))


def _sides(index: Index, dim: Index) -> Iterator[Side]:
    """A window of two axes, either of which may be that of the places if these lie side by side."""
    if isinstance(index, Window) and isinstance(dim, str) and len(index.steps) == 2 and index.offset == ZERO:
        for (place, step), (tap, apart) in (index.steps, index.steps[::-1]):
            if step == 1 and apart > 0:
                yield Side(dim, place, tap, apart)


@dataclass(frozen=True)
class Planes:
    """What the taps of windows add to a plane, along both of its axes at once: there, no row has an end.

    `dx[h, w]` is zero, at `[i + p, j + q] += k[p, q] * dy[i, j]`: the sum of `k[p, q] * dy[h - p, w - q]` over the
    taps, of which fewer count at the edges. Here `dy` is laid out in rows as long as those of `dx`. The zeros that fill
    a row stand before the next one as well, so that a plane is one long row of which every place takes all taps.
    """

    nest: Nest

    def fits(self, p: Plane, slow: tuple[str, ...]) -> str:
        """The condition under which a plane is added to so, after lines that it asks for: some of its rows lie near,
        with zeros, and all weights are finite, since zeros of others are none.
        """
        out, finite = self.nest.out, f"{self.nest.text.name(p.loop.name)}_finite"
        out.line(f"int {finite} = 1;")
        with self.nest.plain((*self._others(p, slow), *(side.tap for side in p.sides))):
            out.line(f"{finite} &= isfinite({self.nest.text.real(p.taps)});")
        size = " * ".join(length(side.dim) for side in p.sides)
        above = f"({p.column.reach} + 1) * " if p.column else ""
        return f"{finite} && {size} >= FOUR && 2 * {above}{length(p.row.dim)} <= PLANE"

    def added(self, p: Plane, slow: tuple[str, ...]) -> None:
        """Some rows of the plane after others, the last of which may overlap those before."""
        out, width, name = self.nest.out, length(p.row.dim), self.nest.text.name(p.loop.name)
        with self.nest.plain(self._others(p, slow)):
            out.line(f"const int64_t before = {p.row.reach};")
            if p.column is None:
                self._lay_out(p, f"{name}_plane", "1")
                self._add(p, f"{name}_plane", width, "0")
                return
            high, dim = length(p.column.dim), variable(p.column.dim)
            out.line(f"const int64_t above = {p.column.reach};")
            out.line(f"const int64_t rows_near = at_most({high}, PLANE / {width} - above - 1);")
            with out.block(f"for (int64_t {dim}_block = 0; {dim}_block < {high}; {dim}_block += rows_near)"):
                out.line(f"const int64_t {dim}_from = at_most({dim}_block, {high} - rows_near);")
                self._lay_out(p, f"{name}_plane", "rows_near + above")
                self._add(p, f"{name}_plane", f"rows_near * {width}", f"({dim}_block - {dim}_from) * {width}")

    def _others(self, p: Plane, slow: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(a for a in slow if a not in p.axes)

    def _lay_out(self, p: Plane, near: str, rows: str) -> None:
        """What is read at the places, with zeros behind each row, before the first, and above it."""
        out, row, width = self.nest.out, p.row, length(p.row.dim)
        i, n = variable(row.place), length(row.place)
        out.line(f"real {near}[PLANE];")
        out.line(f"fill({near}, 0, before);")
        with out.loop("row", "0", rows):
            out.line(f"real *const row_near = {near} + before + row * {width};")
            if p.column:
                at, high = variable(p.column.place), length(p.column.place)
                out.line(f"const int64_t {at} = {variable(p.column.dim)}_from - above + row;")
                out.line(f"const int64_t {i}_end = {at} >= 0 && {at} < {high} ? {n} : 0;")
            end = f"{i}_end" if p.column else n
            with out.loop(i, "0", end, "simd"):
                out.line(f"row_near[{i}] = {self.nest.text.real(p.places)};")
            out.line(f"fill(row_near + {end}, 0, {width} - {end});")

    def _add(self, p: Plane, near: str, count: str, done: str) -> None:
        """All taps to so many places, but for those that have them already."""
        out, name = self.nest.out, self.nest.text.name(p.loop.name)
        slots = (*p.loop.slots[: -len(p.sides)], *(side.dim for side in p.sides))
        if p.column:
            out.line(f"const int64_t {variable(p.column.dim)} = {variable(p.column.dim)}_from;")
        out.line(f"const int64_t {variable(p.row.dim)} = 0, places = {count}, added = {done};")
        out.line(f"real *const {name}_near = &{self.nest.stored(replace(p.loop, slots=slots))};")
        with out.loop("block", "0", "(places - added + FOUR - 1) / FOUR"):
            out.line("const int64_t first = at_most(added + block * FOUR, places - FOUR);")
            out.line("const int done = (int)(added + block * FOUR - first);")
            out.line(f"real {name}_lanes[FOUR] = {{0}};")
            with self.nest.plain(tuple(side.tap for side in p.sides)):
                above = f"(above - {p.column.at}) * {length(p.row.dim)} + " if p.column else ""
                out.line(f"const real weight = {self.nest.text.real(p.taps)};")
                out.line(f"const real *const at = {near} + {above}before - {p.row.at} + first;")
                with out.loop("lane", "0", "FOUR", "simd", "int"):
                    out.line(f"{name}_lanes[lane] += weight * at[lane];")
            with out.loop("lane", "0", "FOUR", "simd", "int"):
                out.line(f"{name}_near[first + lane] += lane >= done ? {name}_lanes[lane] : 0;")
