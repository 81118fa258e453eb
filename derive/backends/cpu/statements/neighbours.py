"""Axes that lie one after another in all that is read and written are one axis: the rows and columns of an image.

Loops over both are one loop then, as long as both together, and vectors go on from one row into the next. What asks
for one of the two, a place on it, a window along it, a sum over it alone, keeps them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from derive.backends.cpu.statements.normal import Loop, Normal, rewritten
from derive.ir.nodes.walking import walk
from derive.ir.program import AxisValue, Index, Merged, Node, PartOf, Place, Read, Scan, Window, base
from derive.ir.terms.names import free_name


class Pair(NamedTuple):
    """Two neighbours, the second faster in memory, without what tells bound copies apart; `whole` is both as one."""

    slow: str
    fast: str
    whole: str


def join_neighbours(form: Normal, apart: Iterable[str]) -> None:
    """Make one axis of two neighbours, as long as there are such; those `apart` stay as they are."""
    single = frozenset(map(base, apart))
    while pairs := list(_pairs(form, single)):
        for pair in pairs:
            _join(form, pair)


def _pairs(form: Normal, apart: frozenset[str]) -> Iterator[Pair]:
    """The pairs of axes that are neighbours wherever one of them stands."""
    after: dict[str, set[str | None]] = {}  # what stands behind an axis, None for nothing or not the same everywhere
    before: dict[str, set[str | None]] = {}
    for index in _indices(form):
        for here, there in zip((None, *index), (*index, None), strict=True):
            pair = isinstance(here, str) and isinstance(there, str) and _copy(here) == _copy(there)
            if isinstance(here, str):
                after.setdefault(base(here), set()).add(base(str(there)) if pair else None)
            if isinstance(there, str):
                before.setdefault(base(there), set()).add(base(str(here)) if pair else None)
    single = apart | _asked_by_themselves(form)
    taken = {base(a) for dims in form.dims.values() for i in dims for a in ((i,) if isinstance(i, str) else ())}
    used: set[str] = set()
    for slow in sorted(after):
        (fast, *others) = after[slow]
        if fast is None or others or before[fast] != {slow} or {slow, fast} & (single | used) or slow == fast:
            continue
        if all(_together(s, slow, fast) for s in form.loops):
            used |= {slow, fast}
            yield Pair(slow, fast, free_name(f"{slow}_{fast}", taken | used, "_"))


def _indices(form: Normal) -> Iterator[tuple[Index, ...]]:
    """The dimensions of all tensors, and where these are read and written."""
    yield from form.dims.values()
    for s in form.loops:
        yield s.slots
        yield from (r.index for r in s.reads())


def _copy(axis: str) -> str:
    """What tells a bound copy of an axis from others."""
    return axis[len(base(axis)) :]


def _asked_by_themselves(form: Normal) -> set[str]:
    """The axes of whose places something else is asked than where an element lies."""
    found: set[str] = set()
    for s in form.loops:
        nodes: list[Node | Index] = [*walk(s.value), *(n for i in s.slots for n in walk(i))]
        nodes += [n for r in s.reads() for i in (*r.index, *form.dims[r.name]) for n in walk(i)]
        nodes += [n for i in form.dims[s.name] for n in walk(i)]
        for n in nodes:
            if isinstance(n, AxisValue):
                found.add(base(n.axis))
            elif isinstance(n, Scan):
                found |= {base(n.to), base(n.over)}
            elif isinstance(n, Window):
                found |= {base(a) for a, _ in n.steps}
            elif isinstance(n, Merged | PartOf | Place):
                found |= {base(a) for a in walk(n) if isinstance(a, str)}
        found |= {base(a) for r in s.reads() for a in _elsewhere(r.index, form.dims[r.name])}
        found |= {base(a) for a in _elsewhere(s.slots, form.dims[s.name])}
    return found


def _elsewhere(index: tuple[Index, ...], dims: tuple[Index, ...]) -> Iterator[str]:
    """The axes of places and dimensions that do not go by one name."""
    for i, dim in zip(index, dims, strict=True):
        own = [a for a in (i, dim) if isinstance(a, str)]
        if len({base(a) for a in own}) > 1 or len(own) == 1:
            yield from own


def _together(loop: Loop, slow: str, fast: str) -> bool:
    """Whether a loop folds over both axes or over neither."""
    folded = [{_copy(a) for a in loop.over if base(a) == axis} for axis in (slow, fast)]
    return folded[0] == folded[1]


def _join(form: Normal, pair: Pair) -> None:
    """Put one axis in the place of two."""

    def index(at: tuple[Index, ...]) -> tuple[Index, ...]:
        inside: list[Index] = [rewritten(i, change) if isinstance(i, Read) else i for i in at]  # type: ignore[misc]
        whole = [pair.whole + _copy(i) if isinstance(i, str) and base(i) == pair.slow else i for i in inside]
        return tuple(i for i in whole if not isinstance(i, str) or base(i) != pair.fast)

    def change(node: Node | Index) -> Node | Index:
        return replace(node, index=index(node.index)) if isinstance(node, Read) else node

    for name, dims in form.dims.items():
        form.dims[name] = index(dims)
    for k, s in enumerate(form.loops):
        over = index(s.over)
        form.loops[k] = replace(s, slots=index(s.slots), value=rewritten(s.value, change), over=over)  # type: ignore[arg-type]
    form.joined[pair.whole] = (pair.slow, pair.fast)
    known = form.nominal
    both = known.elements((pair.slow, pair.fast))
    form.nominal = replace(known, lengths={**known.lengths, pair.whole: both})
