"""Rows of a few elements: vectors run along the rows instead, which are columns then.

A loop of three elements costs more before and after its vectors than in them. How long an axis is shows when the kernel
runs, so that both forms are printed, where an axis is likely to be short: it has a length that the op is given, is part
of another axis, or is summed for each pair of rows.
"""

from __future__ import annotations

from dataclasses import replace

from derive.backends.cpu.groups import Group, memories
from derive.backends.cpu.normal import Loop, Normal
from derive.backends.cpu.stages import Plan, planned
from derive.program import Merged, Window
from derive.walking import index_axes


def short_form(group: Group, long: Plan, form: Normal, outside: frozenset[str]) -> Plan | None:
    """The same loops with vectors along the last outer axis, if they can be; `long` is their plan as rows."""
    inner = inner_axes(group)
    if group.lane is not None or not group.outer or not inner or not all(_fits(s, group) for s in group.loops):
        return None
    if not _is_likely(group, set(inner)) or len({s.name for s in group.loops}) < len(group.loops):
        return None
    plan = planned(replace(group, lane=group.outer[-1]), form, outside)
    large = {n for n, place in plan.place.items() if place not in ("value", "element")}
    return plan if large <= {n for n, place in long.place.items() if place == "memory"} else None


def inner_axes(group: Group) -> tuple[str, ...]:
    """The axes inside the rows."""
    return tuple(dict.fromkeys(a for s in group.loops for a in group.inner(s)))


def _fits(loop: Loop, group: Group) -> bool:
    """Whether columns can print it: an element, or a fold to one value for each row or for all of them."""
    if loop.changes or (loop.is_fold and not group.is_total(loop) and set(loop.free) != set(group.outer)):
        return False
    return not group.is_total(loop) or (not loop.free and set(loop.over) == set(group.outer))


def _is_likely(group: Group, inner: set[str]) -> bool:
    """Whether what is inside is likely to be short, and costs as rows: it is folded, or lies apart in memory."""
    reads = [r for s in group.loops for r in s.reads()]
    if not any(s.is_fold for s in group.loops) and len({m[-1:] for s in group.loops for m in memories(s)}) < 2:
        return False
    indices = [i for r in reads for i in r.index] + [i for s in group.loops for i in s.slots]
    several = [i for i in indices if isinstance(i, Merged) or (isinstance(i, Window) and len(i.steps) > 1)]
    parts = {a for i in several for a in index_axes(i)}
    whole = {*group.outer, *inner}
    pairs = len(group.outer) > 1 and not any(whole <= {a for i in r.index for a in index_axes(i)} for r in reads)
    return inner <= parts or (len(inner) == 1 and pairs)
