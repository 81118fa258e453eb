"""Other axes for vectors to run along than the last of a row: several rows of lanes, or the pairs of a tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.schedule.stages import Plan, planned
from derive.backends.cpu.statements.normal import FOLDS, Loop, Normal, as_one
from derive.backends.cpu.work import calls, is_heavy
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import axes_along, node_axes
from derive.ir.program import Merged, Read


def lanes_form(group: Group, form: Normal, outside: frozenset[str]) -> Plan | None:
    """The same loops with vectors along the last outer axis and the inner one behind it, if they can be."""
    fast = _behind(group)
    if group.lane is not None or group.totals or fast is None:
        return None
    outer = (*group.outer, fast)
    loops = [x for s in group.loops for x in _by_lanes(s, outer, form)]
    if not all(_fits(s, outer, fast) for s in loops):
        return None
    found = replace(group, outer=outer, loops=tuple(_with_values(loops, outer, form)), lane=fast, short=True)
    sweeping = [s for s in found.loops if found.inner(s)]
    if not any(s.is_fold for s in sweeping) or not as_one(outer[-2:], _of_memory(sweeping, found), form):
        return None
    plan = planned(found, form, outside)
    made = {s.name for s in group.loops}
    own = (n for n, place in plan.place.items() if place == "buffer" or (place == "memory" and n not in made))
    return replace(plan, run=outer[-2:]) if next(own, None) is None else None


def _behind(group: Group) -> str | None:
    """The inner axis that lies behind the last outer one, last in memory, in what has most axes."""
    last = group.outer[-1:]
    inner = {a for s in group.loops for a in group.inner(s)}
    reads = [axes_along(r.index) for s in group.loops for r in s.reads()]
    longest = max(reads, key=len, default=())
    return longest[-1] if longest[-2:-1] == last and last and longest[-1] in inner else None


def _by_lanes(loop: Loop, outer: tuple[str, ...], form: Normal) -> Iterator[Loop]:
    """A fold over the axis of lanes and others as one over the others, and one of lanes."""
    fast, rest = outer[-1], tuple(a for a in loop.over if a != outer[-1])
    if fast not in loop.over or not rest:
        yield loop
        return
    name = form.fresh(f"{loop.name}_lane")
    form.dims[name] = outer
    yield replace(loop, name=name, slots=outer, over=rest)
    yield replace(loop, value=Read(name, outer), over=(fast,), note="")


def _fits(loop: Loop, outer: tuple[str, ...], fast: str) -> bool:
    """Whether it is an element, or a fold in a lane or over the lanes of a row."""
    indices = [r for r in loop.reads() if any(isinstance(i, Read) for i in r.index)]
    own = [s for s in loop.slots if isinstance(s, Read)]
    if loop.changes or indices or own or loop.kind not in ("set", *FOLDS):
        return False
    if fast in loop.over:
        return loop.over == (fast,) and set(loop.free) == set(outer[:-1])
    inside = set(loop.domain) - set(outer)
    return (not loop.is_fold or set(loop.free) == set(outer)) and (not inside or fast in loop.domain)


def _with_values(loops: Sequence[Loop], outer: tuple[str, ...], form: Normal) -> Iterator[Loop]:
    """The loops, with what there is one of for each row read before the sweeps that ask for it."""
    made = {s.name for s in loops}
    names: dict[Read, Read] = {}
    for s in loops:
        for r in s.reads() if set(s.domain) - set(outer) else ():
            axes = axes_along(r.index)
            if r.name not in made and outer[-2] in axes and set(axes) < set(outer) and outer[-1] not in axes:
                if r not in names:
                    name = form.fresh(f"this_{r.name}")
                    form.dims[name] = outer[:-1]
                    names[r] = Read(name, outer[:-1])
                    yield Loop(name, outer[:-1], r)
                s = replace(s, value=put(s.value, r, names[r]))
        yield s


def _of_memory(loops: Sequence[Loop], group: Group) -> list[Loop]:
    """The loops without what lanes hold of the group's own."""
    values = {s.name for s in group.loops if set(s.free) <= set(group.outer) and not group.inner(s)}
    values |= {s.name for s in group.loops if s.is_fold}
    found = []
    for s in loops:
        for r in s.reads():
            if r.name in values:
                s = replace(s, value=put(s.value, r, Read(r.name, ())))
        found.append(replace(s, name="", slots=()) if s.is_fold else s)
    return found


_ALL = "TILE_ROWS * TILE_COLUMNS"
_MOST = 2  # folds whose sums fit the registers


def pair_tiles(group: Group, form: Normal, outside: frozenset[str]) -> tuple[tuple[bool, Plan], ...]:
    """The same loops in tiles along the last two axes of what they fold to, vectors along either, if they can be: then
    tiles are turned."""
    folds = [s for s in group.loops if s.is_fold]
    if not 0 < len(folds) <= _MOST or len(folds[0].free) < 2 or len(folds[0].over) != 1:
        return ()
    *slow, row, lane = folds[0].free
    upright = _in_tiles(group, form, outside, (*slow, row, lane))
    turned = _in_tiles(group, form, outside, (*slow, lane, row))
    return tuple((is_turned, plan) for is_turned, plan in ((False, upright), (True, turned)) if plan)


def _in_tiles(group: Group, form: Normal, outside: frozenset[str], outer: tuple[str, ...]) -> Plan | None:
    folds = [s for s in group.loops if s.is_fold]
    over = folds[0].over
    own = replace(group, outer=outer, lane=outer[-1])
    if any(s.over != over or set(s.free) != set(outer) for s in folds) or set(outer) & set(over):
        return None
    inside = [s for s in group.loops if own.inner(s)]
    after = [s for s in group.loops if s not in inside]
    elements = [s for s in inside if s not in folds]
    early = not {r.name for s in inside for r in s.reads()} & {s.name for s in folds}
    if not (early and all(_is_element(s, outside) for s in elements)) or not _come_after(after, inside, group, own):
        return None
    if any(map(is_heavy, (call for s in inside for call in calls(s.value)))) or not _pairs(inside, own, over[0], form):
        return None
    place = {s.name: "element" for s in elements}
    place |= {s.name: "memory" if s.name in outside or group.is_total(s) else "value" for s in (*folds, *after)}
    return Plan(own, (), place)


def _is_element(loop: Loop, outside: frozenset[str]) -> bool:
    return loop.kind == "set" and loop.name not in outside


def _come_after(after: list[Loop], inside: list[Loop], group: Group, own: Group) -> bool:
    """Whether the rest are single values that folds do not read, each set once."""
    read = {r.name for s in inside for r in s.reads()}
    names = [s.name for s in group.loops]
    single = all(s.kind == "set" and set(s.free) == set(own.outer) and s.name not in read for s in after)
    return single and len(set(names)) == len(names) and (not after or set(group.outer) == set(own.outer))


def _pairs(inside: list[Loop], own: Group, over: str, form: Normal) -> bool:
    """Whether all that is read lies along one side or the other, or is one number for each pair."""
    *_, row, lane = own.outer
    made = {s.name for s in inside}
    reads = {r for s in inside for r in s.reads() if r.name not in made}
    others = form.integers | form.booleans | set(form.numbers)
    plain = all(isinstance(i, str) or (isinstance(i, Merged) and all(isinstance(a, str) for a in i.axes))
                for r in reads for i in r.index)  # fmt: skip
    if not plain or any(r.name in others - set(form.numbers) for r in reads):
        return False
    axes = [set(node_axes(r)) for r in reads]
    sides = [any({side, over} <= a for a in axes) for side in (row, lane)]
    return all(sides) and not any({row, lane, over} <= a for a in axes)
