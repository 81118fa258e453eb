"""A pass in C, in each of its ways under what lengths must be for it, and the memory that it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from derive.backends.cpu.loops.columns import Columns, Elements
from derive.backends.cpu.loops.lanes import Lanes
from derive.backends.cpu.loops.nests import MERGE, Nest
from derive.backends.cpu.loops.pair_tiles import PairTiles
from derive.backends.cpu.loops.rows import Rows
from derive.backends.cpu.loops.short import ShortRows
from derive.backends.cpu.loops.streams import Streams
from derive.backends.cpu.loops.together import RowsTogether
from derive.backends.cpu.names import Sizes, extent, length, times
from derive.backends.cpu.products.chains import Step, names_read
from derive.backends.cpu.schedule import ways
from derive.backends.cpu.schedule.ways import Way
from derive.backends.cpu.statements.normal import Normal
from derive.backends.cpu.writer import Count, Scratch, Writer


def read_by(steps: Iterable[Step]) -> set[str]:
    """The tensors that steps read."""
    return set().union(*map(names_read, steps))


NESTS: Mapping[type[ways.Way], type[Nest]] = {
    ways.Elements: Elements, ways.Rows: Rows, ways.RowsTogether: RowsTogether, ways.Columns: Columns,
    ways.Streams: Streams, ways.ShortRows: ShortRows, ways.Lanes: Lanes, ways.PairTiles: PairTiles,
}  # fmt: skip
"""What prints each way."""


def print_pass(found: tuple[Way, ...], form: Normal, out: Writer, scratch: Scratch, beyond: Collection[str]) -> None:
    """Write a pass in each of its ways, under the condition in which it is better; take the memory that they need.

    What lies `beyond` has memory already.
    """
    nests = [NESTS[type(way)](way, form, out) for way in reversed(found)][::-1]
    plan, text = found[-1].plan, nests[-1].text
    rows = next((n for n in nests if isinstance(n, RowsTogether)), nests[-1])
    for name, place in plan.place.items():
        c, dims = text.name(name), form.dims[name]
        if place == "memory" and name not in beyond and name not in {n for n, _ in form.program.given}:
            scratch.take(form.type(name), c, text.memory(dims))
        elif place == "buffer":
            assert isinstance(rows, Rows)
            scratch.take("real", f"{c}_rows" if plan.group.outer else c, rows.buffers(name))
    for nest in reversed(nests):
        for piece in nest.scratch():
            scratch.take(*piece)
    for s in plan.group.totals:
        scratch.take("real", f"{text.name(s.name)}_parts", _parts(nests, s.free))
    tests = [way.test(length) for way in found]
    for k, (test, nest) in enumerate(zip(tests, nests, strict=True)):
        with out.otherwise(test) if k else out.block(f"if ({test})" if test else ""):
            nest.print()
            for s in nest.group.totals:
                out.comment(s.note)
                c, size = text.name(s.name), extent(s.free)
                out.line(f"{MERGE[s.kind]}({c}, {c}_parts, {nest.parts()}, {size}, {size});")


def _parts(nests: Sequence[Nest], free: tuple[str, ...]) -> Count:
    """The memory for a total's parts: as many as any way has that gives such."""

    def count(size: Sizes, _: str) -> str:
        counts = dict.fromkeys(times(n.parts(size), extent(free, size)) for n in nests if n.group.totals)
        most = f"at_least({', '.join(counts)})" if len(counts) > 1 else next(iter(counts))
        without = next((n.way.test(size) for n in nests if not n.group.totals), "")
        return f"({without} ? 0 : {most})" if without else most

    return count
