"""Functions of the notation that SymPy lacks or rewrites at once, each with its derivative, stable at both ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import sympy
from sympy import Eq, Expr, Function, S, log, pi, sqrt, sympify
from sympy import erfc as sympy_erfc
from sympy.logic.boolalg import Boolean

from derive.ir.terms.asked import Alike
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Scalar
from derive.ir.terms.kinks import KINKS, maximum
from derive.ir.terms.named import Named
from derive.primitives import ROWS, Primitive, formula, is_of_exponentials, meaning, names


class OfRow(Named):
    """A function whose derivative and sign its row says: SymPy lacks it, or rewrites it at once."""

    def fdiff(self, argindex: int = 1) -> Expr:
        x, y = (*self.args, self)[:2]
        return _slopes(self.row)[argindex - 1](x, y)

    def _eval_is_positive(self) -> bool | None:
        return True if self.row.positive and self.args[0].is_real else None

    def _eval_rewrite_as_exp(self, *args: Any, **kwargs: Any) -> Expr | None:
        return meaning(self.row)(*args) if is_of_exponentials(self.row) else None


@cache
def _slopes(row: Primitive) -> tuple[Callable[..., Expr], ...]:
    """The derivatives of a row by each of its arguments."""
    words = {**CLASSES, "eq": Alike, "where": Where, "pi": pi, "sqrt": sqrt}
    return tuple(formula(f"S({text})", {"S": sympify, **words}) for text in row.slope.split("; "))


class logaddexp(OfRow):
    """`log(exp(a) + exp(b))` without either exponential, which may overflow; its derivatives are two sigmoids."""

    nargs = 2

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if a == b:
            return a + log(2)
        if a.is_number or b.is_number:  # `exp` of which is one number
            number, x = (a, b) if a.is_number else (b, a)
            return number + CLASSES["softplus"](x - number) if number.is_finite else None
        return cls(b, a) if b.sort_key() < a.sort_key() else None  # one spelling of both


def is_zero(value: Expr) -> Boolean:
    """Whether a number is 0; of `-a` it is `a` that is asked."""
    return Eq(-value if value.is_Mul and value.could_extract_minus_sign() else value, 0)


class power(Function):
    """`base ** exponent` with an exponent that is no number.

    Its derivatives stay finite where PyTorch's do: `e * base**(e - 1)`, and 0 by the exponent at base 0.
    """

    nargs = 2

    @classmethod
    def eval(cls, base: Expr, exponent: Expr) -> Expr | None:
        return base**exponent if exponent.is_number else None

    def fdiff(self, argindex: int = 1) -> Expr:
        base, exponent = self.args
        if argindex == 1:
            if exponent.is_nonnegative and exponent.is_integer and not exponent.atoms(At):  # places
                below = exponent - 1
                return exponent * power(base, below if below.is_nonnegative else maximum(below, 0))
            if base.is_positive and not exponent.atoms(Axis):  # of which one is 0, where `0/0` is no number
                return exponent * self / base  # the power is made already
            if exponent.atoms(At, Axis):
                return Where(is_zero(exponent), S.Zero, exponent * power(base, exponent - 1))
            # one number for all elements: the exponent 0 makes 0 * 0**0 there, not 0 * 0**-1, and costs no pass
            return exponent * power(base, Where(is_zero(exponent), S.Zero, exponent - 1))
        if base.is_positive:
            return self * log(base)
        return Where(Alike(base, S.Zero), S.Zero, self * log(base))

    def _eval_is_real(self) -> bool | None:
        return True

    def _eval_is_positive(self) -> bool | None:
        return self.args[0].is_positive

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        base, exponent = (printer.doprint(a) for a in self.args)
        inner = base if self.args[0].is_Symbol else rf"\left({base}\right)"
        return rf"{inner}^{{{exponent}}}" if exp is None else rf"\left({inner}^{{{exponent}}}\right)^{{{exp}}}"


def rsqrt(x: Any) -> Expr:
    """`1 / sqrt(x)`."""
    return S(x) ** S("-1/2")


def _class_of(row: Primitive) -> type[Function] | None:
    """The function as SymPy has it, or as it is made from its row; None of what is only in programs."""
    if row.slope and row.name not in _WRITTEN:
        return type(row.name, (OfRow,), {"__module__": __name__, "nargs": row.arity})
    found = _WRITTEN.get(row.name) or getattr(sympy, row.name, None)
    return found if isinstance(found, type) else None


_WRITTEN = {c.__name__: c for c in (logaddexp, power, *KINKS)}
CLASSES: Mapping[str, Any] = {row.name: c for row in ROWS for c in [_class_of(row)] if c is not None}
"""The functions of expressions by name."""
_ALL = {"sqrt": sqrt, "rsqrt": rsqrt, **CLASSES}
WORDS: Mapping[str, Any] = {row.name: _ALL[row.name] for row in ROWS if row.word == "derive"}
"""The functions that `from derive import *` gives."""


def __getattr__(name: str) -> Any:
    """The function of that name; of those that are made from rows, this is where others import them from."""
    if name in _ALL:
        return _ALL[name]
    raise AttributeError(f"no function is called {name}", name=name)


def having(holds: Callable[[Primitive], object]) -> tuple[Any, ...]:
    """The functions of whose row something holds."""
    return tuple(CLASSES[name] for name in sorted(names(holds)) if name in CLASSES)


# of elements, axes and given numbers: SymPy makes `2 - erfc(x)` of its own `erfc(-x)`, which loses the tail
sympy_erfc.eval = classmethod(
    lambda cls, x, own=sympy_erfc.eval: CLASSES["erfc"](x) if x.has(At, Axis, Scalar, Size) else own(x)
)
