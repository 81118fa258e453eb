"""A program as a schedule: passes over memory, products of matrices, running sums and tiles of these, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent

from derive.backends.cpu.products.chains import Chain, Step, names_read, names_written
from derive.backends.cpu.products.matrices import Product
from derive.backends.cpu.products.tile import Tile
from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.schedule.stages import Plan
from derive.backends.cpu.schedule.ways import Way, ways
from derive.backends.cpu.statements.normal import Normal, Running
from derive.ir.program import base

_LIVE = {"memory": "in memory", "value": "a number a place", "buffer": "a row a thread", "element": "made as read"}


@dataclass(frozen=True)
class Pass:
    """Loops that share a pass over memory, and the ways in which it may run: the first whose bounds hold is taken."""

    group: Group
    ways: tuple[Way, ...]

    def __str__(self) -> str:
        plan = self.ways[-1].plan
        outer = ", ".join(self.group.outer)
        lines = [f"pass over {outer}, which threads share:" if outer else "pass:", *_stages(plan)]
        for place, words in _LIVE.items():
            names = [n for n, p in plan.place.items() if p == place]
            lines += [f"    {words}: {', '.join(names)}"] if names else []
        for way in self.ways:
            bounds = " and ".join(b.said(lambda axis: f"size({base(axis)})") for b in way.when)
            lines.append(f"  {'where ' + bounds if bounds else 'else' if len(self.ways) > 1 else 'always'}: {way}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Tiled:
    """Steps over the same axes, some places of the last one at a time: what only they know lies in a tile."""

    tile: Tile
    steps: tuple[Pass | Product, ...]

    def __str__(self) -> str:
        *stepped, tiled = self.tile.chain.axes
        each = f", for each of {', '.join(stepped)}" if stepped else ""
        held = ", ".join(sorted(self.tile.chain.local))
        shared = "one tile after another adds to them" if self.tile.chain.sums else "threads share them"
        head = f"tiles along {tiled}{each}, which hold {held}; {shared}:"
        return "\n".join([head, *(indent(str(s), "  ") for s in self.steps)])


@dataclass(frozen=True)
class Schedule:
    """All steps of a kernel, in order."""

    steps: tuple[Pass | Tiled | Product | Running, ...]
    joined: Mapping[str, tuple[str, str]]  # axes that are two others, which lie one after another in memory

    def __str__(self) -> str:
        joined = [f"{whole} is {slow} and {fast} as one axis" for whole, (slow, fast) in self.joined.items()]
        return "\n".join([*joined, *map(str, self.steps)])


def scheduled(steps: Sequence[Step | Chain], form: Normal, axes: tuple[str, ...]) -> Schedule:
    """The schedule of steps that are in order; `axes` are all that the kernel has."""
    flat = [x for s in steps for x in together(s)]
    known = {id(s): names_read(s) | names_written(s) for s in flat}
    ends = {*form.program.returns, *(n for n, _ in form.program.given)}
    outside = {id(s): frozenset(ends.union(*(n for x, n in known.items() if x != id(s)))) for s in flat}
    out: list[Pass | Tiled | Product | Running] = []
    for step in steps:
        if isinstance(step, Chain):
            tile = Tile(step, form, sum(isinstance(s, Tiled) for s in out), axes)
            inside = zip(tile.steps, step.steps, strict=True)
            out.append(Tiled(tile, tuple(_pass(s, outside[id(own)], tile.form) for s, own in inside)))
        else:
            out.append(step if isinstance(step, Running) else _pass(step, outside[id(step)], form))
    return Schedule(tuple(out), form.joined)


def _pass(step: Group | Product, outside: frozenset[str], form: Normal) -> Pass | Product:
    return step if isinstance(step, Product) else Pass(step, ways(step, outside, form))


def together(step: Step | Chain | Pass | Tiled) -> tuple[Step, ...]:
    """The steps that run together."""
    if isinstance(step, Tiled):
        step = step.tile.chain
    if isinstance(step, Chain):
        return step.steps
    return (step.group if isinstance(step, Pass) else step,)


def _stages(plan: Plan) -> Iterator[str]:
    """What is computed of each place of the outer axes, in order."""
    for stage in plan.stages:
        yield from (f"    {s}" for s in stage.values)
        for sweep in stage.sweeps:
            inside = f", and over {', '.join(sweep.nested)} for each" if sweep.nested else ""
            serial = ", one place after another" if sweep.ordered else ""
            yield f"    over {', '.join(sweep.axes)}{inside}{serial}:"
            yield from (f"      {s}" for s in sweep.loops)
    if not plan.stages:
        yield from (f"    {s}" for s in plan.group.loops)
