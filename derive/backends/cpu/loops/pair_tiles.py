"""Folds for all pairs of rows, in tiles whose sums stay in registers, as those of a matrix product do.

`sum(abs(a[i, k] - b[j, k]), over=k)` is no product, but asks for as much: each element of a meets each row of b. Row
by row, every step of a sum would read both anew. A tile is a few places on i by two vectors along j: what is read along
j is laid out first, a strip of a tile's width for all of k, and what lies along i is read once for all of the strip.
The last tile overlaps the one before, and computes the same once more. Where the axis that is last in memory is
shorter than a tile is wide, `sum(sign(a[i, k] - b[j, k]) * w[i, j], over=j)` of points in space, the other one is the
one that vectors run along.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from derive.backends.cpu.loops.nests import START, Nest, decode, fold, in_real, of_total
from derive.backends.cpu.names import Sizes, extent, length, times, variable
from derive.backends.cpu.schedule import ways
from derive.backends.cpu.statements.normal import Loop
from derive.backends.cpu.writer import Count
from derive.ir.nodes.walking import axes_along, walk
from derive.ir.program import AxisValue, Read

_ALL = "TILE_ROWS * TILE_COLUMNS"
_MOST = 2  # folds whose sums fit the registers


@dataclass
class PairTiles(Nest):
    """Tiles, or `turned` ones, with the axis that is last in memory down them, be it shorter than they are high: its
    last place is then computed several times.
    """

    way: ways.PairTiles
    named: dict[Read, str] = field(default_factory=dict)  # how the sweep reads what it needs

    def __post_init__(self) -> None:
        super().__post_init__()
        *self.slow, self.row, self.lane = self.group.outer
        self.folds = [s for s in self.group.loops if s.is_fold]
        self.inside = [s for s in self.group.loops if s.is_fold or self.plan.place[s.name] == "element"]
        self.after = [s for s in self.group.loops if s not in self.inside]
        (self.over,) = self.folds[0].over
        made = {s.name for s in self.inside}
        reads = dict.fromkeys(r for s in self.inside for r in s.reads() if r.name not in made and axes_along(r.index))
        self.kinds = {r: self._kind(r) for r in reads}
        packed = (r for r, kind in self.kinds.items() if kind == "packed")
        self.memory = {r: self.text.name(self.normal.fresh(f"{r.name}_strip")) for r in packed}

    def _kind(self, read: Read) -> str:
        axes = axes_along(read.index)
        if self.lane not in axes:
            return "here"
        return "tile" if self.row in axes else "packed"

    def c(self, read: Read) -> str:
        """What is read, under a name of its own."""
        same = [r for r in self.kinds if r.name == read.name and self.kinds[r] == self.kinds[read]]
        number = f"_{same.index(read) + 1}" if len(same) > 1 else ""
        return f"{self.text.name(read.name)}{number}_{self.kinds[read]}"

    def packed(self, read: Read, size: Sizes = length) -> str:
        """How many elements of it are laid out for a strip."""
        return times(extent((self.over,) if self.over in axes_along(read.index) else (), size), "TILE_COLUMNS")

    def scratch(self) -> Iterator[tuple[str, str, Count]]:
        """Type, name and length of the memory of all threads for that."""
        for r in self.memory:
            yield "real", self.memory[r], self._strips(r)

    def _strips(self, read: Read) -> Count:
        return lambda size, threads: f"{threads} * ({self.packed(read, size)})"

    def print(self) -> None:
        out, slow = self.out, tuple(self.slow)
        every = f"{extent(slow)} * slices" if slow else "slices"
        out.line(f"const int64_t slices = ({length(self.lane)} + TILE_COLUMNS - 1) / TILE_COLUMNS;")
        out.line(f"const int64_t heaps = ({length(self.row)} + TILE_ROWS - 1) / TILE_ROWS;")
        out.line(f"const int64_t shares = {every} < 4 * threads ? at_most(threads, heaps) : 1;")
        out.parallel(self.team)
        with out.loop("task", "0", f"{every} * shares"):
            out.line("const int64_t share = task % shares, slice = task / shares % slices;")
            if slow:
                out.line("const int64_t at = task / shares / slices;")
                decode(out, slow, "at")
            out.line(f"const int64_t from = at_most(slice * TILE_COLUMNS, {length(self.lane)} - TILE_COLUMNS);")
            for r in self.memory:
                self.pack(r)
            with out.loop("heap", "heaps * share / shares", "heaps * (share + 1) / shares"):
                out.line(f"const int64_t first = {self.first};")
                self.notes(self.folds)
                self.tile()
                self.notes(self.after)
                self.values()

    @property
    def first(self) -> str:
        """The first row of a tile."""
        first = f"at_most(heap * TILE_ROWS, {length(self.row)} - TILE_ROWS)"
        return f"at_least({first}, 0)" if self.way.turned else first

    @property
    def here_on(self) -> str:
        """Which place a row of a tile is."""
        return f"at_most(first + row, {length(self.row)} - 1)" if self.way.turned else "first + row"

    @property
    def work(self) -> str:
        return extent((*self.group.outer, self.over))

    def pack(self, read: Read) -> None:
        """What lies along the strip, its places side by side."""
        out, c = self.out, self.c(read)
        out.line(f"real *const {c} = {self.memory[read]} + omp_get_thread_num() * ({self.packed(read)});")
        inner = (self.over,) if self.over in axes_along(read.index) else ()
        with self.plain(inner), out.loop("lane", "0", "TILE_COLUMNS", "simd", "int"):
            out.line(f"const int64_t {variable(self.lane)} = from + lane;")
            at = f"{variable(self.over)} * TILE_COLUMNS + lane" if inner else "lane"
            out.line(f"{c}[{at}] = {self.text.read(read).code};")

    # --- a tile --------------------------------------------------------------------------------------------

    def tile(self) -> None:
        """The sums of a tile, STEPS at a time."""
        out, k = self.out, variable(self.over)
        self.wide()
        for s in self.folds:
            self.begin(s, "total", of_total(s))
        with out.blocks(k, length(self.over), "STEPS"):
            for s in self.folds:
                self.begin(s, "block", "real")
            with out.loop(k, f"{k}_block", f"{k}_end"):
                self.step()
            for s in self.folds:
                name = self.text.name(s.name)
                with out.loop("place", "0", _ALL, "simd", "int"):
                    out.line(fold(s.kind, f"{name}_total[place]", f"{name}_block[place]"))

    def begin(self, s: Loop, suffix: str, kind: str) -> None:
        name = f"{self.text.name(s.name)}_{suffix}"
        self.out.line(f"{kind} {name}[{_ALL}];")
        with self.out.loop("place", "0", _ALL, "simd", "int"):
            self.out.line(f"{name}[place] = {START[s.kind]};")

    def wide(self) -> None:
        """What there is one of for each pair, read before the sums."""
        reads = [r for r, kind in self.kinds.items() if kind == "tile"]
        for r in reads:
            self.out.line(f"real {self.c(r)}[{_ALL}];")
        if reads:
            with self.places():
                for r in reads:
                    self.out.line(f"{self.c(r)}[row * TILE_COLUMNS + lane] = {self.text.read(r).code};")

    def step(self) -> None:
        """One place on the axis that is folded, of all pairs of the tile."""
        out = self.out
        self.out.line("#pragma GCC unroll 4")
        with out.loop("row", "0", "TILE_ROWS", kind="int"):
            out.line(f"const int64_t {variable(self.row)} = {self.here_on};")
            for r, kind in self.kinds.items():
                if kind == "here":
                    out.line(f"const real {self.c(r)} = {self.text.read(r).code};")
            self.named = {r: self.c(r) + self.at(r) for r in self.kinds}
            with out.loop("lane", "0", "TILE_COLUMNS", "simd", "int"):
                if any(isinstance(n, AxisValue) and n.axis == self.lane for s in self.inside for n in walk(s.value)):
                    out.line(f"const int64_t {variable(self.lane)} = from + lane;")
                self.elements(self.inside, self.accumulate)
            self.named = {}

    def at(self, read: Read) -> str:
        """Where that lies in what was laid out."""
        kind = self.kinds[read]
        if kind == "here":
            return ""
        if kind == "tile":
            return "[row * TILE_COLUMNS + lane]"
        return f"[{variable(self.over)} * TILE_COLUMNS + lane]" if self.over in axes_along(read.index) else "[lane]"

    def element(self, read: Read) -> str | None:
        return self.named.get(read) or super().element(read)

    def accumulate(self, s: Loop) -> None:
        into = f"{self.text.name(s.name)}_block[row * TILE_COLUMNS + lane]"
        self.out.line(fold(s.kind, into, self.text.real(s.value)))

    @contextmanager
    def places(self) -> Iterator[None]:
        """All pairs of a tile."""
        out = self.out
        with out.loop("row", "0", "TILE_ROWS", kind="int"):
            out.line(f"const int64_t {variable(self.row)} = {self.here_on};")
            with out.loop("lane", "0", "TILE_COLUMNS", "simd", "int"):
                out.line(f"const int64_t {variable(self.lane)} = from + lane;")
                yield

    def values(self) -> None:
        """What has been folded, and what is made of it."""
        with self.places():
            for s in self.folds:
                total = f"{self.text.name(s.name)}_total[row * TILE_COLUMNS + lane]"
                self.out.line(f"const real {self.local(s.name)} = {in_real(s, total)};")
                if self.plan.place[s.name] == "memory":
                    self.out.line(f"{self.stored(s)} = {self.local(s.name)};")
                    self.here.add(s.name)
            for s in self.after:
                self._element(s, self.accumulate)
            self.here.clear()
