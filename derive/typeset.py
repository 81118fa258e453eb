r"""Equations as LaTeX: those of the forward, the chain rule and the closed form, and the steps between.

A name of one letter is set in italics (`x`), a Greek one as its letter (`gamma`), others upright; `xhat` is
`\hat{x}` and the adjoint `dx` is `\mathrm{d}x`. Which names are adjoints is data: functions take their set.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from sympy import Add, Expr, Mul, Rational, S, Symbol
from sympy.core.alphabets import greeks
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from derive.adjoint import Adjoint, Stepwise
from derive.collapse.chain import Step
from derive.collapse.relations import Relation
from derive.equations import Equation
from derive.lowering.definitions import Definition
from derive.lowering.ordering import ordered_terms
from derive.lowering.reading import Signed, factored, rank, signed
from derive.terms.choices import Where
from derive.terms.elements import At, Scalar, Tensor
from derive.terms.numbers import decimal
from derive.terms.products import factors_of
from derive.terms.reductions import Reduce, Sigma

Adjoints = frozenset[str]
"""The names that are adjoints, and so are set with an upright d."""

# --- names -------------------------------------------------------------------------------------------------

_CAPITALS = ("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega")
_GREEK = {name: rf"\{name}" for name in (*greeks, *_CAPITALS) if name != "omicron"}
_GREEK |= {"eps": r"\varepsilon", "lam": r"\lambda", "lamda": r"\lambda"}
_ACCENTS = {"hat": r"\hat", "bar": r"\bar", "tilde": r"\tilde"}


def name_latex(name: str) -> str:
    """The name of a tensor, a scalar or an axis."""
    if len(name) == 1:
        return name
    if name in _GREEK:
        return _GREEK[name]
    for suffix, accent in _ACCENTS.items():
        stem = name.removesuffix(suffix)
        if stem != name and (len(stem) == 1 or stem in _GREEK):
            return rf"{accent}{{{name_latex(stem)}}}"
    return r"\mathrm{" + name.replace("_", r"\_") + "}"


def adjoint_names(steps: Stepwise) -> Adjoints:
    """The names under which a derivation writes gradients: what it is given, and what it computes."""
    return frozenset(c.target.name for c in steps.cotangents) | {a.target.name for a in steps.adjoints}


def tensor_latex(at: At, printer: Any) -> str:
    """One element of a tensor, its index as a subscript; `printer.adjoints`, if any, are the adjoints."""
    name = at.name
    if name in getattr(printer, "adjoints", ()) and name.startswith("d") and len(name) > 1:
        head = r"\mathrm{d}" + name_latex(name[1:])
    else:
        head = name_latex(name)
    index = ",".join(printer.doprint(i) for i in at.index)
    return f"{head}_{{{index}}}" if index else head


def _decimal_latex(text: str) -> str:
    digits, _, exponent = text.partition("e")
    power = f"10^{{{exponent}}}" if exponent else ""
    if not power or digits == "1":
        return power or digits
    return rf"-{power}" if digits == "-1" else rf"{digits} \cdot {power}"


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


# --- equations --------------------------------------------------------------------------------------------

_LINE = 84  # about how many letters a line is to have


def equation_latex(equation: Equation, adjoints: Adjoints = frozenset()) -> str:
    """`left = right`, one forward equation."""
    return equation_of(equation.left, equation.right, adjoints)


def adjoint_latex(adjoint: Adjoint, adjoints: Adjoints | None = None) -> str:
    """`left = right`, one equation of the chain rule. Without `adjoints`, those that it names itself."""
    if adjoints is None:
        adjoints = frozenset({adjoint.target.name, *(f"d{c.through}" for c in adjoint.contributions)})
    return equation_of(adjoint.left, adjoint.value, adjoints)


def definition_latex(definition: Definition, adjoints: Adjoints | None = None) -> str:
    """`left = right`, one equation of the closed form, its common factors taken out."""
    left = At(Tensor(definition.name), *definition.axes)
    adjoints = frozenset({definition.name}) if adjoints is None else adjoints
    return equation_of(left, factored(definition.value), adjoints)


def step_rows(step: Step, printer: Printer) -> list[str]:
    """`subject = before = after`, a row for each line."""
    return equation_rows(printer.doprint(step.subject), step.before, printer) + equation_rows("", step.after, printer)


def relation_latex(relation: Relation, adjoints: Adjoints = frozenset()) -> str:
    """`pattern = value`, an identity among forward tensors."""
    return equation_of(relation.pattern, relation.value, adjoints)


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


def local_latex(name: str) -> str:
    """A local derivative as the fraction that its name spells: `dy_dx`; any other tensor as it is called."""
    above, _, below = name.partition("_d")
    if not name.startswith("d") or len(above) < 2 or not below:
        return name_latex(name)
    return rf"\frac{{\mathrm{{d}}{name_latex(above[1:])}}}{{\mathrm{{d}}{name_latex(below)}}}"


def local_equation_latex(equation: Equation) -> str:
    """`dy/dx = ...`: what the forward makes for the backward, factored."""
    index = ",".join(Printer().doprint(i) for i in equation.index)
    left = local_latex(equation.name) + (f"_{{{index}}}" if index else "")
    rows = equation_rows(left, factored(equation.body), Printer())
    return aligned(rows)
