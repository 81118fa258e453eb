"""Comparisons that are asked of the numbers, never answered by a sign.

On paper `exp(x)` is positive, and SymPy answers `exp(x) > 0`. In numbers it is 0 where `x` is -oo or far below.
"""

from __future__ import annotations

from typing import Any

from sympy import (
    Basic,
    Dummy,
    Equality,
    GreaterThan,
    LessThan,
    Not,
    StrictGreaterThan,
    StrictLessThan,
    Unequality,
    false,
    sympify,
    true,
)
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean


class _Asked:
    """Left as it stands through every rewriting, until its sides are numbers or the same."""

    plain: type[Relational]
    args: tuple[Any, ...]

    def __new__(cls, left: Any, right: Any, **options: Any) -> Boolean:
        left, right = sympify(left), sympify(right)
        if (left == right and _is_never_nan(left)) or (left.is_number and right.is_number):
            return cls.plain(left, right, **options)
        return Relational.__new__(cls, left, right)

    @classmethod
    def class_key(cls) -> Any:
        return cls.plain.class_key()  # in expressions it stands where SymPy's own does

    @property
    def negated(self) -> Boolean:
        """The opposite question; of what may be nan, which neither is above 0 nor not, only that this does not hold."""
        if self.plain in (Equality, Unequality) or all(map(_is_never_nan, self.args)):
            return _ASKED[_NEGATED[self.plain]](*self.args)
        return Opposite(self, evaluate=False)

    @property
    def reversed(self) -> Boolean:
        return _ASKED[_REVERSED[self.plain]](*self.args[::-1])

    @property
    def reversedsign(self) -> Boolean:
        return _ASKED[_REVERSED[self.plain]](*(-a for a in self.args))


class Opposite(Not):
    """`~(a > b)`, which is no comparison of its own."""

    @property
    def canonical(self) -> Opposite:
        return self  # SymPy compares the opposites of what it joins


def _is_never_nan(value: Basic) -> bool:
    """Whether a side is made of places and lengths, not of the elements of real tensors."""
    return all(s.is_integer for s in value.free_symbols)


class Above(_Asked, StrictGreaterThan):
    """`a > b`."""

    plain = StrictGreaterThan


class NotAbove(_Asked, LessThan):
    """`a <= b`."""

    plain = LessThan


class Below(_Asked, StrictLessThan):
    """`a < b`."""

    plain = StrictLessThan


class NotBelow(_Asked, GreaterThan):
    """`a >= b`."""

    plain = GreaterThan


class Alike(_Asked, Equality):
    """`a == b`."""

    plain = Equality


class Unlike(_Asked, Unequality):
    """`a != b`."""

    plain = Unequality


_ASKED: dict[type[Relational], type[_Asked]] = {c.plain: c for c in (Above, NotAbove, Below, NotBelow, Alike, Unlike)}
_NEGATED = {
    StrictGreaterThan: LessThan, LessThan: StrictGreaterThan, StrictLessThan: GreaterThan, GreaterThan: StrictLessThan,
    Equality: Unequality, Unequality: Equality,
}  # fmt: skip
_REVERSED = {
    StrictGreaterThan: StrictLessThan, StrictLessThan: StrictGreaterThan, LessThan: GreaterThan, GreaterThan: LessThan,
    Equality: Equality, Unequality: Unequality,
}  # fmt: skip


def asked(expr: Basic, of: type[Basic]) -> Any:
    """The expression with every comparison that holds an atom of that kind left to the numbers."""
    return expr.replace(lambda e: type(e) in _ASKED and e.has(of), lambda e: _ASKED[type(e)](*e.args))


def above_zero(condition: Basic, value: Basic) -> bool | None:
    """Whether a comparison of a value holds where that is above 0; None where it may or may not."""
    if not isinstance(condition, Relational) or value not in condition.args:
        return None
    plain = condition.plain if isinstance(condition, _Asked) else type(condition)
    number = Dummy(extended_positive=True)
    answer = plain(*(a.xreplace({value: number}) for a in condition.args))
    return bool(answer) if answer in (true, false) else None
