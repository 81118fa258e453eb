"""Expressions in the words of the notation, in the reading order of the LaTeX; names in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sympy import Add, Expr, Mul, Pow, Rational, S
from sympy.core.relational import Relational
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from derive.ir.lowering.ordering import ordered_terms
from derive.ir.lowering.reading import signed
from derive.ir.terms.elements import Tensor
from derive.ir.terms.numbers import decimal


class _Printer(StrPrinter):
    """The words of the notation, in the reading order of the LaTeX."""

    def _print_Tensor(self, expr: Tensor) -> str:
        return expr.name

    def _print_Add(self, expr: Add, order: Any = None) -> str:
        parts = [signed(t) for t in ordered_terms(expr)]
        text = "".join((" - " if p.negative else " + ") + self._product(p.up, p.down) for p in parts)
        return text.removeprefix(" + ") if not parts[0].negative else text.replace(" - ", "-", 1)

    def _print_Mul(self, expr: Mul) -> str:
        term = signed(expr)
        return ("-" if term.negative else "") + self._product(term.up, term.down)

    def _product(self, up: tuple[Expr, ...], down: tuple[Expr, ...]) -> str:
        top, bottom = (" * ".join(self.parenthesize(f, PRECEDENCE["Mul"]) for f in part) for part in (up, down))
        if not down:
            return top
        return f"{top} / ({bottom})" if len(down) > 1 else f"{top} / {bottom}"

    def _print_Pow(self, expr: Pow, rational: bool = False) -> str:
        if expr.exp == -S.Half:
            return f"rsqrt({self._print(expr.base)})"
        if expr.exp.is_number and expr.exp.is_negative:
            return self._product((S.One,), (Pow(expr.base, -expr.exp),))
        return str(super()._print_Pow(expr, rational))

    def _print_Rational(self, expr: Rational) -> str:
        return decimal(Fraction(int(expr.p), int(expr.q))) or str(super()._print_Rational(expr))

    def _print_Relational(self, expr: Relational) -> str:
        return f"{self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: `dy, xhat and rstd`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def text(expr: Expr) -> str:
    """An expression in the words of the notation."""
    return str(_Printer().doprint(expr))


