"""What windows add, as sums of what lies around each place: `out[h] = sum(b[h - tap] * a[tap], over=tap)`.

The factor over the windows' places gets zeros around it, so that every place of the result is such a sum. Where windows
begin in steps, the places of the result take turns: those that are as many steps apart are sums over the same taps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from derive.backends.cpu.products.matrices import Matrix, Phase, Product, Wide
from derive.backends.cpu.statements.normal import Normal
from derive.ir.nodes.arithmetic import ONE, ZERO, summed
from derive.ir.nodes.walking import axes_along, by_axes_once
from derive.ir.program import Call, Index, Node, Num, Place, Read, Scal, SizeOf, Window


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
    """The product that is added in windows as one of what lies around; None where places run backwards or elsewhere."""
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
    sides = _sides(p, {tap: at for a in around.values() for tap, at in a.taps}, around)
    out = tuple(next((a.out for a in around.values() if a.length.index == d), d) for d in dims)
    return replace(sides, b=b, out=Matrix(p.name, out), wide=wide, phases=phases, adds=True)


def _sides(p: Product, taps: Mapping[str, Index], around: Mapping[str, _Around]) -> Product:
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
