"""Which loops share one pass over memory.

A group runs its statements for one value of its *outer* axes after another, in parallel. A statement belongs if it
needs no other value of the outer axes: it writes at them, or folds over all of them (its result is then complete
only after the group). What a statement reads of the group must have been written at the same outer axes.

Which axes are outer decides how much fits: over rows, layer statistics and what reads them are one group; over columns,
batch statistics are. The choice that takes in the most work wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from derive.backends.cpu.products.matrices import Product, Step
from derive.backends.cpu.statements.normal import Loop, Normal, Running, Unsupported, as_one
from derive.backends.cpu.work import calls, is_heavy
from derive.decisions import NOMINAL
from derive.ir.nodes.other_axes import plain_by_axes, with_axes
from derive.ir.nodes.walking import axes_along, by_axes, by_axes_once, index_axes
from derive.ir.program import Index, Merged, Read, Window


@dataclass(frozen=True)
class Group:
    """Loops over the same outer axes. `lane` is the outer axis that is last in memory, if vectors run along it.

    They run along the last outer axis too where rows are `short`.
    """

    outer: tuple[str, ...]
    loops: tuple[Loop, ...]
    lane: str | None
    short: bool = False

    def is_total(self, loop: Loop) -> bool:
        """Whether a loop folds over the outer axes."""
        return bool(self.outer) and set(self.outer) <= set(loop.over)

    @property
    def totals(self) -> tuple[Loop, ...]:
        return tuple(s for s in self.loops if self.is_total(s))

    def inner(self, loop: Loop) -> tuple[str, ...]:
        """The axes that a loop runs over inside the group."""
        return tuple(a for a in loop.domain if a not in self.outer)


def grouped(steps: list[Step], form: Normal) -> list[Group | Product | Running]:
    """The steps in groups, in an order that respects what reads what. Raises Unsupported for what fits in none."""
    out: list[Group | Product | Running] = []
    left = list(steps)
    while left:
        first = left[0]
        if not isinstance(first, Loop):
            out.append(first)
            left.pop(0)
            continue
        best = _best(left, form)
        if best is not None and (apart := _apart(best.group)):
            best = _best(left, form, apart)
        if best is None:
            raise Unsupported(f"{first}")
        out += _costly_values_first(best.group)
        for s in best.group.loops:
            form.dims.setdefault(s.name, s.slots)
            form.taken.add(s.name)
        taken = {id(s) for s in best.group.loops}
        left = [s for s in best.steps if id(s) not in taken]
    return out


def _costly_values_first(group: Group) -> list[Group]:
    """A group of rows behind one of the costly values that need no row: by themselves they become vectors."""
    rows = group.lane is None and group.outer and any(group.inner(s) for s in group.loops)
    times = Counter(s.name for s in group.loops)
    known: dict[str, Loop] = {}
    for s in group.loops if rows else ():
        early = all(times[r.name] == 0 or r.name in known for r in s.reads())
        if s.kind == "set" and times[s.name] == 1 and set(s.domain) == set(group.outer) and early:
            known[s.name] = s
    wanted = [s for s in known.values() if any(map(is_heavy, calls(s.value)))]
    for s in wanted:
        wanted += [known[r.name] for r in s.reads() if r.name in known and known[r.name] not in wanted]
    values = tuple(s for s in group.loops if s in wanted)
    lane = _lane(group.outer, list(values))
    if lane is None:
        return [group]
    return [Group(group.outer, values, lane), replace(group, loops=tuple(s for s in group.loops if s not in wanted))]


def _best(steps: list[Step], form: Normal, without: frozenset[str] = frozenset()) -> Candidate | None:
    return max(_candidates(steps, form, without), key=lambda c: worth(c, form), default=None)


def _apart(group: Group) -> frozenset[str]:
    """What loops write that share no tensor with the first, by way of whatever others: one pass spares them nothing."""
    near, before = _touched(group.loops[0]), set[str]()
    while near != before:
        before = near
        near = near.union(*(names for names in map(_touched, group.loops) if names & near))
    return frozenset(s.name for s in group.loops if s.name not in near)


def _touched(loop: Loop) -> set[str]:
    return {loop.name, *_names(loop)}


def _candidates(steps: list[Step], form: Normal, without: frozenset[str]) -> Iterator[Candidate]:
    """Groups that begin with the first loop, for every choice of outer axes under which it can stand."""
    first = steps[0]
    assert isinstance(first, Loop)
    own = [a for a in first.domain if _plain_in(first.slots, a) or a in first.over]
    sizes = range(len(own) + 1)
    for outer in (c for n in sizes for c in combinations(own, n)):
        rows = tables(steps, outer)
        loops = [s for s in steps if isinstance(s, Loop) and s.name not in without]
        parts = {id(s): _cut(s, outer, form) for s in loops}
        parts |= {id(s): by_rows(s, outer, rows, form) for s in loops if len(parts[id(s)]) == 1}
        found = _group(outer, [x for s in steps for x in parts.get(id(s), (s,))], without)
        if found is None:
            continue
        taken = {id(s) for s in found.loops}
        whole = {k for k, cut in parts.items() if id(cut[0]) not in taken}  # what was cut for nothing
        yield Candidate(found, tuple(x for s in steps for x in ((s,) if id(s) in whole else parts.get(id(s), (s,)))))


def _cut(loop: Loop, outer: tuple[str, ...], form: Normal) -> tuple[Loop, ...]:
    """A fold over some of the outer axes as one over its other axes, and one of what that gives over those."""
    apart = tuple(a for a in outer if a in loop.over)
    rest = tuple(a for a in loop.over if a not in apart)
    if not loop.is_fold or loop.is_product or not apart or not rest or set(outer) <= set(loop.over):
        return (loop,)
    name = form.unused(f"{loop.name}_each")
    slots = (*apart, *loop.slots)
    order = tuple(a for a in outer if a in slots)
    if tuple(i for i in slots if i in order) != order:  # as the pass goes through its axes, and tiles of it do
        slots = (*order, *(i for i in slots if i not in order))
    return replace(loop, name=name, slots=slots, over=rest), replace(loop, value=Read(name, slots), over=apart)


def _group(outer: tuple[str, ...], steps: list[Step], without: frozenset[str]) -> Group | None:
    """The group of these outer axes that begins with the first step; vectors run as its largest loops lie in memory."""
    others = frozenset(id(s) for s in steps if s.name in without)
    taken = _collected(outer, steps, None, others)
    lane = _lane(outer, taken)
    if lane is None and any(_along(s, outer) for s in taken):
        others |= frozenset(id(s) for s in taken if _along(s, outer) is (not _along(steps[0], outer)))
        taken = _collected(outer, steps, None, others)
        lane = _lane(outer, taken)
    others |= frozenset(id(s) for s in taken[1:] if lane is None and _down_columns(s, Group(outer, (s,), None)))
    if lane is not None or others & {id(s) for s in taken}:
        taken = _collected(outer, steps, lane, others)
    return Group(outer, tuple(taken), lane) if taken else None


def _down_columns(loop: Loop, group: Group) -> bool:
    """Whether rows would read a table down its columns, again for each of some rows."""
    return any(not set(group.outer) <= set(r.index) for r in across(loop, group))


def _along(loop: Step, outer: tuple[str, ...]) -> bool | None:
    """Whether memory is contiguous along the last outer axis in a loop with inner axes; None where its operands differ.

    Along rows such a loop would go through memory in strides; beside those that are contiguous along it, rows would.
    """
    if not isinstance(loop, Loop) or not outer or set(loop.domain) <= set(outer) or set(outer) <= set(loop.over):
        return None
    found = memories(loop)
    longest = max(map(len, found))
    last = {m[-1] == outer[-1] if m[-1] in outer else False for m in found if len(m) == longest and m}
    return last.pop() if len(last) == 1 else None


def _collected(
    outer: tuple[str, ...], steps: list[Step], lane: str | None, others: frozenset[int] = frozenset()
) -> list[Loop]:
    """What belongs to the group, without the others, or nothing where the first step does not."""
    first = steps[0]
    taken: list[Loop] = []
    held: set[str] = set()  # written or read by steps that are left behind
    changed: dict[str, str] = {}  # written by them, and how
    for step in steps:
        fits = isinstance(step, Loop) and id(step) not in others and _belongs(step, outer, lane, taken)
        if isinstance(step, Loop) and fits and not _blocked(step, held, changed):
            taken.append(step)
            continue
        if step is first:
            return []
        kind = step.kind if isinstance(step, Loop) and step.changes else "set"
        held |= _names(step) | ({step.name} if kind == "set" else set())
        changed[step.name] = kind if changed.get(step.name, kind) == kind else "set"
    return taken


def _names(step: Step) -> frozenset[str]:
    return frozenset(r.name for r in step.reads()) if isinstance(step, Loop) else frozenset(step.reads)


def _blocked(loop: Loop, held: set[str], changed: Mapping[str, str]) -> bool:
    """Whether a loop cannot come before what is left behind; what adds to one tensor may, in whatever order."""
    turns = loop.changes and changed.get(loop.name, loop.kind) == loop.kind
    return loop.name in held or (loop.name in changed and not turns) or any(r.name in changed for r in loop.reads())


def _belongs(loop: Loop, outer: tuple[str, ...], lane: str | None, group: list[Loop]) -> bool:
    total = bool(outer) and set(outer) <= set(loop.over)
    if not total and not all(_plain_in(loop.slots, a) and a not in loop.over for a in outer):
        return False
    if loop.is_product and not total and outer != loop.free:
        return False
    if total and lane is not None and (loop.free or len(loop.over) > len(outer)):
        return False
    if not outer:  # additions at places that may all be one: no axis is shared out
        return not loop.domain or (loop.changes and not all(_plain_in(loop.slots, a) for a in loop.domain))
    written = {s.name: s for s in group}
    totals = {s.name for s in group if set(outer) <= set(s.over)}
    if any(r.name in totals for r in loop.reads()) or loop.name in totals:
        return False
    if loop.changes and loop.name not in written and any(r.name == loop.name for s in group for r in s.reads()):
        return False  # it changes what the group reads, perhaps more than once
    at_same = all(_same_outer(r.index, written[r.name].slots, outer) for r in loop.reads() if r.name in written)
    return at_same and (loop.name not in written or _same_outer(loop.slots, written[loop.name].slots, outer))


def _plain_in(slots: tuple[Index, ...], axis: str) -> bool:
    """Whether different values of the axis write different places."""
    places = [i for i in slots if axis in index_axes(i)]
    return any(i == axis or (isinstance(i, Merged) and axis in i.axes) or _moves_along(i, axis) for i in places)


def _moves_along(index: Index, axis: str) -> bool:
    """Whether it is the axis shifted, as a part of a concatenation is."""
    return isinstance(index, Window) and tuple(a for a, _ in index.steps) == (axis,)


def _same_outer(index: tuple[Index, ...], slots: tuple[Index, ...], outer: tuple[str, ...]) -> bool:
    return all(i == s for i, s in zip(index, slots, strict=True) if set(index_axes(s)) & set(outer))


def _lane(outer: tuple[str, ...], loops: list[Loop]) -> str | None:
    """The outer axis along which memory is contiguous, where the largest operands of the largest loops agree on one."""
    if not outer or not loops:
        return None
    size = max(len(s.domain) for s in loops)
    found = [m for s in loops if len(s.domain) == size for m in memories(s) if m]
    longest = max(map(len, found), default=0)
    last = {m[-1] for m in found if len(m) == longest}
    return outer[-1] if last == {outer[-1]} else None


def memories(loop: Loop) -> list[tuple[str, ...]]:
    """The axes of what a loop reads and writes, in the order of memory; chosen rows lie along their last."""
    known = not loop.is_fold and not any(isinstance(i, Read) for i in loop.slots[-1:])
    found = [axes_along(loop.slots)] if known else []
    for r in loop.reads():
        if not any(isinstance(i, Read) for i in r.index[-1:]):
            found.append(axes_along(r.index))
    return found or [loop.domain]


Tables = Mapping[str, tuple[str, ...]]
"""What loops write, each with its axes."""


def tables(steps: Sequence[Step], outer: tuple[str, ...]) -> Tables:
    """What loops write row by row: the outer axes come first, and others after them."""
    loops = [s for s in steps if isinstance(s, Loop)]
    changed = {s.name for s in loops if s.changes}
    once = (s for s in loops if s.name not in changed and by_axes_once(Read(s.name, s.slots)))
    found = {s.name: tuple(map(str, s.slots)) for s in once}
    return {name: axes for name, axes in found.items() if axes[: len(outer)] == outer and len(axes) > len(outer)}


def by_rows(loop: Loop, outer: tuple[str, ...], rows: Tables, form: Normal) -> tuple[Loop, ...]:
    """A sum over all rows of one of these tables as a total over the outer axes, and that as the sum was called.

    `b[n, d] = sum(t[i, n] * x[i, d], over=i)` goes through t[n, m] at a stride, and needs all of it. Under the names
    `b_of_rows[d, m] = sum(t[n, m] * x[n, d], over=n)` it is a total of the pass that makes t row by row. The axis of
    the row is last there: vectors run along it, however short the others are.
    """
    across = [r for r in loop.reads() if r.name in rows and _is_across(r, loop, len(outer))]
    plain = plain_by_axes(loop.value) and by_axes(Read(loop.name, loop.slots))
    if loop.kind != "sum" or not outer or not across or not plain or set(outer) <= set(loop.over):
        return (loop,)
    read = across[0]
    names = {str(a): b for a, b in zip(read.index, rows[read.name], strict=True)}
    over = tuple(names.get(a, a) for a in loop.over)
    if set(over) != set(outer) or len({names.get(a, a) for a in loop.domain}) < len(loop.domain):
        return (loop,)
    inner = rows[read.name][len(outer) :]
    own = sorted(map(str, loop.slots), key=lambda a: names.get(a, a) in inner)  # the row's axes last
    name = form.unused(f"{loop.name}_of_rows")
    total = replace(loop, name=name, slots=tuple(names.get(a, a) for a in own), over=over)
    copy = Loop(loop.name, loop.slots, Read(name, tuple(own)))
    return replace(total, value=with_axes(loop.value, names)), copy


def _is_across(read: Read, loop: Loop, rows: int) -> bool:
    """Whether it goes down the columns of a table: over all its rows, for an element of a row."""
    own = by_axes_once(read) and {*read.index} <= {*loop.domain}
    return own and {*read.index[:rows]} <= {*loop.over} and read.index[-1] in loop.free


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
