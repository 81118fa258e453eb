"""The order of work inside a group: single values and sweeps over the inner axes, in turn.

Stage k computes the values that need one place of the outer axes alone, then sweeps over inner axes. What a sweep
folds is known from stage k + 1 on. Loops of a stage over the same inner axes share one sweep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from derive.backends.cpu.schedule.contiguous import as_one, in_memory_order
from derive.backends.cpu.schedule.early import invariants_first
from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.statements.normal import Loop, Normal
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
    work = _Work(group)
    for loop in group.loops:
        work.put(loop)
    work.part_alone()
    place = {s.name: _place(s.name, work, outside) for s in group.loops}
    run = group.outer if as_one(group.outer, group.loops, normal) else group.outer[-1:]
    return Plan(group, tuple(_stage(s, normal) for s in work.stages), place, run)


def _stage(stage: _Stage, normal: Normal) -> Stage:
    found = [Sweep(s.axes, tuple(s.loops), s.nested, s.ordered, s.first) for s in stage.sweeps]
    sweeps = (replace(s, axes=_in_order(s, normal), nested=_in_order(s.inside, normal)) for s in found)
    return Stage(tuple(stage.values), tuple(sorted(sweeps, key=lambda s: s.ordered)))


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


@dataclass
class _Sweep:
    """A sweep that loops still join, its axes in any order."""

    axes: tuple[str, ...]
    loops: list[Loop]
    nested: tuple[str, ...]
    ordered: bool
    first: int


@dataclass
class _Stage:
    values: list[Loop] = field(default_factory=list)
    sweeps: list[_Sweep] = field(default_factory=list)


class _Work:
    def __init__(self, group: Group):
        self.group = group
        self.stages: list[_Stage] = []
        self.writes: dict[str, list[tuple[int, _Sweep | None, Loop]]] = {}  # stage, place (None: a value)
        self.readers: dict[str, list[tuple[_Sweep | None, Read]]] = {}
        self.read_at: dict[str, int] = {}
        self.shared = _shared_sweeps(group)

    def put(self, loop: Loop) -> None:
        free = tuple(a for a in loop.free if a not in self.group.outer)
        total = self.group.is_total(loop)
        nested = tuple(loop.over) if loop.is_fold and not total and free else ()
        shared = self.shared.get(frozenset((*free, *nested)))
        axes = free if nested or not loop.is_fold or total else tuple(a for a in loop.over if a not in self.group.outer)
        if nested and shared and set(shared[0][: shared[1]]) == set(free):
            axes, nested = shared[0], ()
        ordered = loop.changes and not _injective(loop.slots, axes)
        k = max([self._after(r, axes, bool(nested)) for r in self._needs(loop)], default=0)
        if loop.changes:
            k = max(k, self.read_at.get(loop.name, -1) + 1)
        sweep = None
        if axes:
            sweep = self._sweep(k, axes, nested, ordered)
            sweep.loops.append(loop)
        else:
            self._stage(k).values.append(loop)
        self.writes.setdefault(loop.name, []).append((k, sweep, loop))
        for r in loop.reads():
            self.readers.setdefault(r.name, []).append((sweep, r))
            self.read_at[r.name] = max(k, self.read_at.get(r.name, -1))

    def _needs(self, loop: Loop) -> list[Read]:
        own = [Read(loop.name, loop.slots)] if loop.changes else []
        return [r for r in (*loop.reads(), *own) if r.name in self.writes]

    def _after(self, r: Read, axes: tuple[str, ...], nested: bool) -> int:
        """The first stage that may read: after every part, which may be written in any order."""
        return max(self._after_one(r, axes, nested, *write) for write in self.writes[r.name])

    def _after_one(self, r: Read, axes: tuple[str, ...], nested: bool, k: int, sweep: _Sweep | None, loop: Loop) -> int:
        if sweep is None:
            return k
        together = set(sweep.axes) == set(axes) and not nested and not sweep.nested and not sweep.ordered
        return k if together and loop.kind == "set" and r.index == loop.slots else k + 1

    def _stage(self, k: int) -> _Stage:
        while len(self.stages) <= k:
            self.stages.append(_Stage())
        return self.stages[k]

    def _sweep(self, k: int, axes: tuple[str, ...], nested: tuple[str, ...], ordered: bool) -> _Sweep:
        stage = self._stage(k)
        for s in stage.sweeps:
            if set(s.axes) == set(axes) and not (nested or s.nested) and s.ordered == ordered:
                return s
        in_order, first = self.shared.get(frozenset(axes), (axes, 0)) if not nested and not ordered else (axes, 0)
        stage.sweeps.append(_Sweep(in_order, [], nested, ordered, first))
        return stage.sweeps[-1]

    def part_alone(self) -> None:
        """Sweeps of one fold over the last axes, with nothing beside it, and sweeps without such."""
        for sweep in (x for stage in self.stages for x in stage.sweeps):
            whole = Sweep(sweep.axes, (), first=sweep.first)
            partial = list(filter(whole.is_partial, sweep.loops))
            if partial and len(sweep.loops) == 1:
                sweep.axes, sweep.nested = sweep.axes[: sweep.first], sweep.axes[sweep.first :]
            if not partial or sweep.nested:
                sweep.first = 0


def _shared_sweeps(group: Group) -> dict[frozenset[str], tuple[tuple[str, ...], int]]:
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


def _place(name: str, work: _Work, outside: frozenset[str]) -> str:
    loops = [s for s in work.group.loops if s.name == name]
    loop, group = loops[-1], work.group
    if name in outside or group.is_total(loop):
        return "memory"
    inner = [a for a in loop.free if a not in group.outer]
    if not inner and len(loops) == 1 and not loop.changes:
        return "value"
    kept = "memory" if group.lane is not None and not group.short else "buffer"
    if len(loops) > 1 or loop.kind != "set":
        return kept
    readers = work.readers.get(name, [])
    _, sweep, _ = work.writes[name][-1]
    if any(r.index != loop.slots or s is None or set(s.axes) != set(inner) or s.nested for s, r in readers):
        return kept
    if all(s is sweep for s, _ in readers) or is_cheap(loop.value):
        return "element"
    return kept


def is_cheap(node: Node) -> bool:
    """Whether computing the node once more costs less than a trip through memory: operations are counted once each."""
    done = calls(node)
    gathers = any(isinstance(i, Read) for r in _reads(node) for i in r.index)
    return not gathers and len(set(done)) <= _LONGEST and not any(map(is_heavy, done))


def _reads(node: Node) -> list[Read]:
    return [n for n in walk(node) if isinstance(n, Read)]
