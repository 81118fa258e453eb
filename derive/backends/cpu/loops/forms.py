"""The forms in which a group is printed, rows or columns, long or short as lengths decide; the memory that it needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from derive.backends.cpu.expressions import Expressions
from derive.backends.cpu.loops.columns import Columns
from derive.backends.cpu.loops.flat import Flat
from derive.backends.cpu.loops.groups import Group
from derive.backends.cpu.loops.lanes import Lanes, lanes_form
from derive.backends.cpu.loops.nests import MERGE, Nest, extent
from derive.backends.cpu.loops.pair_tiles import PairTiles, pair_tiles
from derive.backends.cpu.loops.rows import FOUR, Rows
from derive.backends.cpu.loops.short import ShortRows, short_form
from derive.backends.cpu.loops.stages import Plan, planned, rows_first
from derive.backends.cpu.loops.streams import Streams, streams
from derive.backends.cpu.loops.together import RowsTogether, together
from derive.backends.cpu.products.chains import Step, names_read, names_written
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

    def take_all(self, pieces: Iterable[tuple[str, str, str]]) -> None:
        for piece in pieces:
            self.take(*piece)

    def taken(self) -> list[str]:
        """The lines that take it, from `next` on."""
        return [f"    {kind} *const restrict {own} = take(&next, {n}, sizeof({kind}));" for kind, own, n in self.lines]


def shared_with(others: Iterable[Step], form: Normal) -> frozenset[str]:
    """The tensors of which other steps know, or who calls."""
    outside = set(form.program.returns) | {n for n, _ in form.program.given}
    return frozenset(outside.union(*(names_read(s) | names_written(s) for s in others)))


def read_by(steps: Iterable[Step]) -> set[str]:
    """The tensors that steps read."""
    return set().union(*map(names_read, steps))


class Plans(NamedTuple):
    """How a group runs, how where its rows are short, and how with vectors over several of them, if it can."""

    plan: Plan
    short: Plan | None
    lanes: Plan | None
    tiles: tuple[tuple[bool, Plan], ...]  # in tiles of pairs, turned or not


def plans(group: Group, outside: frozenset[str], form: Normal) -> Plans:
    """The ways in which a group may run; `outside` are the tensors of which others know."""
    tiles = pair_tiles(group, form, outside)
    group = rows_first(group, form)
    plan = planned(group, form, outside)
    return Plans(plan, short_form(group, form, outside), lanes_form(group, form, outside), tiles)


def print_group(found: Plans, form: Normal, out: Writer, scratch: Scratch, beyond: tuple[str, ...]) -> None:
    """Write a group in each of its forms, under the condition in which it is better; take the memory that they need.

    What lies `beyond` has memory already.
    """
    plan, short, lanes, tiles = found
    group = plan.group
    nest = _shape(plan, form)(plan, form, out)
    for name, place in plan.place.items():
        c, dims = nest.text.name(name), form.dims[name]
        own = name not in beyond and name not in {n for n, _ in form.program.given}
        if place == "memory" and own:
            scratch.take(form.type(name), c, count(dims, nest.text))
        elif place == "buffer":
            assert isinstance(nest, Rows)
            scratch.take("real", f"{c}_rows" if group.outer else c, f"threads * ({nest.row(name)})")
    forms: list[tuple[str, Nest]] = [("", nest)]
    if isinstance(nest, Columns) and streams(plan):
        long = Streams(plan, form, out)
        scratch.take_all(long.scratch())
        narrow = Streams(plan, form, out, narrow=True)
        forms = [*([(narrow.tall(), narrow)] if narrow.fits else []), (long.tall(), long), *forms]
    if isinstance(nest, RowsTogether):
        wide = RowsTogether(plan, form, out, width=FOUR)
        forms = [(wide.test, wide), (nest.test, nest), ("", Rows(plan, form, out, overlapping=False))]
    if short is not None:
        rows = ShortRows(short, form, out)
        forms.insert(0, (rows.test, rows))
        vectors = (ShortRows(short, form, out, abreast=n) for n in (4, 1))
        forms = [*((v.test, v) for v in vectors if v.fits), *forms]
    if lanes is not None:
        across = Lanes(lanes, form, out)
        forms.insert(0, (across.test, across))
    for turned, tiled in reversed(tiles):
        pairs = PairTiles(tiled, form, out, turned=turned)
        scratch.take_all(pairs.scratch())
        forms.insert(0, (pairs.test, pairs))
    for s in group.totals:
        counts = dict.fromkeys(f"{f.parts} * {extent(s.free)}".removesuffix(" * 1") for _, f in forms if f.group.totals)
        most = f"at_least({', '.join(counts)})" if len(counts) > 1 else next(iter(counts))
        without = next((test for test, f in forms if not f.group.totals), "")
        most = f"({without} ? 0 : {most})" if without else most
        scratch.take("real", f"{nest.text.name(s.name)}_parts", most)
    for k, (test, shape) in enumerate(forms):
        with out.otherwise(test) if k else out.block(f"if ({test})" if test else ""):
            shape.print()
            for s in shape.group.totals:
                out.comment(s.note)
                c, size = nest.text.name(s.name), extent(s.free)
                out.line(f"{MERGE[s.kind]}({c}, {c}_parts, {shape.parts}, {size}, {size});")


def _shape(plan: Plan, form: Normal) -> type[Nest]:
    group = plan.group
    if group.lane is None:
        return RowsTogether if together(plan, form) else Rows
    inside = any(stage.sweeps for stage in plan.stages)
    return Columns if inside else Flat


def count(dims: tuple[Index, ...], text: Expressions) -> str:
    """How many elements a tensor of these dimensions has."""
    return " * ".join(text.extent(d) for d in dims) or "1"
