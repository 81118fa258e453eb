"""Folds for all pairs of rows, in tiles whose sums stay in registers, as those of a matrix product do.

`sum(abs(a[i, k] - b[j, k]), over=k)` is no product, but asks for as much: each element of a meets each row of b. Row
by row, every step of a sum would read both anew. A tile is a few places on i by two vectors along j: what is read along
j is laid out first, a strip of a tile's width for all of k, and what lies along i is read once for all of the strip.
The last tile overlaps the one before, and computes the same once more. Where the axis that is last in memory is
shorter than a tile is wide, `sum(sign(a[i, k] - b[j, k]) * w[i, j], over=j)` of points in space, the other one is the
one that vectors run along.
"""

from __future__ import annotations

from dataclasses import replace

from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.schedule.stages import Plan
from derive.backends.cpu.statements.normal import Loop, Normal
from derive.backends.cpu.work import calls, is_heavy
from derive.ir.nodes.walking import node_axes
from derive.ir.program import Merged

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
