"""How many places of an axis conditions leave out at its ends: `t >= 1` the first, `t + 1 < size(t)` the last."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sympy import Basic, Expr, Integer, expand

from derive.facts.lengths.kept_inside import gaps
from derive.ir.terms.axes import Axis, Size, free_axes


@dataclass(frozen=True)
class Ends:
    """How many places of an axis a condition leaves out, at its beginning and at its end."""

    axis: Axis
    first: int
    last: int

    @property
    def between(self) -> Expr:
        """How many it leaves of an axis that has so many."""
        return Size(self.axis) - self.first - self.last


def ends_of(axis: Axis, asked: Collection[Basic]) -> Ends | None:
    """How many places of an axis conditions on it alone leave out; None where they leave out none."""
    own = [end for c in asked if free_axes(c) == {axis} and (end := about_one_end(c)) is not None]
    first = max((count for at_end, count in own if not at_end), default=0)
    last = max((count for at_end, count in own if at_end), default=0)
    if axis.fixed is not None and axis.fixed <= first + last:
        return None
    return Ends(axis, first, last) if first or last else None


def about_one_end(condition: Basic) -> tuple[bool, int] | None:
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
