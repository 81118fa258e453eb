"""The order of work inside a group: single values and sweeps over the inner axes, in turn.

Stage k computes the values that need one place of the outer axes alone, then sweeps over inner axes. What a sweep
folds is known from stage k + 1 on. Loops of a stage over the same inner axes share one sweep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from derive.backends.cpu.loops.groups import Group
from derive.backends.cpu.statements.normal import Loop, Normal, is_boolean
from derive.backends.cpu.work import calls, is_heavy
from derive.nodes.substituting import put
from derive.nodes.walking import axes_along, by_axes, index_axes, node_axes, walk
from derive.program import Call, Index, Merged, Node, Read, Window

_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg"})
_LONGEST = 12  # operations that are done again rather than kept in memory between sweeps


@dataclass
class Sweep:
    """Loops over the same inner axes. `nested` is what its one loop folds over for every value of the axes."""

    axes: tuple[str, ...]
    loops: list[Loop] = field(default_factory=list)
    nested: tuple[str, ...] = ()
    ordered: bool = False  # places may repeat: no vectors


@dataclass
class Stage:
    values: list[Loop] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """A group's stages, and where each tensor that it writes lives.

    `place` is "memory" (an output, or read by other groups), "value" (one a place of the outer axes), "element"
    (computed where it is read), "buffer" (one row a thread).
    """

    group: Group
    stages: tuple[Stage, ...]
    place: dict[str, str]
    written: dict[str, Loop]


def rows_first(group: Group, normal: Normal) -> Group:
    """The group with every fold over outer and inner axes as one over the inner ones, then one over the outer ones."""
    return replace(group, loops=tuple(x for s in group.loops for x in _row_first(s, group, normal)))


def planned(group: Group, normal: Normal, outside: frozenset[str]) -> Plan:
    """Stages and places of a group; `outside` names what later steps read or the program returns."""
    group = _invariants_first(group, normal)
    work = _Work(group)
    for loop in group.loops:
        work.put(loop)
    written = {s.name: s for s in group.loops}
    place = {name: _place(name, work, outside) for name in written}
    for stage in work.stages:
        stage.sweeps.sort(key=lambda s: s.ordered)
    return Plan(group, tuple(work.stages), place, written)


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


def _invariants_first(group: Group, normal: Normal) -> Group:
    """What loops over inner axes compute of the outer axes alone, computed once for each place of these.

    Along rows it is a number, and of plain arithmetic the compiler does as much. So is what they read there; and what
    a choice reads, or several loops that share a sweep, stands before it.
    """
    changing = {s.name for s in group.loops if s.changes}
    loops: list[Loop] = []
    names: dict[tuple[Node, frozenset[str]], Read] = {}
    shared = _shared_reads(group)

    def named(loop: Loop, node: Node, axes: tuple[str, ...]) -> Loop:
        if changing & {r.name for r in _reads(node)}:
            return loop
        key = node, frozenset(axes)
        if key not in names:
            alone = isinstance(node, Read)
            name = normal.fresh(f"this_{node.name}" if isinstance(node, Read) else f"{loop.name}_factor")
            normal.dims[name] = axes
            loops.append(Loop(name, axes, node, note="" if alone else f"{name}[{', '.join(axes)}] = {node}"))
            names[key] = Read(name, axes)
        return replace(loop, value=put(loop.value, node, names[key]))

    for loop in group.loops:
        for node in _invariants(loop.value, group) if group.outer and group.inner(loop) else ():
            loop = named(loop, node, group.outer)
        made = {s.name for s in (*group.loops, *loops)}
        for read, axes in list(_read_early(loop, group, normal, shared)):
            loop = loop if read.name in made else named(loop, read, axes)
        loops.append(loop)
    return replace(group, loops=tuple(loops))


def _invariants(node: Node, group: Group) -> list[Node]:
    """The largest expressions of the outer axes alone, conditions left out."""
    if not isinstance(node, Call):
        return []
    if _reads(node) and set(node_axes(node)) == set(group.outer):
        arithmetic = all(n.fn in _ARITHMETIC for n in calls(node))
        named = group.lane is not None or not arithmetic
        return [node] if named and not is_boolean(node, set()) else []
    return [found for a in node.args for found in _invariants(a, group)]


def _read_early(
    loop: Loop, group: Group, normal: Normal, shared: set[tuple[Read, frozenset[str]]]
) -> Iterator[tuple[Read, tuple[str, ...]]]:
    """What a loop reads before it computes, and along which axes: the outer ones, or all it runs over.

    Along rows, that is what changes with the row alone: for all the compiler knows, what is written changes it. So is
    what stays one element to several loops of a sweep. In a choice, it is what is not at places of its own: GCC makes
    no vectors of a load of one element that only some need.
    """
    vectors = _makes_vectors(loop, group)
    others = normal.integers | normal.booleans | set(normal.numbers)
    chosen = set(_in_branches(loop.value))
    for read in dict.fromkeys(_reads(loop.value)):
        own = set(node_axes(read))
        if not by_axes(read) or read.name in others or not own < set(loop.domain):
            continue
        early = read in chosen
        if group.outer and group.inner(loop) and own <= set(group.outer) and (group.lane is None or early):
            yield read, group.outer
        elif vectors and (early or (read, frozenset(loop.domain)) in shared):
            yield read, loop.domain


def _makes_vectors(loop: Loop, group: Group) -> bool:
    """Whether it stands in a vector loop that it may share with others."""
    nested = loop.is_fold and not group.is_total(loop) and set(loop.free) - set(group.outer)
    return not nested and not loop.changes and bool(group.inner(loop) or group.lane is not None)


def _shared_reads(group: Group) -> set[tuple[Read, frozenset[str]]]:
    """What several loops over the same axes read that stays as it is along their vectors, with these axes."""
    over: dict[frozenset[str], list[Loop]] = {}
    flat = not any(map(group.inner, group.loops))
    for s in group.loops:
        if _makes_vectors(s, group) and (flat or group.inner(s)):  # beside sweeps, a value is an array of a block's
            over.setdefault(frozenset(s.domain), []).append(s)
    found = set()
    for axes, loops in over.items():
        fast = group.lane or in_memory_order(group.inner(loops[0]), loops)[-1]
        times = Counter(r for s in loops for r in set(s.reads()) if fast not in node_axes(r))
        found |= {(r, axes) for r, n in times.items() if n > 1}
    return found


def _in_branches(node: Node, inside: bool = False) -> Iterator[Read]:
    """The reads in branches of choices, their conditions aside."""
    if isinstance(node, Read) and inside:
        yield node
    for k, a in enumerate(node.args if isinstance(node, Call) else ()):
        yield from _in_branches(a, inside or (isinstance(node, Call) and node.fn == "where" and k > 0))


def chosen_reads(node: Node) -> list[Read]:
    """What is read inside choices, at whole axes: there is something to read there whatever is chosen."""
    return [r for r in _in_branches(node) if by_axes(r)]


class _Work:
    def __init__(self, group: Group):
        self.group = group
        self.stages: list[Stage] = []
        self.writes: dict[str, list[tuple[int, Sweep | None, Loop]]] = {}  # stage, place (None: a value)
        self.readers: dict[str, list[tuple[Sweep | None, Read]]] = {}
        self.read_at: dict[str, int] = {}

    def put(self, loop: Loop) -> None:
        free = tuple(a for a in loop.free if a not in self.group.outer)
        total = self.group.is_total(loop)
        nested = tuple(loop.over) if loop.is_fold and not total and free else ()
        axes = free if nested or not loop.is_fold or total else tuple(a for a in loop.over if a not in self.group.outer)
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

    def _after_one(self, r: Read, axes: tuple[str, ...], nested: bool, k: int, sweep: Sweep | None, loop: Loop) -> int:
        if sweep is None:
            return k
        together = set(sweep.axes) == set(axes) and not nested and not sweep.nested and not sweep.ordered
        return k if together and loop.kind == "set" and r.index == loop.slots else k + 1

    def _stage(self, k: int) -> Stage:
        while len(self.stages) <= k:
            self.stages.append(Stage())
        return self.stages[k]

    def _sweep(self, k: int, axes: tuple[str, ...], nested: tuple[str, ...], ordered: bool) -> Sweep:
        stage = self._stage(k)
        for s in stage.sweeps:
            if set(s.axes) == set(axes) and not (nested or s.nested) and s.ordered == ordered:
                return s
        stage.sweeps.append(Sweep(axes, [], nested, ordered))
        return stage.sweeps[-1]


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
    """Whether computing the node once more costs less than a trip through memory."""
    done = calls(node)
    gathers = any(isinstance(i, Read) for r in _reads(node) for i in r.index)
    return not gathers and len(done) <= _LONGEST and not any(map(is_heavy, done))


def _reads(node: Node) -> list[Read]:
    return [n for n in walk(node) if isinstance(n, Read)]


def in_memory_order(axes: tuple[str, ...], loops: list[Loop]) -> tuple[str, ...]:
    """The axes as the operand with most of them has them in memory."""
    best: tuple[str, ...] = ()
    for loop in loops:
        for m in (axes_along(loop.slots), *(axes_along(r.index) for r in _reads(loop.value))):
            here = tuple(dict.fromkeys(a for a in m if a in axes))
            best = here if len(here) > len(best) else best
    return (*best, *(a for a in axes if a not in best))
