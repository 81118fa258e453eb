"""A proof that a formula is a gradient.

It is one where its difference from the derived gradient has the normal form 0, as it stands or once forward equations
are put in; where that decides nothing, all that can be said is that the two agree numerically.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sympy import Expr

from derive.collapse.relations import by_names, use_relations
from derive.ir.algebra import normal, sigma, substitute
from derive.ir.equations import Equation
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Concat
from derive.ir.terms.elements import tensor_names
from derive.pipeline import Derivation
from derive.schedule.definitions import Definition
from derive.verify.formula import Formula

_LONG = 16  # equations: beyond this, putting them all in is not tried


@dataclass(frozen=True)
class Proof:
    """That the normal form of the difference is 0, and what was put in for that to show."""

    gradient: str
    by: tuple[str, ...]

    def __str__(self) -> str:
        how = f", with {', '.join(self.by)} put in" if self.by else ""
        return f"{self.gradient}: the difference from the derived gradient has the normal form 0{how}"


def prove(formula: Formula, derivation: Derivation) -> tuple[Proof, ...]:
    """A proof for each gradient that the normal form decides."""
    return tuple(p for of in formula.gradients if (p := _proof(of, formula, derivation)) is not None)


def _proof(operand: str, formula: Formula, derivation: Derivation) -> Proof | None:
    target = next(a.target.name for a in derivation.steps.adjoints if a.of == operand)
    definitions = {d.name: d for d in (*derivation.closed.definitions, *formula.definitions)}
    chain = {a.target.name: Definition(a.target.name, a.axes, a.value) for a in derivation.steps.adjoints}
    definitions = {**chain, **definitions}
    derived = _inlined(definitions[target].value, definitions)
    claimed = _inlined(definitions[formula.gradients[operand]].value, definitions)
    known = by_names(derivation.closed.relations)
    by: list[str] = []
    rest = normal(claimed - derived)
    equations = [e for e in reversed(derivation.named.equations) if e.kind in (None, "sum", "mean") and e.is_plain]
    for equation in [None, *(equations if len(equations) <= _LONG else [])]:
        if equation is not None:
            if equation.name not in tensor_names(rest) or isinstance(equation.body, Concat):
                continue
            rest = substitute(rest, {equation.name: _rule(equation)})
            by.append(equation.name)
        rest, used = use_relations(rest, known)
        by += [str(r.pattern) for r in used]
        if rest == 0:
            return Proof(f"d{operand}", tuple(dict.fromkeys(by)))
    return None


def _inlined(value: Expr, definitions: Mapping[str, Definition]) -> Expr:
    while found := [n for n in sorted(tensor_names(value)) if n in definitions]:
        value = substitute(value, {found[0]: (definitions[found[0]].axes, definitions[found[0]].value)})
    return normal(value)


def _rule(equation: Equation) -> tuple[tuple[Axis, ...], Expr]:
    if equation.kind is None:
        return equation.axes, equation.body
    total = equation.scale * sigma(equation.body, equation.over)
    for axis in equation.over:
        total = total / Size(axis) if equation.kind == "mean" else total
    return equation.axes, total
