"""A pass in C, in each of its ways under what lengths must be for it, and the memory that it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from derive.backends.cpu.expressions import Expressions
from derive.backends.cpu.loops.columns import Columns
from derive.backends.cpu.loops.flat import Elements
from derive.backends.cpu.loops.lanes import Lanes
from derive.backends.cpu.loops.nests import MERGE, Nest, extent
from derive.backends.cpu.loops.pair_tiles import PairTiles
from derive.backends.cpu.loops.rows import Rows
from derive.backends.cpu.loops.short import ShortRows
from derive.backends.cpu.loops.streams import Streams
from derive.backends.cpu.loops.together import RowsTogether
from derive.backends.cpu.names import length
from derive.backends.cpu.products.chains import Step, names_read
from derive.backends.cpu.schedule import ways
from derive.backends.cpu.schedule.ways import Way
from derive.backends.cpu.statements.normal import Normal
from derive.backends.cpu.writer import Writer
from derive.ir.program import Index


@dataclass
class Scratch:
    """Memory that the function takes for itself, each piece once: C type, name and number of elements."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)

    def take(self, kind: str, name: str, count: str) -> None:
        """Memory for a tensor that several steps may write: the first of them takes it."""
        if (kind, name, count) not in self.lines:
            self.lines.append((kind, name, count))

    def taken(self) -> list[str]:
        """The lines that take it, from `next` on."""
        return [f"    {kind} *const restrict {own} = take(&next, {n}, sizeof({kind}));" for kind, own, n in self.lines]


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
            scratch.take(form.type(name), c, count(dims, text))
        elif place == "buffer":
            assert isinstance(rows, Rows)
            scratch.take("real", f"{c}_rows" if plan.group.outer else c, f"threads * ({rows.row(name)})")
    for nest in reversed(nests):
        for piece in nest.scratch():
            scratch.take(*piece)
    tests = [" && ".join(b.said(length) for b in way.when) for way in found]
    adding = [n for n in nests if n.group.totals]
    for s in plan.group.totals:
        counts = dict.fromkeys(f"{n.parts} * {extent(s.free)}".removesuffix(" * 1") for n in adding)
        most = f"at_least({', '.join(counts)})" if len(counts) > 1 else next(iter(counts))
        without = next((test for test, n in zip(tests, nests, strict=True) if n not in adding), "")
        scratch.take("real", f"{text.name(s.name)}_parts", f"({without} ? 0 : {most})" if without else most)
    for k, (test, nest) in enumerate(zip(tests, nests, strict=True)):
        with out.otherwise(test) if k else out.block(f"if ({test})" if test else ""):
            nest.print()
            for s in nest.group.totals:
                out.comment(s.note)
                c, size = text.name(s.name), extent(s.free)
                out.line(f"{MERGE[s.kind]}({c}, {c}_parts, {nest.parts}, {size}, {size});")


def count(dims: tuple[Index, ...], text: Expressions) -> str:
    """How many elements a tensor of these dimensions has."""
    return " * ".join(text.extent(d) for d in dims) or "1"
