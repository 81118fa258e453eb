"""A sum that a condition keeps from the ends of an axis runs over the places between them.

`sum(where(t + 1 < size(t), (x[n, t + 1] - x[n, t]) ** 2, 0), over=t)` is the sum over `t_inner`, which has one place
less, of the differences of two slices: nothing is computed that would be left out again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from sympy import And, Basic, Expr, Integer, Max, Mul, S, expand

from derive.desugaring.guards import guards_of_windows, without_guards
from derive.equations import Equation, Op, Requirement, SizeRule
from derive.lengths.kept_inside import gaps
from derive.lengths.sizes import dimensions
from derive.terms.axes import Axis, Size, free_axes
from derive.terms.choices import Where
from derive.terms.elements import At, at_index
from derive.terms.indices import Prefix
from derive.terms.names import free_name


@dataclass(frozen=True)
class _Ends:
    """How many places of an axis a condition leaves out, at its beginning and at its end."""

    axis: Axis
    first: int
    last: int

    @property
    def length(self) -> Expr:
        """How many it leaves: of an axis that has a place at all, where one is left out."""
        rest = Size(self.axis) - self.first - self.last
        return rest if self.first + self.last == 1 else Max(S.Zero, rest)


def between_ends(op: Op) -> Op:
    """The same op with every such sum over fewer places, and the lengths of what it runs over."""
    return _Inner(op).rewritten()


@dataclass
class _Inner:
    """The axes that are made, each with what it leaves out."""

    op: Op
    made: dict[_Ends, Axis] = field(default_factory=dict)
    needs: list[Requirement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.guards = guards_of_windows(self.op.equations)
        dims = dimensions(self.op.operands, self.op.equations)
        self.taken = {a.base for own in dims.values() for i in own for a in free_axes(i)}
        self.taken |= {a.base for e in self.op.equations for a in e.over}

    def rewritten(self) -> Op:
        """The op, without the places that only such sums read by."""
        equations = [self.shorter(e) for e in self.op.equations]
        sizes = (SizeRule(a, formula=ends.length) for ends, a in self.made.items())
        return without_guards(self.op, equations, sizes, self.needs) if self.made else self.op

    def shorter(self, e: Equation) -> Equation:
        """The equation over what its conditions leave of its axes."""
        if e.kind not in ("sum", "mean"):
            return e
        asked = _asked(e.body)
        found = [ends for a in e.over if not a.is_pack and (ends := _ends(a, asked)) is not None]
        if not found:
            return e
        gone = [c for c in asked if free_axes(c) <= {ends.axis for ends in found} and _about_one_end(c)]
        inner = {ends.axis: self.axis(ends, e) for ends in found}
        places = {ends.axis: inner[ends.axis] + ends.first for ends in found}
        body = Mul(*(_without(f, gone) for f in Mul.make_args(e.body)))
        put = {at: self.moved(at, places, gone) for at in body.atoms(At)}
        over = tuple(inner.get(a, a) for a in e.over)
        return replace(e, body=body.xreplace(put).xreplace(places), kind="sum", over=over, scale=e.weight)

    def axis(self, ends: _Ends, e: Equation) -> Axis:
        if ends not in self.made:
            self.made[ends] = Axis(free_name(f"{ends.axis.base}_inner", self.taken))
            self.taken.add(self.made[ends].base)
            if not isinstance(ends.length, Max) and not ends.axis.fixed:
                base = ends.axis.base
                self.needs.append(Requirement(self.op.written_for(e), f"axis {base}", Size(ends.axis), ">=", S.One))
        return self.made[ends]

    def moved(self, at: At, places: Mapping[Basic, Expr], held: Collection[Basic]) -> At:
        """An element at the places of the axes that are made, read by what guards have where that holds throughout."""
        return At(at.tensor, *(self.index(i, places, held) for i in at.index))

    def index(self, i: Expr, places: Mapping[Basic, Expr], held: Collection[Basic]) -> Expr:
        if isinstance(i, At) and i.name in self.guards:
            guard = self.guards[i.name]
            condition, window = (at_index(part, guard.axes, i.index) for part in guard.body.args[:2])
            if set(And.make_args(condition)) <= set(held):
                i = window
        if isinstance(i, At):
            return self.moved(i, places, held)
        plain = i.args[0] if isinstance(i, Prefix) else i
        there = expand(plain.xreplace(places)) if free_axes(i) & places.keys() else i
        return Prefix(there) if isinstance(there, Axis) and there != i else there


def _asked(body: Expr) -> list[Basic]:
    """The conditions under which alone a product is not 0."""
    choices = [f for f in Mul.make_args(body) if isinstance(f, Where) and f.args[2] == 0]
    return [c for f in choices for c in And.make_args(f.condition)]


def _without(factor: Expr, gone: Collection[Basic]) -> Expr:
    """A factor without the conditions that hold wherever the sum now runs."""
    if not isinstance(factor, Where) or factor.args[2] != 0:
        return factor
    kept = [c for c in And.make_args(factor.condition) if c not in gone]
    return Where(And(*kept), factor.args[1], S.Zero) if kept else factor.args[1]


def _ends(axis: Axis, asked: Collection[Basic]) -> _Ends | None:
    """How many places of an axis conditions on it alone leave out; None where they leave out none."""
    own = [end for c in asked if free_axes(c) == {axis} and (end := _about_one_end(c)) is not None]
    first = max((count for at_end, count in own if not at_end), default=0)
    last = max((count for at_end, count in own if at_end), default=0)
    if axis.fixed is not None and axis.fixed <= first + last:
        return None
    return _Ends(axis, first, last) if first or last else None


def _about_one_end(condition: Basic) -> tuple[bool, int] | None:
    """Which end of its one axis a condition is about, the last or the first, and how many places it leaves out."""
    axes = free_axes(condition)
    gap = gaps([condition])
    if len(axes) != 1 or len(gap) != 1:
        return None
    (axis,) = axes
    for at_end, rest in ((False, expand(axis - gap[0])), (True, expand(Size(axis) - 1 - axis - gap[0]))):
        if isinstance(rest, Integer) and rest >= 0:
            return at_end, int(rest)
    return None
