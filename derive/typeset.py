r"""A derivation as LaTeX: every equation and every step that led to the closed form, in one reading order.

A name of one letter is set in italics (`x`), a Greek one as its letter (`gamma`), others upright; `xhat` is
`\hat{x}` and the adjoint `dx` is `\mathrm{d}x`. Which names are adjoints is data: functions take their set.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from sympy import Add, Expr, Mul, S
from sympy.core.alphabets import greeks
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from derive.adjoint import Adjoint, Stepwise
from derive.collapse.chain import Step
from derive.collapse.relations import Relation
from derive.definitions import Definition
from derive.equations import Equation
from derive.lower import ordered_terms
from derive.pipeline import Derivation
from derive.reading import Signed, factored, rank, signed
from derive.terms.choices import Where
from derive.terms.elements import At, Scalar, Tensor
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


# --- the printer ------------------------------------------------------------------------------------------


class Printer(LatexPrinter):
    """SymPy's printer with our order of terms and factors, and brackets where a sum takes in too much."""

    def __init__(self, adjoints: Adjoints = frozenset()):
        super().__init__()
        self.adjoints = adjoints

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

_LINE = 84  # about how many letters a line is to have,
_PAGE = 100  # and how many it can


def equation_latex(equation: Equation, adjoints: Adjoints = frozenset()) -> str:
    """`left = right`, one forward equation."""
    return _equation(equation.left, equation.right, adjoints)


def adjoint_latex(adjoint: Adjoint, adjoints: Adjoints | None = None) -> str:
    """`left = right`, one equation of the chain rule. Without `adjoints`, those that it names itself."""
    if adjoints is None:
        adjoints = frozenset({adjoint.target.name, *(f"d{c.through}" for c in adjoint.contributions)})
    return _equation(adjoint.left, adjoint.value, adjoints)


def definition_latex(definition: Definition, adjoints: Adjoints | None = None) -> str:
    """`left = right`, one equation of the closed form, its common factors taken out."""
    left = At(Tensor(definition.name), *definition.axes)
    adjoints = frozenset({definition.name}) if adjoints is None else adjoints
    return _equation(left, factored(definition.value), adjoints)


def step_latex(step: Step, adjoints: Adjoints | None = None) -> str:
    """`subject = before = after`, on aligned lines."""
    return aligned(_step_rows(step, Printer(frozenset({step.subject.name}) if adjoints is None else adjoints)))


def _step_rows(step: Step, printer: Printer) -> list[str]:
    return equation_rows(printer.doprint(step.subject), step.before, printer) + equation_rows("", step.after, printer)


def relation_latex(relation: Relation, adjoints: Adjoints = frozenset()) -> str:
    """`pattern = value`, an identity among forward tensors."""
    return _equation(relation.pattern, relation.value, adjoints)


def _equation(left: Expr, right: Expr, adjoints: Adjoints) -> str:
    printer = Printer(adjoints)
    rows = equation_rows(printer.doprint(left), right, printer)
    return rows[0].replace(" &= ", " = ", 1) if len(rows) == 1 else aligned(rows)


def aligned(rows: list[str], environment: str = "aligned") -> str:
    return "\n".join([rf"\begin{{{environment}}}", " \\\\\n".join(rows), rf"\end{{{environment}}}"])


def equation_rows(left: str, right: Expr, printer: Printer) -> list[str]:
    """`left &= right`, broken between terms (those of a bracketed sum as well) where it is too long."""
    whole = printer.doprint(right)
    room = _LINE - _width(left)
    if _width(whole) <= room:
        return [f"{left} &= {whole}"]
    if isinstance(right, Add):
        lines = _filled(printer.terms(right), room)
        return [f"{left} &= {lines[0]}", *(rf"&\quad {line}" for line in lines[1:])]
    sums = [f for f in Mul.make_args(right) if isinstance(f, Add)]
    if len(sums) != 1:
        return [f"{left} &= {whole}"]
    term = signed(right)
    rest = Signed(False, tuple(f for f in term.up if f is not sums[0]), term.down)
    if any(rank(f) for f in rest.up):
        return [f"{left} &= {whole}"]
    head = printer.product(rest if rest.up else Signed(False, (S.One,), term.down))
    lines = _filled(printer.terms(sums[0]), max(room - _width(head), _LINE // 2))
    sign = "-" if term.negative else ""
    first = rf"{left} &= {sign}{head} \Bigl( {lines[0]}"
    return [first, *(rf"&\qquad {line}" for line in lines[1:-1]), rf"&\qquad {lines[-1]} \Bigr)"]


def _filled(terms: list[str], room: int) -> list[str]:
    """Terms on as few lines as they fit on; a plus that opens the first is left out."""
    lines = [terms[0].removeprefix(" + ").strip()]
    for term in terms[1:]:
        if _width(lines[-1]) + _width(term) > room:
            lines.append(term.strip())
        else:
            lines[-1] += term
    return lines


def _width(latex: str) -> int:
    """About how many letters wide it is set: commands count as one letter, a fraction as both its parts."""
    latex = re.sub(r"\\(left|right|mathrm|frac|operatorname|hat|bar|tilde|sqrt|,|begin|end)", "", latex)
    return len(re.sub(r"[{}_^\s]", "", re.sub(r"\\[A-Za-z]+", "m", latex)))


# --- the document -----------------------------------------------------------------------------------------

_DOCUMENT = r"""\documentclass[a4paper]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{amsmath,amssymb,graphicx}
\usepackage[margin=2cm]{geometry}
\setlength{\parindent}{0pt}
\raggedright
\allowdisplaybreaks
\begin{document}
%s
\end{document}
"""


def document(derivation: Derivation) -> str:
    """A complete LaTeX document: forward, chain rule, every step of the collapse, closed form, kept."""
    adjoints = adjoint_names(derivation.steps)
    title = rf"\section*{{Backward of \texttt{{{escaped(derivation.op.name)}}}}}"
    forward = [(e.left, e.right) for e in derivation.named.equations]
    closed = [(At(Tensor(d.name), *d.axes), factored(d.value)) for d in derivation.closed.definitions]
    printer = Printer(adjoints)
    parts = [title, escaped(derivation.op.doc), r"\subsection*{Forward}", _block(forward, printer)]
    parts += [r"\subsection*{Chain rule}", *(_chain_rule(a, printer) for a in derivation.steps.adjoints)]
    parts += [r"\subsection*{Collapse}", *_collapse(derivation, printer)]
    parts += [r"\subsection*{Closed form}", _block(closed, printer), *_kept(derivation)]
    return _DOCUMENT % "\n".join(parts)


def _block(equations: list[tuple[Expr, Expr]], printer: Printer) -> str:
    """Equations under one another, aligned where they equal; each for itself where one is too wide."""
    each = [equation_rows(printer.doprint(left), right, printer) for left, right in equations]
    if any(_is_wide(rows) for rows in each):
        return "\n".join(map(_display, each))
    return aligned([row for rows in each for row in rows], "align*")


def _display(rows: list[str]) -> str:
    """One displayed equation, made smaller where one of its lines could not be broken to fit."""
    body = aligned(rows)
    if _is_wide(rows):
        body = rf"\resizebox{{\linewidth}}{{!}}{{$\displaystyle {body}$}}"
    return f"\\[\n{body}\n\\]"


def _is_wide(rows: list[str]) -> bool:
    return any(_width(row) > _PAGE for row in rows)


def _chain_rule(adjoint: Adjoint, printer: Printer) -> str:
    rules = dict.fromkeys(rule for c in adjoint.contributions for rule in c.rules)
    why = f"\n{escaped('; '.join(rules))}" if rules else ""
    return _display(equation_rows(printer.doprint(adjoint.left), adjoint.value, printer)) + why


def _collapse(derivation: Derivation, printer: Printer) -> Iterable[str]:
    closed = derivation.closed
    known = {str(r): _because(relation_latex(r), r.because) for r in closed.relations}
    for i in closed.inversions:
        left = At(Tensor(i.of), *i.axes)
        known[f"{left} = {i.value}"] = _because(_equation(left, i.value, frozenset()), (i.through,))
    if not closed.steps:
        yield "Nothing is shorter than the chain rule itself."
    for subject, steps in groupby(closed.steps, key=lambda s: s.subject):
        yield rf"\paragraph{{${printer.doprint(subject)}$}}"
        for step in steps:
            why = "; ".join(known.get(r, escaped(r)) for r in step.reason.split("; "))
            yield rf"\textbf{{{escaped(step.law)}}}: {why}"
            yield _display(_step_rows(step, printer))


def _because(identity: str, equations: tuple[str, ...]) -> str:
    names = ", ".join(f"${name_latex(name)}$" for name in equations)
    return f"${identity}$, by the equation{'s' if len(equations) > 1 else ''} of {names}"


def _kept(derivation: Derivation) -> Iterable[str]:
    yield r"\subsection*{Kept from the forward}"
    made = {e.name: e for e in derivation.local}
    names = [f"${local_latex(n) if n in made else name_latex(n)}$" for n in derivation.kept]
    yield ", ".join(names) if names else "Nothing."
    for e in made.values():
        yield f"The forward, which has most of it, makes for the backward's sake\n\\[\n{local_equation_latex(e)}\n\\]"


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


_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}


def escaped(text: str) -> str:
    """Plain text for LaTeX; a character that the fonts may lack is spelled by its Unicode name."""
    spelled = (c if ord(c) < 0x180 else f"[{unicodedata.name(c, 'unknown')}]" for c in text)
    return "".join(_SPECIAL.get(c, c) for c in spelled)
