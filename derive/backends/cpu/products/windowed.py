"""Products of which a factor, or the result, lies in windows: no matrix in memory, and none is laid out for it.

Where an element of such a tensor lies is a sum of what its axes add, each so much a place: for rows, columns and the
inner axis alike. Which factor's axes are columns decides how fast it is: its vectors run along them, so that they
should lie one after another. Along a window that is its long axis, the *place*; the short one, the *tap*, is few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from derive.backends.cpu.products.matrices import Matrix, Phase, Product, Wide, numbers_and_two, plain, whole_axes
from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.nodes.arithmetic import ONE, ZERO, summed
from derive.ir.nodes.walking import axes_along, by_axes_once, index_axes, node_axes
from derive.ir.program import Call, Index, Merged, Node, Num, Place, Read, Scal, SizeOf, Window

MOST_AXES = 8
"""Axes of one side of an operand, as many as `windows.h` has room for."""


@dataclass(frozen=True)
class _Sides:
    """The factors of such a product, and its axes by what they are in it."""

    left: Node
    right: Node
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    inner: tuple[str, ...]

    def product(self, out: Matrix, alpha: tuple[Node, ...], note: str, normal: Normal) -> list[Loop | Product]:
        """The product, after the loops that compute those factors that lie nowhere in memory."""
        left, before = _as_it_lies(self.left, f"{out.name}_left", (*self.batch, *self.rows, *self.inner), normal)
        right, then = _as_it_lies(self.right, f"{out.name}_right", (*self.batch, *self.inner, *self.columns), normal)
        sides = (self.batch, self.rows, self.columns, self.inner)
        return [*before, *then, Product(out.name, out, left, right, *sides, alpha, note, windowed=True)]


def _as_it_lies(node: Node, name: str, axes: tuple[str, ...], normal: Normal) -> tuple[Matrix, list[Loop | Product]]:
    """A factor at its places in memory, with the loop that computes it first where it has none."""
    if isinstance(node, Read) and (plain(node, normal) is not None or _through_windows(node, normal)):
        return Matrix(node.name, node.index), []
    own, name = node_axes(node), normal.fresh(name)
    taps = (a for a in own if a not in axes)
    normal.dims[name] = wanted = (*taps, *(a for a in axes if a in own))
    return Matrix(name, wanted), [Loop(name, wanted, node, note=f"{name}[{', '.join(wanted)}] = {node}")]


# --- factors in windows --------------------------------------------------------------------------------------


def windowed(
    factors: list[Node], alpha: tuple[Node, ...], loop: Loop, normal: Normal
) -> list[Loop | Product] | None:
    """The product of two factors, one of which is read through windows, and what goes with it; None for others."""
    return lying(factors, alpha, loop, normal) if any(_through_windows(f, normal) for f in factors) else None


def lying(
    factors: list[Node], alpha: tuple[Node, ...], loop: Loop, normal: Normal
) -> list[Loop | Product] | None:
    """The product of two factors wherever they lie in memory; None where an axis has no part in it."""
    if not all(map(whole_axes, loop.slots)):
        return None
    found = _sides(factors, loop, normal)
    if found is None:
        return None
    sides, is_turned = found
    if not is_turned:
        return sides.product(Matrix(loop.name, loop.slots), alpha, loop.note, normal)
    name, slots = normal.fresh(f"{loop.name}_product"), (*sides.batch, *sides.rows, *sides.columns)
    normal.dims[name] = slots
    turned = Loop(loop.name, loop.slots, Read(name, slots), note=loop.note)
    return [*sides.product(Matrix(name, slots), alpha, loop.note, normal), turned]


def _through_windows(node: Node, normal: Normal) -> bool:
    """Whether it is a real tensor that is read through a window of several axes, and else at steps along axes."""
    if not isinstance(node, Read) or node.name in normal.booleans | normal.integers:
        return False
    return all(map(_in_steps, node.index)) and any(isinstance(i, Window) and len(i.steps) > 1 for i in node.index)


def _in_steps(index: Index) -> bool:
    """Whether a place is so many steps along axes."""
    if isinstance(index, Merged):
        return all(_in_steps(i.index if isinstance(i, Place) else i) for i in index.axes)
    return isinstance(index, str | Window)


def _sides(factors: list[Node], loop: Loop, normal: Normal) -> tuple[_Sides, bool] | None:
    """The sides, and whether the result has the columns before the rows in memory; None where an axis has no part."""
    if len(factors) != 2:
        return None
    own, dims = [set(node_axes(f)) for f in factors], axes_along(loop.slots)
    both = own[0] & own[1]
    if not set(loop.over) <= both or not dims or dims[-1] in both or set(dims) - (own[0] | own[1]):
        return None
    last = next(k for k in range(2) if dims[-1] in own[k])
    across = [_lane(f, normal) not in loop.free for f in factors]  # columns would be far apart
    is_turned = across[last] and (not across[1 - last] or _through_windows(factors[last], normal))
    k = 1 - last if is_turned else last
    left, right = factors[1 - k], factors[k]
    rows = tuple(a for a in dims if a in own[1 - k] - own[k])
    columns = tuple(a for a in dims if a in own[k] - own[1 - k])
    if not is_turned:  # those that lie one after another in the result
        ends = next((n for n, a in enumerate(reversed(dims)) if a not in columns), len(dims))
        columns = dims[len(dims) - ends :]
    batch = tuple(a for a in dims if a not in (*rows, *columns))
    inner = tuple(a for a in node_axes(left) if a in loop.over)
    if max(map(len, (rows, columns, inner))) > MOST_AXES:
        return None
    return _Sides(left, right, batch, rows, columns, inner), is_turned


def _lane(factor: Node, normal: Normal) -> str:
    """The axis that a factor's neighbours in memory are along."""
    last = index_axes(factor.index[-1]) if isinstance(factor, Read) and factor.index else node_axes(factor)[-1:]
    return normal.nominal.longest(last)


# --- results in windows --------------------------------------------------------------------------------------


def added_in_windows(normal: Normal) -> list[Loop | Product]:
    """The loops, with products in the place of those that compute one and then add it at places in windows."""
    out: list[Loop | Product] = list(normal.loops)
    for loop in normal.loops:
        addition = _addition(loop, normal) if loop.is_product else None
        steps = _added(loop, addition, normal) if addition is not None else None
        if addition is None or steps is None:
            continue
        writers = [s for s in normal.loops if s.name == addition.name]
        product = steps[-1]
        if isinstance(product, Product) and product.is_whole and _is_first(addition, writers):
            out.remove(writers[0])
            steps[-1] = replace(product, adds=False)
        at = out.index(loop)
        out[at : at + 1] = steps
        out.remove(addition)
    return out


def _is_first(addition: Loop, writers: list[Loop]) -> bool:
    """Whether it is added to zeros, of which nothing else is made."""
    return len(writers) == 2 and writers[1] is addition and writers[0].kind == "set" and writers[0].value == ZERO


def _addition(loop: Loop, normal: Normal) -> Loop | None:
    """The addition that alone reads what a loop makes, element by element."""
    readers = [s for s in normal.loops if loop.name in {r.name for r in s.reads()}]
    if len(readers) != 1 or readers[0].kind != "add" or loop.name in normal.program.returns:
        return None
    same = readers[0].value == Read(loop.name, loop.slots) and set(readers[0].free) == set(loop.free)
    return readers[0] if same else None


def _added(loop: Loop, addition: Loop, normal: Normal) -> list[Loop | Product] | None:
    """The product that adds where a window's places and taps come together; None where it has no two sides.

    Each element is a sum of what lies around it, if that can be said; else the product is added for one tap after
    another.
    """
    alpha, factors = numbers_and_two(loop.value)
    sides = _sides_into(factors, addition, loop.over, normal)
    if sides is None:
        return None
    note = "\n".join(dict.fromkeys((loop.note, addition.note)))
    *before, product = sides.product(Matrix(addition.name, addition.slots), alpha, note, normal)
    assert isinstance(product, Product)
    taps = tuple(a for a in addition.free if a not in (*sides.batch, *sides.rows, *sides.columns))
    return [*before, gathered(product, taps, normal) or replace(product, adds=True, taps=taps)]


def _sides_into(factors: list[Node], addition: Loop, over: tuple[str, ...], normal: Normal) -> _Sides | None:
    """The sides, the places of windows as columns, their taps left out; None where one factor has not all places."""
    slots, free = addition.slots, axes_along(addition.slots)
    windows = [i for i in slots if isinstance(i, Window) and len(i.steps) > 1]
    long = {normal.nominal.longest(index_axes(i)) for i in windows}
    taps = {a for i in windows for a in index_axes(i)} - long
    own = [set(node_axes(f)) for f in factors]
    k = next((k for k in range(len(own)) if long <= own[k]), None)
    places = any(isinstance(i, Window) and not i.steps for i in slots)  # single ones, which no column is
    if k is None or len(own) != 2 or not windows or places or len(set(free)) < len(free):
        return None
    if not all(map(_in_steps, slots)):
        return None
    ours, theirs = own[k], own[1 - k]
    if not set(over) <= ours & theirs or set(free) - (ours | theirs) or long & theirs or taps & ours:
        return None
    left, right = factors[1 - k], factors[k]
    rows = tuple(a for a in free if a in theirs - ours - taps)
    columns = tuple(a for a in free if a in long)
    batch = tuple(a for a in free if a not in (*rows, *columns, *taps))
    return _Sides(left, right, batch, rows, columns, tuple(a for a in node_axes(left) if a in over))


@dataclass(frozen=True)
class _Around:
    """What windows add along `dim`: how far around a place it comes from, and where it is read and written."""

    place: str  # the axis along which windows begin
    before: Node  # zeros before its first place, and after its last one
    after: Node
    length: Place  # the axis with the zeros around it, as a dimension
    window: Window  # where the sum reads there
    column: str  # the axis of the result's places
    out: Index  # where they are
    taps: tuple[tuple[str, Index], ...]  # of the windows' other axes: the ones that are summed, and where they are read
    phase: Phase | None = None


def gathered(p: Product, taps: tuple[str, ...], normal: Normal) -> Product | None:
    """What windows add, as sums of what lies around each place: `out[h] = sum(b[h - tap] * a[tap], over=tap)`.

    The factor over the windows' places gets zeros around it, so that every place of the result is such a sum. Where
    windows begin in steps, the places of the result take turns: those that are as many steps apart are sums over the
    same taps. None where places run backwards or elsewhere.
    """
    dims = normal.dims[p.name]
    found = [_around(d, i, taps) for d, i in zip(dims, p.out.index, strict=True) if isinstance(i, Window)]
    around = {a.place: a for a in found if a is not None}
    whole = by_axes_once(Read(p.b.name, p.b.index)) and by_axes_once(Read(p.name, dims))
    plain = all(isinstance(i, str) for i in p.a.index if set(axes_along((i,))) & set(taps))
    if len(around) < len(found) or not whole or not plain:
        return None
    own = [i for i in p.b.index if isinstance(i, str) and i not in p.batch]
    name = normal.fresh(f"{p.b.name}_wide")
    normal.dims[name] = tuple(around[i].length if i in around else i for i in own)
    wide = Wide(name, p.b, tuple((a.place, a.before, a.after) for a in around.values()))
    b = Matrix(name, tuple(around[i].window if i in around else i for i in own))
    phases = tuple(a.phase for a in around.values() if a.phase is not None)
    normal.starts |= {n for phase in phases for n in phase.numbers}
    sides = _summed_around(p, {tap: at for a in around.values() for tap, at in a.taps}, around)
    out = tuple(next((a.out for a in around.values() if a.length.index == d), d) for d in dims)
    return replace(sides, b=b, out=Matrix(p.name, out), wide=wide, phases=phases, adds=True)


def _summed_around(p: Product, taps: Mapping[str, Index], around: Mapping[str, _Around]) -> Product:
    """The product with the left factor at its taps, which are summed, and the result's places as columns."""
    a = tuple(taps.get(i, i) if isinstance(i, str) else i for i in p.a.index)
    summed_axes = {x for at in taps.values() for x in axes_along((at,))} | set(p.inner)
    inner = tuple(x for x in axes_along(a) if x in summed_axes)
    return replace(p, a=Matrix(p.a.name, a), inner=inner, columns=tuple(around[x].column for x in p.columns))


def _around(dim: Index, index: Index, taps: tuple[str, ...]) -> _Around | None:
    if not isinstance(index, Window) or not isinstance(dim, str) or index.offset != ZERO:
        return None
    (place, step), *rest = sorted(index.steps, key=lambda each: each[0] in taps)
    if step < 1 or any(dilation < 1 for _, dilation in rest):
        return None
    if step == 1:
        return _neighbours(dim, place, tuple(rest))
    return _in_turns(dim, place, step, *rest[0]) if len(rest) == 1 else None


def _neighbours(dim: str, place: str, taps: tuple[tuple[str, int], ...]) -> _Around:
    """Of windows whose places are one apart: a window reaches as far back as forwards."""
    before = summed((_times(dilation, _minus(SizeOf(a), ONE)), False) for a, dilation in taps)
    after, length = _minus(SizeOf(dim), SizeOf(place)), Place(dim, _plus(SizeOf(dim), before))
    window = Window(((dim, 1), *((a, -dilation) for a, dilation in taps)), before)
    return _Around(place, before, after, length, window, dim, dim, tuple((a, a) for a, _ in taps))


def _in_turns(dim: str, place: str, step: int, tap: str, dilation: int) -> _Around:
    """Of windows that begin every few places: `dim` in phases, for each of which some taps count."""
    phase = Phase(dim, tap, step, dilation)
    most = Call("div", (_plus(SizeOf(dim), _number(step - 1)), _number(step)))  # places of a phase
    before = _times(dilation, _minus(SizeOf(tap), ONE))
    start = _plus(before, Scal(phase.shift))
    window = Window(((phase.places, 1), (phase.taps, -(dilation // phase.common))), start)
    out = Window(((phase.places, step),), Scal(phase.first))
    at = Window(((phase.taps, step // phase.common),), Scal(phase.first_tap))
    length = Place(dim, _plus(before, most))
    return _Around(place, before, _minus(most, SizeOf(place)), length, window, phase.places, out, ((tap, at),), phase)


def _plus(a: Node, b: Node) -> Node:
    return Call("add", (a, b))


def _minus(a: Node, b: Node) -> Node:
    return Call("sub", (a, b))


def _number(value: int) -> Node:
    return Num(Fraction(value))


def _times(step: int, length: Node) -> Node:
    return length if step == 1 else Call("mul", (_number(step), length))
