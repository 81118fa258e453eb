"""The order of work inside a group: single values and sweeps over the inner axes, in turn.

Stage k computes the values that need one place of the outer axes alone, then sweeps over inner axes. What a sweep
folds is known from stage k + 1 on. Loops of a stage over the same inner axes share one sweep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from derive.backends.cpu.schedule.early import invariants_first
from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.statements.normal import Loop, Normal, as_one, in_memory_order
from derive.backends.cpu.work import calls, is_heavy
from derive.ir.nodes.walking import index_axes, walk
from derive.ir.program import Index, Merged, Node, Read, Window

_LONGEST = 12  # operations that are done again rather than kept in memory between sweeps


@dataclass(frozen=True)
class Sweep:
    """Loops over the same inner axes, the fastest last. `nested` is what its one loop folds over for every value of
    the axes.

    Beside others, a loop that folds over the last axes for every value of the first shares their sweep: `first` says
    how many these are.
    """

    axes: tuple[str, ...]
    loops: tuple[Loop, ...]
    nested: tuple[str, ...] = ()
    ordered: bool = False  # places may repeat: no vectors
    first: int = 0

    def is_partial(self, loop: Loop) -> bool:
        """Whether it folds over the last axes alone."""
        return bool(self.first) and loop.is_fold and self.axes[0] in loop.free and self.axes[-1] not in loop.free

    @property
    def inside(self) -> Sweep:
        """What its one loop folds over, for one value of the axes."""
        return Sweep(self.nested, self.loops)


@dataclass(frozen=True)
class Stage:
    """Loops that need one place of the outer axes alone, then sweeps over inner axes."""

    values: tuple[Loop, ...]
    sweeps: tuple[Sweep, ...]


@dataclass(frozen=True)
class Plan:
    """A group's stages, and where each tensor that it writes lives.

    `place` is "memory" (an output, or read by other groups), "value" (one a place of the outer axes), "element"
    (computed where it is read), "buffer" (one row a thread).
    """

    group: Group
    stages: tuple[Stage, ...]
    place: Mapping[str, str]
    run: tuple[str, ...] = ()  # the last outer axes, which loops count through as one where memory has them so

    @cached_property
    def written(self) -> dict[str, Loop]:
        """The last loop that writes each tensor."""
        return {s.name: s for s in self.group.loops}

    @property
    def slow(self) -> tuple[str, ...]:
        """The outer axes before those that are counted as one."""
        return self.group.outer[: len(self.group.outer) - len(self.run)]

    def computed(self, loops: Sequence[Loop]) -> tuple[Loop, ...]:
        """These loops, and those of what is computed where they read it."""
        wanted = self.wanted(loops)
        return tuple(s for s in self.group.loops if s in loops or s.name in wanted)

    def wanted(self, loops: Sequence[Loop]) -> set[str]:
        """What is computed where it is read, of all that these loops read."""
        found: set[str] = set()
        pending = [r.name for s in loops for r in s.reads()]
        while pending:
            name = pending.pop()
            if self.place.get(name) == "element" and name not in found:
                found.add(name)
                pending += [n.name for n in walk(self.written[name].value) if isinstance(n, Read)]
        return found

    def is_elements(self, sweep: Sweep) -> bool:
        """Whether all of a sweep is computed where it is read."""
        return all(self.place[s.name] == "element" for s in sweep.loops)


def rows_first(group: Group, normal: Normal) -> Group:
    """The group with every fold over outer and inner axes as one over the inner ones, then one over the outer ones."""
    return replace(group, loops=tuple(x for s in group.loops for x in _row_first(s, group, normal)))


def planned(group: Group, normal: Normal, outside: frozenset[str]) -> Plan:
    """Stages and places of a group; `outside` names what later steps read or the program returns."""
    group = invariants_first(group, normal)
    shared, spots = _shared_sweeps(group), list[_Spot]()
    for loop in group.loops:
        spots.append(_spot(loop, group, shared, list(zip(spots, group.loops, strict=False))))
    together: dict[_Spot, list[Loop]] = {}
    for spot, loop in zip(spots, group.loops, strict=True):
        together.setdefault(spot, []).append(loop)
    sweeps = {spot: _sweep(spot, loops, shared, normal) for spot, loops in together.items() if spot.axes}
    stages = []
    for k in range(1 + max((spot.stage for spot in spots), default=-1)):
        values = (s for spot, s in zip(spots, group.loops, strict=True) if spot.stage == k and not spot.axes)
        own = (sweep for spot, sweep in sweeps.items() if spot.stage == k)
        stages.append(Stage(tuple(values), tuple(sorted(own, key=lambda s: s.ordered))))
    found = [(s, sweeps.get(spot)) for spot, s in zip(spots, group.loops, strict=True)]
    place = {s.name: _place(s.name, group, found, outside) for s in group.loops}
    run = group.outer if as_one(group.outer, group.loops, normal) else group.outer[-1:]
    return Plan(group, tuple(stages), place, run)


def _in_order(sweep: Sweep, normal: Normal) -> tuple[str, ...]:
    """The axes of a sweep, the fastest last.

    Of a window that is added in that is the longest, and its others come before what else moves in windows: two
    additions to overlapping vectors would wait for each other.
    """
    if sweep.first:
        return sweep.axes
    order = in_memory_order(sweep.axes, sweep.loops)
    for s in sweep.loops:
        last = index_axes(s.slots[-1]) if s.changes and s.slots else ()
        if len(last) > 1 and set(last) <= set(order):
            place = normal.nominal.longest(last)
            moving = {a for i in s.slots if len(index_axes(i)) > 1 for a in index_axes(i)}
            taps = tuple(a for a in last if a != place)
            rest = (a for a in order if a in moving and a not in last)
            order = (*(a for a in order if a not in moving), *taps, *rest, place)
    return order


def _row_first(loop: Loop, group: Group, normal: Normal) -> list[Loop]:
    """A fold over outer and inner axes as a fold over the inner ones, then over the outer ones."""
    inner = tuple(a for a in loop.over if a not in group.outer)
    if not group.is_total(loop) or not inner:
        return [loop]
    name = normal.fresh(f"{loop.name}_row")
    slots = (*group.outer, *loop.free)
    normal.dims[name] = slots
    own = replace(loop, name=name, slots=slots, over=inner)
    return [own, replace(loop, value=Read(name, slots), over=group.outer)]


@dataclass(frozen=True)
class _Spot:
    """Where a loop stands: in a stage, in the sweep over these axes, or none; a nested fold has one of its own."""

    stage: int
    axes: frozenset[str]
    nested: tuple[str, ...]
    ordered: bool
    alone: int  # the number of a nested fold

    @property
    def is_shared(self) -> bool:
        return not (self.nested or self.ordered)


def _spot(loop: Loop, group: Group, shared: _Shared, before: list[tuple[_Spot, Loop]]) -> _Spot:
    """The first stage after all that a loop reads, or changes that others read; after all parts of that."""
    free, over = (tuple(a for a in axes if a not in group.outer) for axes in (loop.free, loop.over))
    total = group.is_total(loop)
    nested = loop.over if loop.is_fold and not total and free else ()
    axes = free if nested or not loop.is_fold or total else over
    order, first = shared.get(frozenset((*free, *nested)), ((), 0))
    if nested and set(order[:first]) == set(free):
        axes, nested = order, ()
    own, changing = frozenset(axes), {loop.name} if loop.changes else set[str]()
    stage = max((at.stage + 1 for at, s in before if changing & {r.name for r in s.reads()}), default=0)
    for r in (*loop.reads(), *(Read(name, loop.slots) for name in changing)):
        for at, s in before:
            beside = at.axes == own and not nested and at.is_shared and s.kind == "set" and r.index == s.slots
            if s.name == r.name:
                stage = max(stage, at.stage if beside or not at.axes else at.stage + 1)
    ordered = loop.changes and not _injective(loop.slots, axes)
    return _Spot(stage, own, nested, ordered, len(before) if nested else 0)


def _sweep(spot: _Spot, loops: list[Loop], shared: _Shared, normal: Normal) -> Sweep:
    """A sweep, its axes in order; one fold over the last of them with nothing beside it is nested."""
    order, first = shared.get(spot.axes, ((), 0)) if spot.is_shared else ((), 0)
    sweep = Sweep(order or tuple(sorted(spot.axes)), tuple(loops), spot.nested, spot.ordered, first)
    partial = list(filter(sweep.is_partial, loops))
    if partial and len(loops) == 1:
        sweep = replace(sweep, axes=order[:first], nested=order[first:])
    if not partial or sweep.nested:
        sweep = replace(sweep, first=0)
    return replace(sweep, axes=_in_order(sweep, normal), nested=_in_order(sweep.inside, normal))


_Shared = Mapping[frozenset[str], tuple[tuple[str, ...], int]]
"""Axes in the order of memory, and how many of the first a fold has values for, by their set."""


def _shared_sweeps(group: Group) -> _Shared:
    """Inner axes in the order of memory, where some loops of rows fold over the last for every value of the first."""
    over: dict[frozenset[str], list[Loop]] = {}
    for s in group.loops if group.lane is None else ():
        over.setdefault(frozenset(group.inner(s)), []).append(s)
    found: dict[frozenset[str], tuple[tuple[str, ...], int]] = {}
    for axes, loops in over.items():
        order = in_memory_order(tuple(sorted(axes)), loops)
        for s in loops:
            free = {a for a in s.free if a not in group.outer}
            if s.is_fold and not group.is_total(s) and free and free == set(order[: len(free)]):
                found.setdefault(axes, (order, len(free)))
    return found


def _injective(slots: tuple[Index, ...], axes: tuple[str, ...]) -> bool:
    """Whether different values of the last axis write different places."""
    if not axes:
        return True
    return any(i == axes[-1] or (isinstance(i, Merged | Window) and axes[-1] in index_axes(i)) for i in slots)


def _place(name: str, group: Group, found: list[tuple[Loop, Sweep | None]], outside: frozenset[str]) -> str:
    """Where a tensor lives; loops are given with their sweeps."""
    *others, (loop, sweep) = [x for x in found if x[0].name == name]
    if name in outside or group.is_total(loop):
        return "memory"
    inner = set(loop.free) - set(group.outer)
    if not inner and not others and not loop.changes:
        return "value"
    kept = "memory" if group.lane is not None and not group.short else "buffer"
    if others or loop.kind != "set":
        return kept
    readers = [(x, r) for s, x in found for r in s.reads() if r.name == name]
    if any(r.index != loop.slots or x is None or set(x.axes) != inner or x.nested for x, r in readers):
        return kept
    return "element" if all(x is sweep for x, _ in readers) or is_cheap(loop.value) else kept


def is_cheap(node: Node) -> bool:
    """Whether computing the node once more costs less than a trip through memory: operations are counted once each."""
    done = calls(node)
    gathers = any(isinstance(i, Read) for r in _reads(node) for i in r.index)
    return not gathers and len(set(done)) <= _LONGEST and not any(map(is_heavy, done))


def _reads(node: Node) -> list[Read]:
    return [n for n in walk(node) if isinstance(n, Read)]
