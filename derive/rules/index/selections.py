"""A sum of what an index selects is a gather or a scatter, however the selection is written.

`sum(where(eq(y[n], c), p[n, c], 0), over=c)`, or with `delta(y[n], c)`, is `p[n, y[n]]`; and
`sum(where(eq(to[k], n), m[k], 0), over=k)` adds `m[k]` at `to[k]`. What is not selected reaches neither. So it is with
maxima, where `-oo` stands for what is not selected.

A place that is computed from an index gets an index of its own, which selects as one that is given does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from sympy import And, Basic, Eq, Expr, Mul, Not, S, oo

from derive.facts.domains import solved_for
from derive.facts.interpreter import signs
from derive.ir.equations import Equation, Op, Requirement
from derive.ir.terms.asked import Below, NotBelow
from derive.ir.terms.axes import PACK, Axis, Size, free_axes, sorted_axes
from derive.ir.terms.choices import Placed, Where, conjuncts
from derive.ir.terms.elements import At, Delta, Tensor
from derive.ir.terms.names import new_name
from derive.ir.terms.reductions import Reduce
from derive.rules.index.asked_places import Ranges, in_a_window, place_of, places_named
from derive.rules.index.guards import with_lengths
from derive.rules.index.reached_places import reached
from derive.rules.index.tables import without_tables


def selected(op: Op) -> Op:
    """The same op with every such selection as a gather, or as a delta that scatters."""
    ranges: Ranges = {o.name: o.ranges_over for o in op.operands if o.kind == "index"}
    op, places = _with_computed(reached(without_tables(op, ranges)))
    found = [_selected(e, {**ranges, **places}) for e in op.equations]
    taken = op.names | {e.name for e in found}
    return replace(op, equations=tuple(part for e in found for part in _unscaled(e, taken)))


def _unscaled(equation: Equation, taken: set[str]) -> list[Equation]:
    """What an index puts at places, scaled once it is added up: it has more terms than places, and a count is exact."""
    if not equation.is_plain or equation.scale in (S.One, S.NegativeOne) or not _puts(equation):
        return [equation]
    target = Tensor(new_name(f"{equation.name}_sum", taken), **signs(Reduce("sum", equation.body, *equation.over)))
    added = replace(equation, target=target, scale=S.One, given=False)
    return [added, replace(equation, body=equation.scale * added.left, kind=None, over=(), scale=S.One)]


def _puts(equation: Equation) -> bool:
    """Whether it is a sum of what an index puts at places of an axis."""
    deltas = [d.args for d in Mul.make_args(equation.body) if isinstance(d, Delta)] if equation.kind == "sum" else []
    return any(
        isinstance(place, At) and axis in equation.axes and bool(free_axes(place) & set(equation.over))
        for args in deltas
        for axis, place in (args, args[::-1])
    )


def _selected(equation: Equation, ranges: Ranges) -> Equation:
    if equation.kind in _LEAST:
        return _extremum(equation, ranges)
    if equation.kind not in ("sum", "mean"):
        return equation
    factors = [f for factor in Mul.make_args(equation.body) for f in _each_asked(factor, ranges)]
    found = []
    for factor in factors:
        place, value = place_of(factor, ranges)
        rest = Mul(*(f for f in factors if f != factor), value)
        if place is not None and not in_a_window(place[0], rest):
            found.append((*place, rest))
    for axis, index, rest in found:
        if axis in equation.over:
            return _selected(_gathered(equation, rest.xreplace({axis: index}), axis), ranges)
    for axis, index, rest in found:
        if axis in equation.axes and free_axes(index) & set(equation.over):
            apart = tuple(i for i in equation.index if i != axis)
            others = _selected(replace(equation, index=apart, body=rest.xreplace({axis: index})), ranges)
            body, scale = Delta(axis, index) * others.body, others.weight  # a mean is added up as sums are, divided
            return replace(others, index=equation.index, body=body, kind=others.kind and "sum", scale=scale)
    return equation


def _each_asked(factor: Expr, ranges: Ranges) -> list[Expr]:
    """A value under several conditions as a product, with a factor for each place that one of them names."""
    if not isinstance(factor, Where) or factor.args[2] != 0 or not isinstance(factor.condition, And):
        return [factor]
    asked = conjuncts(factor.condition)
    named = [c for c in asked if places_named(c, ranges)]
    rest = And(*(c for c in asked if c not in named))
    return [*(Where(c, S.One, S.Zero) for c in named), Where(rest, factor.args[1], S.Zero)] if named else [factor]


_LEAST = {"amax": -oo, "amin": oo}
"""What a maximum or minimum does not see."""


def _extremum(equation: Equation, ranges: Ranges) -> Equation:
    """A maximum of what an index selects as what is there, or over what it puts at each place."""
    least = _LEAST[str(equation.kind)]
    value, asked = _conditions(equation.body, least)
    for condition in asked:
        for axis, index in places_named(condition, ranges):
            if in_a_window(axis, value):
                continue
            others = [c for c in asked if c != condition]
            rest = (Where(And(*others), value, least) if others else value).xreplace({axis: index})
            if axis in equation.over:
                return _selected(_gathered(equation, rest, axis), ranges)
            own = free_axes(index) & set(equation.over)
            in_one = own == free_axes(index) or len(own) == 1  # what a scatter along one dimension has
            if axis in equation.axes and equation.is_plain and own and in_one and PACK not in own:
                return replace(equation, body=Placed(condition, rest, least))
    return equation


def _conditions(body: Expr, least: Expr) -> tuple[Expr, list[Basic]]:
    """What a maximum is taken of, and the conditions under which that is not `least`."""
    asked: list[Basic] = []
    while isinstance(body, Where) and least in body.args[1:]:
        holds = body.args[2] == least
        asked += conjuncts(body.condition if holds else Not(body.condition))
        body = body.args[1 if holds else 2]
    return body, asked


def _gathered(equation: Equation, body: Expr, axis: Axis) -> Equation:
    """The sum without an axis of which one place remains."""
    over = tuple(a for a in equation.over if a != axis)
    scale = equation.scale / Size(axis) if equation.kind == "mean" else equation.scale
    if over:
        return replace(equation, body=body, over=over, scale=scale)
    return replace(equation, body=scale * body, kind=None, over=(), scale=S.One)


def _with_computed(op: Op) -> tuple[Op, dict[str, Axis]]:
    """The op with what it selects by computed places selected by indices, and the axes of which these hold places.

    `sum(where(eq(lo[n] + 1, k), w[n], 0), over=n)` asks of all pairs; with
    `lo_place[n] = where(0 <= lo[n] + 1 and lo[n] + 1 < size(k), lo[n] + 1, 0)` it adds `w[n]` at `lo_place[n]`, where
    `lo[n] + 1` is a place of `k`; where it is none, nothing is selected. So `k` must not be empty.
    """
    given = {o.name: o.ranges_over for o in op.operands if o.kind == "index"}
    taken, ranges, needs = op.names, dict[str, Axis](), list[Requirement]()
    out: list[Equation] = []
    made: dict[Expr, At] = {}
    for e in op.equations:
        factors = list(Mul.make_args(e.body)) if e.kind in ("sum", "mean") else []
        for k, f in enumerate(factors):
            for axis, place in islice(_computed(f, (*e.over, *e.axes), given), 1):
                inside = And(NotBelow(place, S.Zero), Below(place, Size(axis)))
                body = Where(inside, place, S.Zero)
                if body not in made:
                    first = min(place.atoms(At), key=lambda at: at.sort_key())
                    target = Tensor(new_name(f"{first.name}_place", taken), integer=True)
                    out.append(Equation(target, tuple(sorted_axes(free_axes(place))), body))
                    made[body], ranges[target.name] = out[-1].left, axis
                    if not axis.fixed:  # what is not selected is read at place 0
                        needs.append(Requirement(op.written_for(e), f"axis {axis}", Size(axis), ">=", S.One))
                factors[k] = Where(Eq(made[body], axis), Where(inside, f.args[1], S.Zero), S.Zero)
        out.append(replace(e, body=Mul(*factors)) if factors else e)
    return with_lengths(op, out, (), needs), ranges


def _computed(factor: Expr, axes: Sequence[Axis], given: Ranges) -> Iterator[tuple[Axis, Expr]]:
    """The axes of which a factor of a sum asks whether they are at a place that is computed from given indices."""
    if not isinstance(factor, Where) or factor.args[2] != 0 or not isinstance(factor.condition, Eq):
        return
    for axis in axes:
        place = solved_for(axis, factor.condition.lhs - factor.condition.rhs)
        indices = set() if place is None else place.atoms(At)
        if place is None or not indices or not place.is_integer or any(at.name not in given for at in indices):
            continue
        alone = not free_axes(place.xreplace(dict.fromkeys(indices, S.Zero)))  # `lo[n] + d` has a place for each `d`
        named = isinstance(place, At) and given[place.name] == axis
        if alone and not named and all(isinstance(i, Axis) for at in indices for i in at.index):
            yield axis, place
