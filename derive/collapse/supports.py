"""Law: a mask drops where its term already vanishes.

Where a mask sends scores to -oo, `exp` of them is 0, and so is every quotient of it: `p*[j <= i] = p`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Add, Expr, Mul, S

from derive.algebra import opened, sigma
from derive.definitions import Definition
from derive.equations import Op
from derive.terms.axes import Axis, free_axes
from derive.terms.choices import Where
from derive.terms.elements import At
from derive.terms.reductions import Sigma


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


def without_masks(value: Expr, known: dict[str, tuple[Support, ...]]) -> tuple[Expr, tuple[Support, ...]]:
    """A sum of products without the masks that they do not need, and the facts that say so."""
    parts = [use_supports(term, known) for term in Add.make_args(value)]
    return Add(*(p for p, _ in parts)), tuple(dict.fromkeys(fact for _, facts in parts for fact in facts))


def use_supports(term: Expr, known: dict[str, tuple[Support, ...]]) -> tuple[Expr, tuple[Support, ...]]:
    """One product without the masks that a factor of it makes redundant, and the facts that were used."""
    used: list[Support] = []
    factors = [_within(f, known, used) for f in Mul.make_args(term)]
    for mask in [f for f in factors if _is_masked_number(f)]:
        for factor in (f for f in factors if f != mask):
            facts = {at: s for at in factor.atoms(At) if (s := _outside(at, mask.condition, known)) is not None}
            if facts and factor.xreplace({at: s.outside for at, s in facts.items()}) == 0:
                factors[factors.index(mask)] = mask.args[1]
                used += facts.values()
                break
    return Mul(*factors), tuple(used)


def _is_masked_number(factor: Expr) -> bool:
    """Whether it is a finite number under a mask, be it one of places: `where(s <= t, s - t, 0)`."""
    if not isinstance(factor, Where) or factor.args[2] != 0 or factor.args[1].atoms(At, Where):
        return False
    places = free_axes(factor.args[1])
    return not places or bool(factor.args[1].is_polynomial(*places))


def _within(factor: Expr, known: dict[str, tuple[Support, ...]], used: list[Support]) -> Expr:
    """A sum without the masks that its terms do not need."""
    if not isinstance(factor, Sigma):
        return factor
    body, axes = opened(factor)
    plain, facts = use_supports(body, known)
    used += facts
    return sigma(plain, axes) if facts else factor


def of_definition(d: Definition, known: dict[str, tuple[Support, ...]]) -> tuple[Support, ...]:
    """Where a definition is 0, because every term of it has a factor that is."""
    shared: list[set[Expr]] = []
    for term in Add.make_args(d.value):
        factors = Mul.make_args(term)
        masks = {f.condition for f in factors if isinstance(f, Where) and f.is_mask}
        zeros = {s.condition.xreplace(dict(zip(s.axes, f.index, strict=True)))
                 for f in factors if isinstance(f, At) for s in known.get(f.name, ()) if s.outside == 0}  # fmt: skip
        shared.append(masks | zeros)
    conditions = set.intersection(*shared)
    return tuple(Support(d.name, d.axes, c) for c in sorted(conditions, key=lambda c: c.sort_key()))


def _outside(at: At, condition: Expr, known: dict[str, tuple[Support, ...]]) -> Support | None:
    """What is known of an element where a condition does not hold."""
    for support in known.get(at.name, ()):
        if support.condition.xreplace(dict(zip(support.axes, at.index, strict=True))) == condition:
            return support
    return None
