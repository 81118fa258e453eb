"""The docstring that a generated module opens with: the forward, the backward and its LaTeX, what is saved.

The backward is the closed form as the code has it, factored, first in the words of the notation, then as LaTeX.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from derive.collapse.autograd.saved import elements_formula, saved_by_autograd
from derive.collapse.typeset import adjoint_names, definition_latex
from derive.ir.equations import Op
from derive.ir.lowering.reading import factored
from derive.ir.terms.axes import free_axes
from derive.ir.terms.elements import At, Tensor
from derive.ir.words import text
from derive.pipeline import Derivation

_WIDTH = 116


def docstring(d: Derivation, saved: Iterable[str]) -> str:
    """The module's docstring, quotes included; `saved` are the saved tensors as the code lays them out."""
    lines = [summary(d.op), "", f"Axes: {', '.join(_axes(d.op))}.", ""]
    lines += ["Forward", *indented(f"{text(e.left)} = {text(e.right)}" for e in d.shown), ""]
    lines += ["Backward", *indented(closed_form(d))]
    if d.local:
        lines += ["", "Made by the forward, for the backward's sake", *indented(local(d))]
    relations = list(dict.fromkeys(s.reason for s in d.closed.steps if s.law == "relation"))
    if relations:
        lines += ["", "It rests on", *indented(r for reasons in relations for r in reasons.split("; "))]
    names = adjoint_names(d.steps)
    formulas = [definition_latex(x, names) for x in d.closed.definitions]
    lines += ["", "In LaTeX", *(f"    {line}" for formula in formulas for line in formula.splitlines())]
    lines += ["", *textwrap.wrap(_saved(d, saved), _WIDTH)]
    body = "\n".join(lines)
    if '"""' in body:
        return f'"""{escaped(body)}\n"""'
    return f'{"r" if chr(92) in body else ""}"""{body}\n"""'


def closed_form(d: Derivation) -> list[str]:
    """The equations of the backward, factored, in the words of the notation."""
    return [f"{text(At(Tensor(x.name), *x.axes))} = {text(factored(x.value))}" for x in d.closed.definitions]


def escaped(text: str) -> str:
    """A text as it stands in a docstring that is not raw."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def local(d: Derivation) -> list[str]:
    """The equations of what the forward makes for the backward alone, factored, in the words of the notation."""
    return [f"{text(e.left)} = {text(factored(e.body))}" for e in d.local]


def _axes(op: Op) -> list[str]:
    """The axes that the spec writes, each fixed one with its length."""
    shown = {a for o in op.operands for a in (*o.axes, o.ranges_over)}
    shown |= {a for e in op.equations for a in (*e.axes, *free_axes(e.body))}
    used = [r.axis for r in op.sizes if r.axis in shown]  # a joined piece of one place has no axis that anyone wrote
    named = {a.base if a.fixed is None else f"{a.base} = {a.fixed}" for a in used}
    return sorted(named, key=lambda a: (a != "...", a))


def indented(lines: Iterable[str]) -> list[str]:
    """Lines of formulas, as they stand in a docstring."""
    return [
        line
        for each in lines
        for line in textwrap.wrap(
            each, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8, break_long_words=False
        )
    ]


def _saved(d: Derivation, saved: Iterable[str]) -> str:
    ours, theirs = d.saved, saved_by_autograd(d.written)
    what = ", ".join(saved) or "nothing"
    return (
        f"Saved for the backward: {what}; {elements_formula(ours)} elements. "
        f"Autograd of the same equations keeps {elements_formula(theirs)}."
    )


def summary(op: Op) -> str:
    """The first line of the spec's docstring, as a sentence."""
    line = op.doc.strip().splitlines()[0] if op.doc.strip() else f"The op {op.name}."
    return line if line.endswith((".", "!", "?")) else f"{line}."
