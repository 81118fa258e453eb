"""Functions of the notation with a kink, where the slope jumps: what PyTorch has there, 0 or half of both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sympy import Dummy, Eq, Expr, S, StrictGreaterThan, StrictLessThan
from sympy.core.relational import Relational

from derive.ir.terms.asked import Above, asked
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At
from derive.ir.terms.named import Named


class relu(Named):
    """`max(x, 0)`, whose derivative at 0 is 0 (PyTorch's convention)."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> Expr:
        return Where(Above(self.args[0], S.Zero), S.One, S.Zero)


def _is_minus_something(x: Expr) -> bool:
    return bool(x.is_Mul and x.could_extract_minus_sign())


class sign(Named):
    """-1, 0 or 1; its derivative is 0 everywhere, as PyTorch has it."""

    @classmethod
    def eval(cls, x: Expr) -> Expr | None:
        if x.is_Number and x.is_comparable:
            return S.Zero if x == 0 else S.One if x > 0 else S.NegativeOne
        return -cls(-x) if _is_minus_something(x) else None

    def fdiff(self, argindex: int = 1) -> Expr:
        return S.Zero


class absolute(Named):
    """`|x|`, whose derivative is `sign(x)`: 0 at 0 (PyTorch's convention)."""

    @classmethod
    def eval(cls, x: Expr) -> Expr | None:
        if x.is_nonnegative:
            return x
        if x.is_Number:
            return abs(x)
        return cls(-x) if _is_minus_something(x) else None

    def fdiff(self, argindex: int = 1) -> Expr:
        return sign(self.args[0])

    def _sympystr(self, printer: Any) -> str:
        return f"abs({printer.doprint(self.args[0])})"

    def _eval_is_nonnegative(self) -> bool | None:
        return True


class Extremum(Named):
    """The larger or the smaller of two values; a tie shares the gradient evenly, as `torch.maximum` does."""

    nargs = 2
    relation: type[Relational]
    joined: Callable[..., bool]

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if a == b:
            return a
        if b.has(At) and not a.has(At, Dummy):
            return cls(b, a)  # `maximum(0, x)` is `maximum(x, 0)`: one spelling for every rule that reads it
        first = cls.relation(a, b)
        return (a if first else b) if first in (S.true, S.false) else None

    def _eval_derivative(self, s: Any) -> Expr:
        a, b = self.args
        da, db = a.diff(s), b.diff(s)
        first, tie = asked(type(self).relation(a, b), At), asked(Eq(a, b), At)
        if db == 0:
            return da * Where(first, S.One, Where(tie, S.Half, S.Zero))
        if da == 0:
            return db * Where(first, S.Zero, Where(tie, S.Half, S.One))
        return Where(first, da, Where(tie, (da + db) / 2, db))

    def _eval_is_positive(self) -> bool | None:
        return True if self.joined(a.is_positive for a in self.args) else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.joined(a.is_nonnegative for a in self.args) else None


class maximum(Extremum):
    """The larger of two values."""

    relation, joined = StrictGreaterThan, any


class minimum(Extremum):
    """The smaller of two values."""

    relation, joined = StrictLessThan, all


KINKS = (relu, sign, absolute, maximum, minimum)
