"""A derivation as LaTeX: equations of the forward, the chain rule and the closed form, and the steps between."""

from __future__ import annotations

from collections.abc import Iterable

from derive.adjoint.chain_rule import Adjoint, Stepwise
from derive.collapse.chain import Step
from derive.collapse.relations import Relation
from derive.ir.display import display
from derive.ir.equations import Equation
from derive.ir.latex import Adjoints, Printer, aligned, equation_of, equation_rows
from derive.ir.lowering.reading import factored
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.latex import name_latex
from derive.schedule.definitions import Definition


def adjoint_names(steps: Stepwise) -> Adjoints:
    """The names under which a derivation writes gradients: what it is given, and what it computes."""
    return frozenset(c.target.name for c in steps.cotangents) | {a.target.name for a in steps.adjoints}


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


@display.register
def _(equation: Equation) -> str:
    return f"$$\n{equation_latex(equation)}\n$$"


def displayed(lines: Iterable[str]) -> str:
    """Lines of mathematics under one another, as a notebook shows them."""
    rows = " \\\\[4pt]\n".join(lines)
    return f"$$\n\\begin{{array}}{{l}}\n{rows}\n\\end{{array}}\n$$"
