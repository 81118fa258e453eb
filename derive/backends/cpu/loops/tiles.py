"""A chain in C: the function of one tile, and the loops over all tiles."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass

from derive.backends.cpu.expressions import Expressions
from derive.backends.cpu.loops.nests import MERGE, decode
from derive.backends.cpu.loops.steps import print_step
from derive.backends.cpu.names import extent, length, times, variable
from derive.backends.cpu.products.matrices import Product
from derive.backends.cpu.products.reach import Offset
from derive.backends.cpu.products.tile import View
from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.schedule.schedule import Tiled
from derive.backends.cpu.statements.normal import Normal
from derive.backends.cpu.writer import Count, Scratch, Writer, in_rows
from derive.ir.program import base


@dataclass
class Tiles:
    """Prints a chain: the function `name`, which takes a tile, and what calls it."""

    step: Tiled
    form: Normal
    name: str
    axes: tuple[str, ...]  # all that the kernel has

    def __post_init__(self) -> None:
        self.chain, self.tile, self.text = self.step.tile.chain, self.step.tile, Expressions(self.step.tile.form)
        self.scratch = Scratch()  # of one tile

    # --- the function of one tile ----------------------------------------------------------------------------

    def function(self) -> str:
        """The function's text."""
        tile, body = self.tile, Writer(depth=1)
        beyond = tuple(v.name for v in tile.views if v.tensor not in self.chain.local)
        for step in self.step.steps:
            body.line()
            adds = ""
            if isinstance(step, Product) and step.name in self.chain.sums:
                adds = self._begun(step, body)
            print_step(step, tile.form, body, self.scratch, beyond, adds)
        code = [*body.lines, *self.reached(), *(n for _, _, n in self.scratch.pieces)]
        words = set(re.findall(r"\w+", "\n".join(code)))
        self.given = [v for v in tile.views if v.name in beyond and self._called(v.name) in words]
        self.scalars = [c for c in map(self.text.name, self.form.program.scalars) if c in words]
        self.counts = [length(a) for a in self.axes if length(a) in words]
        self.counts += [variable(a) for a in self.chain.stepped if variable(a) in words]
        self.counts += [tile.first] if tile.first in words else []
        return self._around(body)

    def _begun(self, p: Product, body: Writer) -> str:
        """When a sum over tiles is added to what is there: always where it begins with zeros."""
        zeros = self.nothing_elsewhere(p)
        if zeros:
            body.line(zeros)
        return "true" if zeros else "adds"

    def _called(self, name: str) -> str:
        """What a tensor is called in C: the variable that holds a number, or memory."""
        return f"{self.text.name(name)}_here" if name in self.tile.form.numbers else self.text.name(name)

    def _around(self, body: Writer) -> str:
        written = {s.name for step in self.chain.steps for s in (step.loops if isinstance(step, Group) else (step,))}
        params = []
        for v in self.given:
            const = "" if v.tensor in written else "const "
            pointer = "" if v.name in self.tile.form.numbers else "*restrict "
            params.append(f"{const}{self.tile.form.type(v.name)} {pointer}{self._called(v.name)}")
        params += [f"const double {s}" for s in self.scalars]
        params += [f"const int64_t {c}" for c in (self.height, *self.counts)]
        params += ["const bool adds"] if self.chain.sums else []
        params += ["char *next"] if self.scratch.pieces else []
        lines = [f"// Some places on {self.chain.tiled}: what is made of them alone lies in the cache."]
        lines += in_rows(f"SHARED void {self.name}(", [*params, "const int threads"], ") {")
        lines += [f"    {line}" for line in self.reached()]
        return "\n".join([*lines, *self.scratch.taken(), *body.lines, "}"])

    # --- how high it is, and how far it reaches ----------------------------------------------------------------

    @property
    def height(self) -> str:
        return length(self.tile.axis)

    def least(self) -> str:
        """How many rows a tile must have lest its products wait for their other matrix: as many as that is deep."""
        depths = self.tile.depths
        if depths is None:
            return "1"
        least = "HIGH" if self.tile.reach is None else "LOW"
        for deep in dict.fromkeys(extent(axes) for axes in depths if axes):
            least = f"at_least({least}, {deep})"
        return least

    def reached(self) -> list[str]:
        """The lines that say how far the tile reaches, and where what it reads there begins."""
        if self.tile.reach is None:
            return []
        all_of_it, near = length(self.tile.reach.axis), length(self.tile.near)
        end = all_of_it
        if self.tile.reach.end is not None:
            end = _moved(f"{self.tile.first} + {self.height}", self.tile.reach.end)
        if self.tile.reach.start is None:
            return [f"const int64_t {near} = at_most({all_of_it}, at_least(1, {end})); // nothing is left beyond"]
        first = self.tile.starts[self.tile.near]
        start = f"at_most({_moved(self.tile.first, self.tile.reach.start)}, {all_of_it} - 1)"
        lines = [f"const int64_t {first} = at_least(0, {start});"]
        most = f"at_most({all_of_it} - {first}, at_least(1, {end} - {first}))"
        lines.append(f"const int64_t {near} = {most}; // nothing is left before and beyond")
        for name, of in self.tile.moved.items():
            const = "" if of.name in self.chain.sums else "const "
            at = f"{self.text.name(of.name)} + {times(first, extent(of.dims[1:]))}"
            lines.append(f"{const}real *const {self.text.name(name)} = {at};")
        return lines

    def nothing_elsewhere(self, p: Product) -> str:
        """Zeros for a sum of products, before any tile adds to it: none may reach all of it."""
        if self.tile.reach is None or self.tile.near not in p.out.dims:
            return ""
        size = " * ".join([length(self.tile.reach.axis), *map(length, p.out.dims[1:])])
        return f"if (!adds) fill({self.text.name(p.name)}, 0, {size});"

    def most(self, axis: str) -> str:
        """The length of an axis for a tile that reaches as far as there is anything."""
        return length(self.tile.reach.axis if self.tile.reach is not None and base(axis) == self.tile.near else axis)

    def of_one(self, axis: str) -> str:
        """The same for a tile of one row."""
        return "1" if base(axis) == self.tile.axis else self.most(axis)

    # --- the loops over all tiles --------------------------------------------------------------------------------

    @property
    def tasks(self) -> str:
        """How many parts there are that threads may share: tiles, unless one adds to what others give."""
        stepped = extent(self.chain.stepped)
        return stepped if self.chain.sums else times(stepped, f"{self.height}s")

    @property
    def number_of_tiles(self) -> str:
        return " * ".join([*map(length, self.chain.stepped), f"{self.height}s"])

    def before(self) -> list[str]:
        """The lines that say how high a tile is, how many there are, and what they need of memory."""
        rows, h, least = length(self.chain.tiled), self.height, self.least()
        needs = [(kind, count) for (kind, _, _), count in self.scratch.pieces.items()]
        one = (f"sizeof({kind}) * ({count(self.of_one, '1')})" for kind, count in needs)
        each = " + ".join(one) or "1"
        # the lower the tiles, the less they reach
        most = f"near((int64_t)({each}), {least})" if self.tile.reach is None else least
        lines = [f"const int64_t {h} = tile_of({rows}, {most});"]
        lines.append(f"const int64_t {h}s = at_least(1, ({rows} + {h} - 1) / {h});")  # of nothing a sum is 0
        lines.append(f"const int {h}_team = batch_team(threads, {self.tasks});")
        if needs:
            threads = f"(threads / {h}_team)"
            sizes = (f"bytes({count(self.most, threads)}, sizeof({kind}))" for kind, count in needs)
            lines.append(f"const int64_t {h}_bytes = (int64_t)({' + '.join(sizes)});")
        return lines

    def take(self, scratch: Scratch) -> None:
        """The memory that the tiles at work need, and that of the parts that they give of totals."""
        h = self.height
        if self.scratch.pieces:
            scratch.take("char", f"{h}_memory", lambda *_: f"{h}_team * {h}_bytes")
        for s in self.chain.totals:
            scratch.take("real", f"{self.text.name(s.name)}_tiles", self._parts(s.free))

    def _parts(self, free: tuple[str, ...]) -> Count:
        return lambda size, _: times(self.number_of_tiles, extent(free, size))

    def print(self, out: Writer) -> None:
        """The loops, and what completes totals."""
        chain, h = self.chain, self.height
        out.comment(f"in tiles along {chain.tiled}: {', '.join(sorted(chain.local))}")
        parallel = self.tasks != "1"
        if parallel:
            uneven = self.tile.reach is not None and not chain.sums
            out.parallel(f"{h}_team", kind="dynamic" if uneven else "static")
        with ExitStack() as stack:
            if parallel:
                stack.enter_context(out.loop("at", "0", self.tasks))
                self._decode(out)
            if chain.sums:
                stack.enter_context(out.loop("tile", "0", f"{h}s"))
            out.line(f"const int64_t {self.tile.first} = tile * {h};")
            for line in in_rows(f"{self.name}(", self._arguments(parallel), ");"):
                out.line(line)
        for s in chain.totals:
            c, size = self.text.name(s.name), extent(s.free)
            out.line(f"{MERGE[s.kind]}({c}, {c}_tiles, {self.number_of_tiles}, {size}, {size});")

    def _decode(self, out: Writer) -> None:
        stepped, h = self.chain.stepped, self.height
        if self.chain.sums:
            decode(out, stepped, "at")
        elif stepped:
            out.line(f"const int64_t tile = at % {h}s, place = at / {h}s;")
            decode(out, stepped, "place")
        else:
            out.line("const int64_t tile = at;")

    def _arguments(self, parallel: bool) -> list[str]:
        h, first = self.height, self.tile.first
        args = [*map(self._start, self.given), *self.scalars]
        args += [f"at_most({h}, {length(self.chain.tiled)} - {first})", *self.counts]
        args += [f"{first} > 0"] if self.chain.sums else []
        own = f"{h}_memory{f' + omp_get_thread_num() * {h}_bytes' if parallel else ''}"
        return [*args, *([own] if self.scratch.pieces else []), f"threads / {h}_team"]

    def _start(self, v: View) -> str:
        """Where a tensor begins for a tile; of a total, where its part goes."""
        if v.name in self.tile.form.numbers:
            return self._called(v.name)
        dims, name = self.form.dims[v.tensor], self.text.name(v.tensor)
        if any(s.name == v.tensor for s in self.chain.totals):
            place = f"at * {self.height}s + tile" if self.chain.sums else "at"
            place = place if self.chain.stepped else "tile"
            size = " * ".join(self.text.extent(d) for d in dims)
            return f"{name}_tiles + {f'({place}) * {size}' if size else place}"
        steps = []
        for k, a in enumerate(v.axes):
            place = self.tile.first if a == self.chain.tiled else variable(a)
            after = " * ".join([*map(length, v.axes[k + 1 :]), *map(self.text.extent, v.rest)])
            steps.append(f"{place} * {after}" if after else place)
        return " + ".join([name, *steps])


def _moved(place: str, offset: Offset) -> str:
    """A place so many further on."""
    for factor, n in [*((length(a), n) for a, n in offset.lengths), ("1", offset.number)]:
        place += f" {'+' if n > 0 else '-'} {times(str(abs(n)), factor)}" if n else ""
    return place
