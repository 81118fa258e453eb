"""What a step of the collapse changed, marked in both of its sides."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sympy import Add, Expr, Mul, Pow

from derive.collapse.chain import Step
from derive.collapse.typeset import Adjoints, Printer, aligned, equation_rows
from derive.ir.lowering.ordering import ordered_terms
from derive.ir.lowering.reading import signed
from derive.ir.terms.elements import At
from derive.ir.terms.reductions import Sigma

GONE, NEW = "gone", "new"
"""The classes of what a step takes away and of what it puts there."""


def step_rows(step: Step, adjoints: Adjoints) -> tuple[str, str]:
    """What stood before a step and what stands after it, as LaTeX in which what changed has a class."""
    gone, new = changed(step.before, step.after)
    return (
        _marked(step.subject, step.before, gone, GONE, adjoints),
        _marked(step.subject, step.after, new, NEW, adjoints),
    )


def changed(before: Expr, after: Expr) -> tuple[frozenset[Expr], frozenset[Expr]]:
    """The smallest parts of two expressions in which they differ: terms of sums, factors of products."""
    if before == after:
        return frozenset(), frozenset()
    for kind in (Add, Mul):
        if isinstance(before, kind) or isinstance(after, kind):
            gone, new = (Counter(kind.make_args(e)) for e in (before, after))
            left, right = list((gone - new).elements()), list((new - gone).elements())
            if len(left) == len(right) == 1 and (left[0], right[0]) != (before, after):
                return changed(left[0], right[0])
            return frozenset(left), frozenset(right)
    if isinstance(before, Sigma) and isinstance(after, Sigma) and before.over == after.over:
        return changed(before.body, after.body)
    return frozenset({before}), frozenset({after})


class _Marking(Printer):
    """Prints with a class around the parts that are marked, and knows whether it met one."""

    def __init__(self, adjoints: Adjoints, marks: frozenset[Expr], name: str):
        super().__init__(adjoints)
        below = {Pow(m.base, -m.exp) for m in marks if isinstance(m, Pow) and m.exp.is_negative}
        self.marks, self.name, self.met = marks | below, name, False

    def _print(self, expr: Any, **options: Any) -> str:
        return self._around(expr, str(super()._print(expr, **options)))

    def terms(self, expr: Expr) -> list[str]:
        out = []
        for t in ordered_terms(expr):
            part = signed(t)
            out.append((" - " if part.negative else " + ") + self._around(t, self.product(part)))
        return out

    def _around(self, expr: Any, latex: str) -> str:
        if expr not in self.marks or latex.startswith(rf"\class{{{self.name}}}"):
            return latex
        self.met = True
        return rf"\class{{{self.name}}}{{{latex}}}"


def _marked(subject: At, value: Expr, marks: frozenset[Expr], name: str, adjoints: Adjoints) -> str:
    """The equation with its marks; all of it where what changed cannot be seen in how it is written."""
    printer = _Marking(adjoints, marks, name)
    left = Printer(adjoints).doprint(subject)
    lines = equation_rows(left, value, printer)
    if marks and not printer.met:
        lines = equation_rows(left, value, _Marking(adjoints, frozenset(Add.make_args(value)), name))
    return aligned(lines)
