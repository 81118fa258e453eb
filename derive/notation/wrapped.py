"""A place that goes on at the other end of its axis: `x[n, (t + 1) % size(t)]` is a choice of two windows.

A periodic boundary is written so; it is `where(t + 1 < size(t), x[n, t + 1], x[n, t + 1 - size(t)])`. Windows along an
axis of fixed length, `x[n, (t + k - 1) % size(t)]`, are those of a tensor with the other end's places around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sympy import Expr, Integer, Mod, expand
from sympy.logic.boolalg import Boolean

from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.windows import affine


@dataclass(frozen=True)
class Wrapped:
    """Which index goes on at the other end of its dimension, and how far it is moved from the axis of that name."""

    slot: int
    axis: Axis
    by: int

    @property
    def inside(self) -> Boolean:
        """Where the moved place is on the axis."""
        return self.axis + self.by < Size(self.axis) if self.by > 0 else self.axis >= -self.by

    @property
    def places(self) -> tuple[Expr, Expr]:
        """The moved place, and what it is beyond the end."""
        there = self.axis + self.by
        return there, there - Size(self.axis) if self.by > 0 else there + Size(self.axis)


def wrapped(key: Sequence[Expr], dims: Sequence[Expr]) -> list[Wrapped]:
    """The indices that are the remainder of an axis and a whole number by the length of that very axis."""
    found = [(slot, dim, expand(index - dim)) for slot, dim, index in _remainders(key, dims)]
    return [Wrapped(slot, dim, int(by)) for slot, dim, by in found if isinstance(by, Integer)]


@dataclass(frozen=True)
class Around:
    """Which index is of windows that go on at the other end, and how many places lie before the first and behind."""

    slot: int
    axis: Axis
    index: Expr
    before: int
    behind: int

    @property
    def ends(self) -> tuple[tuple[int, Expr], ...]:
        """How many places are put in front and behind, and the first of them."""
        return (self.before, Size(self.axis) - self.before), (self.behind, Integer(0))


def around(key: Sequence[Expr], dims: Sequence[Expr]) -> list[Around]:
    """The indices that are the remainder of an axis and others of fixed length by the length of that very axis."""
    found = []
    for slot, dim, index in _remainders(key, dims):
        others = free_axes(index) - {dim}
        if others and dim in free_axes(index) and all(a.fixed is not None for a in others):
            form = affine(index)
            reach = [step * (a.fixed - 1) for a, step in form.steps if a != dim and a.fixed is not None]
            if dict(form.steps)[dim] == 1 and isinstance(form.offset, Integer):
                first, last = (int(form.offset) + sum(r for r in reach if r * way > 0) for way in (-1, 1))
                found.append(Around(slot, dim, index, max(0, -first), max(0, last)))
    return found


def _remainders(key: Sequence[Expr], dims: Sequence[Expr]) -> list[tuple[int, Axis, Expr]]:
    """The indices that are a remainder by the length of their dimension: where, of which dimension, and of what."""
    found = []
    for slot, (index, dim) in enumerate(zip(key, dims, strict=True)):
        if isinstance(index, Mod) and isinstance(dim, Axis) and index.args[1] == Size(dim):
            value = expand(index.args[0])
            found.append((slot, dim, expand(value - value.coeff(Size(dim)) * Size(dim))))
    return found
