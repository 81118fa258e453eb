"""What it is worth that loops share a pass: the work that it takes in, less what it keeps and reaches at a stride."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.backends.cpu.products.matrices import Step
from derive.backends.cpu.schedule.contiguous import as_one
from derive.backends.cpu.statements.normal import Loop, Normal
from derive.decisions import NOMINAL
from derive.ir.nodes.walking import axes_along, by_axes
from derive.ir.program import Read

if TYPE_CHECKING:
    from derive.backends.cpu.schedule.groups import Group

_KEPT = 0.75  # of an element operation: writing an element for a later loop
_AT_A_STRIDE = 32  # element operations: a line of memory for one element (7 ns here, down 2048 x 2048)


@dataclass(frozen=True)
class Candidate:
    """A group, and the steps that it was taken from, folds cut in two where that lets a part of one join."""

    group: Group
    steps: tuple[Step, ...]


def worth(candidate: Candidate, form: Normal) -> tuple[float, ...]:
    """The more element operations a group takes in the better; then rows rather than columns, then many rows.

    A fold with inner axes of its own shares its loop with nothing, and counts for nothing, unless it is cut off one
    that is a total of other groups, or folds a row that others make. What lies at a stride comes from memory a line
    for an element. What has to be kept for later loops takes back most of what computing it here gains. So does a
    total of several axes, which is as large as what it adds up, once for every chunk, and it comes last.
    """
    group = candidate.group
    totals = [s for s in group.totals if len(s.free) > 1]
    work = sum(_size(s) for s in group.loops if s.name not in form.taken or not _alone(s, group))
    work -= _AT_A_STRIDE * sum(_at_a_stride(candidate, form).values())
    kept = _KEPT * sum(_size(s) for s in (*_kept(candidate), *totals))
    work -= kept if kept * NOMINAL**2 >= work else 0  # what is smaller by two axes does not show
    inside = any(group.inner(s) for s in group.loops)
    rows = bool(group.outer or not inside) and (group.lane is None or not inside)  # of no outer axes there is one
    flat = {s.domain for s in group.loops} == {group.outer}
    flat = flat and (len(group.outer) == 1 or as_one(group.outer, group.loops, form))
    return (work, -len(totals), rows, flat or inside, -len(group.totals), len(group.outer))


def _size(loop: Loop) -> float:
    return float(NOMINAL) ** len(loop.domain)


def _kept(candidate: Candidate) -> list[Loop]:
    """What the group writes element by element and loops outside of it read; or halves of folds, if it has no more."""
    loops = candidate.group.loops
    taken = {id(s) for s in loops}
    after = [s for s in candidate.steps if isinstance(s, Loop) and id(s) not in taken]
    later = {r.name for s in after for r in s.reads()}
    rest = {s.value.name for s in after if s.is_fold and isinstance(s.value, Read)}
    if all(s.is_fold and s.name in rest for s in loops):
        return [*loops]  # they were cut in two for nothing
    return [s for s in loops if s.kind == "set" and s.name in later]


def _alone(loop: Loop, group: Group) -> bool:
    """Whether it is a fold with inner axes of its own that reads no row which the group makes."""
    own = loop.is_fold and not group.is_total(loop) and bool(set(loop.free) - set(group.outer))
    return own and not _reads_a_row(loop, group)


def _reads_a_row(loop: Loop, group: Group) -> bool:
    """Whether it folds a row that other loops of the group write; a row has one axis."""
    outer = set(group.outer)
    written = {s.name for s in group.loops if not group.is_total(s) and s.name != loop.name}
    inner = {r.name: set(axes_along(r.index)) - outer for r in loop.reads() if outer <= set(axes_along(r.index))}
    return all(len(a) < 2 for a in inner.values()) and any(a & set(loop.over) for n, a in inner.items() if n in written)


def _at_a_stride(candidate: Candidate, form: Normal) -> dict[Read, float]:
    """What the vectors of rows read and write, and keep, at a stride, and how many elements that are."""
    group = candidate.group
    inside = {s.name for s in group.loops}.difference((s.name for s in _kept(candidate)), form.program.returns)
    found: dict[Read, float] = {}
    for s in group.loops if group.lane is None else ():
        for r in across(s, group):
            if r.name not in inside:
                again = not set(group.outer) <= set(r.index)
                found[r] = max(found.get(r, 0), _size(s) if again else float(NOMINAL) ** len(r.index))
    return found


def across(loop: Loop, group: Group) -> list[Read]:
    """What a loop reads and writes at a stride along rows.

    What is read for several rows along the last outer axis is not: where rows of that are short, vectors run along it.
    """
    touched = [r for r in (*loop.reads(), Read(loop.name, loop.slots)) if by_axes(r) and r.index]
    rows = [tuple(a for a in r.index if a in (group.inner(loop) or group.outer)) for r in touched]
    fast = set(max(rows, key=len, default=())[-1:])
    several = (r for r in touched if fast & set(r.index[:-1]) - set(r.index[-1:]))
    outer = set(group.outer)
    return [r for r in several if outer <= set(r.index) or r.index[-1] in outer - {group.outer[-1]}]
