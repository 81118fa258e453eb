"""Functions of the notation that SymPy lacks or rewrites at once, each with its derivative, stable at both ends."""

from __future__ import annotations

from typing import Any

from sympy import Eq, Expr, Function, S, digamma, exp, log, pi, sqrt
from sympy import erfc as sympy_erfc
from sympy.logic.boolalg import Boolean

from derive.ir.terms.asked import Alike
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Scalar
from derive.ir.terms.kinks import maximum
from derive.ir.terms.named import Named, OfOneReal


class sigmoid(OfOneReal):
    """`1 / (1 + exp(-x))`."""

    latex_name = r"\sigma"

    def fdiff(self, argindex: int = 1) -> Expr:
        return self * (1 - self)

    def _eval_is_positive(self) -> bool | None:
        return True if self.args[0].is_real else None

    def _eval_rewrite_as_exp(self, x: Any, **kwargs: Any) -> Expr:
        return 1 / (1 + exp(-x))


class softplus(OfOneReal):
    """`log(1 + exp(x))`, whose derivative is the sigmoid."""

    latex_name = r"\operatorname{softplus}"

    def fdiff(self, argindex: int = 1) -> Expr:
        return sigmoid(self.args[0])

    def _eval_is_positive(self) -> bool | None:
        return True if self.args[0].is_real else None

    def _eval_rewrite_as_exp(self, x: Any, **kwargs: Any) -> Expr:
        return log(1 + exp(x))


class logaddexp(Named):
    """`log(exp(a) + exp(b))` without either exponential, which may overflow; its derivatives are two sigmoids."""

    nargs = 2
    latex_name = r"\operatorname{logaddexp}"

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if a == b:
            return a + log(2)
        if a.is_number or b.is_number:  # `exp` of which is one number
            number, x = (a, b) if a.is_number else (b, a)
            return number + softplus(x - number) if number.is_finite else None
        return cls(b, a) if b.sort_key() < a.sort_key() else None  # one spelling of both

    def fdiff(self, argindex: int = 1) -> Expr:
        a, b = self.args
        return sigmoid(a - b) if argindex == 1 else sigmoid(b - a)

    def _eval_is_real(self) -> bool | None:
        return True if all(a.is_real for a in self.args) else None

    def _eval_is_extended_real(self) -> bool | None:
        return True if all(a.is_extended_real for a in self.args) else None

    def _eval_rewrite_as_exp(self, a: Any, b: Any, **kwargs: Any) -> Expr:
        return log(exp(a) + exp(b))


class log1p(OfOneReal):
    """`log(1 + x)`, exact also where `x` is small."""

    def fdiff(self, argindex: int = 1) -> Expr:
        return 1 / (1 + self.args[0])

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        power = rf"^{{{exp}}}" if exp else ""
        return rf"\log{power}\left(1 + {printer.doprint(self.args[0])}\right)"


class expm1(OfOneReal):
    """`exp(x) - 1`, exact also where `x` is small; its derivative is `exp(x)`, which is lost in `expm1(x) + 1`."""

    def fdiff(self, argindex: int = 1) -> Expr:
        return exp(self.args[0])

    def _eval_rewrite_as_exp(self, x: Any, **kwargs: Any) -> Expr:
        return exp(x) - 1

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        text = rf"e^{{{printer.doprint(self.args[0])}}} - 1"
        return rf"\left({text}\right)^{{{exp}}}" if exp else rf"\left({text}\right)"


class erfc(OfOneReal):
    """`1 - erf(x)`, exact also where `x` is large. `erfc(-x)` stays so: as `2 - erfc(x)` it loses its tail."""

    latex_name = r"\operatorname{erfc}"

    def fdiff(self, argindex: int = 1) -> Expr:
        return -2 * exp(-(self.args[0] ** 2)) / sqrt(pi)

    def _eval_is_positive(self) -> bool | None:
        return True if self.args[0].is_real else None


def _erfc_of_ours(eval_of_sympy: Any) -> Any:
    """SymPy's `erfc` of elements, axes and given numbers is ours; of anything else it is what it was.

    SymPy makes `2 - erfc(x)` of `erfc(-x)` at once, which cannot be told from what else is written so.
    """

    def evaluate(cls: type[Function], x: Expr) -> Expr | None:
        return erfc(x) if x.has(At, Axis, Scalar, Size) else eval_of_sympy(x)

    return classmethod(evaluate)


sympy_erfc.eval = _erfc_of_ours(sympy_erfc.eval)


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


class atan2(Named):
    """The angle of the point `(x, y)`, as `atan2(y, x)`; its derivatives at the origin are 0 (PyTorch's convention)."""

    nargs = 2
    latex_name = r"\operatorname{atan2}"

    def fdiff(self, argindex: int = 1) -> Expr:
        y, x = self.args
        radius = x**2 + y**2
        return Where(Alike(radius, S.Zero), S.Zero, (x if argindex == 1 else -y) / radius)

    def _eval_is_real(self) -> bool | None:
        return True


class loggamma(OfOneReal):
    """`log(Gamma(x))`; of whole numbers SymPy takes it apart, and a gamma of them soon overflows."""

    latex_name = r"\log\Gamma"

    def fdiff(self, argindex: int = 1) -> Expr:
        return digamma(self.args[0])


class capped(OfOneReal):
    """An exponent that passes `CAP` only where a factor of 0 leaves the exponential out: 0 is not to meet infinity.

    Its derivative is 1: of what is left out nothing reaches the exponent, and the factor's own is of no less than this.
    """

    def fdiff(self, argindex: int = 1) -> Expr:
        return S.One

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return rf"\min\left({printer.doprint(self.args[0])}, {CAP}\right)"


CAP = 60
"""An exponent whose exponential is finite in float32, also in sums of all that memory holds."""


def rsqrt(x: Any) -> Expr:
    """`1 / sqrt(x)`."""
    return S(x) ** S("-1/2")
