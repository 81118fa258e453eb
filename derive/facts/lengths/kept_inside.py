"""Axis arithmetic that would leave a dimension but for a condition: `t - s` where `s <= t`.

That no place is before the first, where the condition holds, is proven here: by itself, or by the condition. The
other end is too, or the dimension must be so long: `b[t - s]` asks of the axis of `b` to be as long as `t`.

Places begin at 0 and end before a length, so that whether two are equal may be whether one is beyond the other:
`ne(t, 0)` is `t >= 1`, and `eq(t, size(t) - 1)` fails just where `t + 1 < size(t)` holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sympy import (
    Add,
    Basic,
    Eq,
    Expr,
    GreaterThan,
    LessThan,
    Min,
    Ne,
    S,
    StrictGreaterThan,
    StrictLessThan,
    exp,
    expand,
)

from derive.errors import DeriveError
from derive.facts.interpreter import GIVEN, Facts, of_numbers
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.elements import At
from derive.ir.terms.windows import affine, is_window

Length = Callable[[Expr], Expr]
"""What is known of a length that follows from others: `size(i)` where `i` has the places of two `n`s is `2*size(n)`."""


def is_kept_inside(i: Expr, conditions: Sequence[Basic], dim: Expr, length: Length = lambda same: same) -> bool:
    """Whether an index leaves a dimension by itself, and where these conditions hold at most for want of length."""
    if not isinstance(dim, Axis) or not is_window(i) or not free_axes(i):
        return False
    before, behind = never_negative(end_of(i, -1)), never_negative(Size(dim) - 1 - end_of(i, 1))
    if before or first_asked(i) is not None:
        return not behind and _by(Size(dim) - 1 - i, gaps(conditions), length)
    return _by(i, gaps(conditions), length)


def says_that_alone(conditions: Sequence[Basic], i: Expr, dim: Axis) -> bool:
    """Whether conditions say that an index lies on a dimension, and nothing else."""
    inside = {expand(i), expand(Size(dim) - 1 - i)}
    asked = all(len(gap := gaps([c])) == 1 and gap[0] in inside for c in conditions)
    inside_alone = is_kept_inside(i, conditions, dim) and first_asked(i) is None
    return asked and inside_alone and length_asked(i, conditions, dim) is None


def length_asked(i: Expr, conditions: Sequence[Basic], dim: Axis, length: Length = lambda same: same) -> Expr | None:
    """How long a dimension must be for the last place of an index where these conditions hold; None: it is."""
    last, above = end_of(i, 1), gaps(conditions)
    if never_negative(Size(dim) - 1 - last) or _by(Size(dim) - 1 - i, above, length):
        return None
    bounds = [bound for gap in above if not free_axes(bound := expand(i + gap))]
    return Min(*(expand(bound + 1) for bound in (last, *bounds)))


def both_ends_kept(i: Expr, conditions: Sequence[Basic], dim: Axis) -> bool:
    """Whether an index would leave a dimension in front, and conditions keep both ends inside however long axes are."""
    before, behind = (_by(value, gaps(conditions), lambda same: same) for value in (i, Size(dim) - 1 - i))
    return before and behind and not never_negative(end_of(i, -1))


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


def gaps(conditions: Sequence[Basic]) -> list[Expr]:
    return [gap for c in conditions for gap in _not_negative(c)]


def _not_negative(condition: Basic) -> list[Expr]:
    """What is at least 0 where a comparison of places holds, and nowhere else."""
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


def _by(value: Expr, above: Sequence[Expr], length: Length) -> bool:
    return any(never_negative(length(value - gap)) for gap in above)


def never_negative(value: Expr) -> bool:
    """Whether a sum of multiples of places, of lengths (of one at least) and a number is 0 or more for all of them."""
    return of_numbers(expand(value)).is_nonnegative


def says_only_inside(condition: Basic, value: Expr, inside: Mapping[At, Collection[Expr]], values: Facts) -> bool:
    """Whether a value with zeros around what it reads is 0 wherever a condition on places fails, and has no pole.

    `inside` has what is at least 0 where each element that is read is one of its tensor. `exp` of a large number may be
    oo all the same, of those places alone that the spec reads: `exp(g[t - 1] - g[t])` is too large with a 0 for one.
    """
    own = gaps([condition])
    zeros = {at: S.Zero for at, places in inside.items() if own and own[0] in places}
    if not zeros or any(e.atoms(At) & zeros.keys() for e in value.atoms(exp)):
        return False
    around = values.with_more({at.name: GIVEN for at in zeros})
    return around.of(value).has_no_pole and bool(value.xreplace(zeros) == 0)
