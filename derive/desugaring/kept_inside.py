"""Axis arithmetic that would leave a dimension but for a condition: `t - s` where `s <= t`.

Its places lie inside where the condition holds, which is proven here: each end by itself, or by the condition.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy import Add, Basic, Expr, GreaterThan, LessThan, S, StrictGreaterThan, StrictLessThan, expand

from derive.terms.axes import Axis, Size, free_axes
from derive.terms.elements import At
from derive.terms.windows import affine, is_window


def is_kept_inside(i: Expr, conditions: Sequence[Basic], dim: Expr) -> bool:
    """Whether an index leaves a dimension by itself, and not where these conditions hold."""
    if not isinstance(dim, Axis) or not is_window(i) or not free_axes(i):
        return False
    form = affine(i)
    spread = [(step, Size(a) - 1) for a, step in form.steps]
    first = form.offset + Add(*(step * most for step, most in spread if step < 0))
    last = form.offset + Add(*(step * most for step, most in spread if step > 0))
    above = [gap for c in conditions for gap in _not_negative(c)]
    inside = _never_negative(first), _never_negative(Size(dim) - 1 - last)
    kept = _by(i, above), _by(Size(dim) - 1 - i, above)
    return not all(inside) and all(a or b for a, b in zip(inside, kept, strict=True))


def _not_negative(condition: Basic) -> list[Expr]:
    """What is at least 0 where a comparison of places holds."""
    if not isinstance(condition, GreaterThan | LessThan | StrictGreaterThan | StrictLessThan) or condition.atoms(At):
        return []
    gap = condition.gts - condition.lts
    strict = isinstance(condition, StrictGreaterThan | StrictLessThan)
    return [expand(gap - 1 if strict else gap)] if free_axes(gap) and gap.is_integer else []


def _by(value: Expr, above: Sequence[Expr]) -> bool:
    return any(_never_negative(value - gap) for gap in above)


def _never_negative(value: Expr) -> bool:
    """Whether a sum of multiples of places, of lengths (of one at least) and a number is 0 or more for all of them."""
    least = S.Zero
    for term in Add.make_args(expand(value)):
        number, of = term.as_coeff_Mul()
        if of != 1 and (not isinstance(of, Axis | Size) or number.is_negative):
            return False  # a product of places, `t % 2`, or what falls without end
        least += S.Zero if isinstance(of, Axis) else number
    return bool(least >= 0)
