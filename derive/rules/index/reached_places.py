"""A sum of what axis arithmetic puts at a place is added through windows, to an axis that has all such places.

`sum(where(eq(2*u + k, t), x[u] * w[k], 0), over=(u, k))` asks of all triples whether they meet. Added at `2*u + k`
along an axis that reaches as far, of which `t` then reads the first places, it is the adjoint of a window. Neither `u`
nor `k` may be empty then. What scales the sum at each `t` has to be finite, as 0 times it is 0 where nothing is added.

Several such questions joined with `&`, each about summed axes of its own, are a sum for each, one inside the other:
`sum(where(eq(h + 1, i) & eq(w + 1, j), x[h, w], 0), over=(h, w))` puts `x` into a frame, along both axes at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sympy import And, Basic, Eq, Expr, Integer, Max, Mul, S
from sympy.logic.boolalg import Boolean

from derive.errors import DeriveError
from derive.facts.domains import end_of, solved_for
from derive.facts.interpreter import Facts, facts_of
from derive.ir.equations import Equation, Op, Requirement, SizeRule
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import Where, conjuncts
from derive.ir.terms.elements import At, Delta, Tensor
from derive.ir.terms.indices import Prefix
from derive.ir.terms.names import new_name
from derive.ir.terms.products import by_axes
from derive.ir.terms.windows import affine
from derive.rules.index.guards import with_lengths


@dataclass(frozen=True)
class _Place:
    """An equation's axis, and the place of it that a sum adds to, counted from the first such."""

    axis: Axis
    place: Expr  # whole steps above 0 over axes that are summed
    before: int  # how many of these places lie before the first of the axis

    @property
    def length(self) -> Expr:
        """How long an axis is that has all these places, and those of the equation's axis behind them."""
        return Max(Size(self.axis) + self.before, end_of(self.place, 1) + 1)


@dataclass(frozen=True)
class _Reached:
    """What a sum adds at places of its axes; what scales it there, and the condition under which it counts."""

    places: tuple[_Place, ...]
    added: Expr
    scale: Expr
    condition: Boolean


def reached(op: Op) -> Op:
    """The same op, each such sum behind an equation that adds to axes of its own, of which windows ask for a place."""
    taken, values = op.names, facts_of(op)
    lengths = {r.axis: r.formula.axis for r in op.sizes if isinstance(r.formula, Size)}
    out: list[Equation] = []
    sizes: list[SizeRule] = []
    needs: list[Requirement] = []
    for e in op.equations:
        r = _found(e, values)
        if r is None:
            out.append(e)
            continue
        whole = {p.axis: Axis(f"{p.axis.base}_of_{e.name}") for p in r.places}
        sizes += [SizeRule(whole[p.axis], formula=p.length, around=p.axis) for p in r.places]
        windows = [affine(p.place) for p in r.places if not isinstance(p.place, Axis)]
        axes = dict.fromkeys(lengths.get(a, a) for form in windows for a, _ in form.steps)
        needs += [Requirement(op.written_for(e), f"axis {a.base}", Size(a), ">=", S.One) for a in axes if not a.fixed]
        target = Tensor(new_name(f"{e.name}_reached", taken, "_"))
        added = Mul(*(Delta(whole[p.axis], Prefix(p.place)) for p in r.places), r.added)
        index = tuple(whole.get(i, i) for i in e.axes)
        out.append(replace(e, target=target, index=index, body=added, kind="sum", scale=e.weight, given=False))
        read = {p.axis: Prefix(p.axis + p.before) for p in r.places}
        there = At(target, *(read.get(i, i) for i in e.axes))
        body = Where(r.condition, r.scale * there, S.Zero)
        out.append(replace(e, body=body, kind=None, over=(), scale=S.One))
    return with_lengths(op, out, sizes, needs)


def _found(e: Equation, values: Facts) -> _Reached | None:
    """How a sum asks of axes alone whether they meet axes that it keeps; None for any other."""
    if e.kind not in ("sum", "mean") or not e.is_plain:
        return None
    factors = Mul.make_args(e.body)
    choices = [f for f in factors if isinstance(f, Where) and f.args[2] == 0]
    parts = [v for f in factors for v in (Mul.make_args(f.args[1]) if f in choices else [f])]
    added, scale = by_axes(parts, e.over)
    asked, kept = by_axes((c for f in choices for c in conjuncts(f.condition)), e.over)
    met = _met(e, asked, added)
    if not met or not values.of(Mul(*scale)).is_finite:
        return None
    rest = And(*(c for c in asked if c not in met))
    places = sorted(met.values(), key=lambda p: e.axes.index(p.axis))
    return _Reached(tuple(places), Where(rest, Mul(*added), S.Zero), Mul(*scale), And(*kept))


def _met(e: Equation, asked: Sequence[Basic], added: Sequence[Expr]) -> dict[Basic, _Place]:
    """The conditions that ask whether an axis is met that nothing else summed reads, each by axes of its own."""
    out: dict[Basic, _Place] = {}
    for condition in (c for c in asked if isinstance(c, Eq)):
        elsewhere = {a for part in (*asked, *added) if part != condition for a in free_axes(part)}
        summed = {a for p in out.values() for a in free_axes(p.place)}
        for axis in (a for a in e.axes if a not in elsewhere):
            found = _on(axis, condition, e.over)
            if found is not None and not summed & free_axes(found[0]):
                out[condition] = _Place(axis, *found)
    return out


def _on(axis: Axis, condition: Eq, over: tuple[Axis, ...]) -> tuple[Expr, int] | None:
    """The place of an axis of which a condition asks, from the first one on, and how many lie before the axis."""
    place = solved_for(axis, condition.lhs - condition.rhs)
    if place is None or axis.is_pack or place.atoms(At):
        return None
    try:
        form = affine(place)
    except DeriveError:
        return None
    summed = all(a in over and times > 0 and not a.is_pack for a, times in form.steps)
    if not form.steps or not summed or not isinstance(form.offset, Integer):
        return None
    before = max(0, -int(form.offset))
    return place + before, before
