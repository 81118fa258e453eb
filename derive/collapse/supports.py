"""Law: a mask drops where its term already vanishes.

Where a mask sends scores to -oo, `exp` of them is 0, and so is every quotient of it: `p*[j <= i] = p`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Expr, Mul, S

from derive.equations import Op
from derive.terms.axes import Axis
from derive.terms.choices import Where
from derive.terms.elements import At


@dataclass(frozen=True)
class Support:
    """The tensor `of[axes]` is one number wherever `condition` does not hold: 0, or -oo, of which `exp` is 0."""

    of: str
    axes: tuple[Axis, ...]
    condition: Expr
    outside: Expr = S.Zero

    def __str__(self) -> str:
        return f"{self.of} is {self.outside} unless {self.condition}"


def supports(op: Op) -> dict[str, tuple[Support, ...]]:
    """What the forward's masks make zero, followed through the pointwise equations."""
    outside: dict[tuple[str, Expr], Expr] = {}  # the tensor's value where the condition fails, where that is a number
    found: dict[str, tuple[Support, ...]] = {}
    for equation in op.equations:
        if equation.kind is not None or not equation.is_plain:
            continue
        own = {w.condition for w in equation.body.atoms(Where)}
        inherited = {c for (name, c) in outside for at in equation.reads if at.name == name}
        for condition in sorted(own | inherited, key=lambda c: c.sort_key()):
            value = _where_false(equation.body, condition, outside)
            if value.is_number or value in (-S.Infinity, S.Infinity):
                outside[equation.name, condition] = value
                new = Support(equation.name, equation.axes, condition, value)
                found[equation.name] = (*found.get(equation.name, ()), new)
    return found


def _where_false(body: Expr, condition: Expr, outside: dict[tuple[str, Expr], Expr]) -> Expr:
    put: dict[Expr, Expr] = {w: w.args[2] for w in body.atoms(Where) if w.condition == condition}
    put |= {at: outside[at.name, condition] for at in body.atoms(At) if (at.name, condition) in outside}
    return body.xreplace(put) if put else body


def use_supports(term: Expr, known: dict[str, tuple[Support, ...]]) -> tuple[Expr, tuple[Support, ...]]:
    """One product without the masks that a factor of it makes redundant, and the facts that were used."""
    factors = list(Mul.make_args(term))
    used: list[Support] = []
    for mask in [f for f in factors if isinstance(f, Where) and f.is_mask]:
        for factor in (f for f in factors if f != mask):
            facts = {at: s for at in factor.atoms(At) if (s := _outside(at, mask.condition, known)) is not None}
            if facts and factor.xreplace({at: s.outside for at, s in facts.items()}) == 0:
                factors.remove(mask)
                used += facts.values()
                break
    return Mul(*factors), tuple(used)


def _outside(at: At, condition: Expr, known: dict[str, tuple[Support, ...]]) -> Support | None:
    """What is known of an element where a condition does not hold."""
    for support in known.get(at.name, ()):
        if support.condition.xreplace(dict(zip(support.axes, at.index, strict=True))) == condition:
            return support
    return None
