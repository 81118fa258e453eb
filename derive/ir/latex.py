"""Expressions and equations as LaTeX, in our order of terms and factors, broken where they are too long for a line."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from sympy import Add, Expr, Mul, Rational, S, Symbol
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from derive.ir.lowering.ordering import ordered_terms
from derive.ir.lowering.reading import Signed, rank, signed
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import Scalar, Tensor
from derive.ir.terms.latex import name_latex
from derive.ir.terms.numbers import decimal
from derive.ir.terms.products import factors_of
from derive.ir.terms.reductions import Reduce, Sigma

Adjoints = frozenset[str]
"""The names that are adjoints, and so are set with an upright d."""

# --- the printer ------------------------------------------------------------------------------------------


class Printer(LatexPrinter):
    """SymPy's printer with our order of terms and factors, and brackets where a sum takes in too much."""

    def __init__(self, adjoints: Adjoints = frozenset()):
        super().__init__()
        self.adjoints = adjoints

    def _print_Rational(self, expr: Rational) -> str:
        text = decimal(Fraction(int(expr.p), int(expr.q)))
        return str(super()._print_Rational(expr)) if text is None else _decimal_latex(text)

    def _print_Symbol(self, expr: Symbol, style: str = "plain") -> str:
        return _decimal_latex(expr.name) if expr.name[:1].isdigit() else str(super()._print_Symbol(expr, style))

    def _print_Scalar(self, expr: Scalar) -> str:
        return name_latex(expr.name)

    def _print_Tensor(self, expr: Tensor) -> str:
        return name_latex(expr.name)

    def parenthesize(self, item: Any, level: int, is_neg: bool = False, strict: bool = False) -> str:
        open_ended = isinstance(item, Sigma | Reduce) or (isinstance(item, Where) and not item.is_mask)
        if open_ended and level > PRECEDENCE["Mul"]:
            return self._bracketed(item)
        return super().parenthesize(item, level, is_neg, strict)

    def _print_Add(self, expr: Add, order: Any = None) -> str:
        return "".join(self.terms(expr)).removeprefix(" + ").strip()

    def terms(self, expr: Expr) -> list[str]:
        """The summands, each with its sign before it."""
        parts = [signed(t) for t in ordered_terms(expr)]
        return [(" - " if p.negative else " + ") + self.product(p) for p in parts]

    def _print_Mul(self, expr: Mul) -> str:
        term = signed(expr)
        return ("- " if term.negative else "") + self.product(term)

    def product(self, term: Signed) -> str:
        """A product without its sign; what is tall stands beside the fraction, not in it."""
        if not term.down:
            return self._juxtaposed(term.up)
        tall = tuple(f for f in term.up if rank(f))
        flat = tuple(f for f in term.up if not rank(f))
        fraction = rf"\frac{{{self._juxtaposed(flat) or '1'}}}{{{self._juxtaposed(term.down)}}}"
        return fraction + (r"\, " + self._juxtaposed(tall, alone=False) if tall else "")

    def _juxtaposed(self, factors: tuple[Expr, ...], alone: bool = True) -> str:
        alone = alone and len(factors) == 1
        return r"\, ".join(self._factor(f, alone, f is factors[-1]) for f in factors)

    def _factor(self, f: Expr, alone: bool, last: bool) -> str:
        choice = isinstance(f, Where) and not f.is_mask
        if not alone and (isinstance(f, Add) or choice or (isinstance(f, Sigma | Reduce) and not last)):
            return self._bracketed(f)
        return self._print(f)

    def _bracketed(self, f: Expr) -> str:
        return rf"\left({self._print(f)}\right)"


def _decimal_latex(text: str) -> str:
    digits, _, exponent = text.partition("e")
    power = f"10^{{{exponent}}}" if exponent else ""
    if not power or digits == "1":
        return power or digits
    return rf"-{power}" if digits == "-1" else rf"{digits} \cdot {power}"


# --- equations --------------------------------------------------------------------------------------------

_LINE = 84  # about how many letters a line is to have


def equation_of(left: Expr, right: Expr, adjoints: Adjoints) -> str:
    """`left = right`, on aligned lines where it is too long for one."""
    printer = Printer(adjoints)
    rows = equation_rows(printer.doprint(left), right, printer)
    return rows[0].replace(" &= ", " = ", 1) if len(rows) == 1 else aligned(rows)


def aligned(rows: list[str], environment: str = "aligned") -> str:
    """Rows of an equation under one another, by `&`."""
    return "\n".join([rf"\begin{{{environment}}}", " \\\\\n".join(rows), rf"\end{{{environment}}}"])


def equation_rows(left: str, right: Expr, printer: Printer) -> list[str]:
    """`left &= right`, broken between terms (those of a bracketed sum as well) where it is too long."""
    whole = printer.doprint(right)
    room = _LINE - width(left)
    if width(whole) <= room:
        return [f"{left} &= {whole}"]
    if isinstance(right, Add):
        lines = _filled(printer.terms(right), room)
        return [f"{left} &= {lines[0]}", *(rf"&\quad {line}" for line in lines[1:])]
    sums = factors_of(right, Add)
    if len(sums) != 1:
        return [f"{left} &= {whole}"]
    term = signed(right)
    rest = Signed(False, tuple(f for f in term.up if f is not sums[0]), term.down)
    if any(rank(f) for f in rest.up):
        return [f"{left} &= {whole}"]
    head = printer.product(rest if rest.up else Signed(False, (S.One,), term.down))
    lines = _filled(printer.terms(sums[0]), max(room - width(head), _LINE // 2))
    sign = "-" if term.negative else ""
    first, *others = [*lines[:-1], rf"{lines[-1]} \Bigr)"]
    return [rf"{left} &= {sign}{head} \Bigl( {first}", *(rf"&\qquad {line}" for line in others)]


def _filled(terms: list[str], room: int) -> list[str]:
    """Terms on as few lines as they fit on; a plus that opens the first is left out."""
    lines = [terms[0].removeprefix(" + ").strip()]
    for term in terms[1:]:
        if width(lines[-1]) + width(term) > room:
            lines.append(term.strip())
        else:
            lines[-1] += term
    return lines


def width(latex: str) -> int:
    """About how many letters wide it is set: commands count as one letter, a fraction as both its parts."""
    latex = re.sub(r"\\(left|right|mathrm|frac|operatorname|hat|bar|tilde|sqrt|,|begin|end)", "", latex)
    return len(re.sub(r"[{}_^\s]", "", re.sub(r"\\[A-Za-z]+", "m", latex)))
