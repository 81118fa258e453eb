"""Numbers that an expression is made of: each is real, finite, and one that a tensor can hold."""

from __future__ import annotations

from sympy import Add, Expr, Function, Mul, Number, Pow, S

from derive.errors import DeriveError
from derive.ir.terms import kinks
from derive.ir.terms.functions import CLASSES
from derive.primitives import ROWS, meaning

_FINITE = "write an expression that is finite"

_OURS = {CLASSES[r.name]: r for r in ROWS if r.means and r.name in CLASSES and r.name != "power"}
"""What SymPy, which knows its value of any number, has only by what it means."""


def check_constant(node: Expr, equation: str) -> None:
    """Refuse a part of an expression that is a number and not real or finite, or calculates with what is not."""
    if node is S.ImaginaryUnit:
        raise DeriveError("holds an imaginary number", equation=equation, fix="write real expressions only")
    if isinstance(node, Number) and node.is_finite:
        _check_size(node, equation)
    if not isinstance(node, Add | Mul | Pow | Function):
        return
    if any(a in (S.Infinity, S.NegativeInfinity) for a in node.args) and _calculates(node):
        fix = f"{_FINITE}: oo stands alone, such as in where(c, x[n], -oo)"
        raise DeriveError(f"calculates with oo, in {node}", equation=equation, fix=fix)
    if node.is_number:
        _check_value(node, equation)


def _calculates(node: Expr) -> bool:
    """Whether a part is more than one of its values, as an extremum is."""
    return isinstance(node, Add | Mul | Pow) or (type(node) in _OURS and not isinstance(node, kinks.Extremum))


def _check_size(number: Expr, equation: str) -> None:
    if abs(number) >= 2**1024:
        fix = "write a smaller one; what is masked out is -oo"
        raise DeriveError("a number is larger than any that a tensor holds", equation=equation, fix=fix)
    if number != 0 and abs(number) < S(2) ** -1022:
        raise DeriveError("a number is smaller than any that a tensor holds", equation=equation, fix="write 0")


def _check_value(constant: Expr, equation: str) -> None:
    """What no number of Python's is: `asin(2)`, `log1p(-2)`, `exp(10000)`."""
    plain = constant
    for function, own in _OURS.items():
        plain = plain.replace(function, meaning(own))
    try:
        value = plain.evalf(15)
    except (ValueError, ArithmeticError):  # of erfinv(2), which mpmath has of numbers between -1 and 1
        raise DeriveError(f"{constant} is no number", equation=equation, fix="write real expressions only") from None
    if value.has(S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity):
        raise DeriveError(f"{constant} is infinite, or no number", equation=equation, fix=_FINITE)
    if value.has(S.ImaginaryUnit):
        cause = f"holds an imaginary number, {constant}"
        raise DeriveError(cause, equation=equation, fix="write real expressions only")
    if isinstance(value, Number) and abs(value) >= 2**1024:
        _check_size(value, equation)
