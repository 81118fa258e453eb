"""One of several values, element by element: by a condition, or by its place along an axis."""

from __future__ import annotations

from typing import Any

from sympy import And, Basic, Eq, Expr, Mul, Ne, S, Symbol, sympify
from sympy.logic.boolalg import Boolean

from derive.ir.terms.asked import Alike, Unlike
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At, Scalar

BELOW_ALL = Symbol("-oo")
"""The branch -oo of a choice while a spec is written: to SymPy, `exp` of a choice with -oo is positive, not 0."""


def same(a: Any, b: Any) -> Boolean:
    """Whether two values are equal; of an element and 0, or itself, that is asked of the number: it may be nan."""
    a, b = sympify(a), sympify(b)
    return Alike(a, b) if a == b or (isinstance(a, At) and b == 0) else Eq(a, b)


def unlike(a: Any, b: Any) -> Boolean:
    """Whether two values differ; as `same` asks."""
    a, b = sympify(a), sympify(b)
    return Unlike(a, b) if a == b or (isinstance(a, At) and b == 0) else Ne(a, b)


def under(condition: Boolean, value: Expr, holds: bool) -> Expr:
    """A value where a condition holds, or fails: a mask that asks just this is 1 there, or 0."""
    return value.xreplace({Where(condition, S.One, S.Zero): S.One if holds else S.Zero})


def conjuncts(condition: Basic) -> tuple[Basic, ...]:
    """What a condition asks, part by part, in one order: `And.make_args` gives a set, whose order changes."""
    return condition.args if isinstance(condition, And) else (condition,)


class Where(Expr):
    """`a` where the condition holds, else `b`, element by element; a branch that asks the same is its own answer."""

    is_commutative = True

    def __new__(cls, condition: Any, a: Any, b: Any) -> Expr:
        condition, a, b = sympify(condition), sympify(a), sympify(b)
        a = a.args[1] if isinstance(a, Where) and a.condition == condition else a
        b = b.args[2] if isinstance(b, Where) and b.condition == condition else b
        if condition is S.true or a == b:
            return a
        if condition is S.false:
            return b
        return Expr.__new__(cls, condition, a, b)

    @property
    def condition(self) -> Boolean:
        return self.args[0]

    @property
    def is_mask(self) -> bool:
        """Whether this is an indicator: 1 where the condition holds, else 0."""
        return self.args[1] == 1 and self.args[2] == 0

    def _eval_is_real(self) -> bool | None:
        return True if self.args[1].is_extended_real and self.args[2].is_extended_real else None

    def _eval_is_extended_real(self) -> bool | None:
        return True if self.args[1].is_extended_real and self.args[2].is_extended_real else None

    def _eval_is_positive(self) -> bool | None:
        return True if self.args[1].is_positive and self.args[2].is_positive else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.args[1].is_nonnegative and self.args[2].is_nonnegative else None

    def _eval_power(self, exponent: Any) -> Expr | None:
        zero_or_one = set(self.args[1:]) == {S.Zero, S.One}
        return self if zero_or_one and exponent.is_positive else None

    def _eval_derivative(self, s: Any) -> Expr:
        condition, a, b = self.args
        a, b = under(condition, a.diff(s), holds=True), under(condition, b.diff(s), holds=False)
        if b != 0:
            return Where(self.args[0], a, b)
        number, rest = a.as_coeff_Mul()  # numbers in front, the caller's too, so that equal choices are alike
        if not self.args[0].atoms(Scalar):  # one that is asked of may not be divided by where it is 0
            callers = [f for f in Mul.make_args(rest) if f.atoms(Scalar) and f.free_symbols <= f.atoms(Scalar)]
            number, rest = number * Mul(*callers), rest / Mul(*callers)
        return number * Where(self.args[0], rest, b)

    def _sympystr(self, printer: Any) -> str:
        return f"where({', '.join(printer.doprint(a) for a in self.args)})"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        condition, a, b = (printer.doprint(x) for x in self.args)
        if self.is_mask:
            return rf"\left[{condition}\right]"
        body = rf"\begin{{cases}}{a} & {condition} \\ {b} & \text{{otherwise}}\end{{cases}}"
        return rf"\left({body}\right)^{{{exp}}}" if exp else body


class Placed(Where):
    """A choice by whether an index names a place, `where(eq(dst[e], v), s[e], -oo)`; each of its values names one."""


class Concat(Expr):
    """Pieces one after another along an axis; each piece runs over an axis of its own there."""

    is_commutative = True
    is_real = True

    def __new__(cls, along: Axis, *pieces: Any) -> Concat:
        return Expr.__new__(cls, along, *pieces)

    @property
    def along(self) -> Axis:
        return self.args[0]

    @property
    def pieces(self) -> tuple[Expr, ...]:
        return self.args[1:]

    def own_axis(self, piece: Expr, left: tuple[Axis, ...]) -> Axis | None:
        """The one axis of a piece that does not stand on the left."""
        own = free_axes(piece) - (set(left) - {self.along})
        return next(iter(own)) if len(own) == 1 else None

    def _sympystr(self, printer: Any) -> str:
        return f"concat({', '.join(printer.doprint(p) for p in self.pieces)}, along={self.along.name})"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        inside = r" \,;\, ".join(printer.doprint(p) for p in self.pieces)
        return rf"\left[{inside}\right]"
