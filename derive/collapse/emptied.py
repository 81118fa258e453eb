"""Law: where a sum of what is not negative is not above 0, all that it adds up is 0, and what is multiplied by it.

A softmax that may have nothing to share divides by `where(z > 0, z, 1)`, with `z = sum(u)`. What its maximum gets,
`z*sum(dp*u)*[z > 0]/where(z > 0, z, 1)**2 - sum(dp*u)/where(z > 0, z, 1)`, is 0 where `z` is above 0, and where it is
not every term has a `u` or the `z` in it, which are 0. So whether such a value is 0 may be asked as if `z` were above.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Add, Basic, Expr, Mul

from derive.facts.interpreter import facts_of
from derive.ir.algebra import normal
from derive.ir.equations import Op
from derive.ir.terms.asked import above_zero
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta
from derive.ir.terms.reductions import Sigma


@dataclass(frozen=True)
class Total:
    """`of[axes]` adds up one tensor's elements, none of them negative, at the places that deltas say."""

    axes: tuple[Axis, ...]
    over: tuple[Axis, ...]
    part: At
    deltas: tuple[Expr, ...]


def totals(op: Op) -> dict[str, Total]:
    """The sums of an op that add up nothing but elements which are not negative, by name."""
    found: dict[str, Total] = {}
    values = facts_of(op)
    for e in op.equations:
        if e.kind not in ("sum", "mean") or not e.is_plain:
            continue
        factors = Mul.make_args(e.body)
        deltas = tuple(f for f in factors if isinstance(f, Delta))
        parts = [f for f in factors if f not in deltas]
        part = parts[0] if len(parts) == 1 else None
        if (
            not isinstance(part, At)
            or op.equation(part.name) is None
            or not all(isinstance(i, Axis) for i in part.index)
        ):
            continue
        if values.of(part).is_nonnegative and values.of(e.weight).is_positive:
            found[e.name] = Total(e.axes, e.over, part, deltas)
    return found


def as_if_filled(value: Expr, known: dict[str, Total]) -> Expr:
    """A value with its choices as they are where such sums are above 0, if it is 0 for sure where these are not."""
    terms = Add.make_args(value)
    for whole in sorted(_asked_of(value, known), key=lambda at: at.sort_key()):
        if all(_is_emptied(t, whole, known[whole.name]) for t in terms):
            terms = tuple(_filled(t, whole) for t in terms)
    return normal(Add(*terms))


def is_by_total(choice: Where, known: dict[str, Total]) -> bool:
    """Whether a choice is by whether such a sum is above 0."""
    asked = (at for at in choice.condition.atoms(At) if at.name in known)
    return any(above_zero(choice.condition, at) is not None for at in asked)


def _asked_of(value: Expr, known: dict[str, Total]) -> set[At]:
    """The elements of such sums that conditions ask of, at places that no sum runs over."""
    bound = {a for s in value.atoms(Sigma) for a in s.over}
    asked = {at for choice in value.atoms(Where) for at in choice.condition.atoms(At) if at.name in known}
    return {at for at in asked if not free_axes(at) & bound and all(isinstance(i, Axis) for i in at.index)}


def _is_emptied(product: Expr, whole: At, total: Total) -> bool:
    """Whether a product is 0 where a sum is not above 0: a factor is the sum, one of what it adds up, or left out."""
    factors = Mul.make_args(product)
    for f in factors:
        if isinstance(f, Where) and _left_out(f, whole) == 0:
            return True
        if f == whole or (isinstance(f, At) and _is_part(f, factors, whole, total)):
            return True
        if isinstance(f, Sigma) and _is_emptied(f.body, whole, total):
            return True
    return False


def _left_out(choice: Where, whole: At) -> Expr | None:
    """What a choice is where a sum is not above 0, if it is by that that it chooses."""
    holds = above_zero(choice.condition, whole)
    return None if holds is None else choice.args[2 if holds else 1]


def _is_part(f: At, factors: tuple[Expr, ...], whole: At, total: Total) -> bool:
    """Whether an element is one of those that a sum adds up."""
    if f.name != total.part.name:
        return False
    places: dict[Basic, Basic] = dict(zip(total.axes, whole.index, strict=True))
    for own, there in zip(total.part.index, f.index, strict=True):
        if places.setdefault(own, there) != there:
            return False
    return all(d.xreplace(places) in factors for d in total.deltas)


def _filled(value: Expr, whole: At) -> Expr:
    """A value with its choices as they are where a sum is above 0, those inside one another as well."""
    put: dict[Basic, Basic] = {}
    for choice in value.atoms(Where):
        holds = above_zero(choice.condition, whole)
        if holds is not None:
            put[choice] = choice.args[1 if holds else 2]
    return _filled(value.xreplace(put), whole) if put else value
