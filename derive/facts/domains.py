"""Index domains: places that conditions leave of axes, as affine bounds over axes and lengths.

`t >= 1` and `t + 1 < size(t)` leave the places where `t - 1` and `size(t) - 2 - t` are 0 or more: all of `t` but an end
of one place each. A read lies on its dimension where its index is such a place, and `size - 1 - index` is 0 or more.

Places begin at 0 and end before a length, so that whether two are equal may be whether one is beyond the other:
`ne(t, 0)` is `t >= 1`, and `eq(t, size(t) - 1)` fails just where `t + 1 < size(t)` holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from sympy import (
    Add,
    Basic,
    Eq,
    Expr,
    GreaterThan,
    Integer,
    LessThan,
    Min,
    Ne,
    Not,
    S,
    StrictGreaterThan,
    StrictLessThan,
    exp,
    expand,
)

from derive.errors import DeriveError
from derive.facts.interpreter import GIVEN, Facts, of_numbers
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import conjuncts
from derive.ir.terms.elements import At
from derive.ir.terms.windows import affine, is_window

Length = Callable[[Expr], Expr]
"""What is known of a length that follows from others: `size(i)` where `i` has the places of two `n`s is `2*size(n)`."""


@dataclass(frozen=True)
class Domain:
    """The places where each of these bounds is 0 or more: sums of whole multiples of axes and lengths, and a number."""

    bounds: tuple[Expr, ...]
    length: Length = lambda same: same

    @staticmethod
    def under(conditions: Iterable[Basic], length: Length = lambda same: same) -> Domain:
        """Where all of the conditions hold, as far as they compare places."""
        return Domain(tuple(b for c in conditions for b in bounds_of(c)), length)

    def has(self, value: Expr) -> bool:
        """Whether one of the bounds says that a value is 0 or more."""
        return any(never_negative(self.length(value - b)) for b in self.bounds)

    def keeps_inside(self, i: Expr, dim: Expr) -> bool:
        """Whether an index leaves a dimension by itself, and here at most for want of length.

        That no place is before the first is proven: by itself, or by a bound. The other end is too, or the dimension
        must be so long: `b[t - s]` where `s <= t` asks of the axis of `b` to be as long as `t`.
        """
        if not isinstance(dim, Axis) or not is_window(i) or not free_axes(i):
            return False
        before, behind = never_negative(end_of(i, -1)), never_negative(Size(dim) - 1 - end_of(i, 1))
        if before or first_asked(i) is not None:
            return not behind and self.has(Size(dim) - 1 - i)
        return self.has(i)

    def keeps_both_ends(self, i: Expr, dim: Axis) -> bool:
        """Whether an index would leave a dimension in front, and is inside here however long axes are."""
        return self.has(i) and self.has(Size(dim) - 1 - i) and not never_negative(end_of(i, -1))

    def length_asked(self, i: Expr, dim: Axis) -> Expr | None:
        """How long a dimension must be for the last place of an index here; None: it is."""
        last = end_of(i, 1)
        if never_negative(Size(dim) - 1 - last) or self.has(Size(dim) - 1 - i):
            return None
        most = [m for b in self.bounds if not free_axes(m := expand(i + b))]
        return Min(*(expand(m + 1) for m in (last, *most)))


def is_just_inside(conditions: Collection[Basic], i: Expr, dim: Axis) -> bool:
    """Whether conditions say that an index lies on a dimension, and nothing else."""
    inside, here = {expand(i), expand(Size(dim) - 1 - i)}, Domain.under(conditions)
    asked = all(len(bounds := bounds_of(c)) == 1 and bounds[0] in inside for c in conditions)
    return asked and here.keeps_inside(i, dim) and first_asked(i) is None and here.length_asked(i, dim) is None


def first_asked(i: Expr) -> tuple[Expr, Expr] | None:
    """What lengths must be at least so that an index has its first place: 2 of `t - 2 + size(t)`; None: no length can.

    None as well where every length will do.
    """
    first = end_of(i, -1)
    terms = Add.make_args(first)
    least = -Add(*(t for t in terms if t.is_number))
    lengths = first + least
    grows = lengths != 0 and all(isinstance(t.as_coeff_Mul()[1], Size) for t in Add.make_args(lengths))
    return (lengths, least) if grows and never_negative(lengths) and not never_negative(first) else None


def end_of(i: Expr, way: int) -> Expr:
    """The first place of an index for all places of its axes, or with 1 the last one."""
    form = affine(i)
    return form.offset + Add(*(step * (Size(a) - 1) for a, step in form.steps if step * way > 0))


def solved_for(unknown: Expr, difference: Expr) -> Expr | None:
    """What an axis or a length is where this is 0; None where it stands in it otherwise than once, or minus once."""
    step = difference.coeff(unknown)
    rest = difference - step * unknown
    return -rest / step if step in (1, -1) and not rest.has(unknown) else None


def bounds_of(condition: Basic) -> list[Expr]:
    """What is at least 0 where a comparison of places holds, and nowhere else; nothing of another condition."""
    if condition.atoms(At):
        return []
    if isinstance(condition, Eq | Ne):
        return _at_an_end(expand(condition.lhs - condition.rhs), isinstance(condition, Eq))
    if not isinstance(condition, GreaterThan | LessThan | StrictGreaterThan | StrictLessThan):
        return []
    gap = condition.gts - condition.lts
    strict = isinstance(condition, StrictGreaterThan | StrictLessThan)
    return [expand(gap - 1 if strict else gap)] if free_axes(gap) and gap.is_integer else []


def _at_an_end(difference: Expr, equal: bool) -> list[Expr]:
    """The same of a difference that is 0, or is not, where 0 is the least or the most that it may be."""
    if not free_axes(difference) or not difference.is_integer:
        return []
    try:
        ends = ((way, way * end_of(difference, way)) for way in (-1, 1))
        beyond = next((-way * difference for way, end in ends if never_negative(-end)), None)
    except DeriveError:  # no axis arithmetic
        return []
    return [] if beyond is None else [-beyond if equal else expand(beyond - 1)]


def never_negative(value: Expr) -> bool:
    """Whether a sum of multiples of places, of lengths (of one at least) and a number is 0 or more for all of them."""
    return of_numbers(expand(value)).is_nonnegative


def says_only_inside(condition: Basic, value: Expr, inside: Mapping[At, Collection[Expr]], values: Facts) -> bool:
    """Whether a value with zeros around what it reads is 0 wherever a condition on places fails, and has no pole.

    `inside` has what is at least 0 where each element that is read is one of its tensor. `exp` of a large number may be
    oo all the same, of those places alone that the spec reads: `exp(g[t - 1] - g[t])` is too large with a 0 for one.
    """
    own = bounds_of(condition)
    zeros = {at: S.Zero for at, places in inside.items() if own and own[0] in places}
    if not zeros or any(e.atoms(At) & zeros.keys() for e in value.atoms(exp)):
        return False
    around = values.with_more({at.name: GIVEN for at in zeros})
    return around.of(value).has_no_pole and bool(value.xreplace(zeros) == 0)


# --- the ends of one axis ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ends:
    """How many places of an axis conditions tell apart, at its beginning and at its end."""

    axis: Axis
    first: int
    last: int

    @property
    def between(self) -> Expr:
        """How many it leaves of an axis that has so many."""
        return Size(self.axis) - self.first - self.last

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The places in front, between and behind, those of them that there are."""
        least, behind = self.first + self.last, Size(self.axis) - self.last
        found = (
            Segment(self.axis, S.Zero, Integer(self.first - 1), least, self.first),
            Segment(self.axis, Integer(self.first), behind - 1, least),
            Segment(self.axis, behind, Size(self.axis) - 1, least, self.last),
        )
        return tuple(s for s in found if s.count != 0)


@dataclass(frozen=True)
class Segment:
    """Places of an axis that has at least so many, from a first one to a last; their count, where it is a number."""

    axis: Axis
    start: Expr
    stop: Expr
    least: int
    count: int | None = None

    def holds(self, condition: Basic) -> bool | None:
        """Whether a condition holds at all of these places, or, False, at none; None where neither is known."""
        if free_axes(condition) != {self.axis}:
            return None
        if all(self._has(c) for c in conjuncts(condition)):
            return True
        return False if any(self._has(Not(c)) for c in conjuncts(condition)) else None

    def _has(self, condition: Basic) -> bool:
        longer = {Size(self.axis): Size(self.axis) + self.least - 1}
        ends = ((b, self.start if b.coeff(self.axis) > 0 else self.stop) for b in bounds_of(condition))
        found = [never_negative(b.xreplace({self.axis: place}).xreplace(longer)) for b, place in ends]
        return bool(found) and all(found)


def ends_of(axis: Axis, asked: Iterable[Basic]) -> Ends | None:
    """How many places of an axis conditions on it alone leave out; None where they leave out none."""
    own = [end for c in asked if free_axes(c) == {axis} and (end := about_one_end(c)) is not None]
    first = max((count for at_end, count in own if not at_end), default=0)
    last = max((count for at_end, count in own if at_end), default=0)
    if axis.fixed is not None and axis.fixed <= first + last:
        return None
    return Ends(axis, first, last) if first or last else None


def about_one_end(condition: Basic) -> tuple[bool, int] | None:
    """Which end of its one axis a condition is about, the last or the first, and how many places it leaves out."""
    axes, bounds = free_axes(condition), bounds_of(condition)
    if len(axes) != 1 or len(bounds) != 1:
        return None
    (axis,) = axes
    for at_end, rest in ((False, expand(axis - bounds[0])), (True, expand(Size(axis) - 1 - axis - bounds[0]))):
        if isinstance(rest, Integer) and rest >= 0:
            return at_end, int(rest)
    return None
