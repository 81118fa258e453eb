"""The ways in which a pass may run, and the lengths for which each is the fastest, in no language.

Of a pass's axes some are parallel, shared out among threads; some are serial; along one run vectors; and some are cut
into tiles, of which so much is held at once. How long an axis is shows when a kernel runs, so that a pass has several
ways: the first whose bounds hold is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce

from derive.backends.cpu.names import Sizes, extent
from derive.backends.cpu.schedule.groups import Group, memories
from derive.backends.cpu.schedule.stages import Plan, Sweep, planned, rows_first
from derive.backends.cpu.schedule.vectors import lanes_form, pair_tiles
from derive.backends.cpu.statements.normal import Loop, Normal, as_one
from derive.backends.cpu.work import calls, is_heavy, units
from derive.ir.nodes.walking import axes_along, index_axes, node_axes
from derive.ir.program import Index, Merged, Read, Window

ROWS_ABREAST = 4  # short rows whose vectors are taken at once

# --- bounds of lengths ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Extent:
    """How many places axes have together."""

    axes: tuple[str, ...]

    def said(self, size: Sizes) -> str:
        """The count in code or for readers, by what lengths are called there."""
        return extent(self.axes, size)


@dataclass(frozen=True)
class Most:
    """The most places that one of several has; an axis without places hides none of the others."""

    of: tuple[tuple[str, ...], ...]

    def said(self, size: Sizes) -> str:
        """The same of several."""
        alone = (size(r[0]) if len(r) == 1 else " * ".join(f"at_least({size(a)}, 1)" for a in r) for r in self.of)
        return reduce(lambda most, n: f"at_least({most}, {n})", alone)


@dataclass(frozen=True)
class AtOnce:
    """The rows that are taken together: as many as stay in the cache with all that is read and written of them."""

    tensors: int  # that have a place for each of a row's
    row: tuple[str, ...]
    run: tuple[str, ...]  # the axes of a row that one loop counts through
    rows: tuple[str, ...]
    most: str

    def said(self, size: Sizes, rows: str = "") -> str:
        """The same of rows; of other `rows` where these are given."""
        row, run, own = (extent(axes, size) for axes in (self.row, self.run, self.rows))
        return f"rows_together({self.tensors} * {row}, {run}, {rows or own}, {self.most})"


@dataclass(frozen=True)
class Bound:
    """What a count is at least or at most; the words of limits are numbers of the machine's (`_native.h`).

    Rows are many for so many places of each: where these are so short that they leave a vector emptier, fewer are.
    """

    count: Extent | Most | AtOnce
    relation: str
    limit: str | Most

    def said(self, size: Sizes) -> str:
        """The bound in code or for readers."""
        limit = self.limit if isinstance(self.limit, str) else f"many_rows({self.limit.said(size)})"
        return f"{self.count.said(size)} {self.relation} {limit}"


# --- ways -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """A pass in one of its forms, and all that lengths must be for it."""

    plan: Plan
    when: tuple[Bound, ...] = ()

    def test(self, size: Sizes) -> str:
        """The bounds as one test in code."""
        return " && ".join(b.said(size) for b in self.when)

    @property
    def form(self) -> str:
        """What is taken at a time."""
        raise NotImplementedError

    @property
    def parallel(self) -> tuple[str, ...]:
        """The axes that are shared out among threads."""
        return self.plan.group.outer

    @property
    def tiled(self) -> tuple[str, ...]:
        """The axes of which several places are held at once, in registers."""
        return ()

    @property
    def vector(self) -> tuple[str, ...]:
        """The axes that vectors run along: the last outer one where memory is contiguous there, else of each sweep."""
        lane, sweeps = self.plan.group.lane, (x for stage in self.plan.stages for x in stage.sweeps)
        return (lane,) if lane else tuple(dict.fromkeys((x.nested or x.axes)[-1] for x in sweeps))

    def __str__(self) -> str:
        taken = {*self.parallel, *self.vector}
        serial = tuple(a for a in (*self.plan.group.outer, *inner_axes(self.plan.group)) if a not in taken)
        roles = {"parallel": self.parallel, "tiled": self.tiled, "serial": serial, "vectors": self.vector}
        return "; ".join([self.form, *(f"{role}: {', '.join(axes)}" for role, axes in roles.items() if axes)])


@dataclass(frozen=True)
class Elements(Way):
    """All places at once, nothing inside them."""

    form = "elements, a stretch at a time"


@dataclass(frozen=True)
class Rows(Way):
    """A row after another; where not `overlapping`, what is left over of vectors is taken place by place."""

    overlapping: bool = True
    form = "rows, one by one"


@dataclass(frozen=True)
class RowsTogether(Way):
    """Some rows together, one part of all of them before the next; sums in so many vectors."""

    parts: tuple[Part, ...] = ()
    at_once: AtOnce = field(kw_only=True)
    vectors: int = 1

    @property
    def form(self) -> str:
        return f"rows, some together, stage by stage{f', sums in {self.vectors} vectors' if self.vectors > 1 else ''}"


@dataclass(frozen=True)
class Columns(Way):
    """Blocks of neighbouring columns, one stage of a block after another."""

    form = "columns, a block at a time"


@dataclass(frozen=True)
class Streams(Way):
    """Rows of all columns, a sweep after another; `narrow` ones down each column."""

    narrow: bool = False

    @property
    def form(self) -> str:
        return "rows of all columns, " + ("down one after another" if self.narrow else "a piece at a time")

    @property
    def parallel(self) -> tuple[str, ...]:
        return inner_axes(self.plan.group)

    @property
    def vector(self) -> tuple[str, ...]:
        return self.parallel if self.narrow else self.plan.group.outer


@dataclass(frozen=True)
class ShortRows(Way):
    """Rows as columns: a bundle of them, or so many rows' vectors `abreast`; of `few` places sums need no blocks."""

    abreast: int = 0
    few: bool = True

    @property
    def form(self) -> str:
        return f"short rows, {f'{self.abreast} of their vectors' if self.abreast else 'a bundle'} at a time"


@dataclass(frozen=True)
class Lanes(Way):
    """Rows and the axis behind their own as one axis of lanes."""

    form = "rows and lanes, a block at a time"

    @property
    def vector(self) -> tuple[str, ...]:
        return self.plan.run


@dataclass(frozen=True)
class PairTiles(Way):
    """Tiles of pairs, whose sums stay in registers; in `turned` ones the axis that is last in memory runs down."""

    turned: bool = False
    form = "pairs, a tile at a time"

    @property
    def tiled(self) -> tuple[str, ...]:
        return self.plan.group.outer[-2:]


# --- rows of a few stages -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """What is done of one row before it is the next row's turn: values, sweeps, and the values that these end in."""

    before: tuple[Loop, ...]
    sweeps: tuple[Sweep, ...]
    after: tuple[Loop, ...] = ()


def _rows(plan: Plan, form: Normal) -> tuple[Way, ...]:
    """The ways of a pass over rows: some together where they are folded before a later stage goes through them."""
    parts = _parts(plan)
    if not _wait(plan, parts):
        return (Rows(plan),)
    sweeps = [x for part in parts for x in part.sweeps]
    longest = max(sweeps, key=lambda x: len(x.axes))

    def run(sweep: Sweep) -> tuple[str, ...]:
        """The axes of a sweep that one loop counts through."""
        return sweep.axes if as_one(sweep.axes, plan.computed(sweep.loops), form) else sweep.axes[-1:]

    at_once = _at_once(plan, parts, longest, run(longest))
    sums = [x for x in sweeps if any(s.is_fold and not plan.group.is_total(s) for s in x.loops)]
    others = sorted({run(x)[-1:] for x in sums if run(x) != run(longest)})
    whole = tuple(Bound(Extent(axes), ">=", "LANES") for axes in others)  # no other sum has less than a vector
    side = Extent(run(longest))
    wide = (Bound(side, ">=", "WIDE"), *whole, Bound(at_once, ">", "1"))
    return (
        RowsTogether(plan, wide, parts, at_once=at_once, vectors=4),
        RowsTogether(plan, (Bound(side, "<", "WIDE"),), parts, at_once=at_once),
        Rows(plan, overlapping=False),  # from memory: to compute faster was slower there, by a quarter
    )


def _wait(plan: Plan, parts: tuple[Part, ...]) -> bool:
    """Whether rows are folded before a later stage goes through them, and lie one after another."""
    outer = plan.group.outer
    before = (s for part in parts[:-1] for x in part.sweeps for s in x.loops)
    folded = any(s.is_fold and not plan.group.is_total(s) for s in before)
    plain = not any(sweep.nested or sweep.first for part in parts for sweep in part.sweeps)
    return bool(outer) and plan.run == outer and folded and plain


def _at_once(plan: Plan, parts: tuple[Part, ...], longest: Sweep, run: tuple[str, ...]) -> AtOnce:
    outer = plan.group.outer
    loops = [s for part in parts for x in part.sweeps for s in plan.computed(x.loops)]
    written = [Read(s.name, s.slots) for s in loops if plan.place[s.name] in ("memory", "buffer")]
    inside = {name for name, place in plan.place.items() if place == "element"}
    whole = [r for r in (*(r for s in loops for r in s.reads()), *written) if r.name not in inside]
    along = {r.name for r in whole if {*outer, *longest.axes} <= set(axes_along(r.index))}
    most = "ABREAST" if any(not part.sweeps for part in parts[1:]) else "TOGETHER"  # vectors run along rows
    return AtOnce(max(1, len(along)), longest.axes, run, outer, most)


def _parts(plan: Plan) -> tuple[Part, ...]:
    """The stages, each with the values that the next would begin with: they too wait for what the row has folded."""
    parts: list[Part] = []
    for stage in plan.stages:
        sweeps = tuple(x for x in stage.sweeps if not plan.is_elements(x))
        if not parts:
            parts.append(Part(stage.values, sweeps))
        elif not parts[-1].sweeps:
            parts[-1] = replace(parts[-1], before=parts[-1].before + stage.values, sweeps=sweeps)
        else:
            parts[-1] = replace(parts[-1], after=parts[-1].after + stage.values)
            parts += [Part((), sweeps)] if sweeps else []
    return tuple(x for part in parts for x in _costly_apart(part))


def _costly_apart(part: Part) -> list[Part]:
    """The part, and from the first costly function of a row's value on what it ends in: vectors run along the rows."""
    costly = [k for k, s in enumerate(part.after) if any(map(is_heavy, calls(s.value)))]
    if not costly or any(s.changes for s in part.after[costly[0] :]):
        return [part]
    first = costly[0]
    return [replace(part, after=part.after[:first]), Part(part.after[first:], ())]


# --- long columns ---------------------------------------------------------------------------------------------


def _streams(plan: Plan) -> tuple[Way, ...]:
    """Whether the rows of every sweep may be shared out among threads, and something is folded over them; narrow ones
    where rows are counted by one axis, and something costs more than the step from a row to the next.

    What a column alone decides is a branch to GCC, which then makes no vectors down it.
    """
    sweeps = [sweep for stage in plan.stages for sweep in stage.sweeps]
    folds = [s for sweep in sweeps for s in sweep.loops if s.is_fold]
    group = plan.group
    if len(group.outer) > 1 or group.totals or any(sweep.nested or sweep.ordered for sweep in sweeps):
        return ()
    once = [s for stage in plan.stages for s in stage.values if s.slots == group.outer]
    added = any(s.changes and s not in once for s in group.loops)  # but a number a column, as in an update
    if not folds or added or not all(s.slots == group.outer for s in folds):
        return ()
    tall = Bound(Extent(max((sweep.axes for sweep in sweeps), key=len)), ">=", "TALL")
    done = [(call, set(sweep.axes)) for sweep in sweeps for s in sweep.loops for call in calls(s.value)]
    branches = any(call.fn == "where" and not set(node_axes(call.args[0])) & inner for call, inner in done)
    costly = any(is_heavy(call) for call, _ in done)
    narrow = costly and not branches and all(len(sweep.axes) == 1 for sweep in sweeps)
    few = Streams(plan, (tall, Bound(Extent(group.outer), "<", "NARROW")), narrow=True)
    return (*([few] if narrow else []), Streams(plan, (tall,)))


# --- short rows -----------------------------------------------------------------------------------------------


def _short_rows(group: Group, form: Normal, outside: frozenset[str]) -> tuple[Way, ...]:
    """The same loops with vectors along the last outer axis, if they can be."""
    plan = _short_plan(group, form, outside)
    if plan is None:
        return ()
    group, inner = plan.group, set(inner_axes(plan.group))
    count, places = Extent(plan.run), _places(plan, form)
    windows, across, kept = _reads_windows(group), _lies_across(group, inner), "buffer" in plan.place.values()
    few = kept or not (across or windows)
    least: str | Most = "at_most(MANY, NARROW)" if across else places
    if windows:  # what neighbours read lies side by side
        least = "at_most(MANY, NARROW / 2)"
    limit = (Bound(places, "<", _limit(plan)),) if few else ()
    found: tuple[Way, ...] = (ShortRows(plan, (*limit, Bound(count, ">=", least)), few=few),)
    once = not group.totals and not any(s.changes for s in group.loops)
    if windows and once and not kept:  # all may be computed twice
        vector = (Bound(places, "<=", "ROWS"), Bound(count, ">=", "LANES"))
        found = (ShortRows(plan, vector, abreast=1), *found)
        slow = plan.slow[-1:]
        rows_too = (*vector, Bound(Extent(slow), ">=", str(ROWS_ABREAST)))
        found = (*([ShortRows(plan, rows_too, abreast=ROWS_ABREAST)] if slow else []), *found)
    return found


def _short_plan(group: Group, form: Normal, outside: frozenset[str]) -> Plan | None:
    inner = set(inner_axes(group))
    if group.lane is not None or not group.outer or not inner or not all(_fits(s, group) for s in group.loops):
        return None
    few = _few(group, form)
    if not _is_worth_it(group, inner) and not (inner <= few and _is_more_than_elements(group)):
        return None
    plan = planned(replace(group, lane=group.outer[-1], short=True), form, outside)
    kept = [index_axes(i) for n, place in plan.place.items() if place == "buffer" for i in form.dims[n]]
    return plan if all(set(axes) <= {*group.outer, *inner, *few} for axes in kept) else None


def inner_axes(group: Group) -> tuple[str, ...]:
    """The axes inside the rows."""
    return tuple(dict.fromkeys(a for s in group.loops for a in group.inner(s)))


def _fits(loop: Loop, group: Group) -> bool:
    """Whether columns can print it: an element, a fold of each row, a total over all, a change in each row."""
    if loop.changes:
        return not group.inner(loop) and group.outer[-1] in loop.slots
    if group.is_total(loop):
        return set(loop.over) == set(group.outer) and loop.kind == "sum"
    return not loop.is_fold or set(loop.free) == set(group.outer)


def _is_worth_it(group: Group, inner: set[str]) -> bool:
    """Whether rows are folded or take a costly function, or what is likely to be short lies apart in memory."""
    reads = [r for s in group.loops for r in s.reads()]
    indices = [i for r in reads for i in r.index] + [i for s in group.loops for i in s.slots]
    several = [i for i in indices if isinstance(i, Merged) or (isinstance(i, Window) and len(i.steps) > 1)]
    parts = inner <= set(axes_along(several))
    if any(s.is_fold and not group.is_total(s) for s in group.loops):
        return len(inner) == 1 or parts or _lies_across(group, inner)
    costly = any(is_heavy(call) for s in group.loops if group.inner(s) for call in calls(s.value))
    return (costly and len(inner) == 1) or (parts and len({m[-1:] for s in group.loops for m in memories(s)}) > 1)


def _few(group: Group, form: Normal) -> set[str]:
    """The axes of dimensions of which single places are read or written: such a dimension has few."""
    found = [(s.name, s.slots) for s in group.loops] + [(r.name, r.index) for s in group.loops for r in s.reads()]
    places = [dim for name, at in found for dim, i in zip(form.dims[name], at, strict=True) if _is_place(i)]
    return set(axes_along(places))


def _is_place(index: Index) -> bool:
    """Whether it is one place, whatever the axes."""
    return isinstance(index, Window) and not index.steps


def _is_more_than_elements(group: Group) -> bool:
    """Whether it folds rows, or puts something at single places of them: vectors along rows have no part in that."""
    folded = any(s.is_fold and not group.is_total(s) for s in group.loops)
    return folded or any(any(map(_is_place, s.slots)) for s in group.loops)


def _lies_across(group: Group, inner: set[str]) -> bool:
    """Whether neighbours in memory are elements of neighbouring rows: if no row is kept, rows may be long."""
    reads = [r for s in group.loops for r in s.reads()]
    across = [r for r in reads if group.outer[-1] in axes_along(r.index)]
    return all(r.index[-1] == group.outer[-1] for r in across) and any(inner & set(axes_along(r.index)) for r in across)


def _reads_windows(group: Group) -> bool:
    """Whether neighbouring rows are neighbouring places of the same windows: they read what lies side by side."""
    inner = set(inner_axes(group))
    last = [r.index[-1] for s in group.loops for r in s.reads() if r.index and inner & set(axes_along(r.index))]
    return any(group.outer[-1] in index_axes(i) and inner & set(index_axes(i)) for i in filter(is_window, last))


def is_window(index: Index) -> bool:
    """Whether it is a place on several axes."""
    return isinstance(index, Window) and len(index.steps) > 1


def _limit(plan: Plan) -> str:
    """How long rows are columns: up to a vector, or longer, where to compute a costly function again in what vectors
    overlap costs more than to go through memory in steps of rows.
    """
    group, axes = plan.group, inner_axes(plan.group)
    indices = [(r.name, r.index) for s in group.loops for r in s.reads()] + [(s.name, s.slots) for s in group.loops]
    along = [(name, i) for name, i in indices if {axes[-1], group.outer[-1]} <= set(axes_along(i))]
    lie_apart = len(axes) > 1 or any(i[-1] != axes[-1] for _, i in along)
    tensors = {name for name, _ in along if plan.place.get(name, "memory") == "memory"}
    cost = sum(units(call) for s in group.loops if group.inner(s) for call in calls(s.value) if is_heavy(call))
    if not (lie_apart or any(s.is_fold for s in group.loops)):
        return "NARROW"  # one vector, or two, take less than steps of rows
    return "SHORT" if lie_apart or cost > len(tensors) else "NARROW"


def _places(plan: Plan, form: Normal) -> Most:
    """How many places a row has, or what is kept of one."""
    group = plan.group
    inner = [*map(group.inner, group.loops)]
    kept = [n for n, place in plan.place.items() if place == "buffer"]
    inner += [tuple(a for a in axes_along(form.dims[n]) if a not in group.outer) for n in kept]
    every = dict.fromkeys(a for axes in inner for a in axes)
    found = dict.fromkeys(tuple(a for a in every if a in axes) for axes in inner)
    return Most(tuple(r for r in found if not any(set(r) < set(other) for other in found)))


# --- all of them ----------------------------------------------------------------------------------------------


def ways(group: Group, outside: frozenset[str], form: Normal) -> tuple[Way, ...]:
    """The ways in which a group may run; `outside` are the tensors of which others know."""
    tiles = pair_tiles(group, form, outside)
    group = rows_first(group, form)
    plan = planned(group, form, outside)
    short = _short_rows(group, form, outside)
    lanes = lanes_form(group, form, outside)
    across = () if lanes is None else (Lanes(lanes, (Bound(Extent(lanes.run[-1:]), "<", "SPAN / 2"),)),)
    own: tuple[Way, ...] = (Elements(plan),)
    if group.lane is None:
        own = _rows(plan, form)
    elif any(stage.sweeps for stage in plan.stages):
        own = (*_streams(plan), Columns(plan))
    return (*map(_tiled, tiles), *across, *short, *own)


def _tiled(found: tuple[bool, Plan]) -> Way:
    """Tiles of whole rows and columns of pairs, or of fewer rows."""
    turned, plan = found
    row, lane = Extent(plan.group.outer[-2:-1]), Extent(plan.group.outer[-1:])
    wide = Bound(lane, ">=", "TILE_COLUMNS")
    if turned:
        return PairTiles(plan, (wide, Bound(row, "<", "TILE_COLUMNS")), turned)
    return PairTiles(plan, (Bound(row, ">=", "TILE_ROWS"), wide), turned)
