"""A place that is computed from an index gets an index of its own, which selects as one that is given does.

`sum(where(eq(lo[n] + 1, k), w[n], 0), over=n)` asks of all pairs; with
`lo_place[n] = where(0 <= lo[n] + 1 and lo[n] + 1 < size(k), lo[n] + 1, 0)` it adds `w[n]` at `lo_place[n]`, where
`lo[n] + 1` is a place of `k`; where it is none, nothing is selected. So `k` must not be empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sympy import And, Eq, Expr, Mul, S

from derive.ir.equations import Equation, Op, Requirement
from derive.ir.terms.asked import Below, NotBelow
from derive.ir.terms.axes import Axis, Size, free_axes, sorted_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.names import new_name


def requirements(op: Op) -> tuple[Requirement, ...]:
    """That every axis with such places has one: what is not selected is read at place 0."""
    places = Places.of(op)
    needs: dict[Axis, Requirement] = {}
    for equation in op.equations:
        places.before(equation)
        for axis in places.ranges.values():
            needs.setdefault(axis, Requirement(equation.name, f"axis {axis.base}", Size(axis), ">=", S.One))
    return tuple(r for axis, r in needs.items() if not axis.fixed)


@dataclass
class Places:
    """The indices that were made, each with the axis of which it holds places."""

    taken: set[str]
    given: Mapping[str, Axis | None]  # of the index tensors, what their values run over
    made: list[Equation] = field(default_factory=list)
    ranges: dict[str, Axis] = field(default_factory=dict)

    @staticmethod
    def of(op: Op) -> Places:
        return Places(op.names, {o.name: o.ranges_over for o in op.operands if o.kind == "index"})

    def before(self, equation: Equation) -> list[Equation]:
        """The equation with what it selects by computed places selected by indices, behind those that are new."""
        if equation.kind not in ("sum", "mean"):
            return [equation]
        known = len(self.made)
        body = Mul(*(self._selecting(f, (*equation.over, *equation.axes)) for f in Mul.make_args(equation.body)))
        return [*self.made[known:], replace(equation, body=body)]

    def _selecting(self, factor: Expr, axes: tuple[Axis, ...]) -> Expr:
        """A factor of a sum, by an index of its own where it asks whether an axis is at a computed place."""
        if not isinstance(factor, Where) or factor.args[2] != 0 or not isinstance(factor.condition, Eq):
            return factor
        left, right = factor.condition.args
        for axis in axes:
            place = _solved(left - right, axis)
            if place is not None and self._is_computed(place, axis):
                inside = And(NotBelow(place, S.Zero), Below(place, Size(axis)))
                chosen = Where(inside, factor.args[1], S.Zero)
                return Where(Eq(self._index(place, inside, axis), axis), chosen, S.Zero)
        return factor

    def _is_computed(self, place: Expr, axis: Axis) -> bool:
        """Whether it is whole numbers from given indices, and not one of them that holds places of the axis."""
        indices = place.atoms(At)
        if not indices or not place.is_integer or any(at.name not in self.given for at in indices):
            return False
        if free_axes(place.xreplace(dict.fromkeys(indices, S.Zero))):
            return False  # `lo[n] + d` has a place for each `d` as well
        ranges = self.given[place.name] if isinstance(place, At) else None
        return ranges != axis and all(isinstance(i, Axis) for at in indices for i in at.index)

    def _index(self, place: Expr, inside: Expr, axis: Axis) -> At:
        body = Where(inside, place, S.Zero)
        for e in self.made:
            if e.body == body:
                return At(e.target, *e.index)
        first = min(place.atoms(At), key=lambda at: at.sort_key())
        target = Tensor(new_name(f"{first.name}_place", self.taken), integer=True)
        self.ranges[target.name] = axis
        self.made.append(Equation(target, tuple(sorted_axes(free_axes(place))), body))
        return At(target, *self.made[-1].index)


def _solved(difference: Expr, axis: Axis) -> Expr | None:
    """What the axis is where this is 0; None where it stands in it in no simple way."""
    step = difference.coeff(axis)
    rest = difference - step * axis
    return -rest / step if step in (1, -1) and axis not in free_axes(rest) else None
