"""A derivation as a LaTeX document: every step that led to the closed form, in one reading order."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import groupby

from sympy import Expr

from derive.adjoint.chain_rule import Adjoint
from derive.collapse.typeset import (
    Printer,
    adjoint_names,
    aligned,
    equation_of,
    equation_rows,
    local_equation_latex,
    local_latex,
    name_latex,
    relation_latex,
    step_rows,
)
from derive.ir.latex import width
from derive.ir.lowering.reading import factored
from derive.ir.terms.elements import At, Tensor
from derive.pipeline import Derivation

_PAGE = 100  # letters that a line can have

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
    forward = [(e.left, e.right) for e in derivation.equations]
    closed = [(At(Tensor(d.name), *d.axes), factored(d.value)) for d in derivation.closed.definitions]
    printer = Printer(adjoints)
    parts = [title, escaped(derivation.op.doc), r"\subsection*{Forward}", _block(forward, printer)]
    parts += [r"\subsection*{Chain rule}", *(_chain_rule(a, printer) for a in derivation.adjoints)]
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
    return any(width(row) > _PAGE for row in rows)


def _chain_rule(adjoint: Adjoint, printer: Printer) -> str:
    rules = dict.fromkeys(rule for c in adjoint.contributions for rule in c.rules)
    why = f"\n{escaped('; '.join(rules))}" if rules else ""
    return _display(equation_rows(printer.doprint(adjoint.left), adjoint.value, printer)) + why


def _collapse(derivation: Derivation, printer: Printer) -> Iterable[str]:
    closed = derivation.closed
    known = {str(r): _because(relation_latex(r), r.because) for r in closed.relations}
    for i in closed.inversions:
        left = At(Tensor(i.of), *i.axes)
        known[f"{left} = {i.value}"] = _because(equation_of(left, i.value, frozenset()), (i.through,))
    if not closed.steps:
        yield "Nothing is shorter than the chain rule itself."
    for subject, steps in groupby(closed.steps, key=lambda s: s.subject):
        yield rf"\paragraph{{${printer.doprint(subject)}$}}"
        for step in steps:
            why = "; ".join(known.get(r, escaped(r)) for r in step.reason.split("; "))
            yield rf"\textbf{{{escaped(step.law)}}}: {why}"
            yield _display(step_rows(step, printer))


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
