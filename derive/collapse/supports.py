"""Law: a mask drops where its term already vanishes.

Where a mask sends scores to -oo, `exp` of them is 0, and so is every quotient of it: `p*[j <= i] = p`. A multiple of
what is not negative vanishes where that is not above 0: of `h = relu(x)`, `dh = 2*dy*h` is `dh*[h > 0]`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Add, Expr, Mul, S
from sympy.logic.boolalg import BooleanAtom

from derive.facts.interpreter import Facts
from derive.ir.algebra import opened, sigma
from derive.ir.equations import Op
from derive.ir.terms.asked import Above
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, reads_of
from derive.ir.terms.products import factors_of
from derive.ir.terms.reductions import Sigma
from derive.schedule.definitions import Definition


@dataclass(frozen=True)
class Side:
    """Where a condition holds, or where it does not: `where(c, x, 0)` and `where(c, 0, x)` are 0 outside of one."""

    condition: Expr
    holds: bool = True

    @property
    def other(self) -> Side:
        return Side(self.condition, not self.holds)

    def value(self, choice: Where) -> Expr:
        """What a choice by this condition is on this side."""
        return choice.args[1] if self.holds else choice.args[2]

    def masked(self, value: Expr) -> Expr:
        """The value on this side, 0 on the other."""
        return Where(self.condition, *((value, S.Zero) if self.holds else (S.Zero, value)))

    def at(self, places: dict[Axis, Expr]) -> Side:
        return Side(self.condition.xreplace(places), self.holds)

    @property
    def order(self) -> tuple[object, ...]:
        return (self.condition.sort_key(), not self.holds)


@dataclass(frozen=True)
class Support:
    """The tensor `of[axes]` is one number outside a side of a condition: 0, or -oo, of which `exp` is 0."""

    of: str
    axes: tuple[Axis, ...]
    side: Side
    outside: Expr = S.Zero

    def __str__(self) -> str:
        return f"{self.of} is {self.outside} {'unless' if self.side.holds else 'where'} {self.side.condition}"


def supports(op: Op) -> dict[str, tuple[Support, ...]]:
    """What the forward's masks make zero, followed through the pointwise equations."""
    found: dict[str, tuple[Support, ...]] = {}
    for equation in op.equations:
        if equation.kind is not None or not equation.is_plain:
            continue
        own = {side for w in equation.body.atoms(Where) for side in _sides(w)}
        inherited = {_side_at(at, s) for at in equation.reads for s in found.get(at.name, ())}
        asked = {side for side in own | inherited if not isinstance(side.condition, BooleanAtom)}
        for side in sorted(asked, key=lambda side: side.order):
            value = _outside_of(side, equation.body, found)
            if value.is_number or value in (-S.Infinity, S.Infinity):
                new = Support(equation.name, equation.axes, side, value)
                found[equation.name] = (*found.get(equation.name, ()), new)
    for of in (at for e in op.equations for at in e.reads if at.is_nonnegative and _is_asked(at, op)):
        axes = tuple(a for a in of.index if isinstance(a, Axis))
        new = Support(of.name, axes, Side(Above(of, S.Zero)))
        if len(set(axes)) == len(of.index) and new not in found.get(of.name, ()):
            found[of.name] = (*found.get(of.name, ()), new)
    return found


def _is_asked(at: At, op: Op) -> bool:
    """Whether a choice asks if an element is above 0: one that is never below it is 0 where it is not."""
    return any(w.condition == Above(at, S.Zero) for e in op.equations for w in e.body.atoms(Where))


def masked_side(value: Expr) -> Side | None:
    """Where a choice between something and 0 is something; None for any other value."""
    found = _sides(value) if isinstance(value, Where) else ()
    return next((side for side in found if side.other.value(value) == 0), None)


def _sides(choice: Where) -> tuple[Side, Side]:
    return Side(choice.condition), Side(choice.condition, holds=False)


def _outside_of(side: Side, body: Expr, known: dict[str, tuple[Support, ...]]) -> Expr:
    """A right side where this side of a condition is left."""
    put: dict[Expr, Expr] = {w: side.other.value(w) for w in body.atoms(Where) if w.condition == side.condition}
    put |= {at: s.outside for at in body.atoms(At) if (s := _outside(at, side, known)) is not None}
    return body.xreplace(put) if put else body


def without_masks(
    value: Expr, known: dict[str, tuple[Support, ...]], values: Facts
) -> tuple[Expr, tuple[Support, ...]]:
    """A sum of products without the masks that they do not need, and the facts that say so.

    A mask that one term needs stays with all that have it, a factor of their sum. What is masked may be a number, or a
    polynomial of tensors that are `finite`: 0 times it is 0.
    """
    terms = Add.make_args(value)
    parts = [use_supports(term, known, values) for term in terms]
    needed = {side for part, _ in parts if not part.has(Delta) for side in _masks_of(part, values)}
    parts = [
        (term, ()) if (_masks_of(term, values) - _masks_of(part, values)) & needed else (part, facts)
        for term, (part, facts) in zip(terms, parts, strict=True)
    ]
    return Add(*(p for p, _ in parts)), tuple(dict.fromkeys(fact for _, facts in parts for fact in facts))


def reason_of(facts: tuple[Support, ...]) -> str:
    """Why masks dropped; without a fact a delta answers their conditions."""
    return "; ".join(map(str, facts)) or "the condition holds, or does not, wherever the delta is 1"


def _masks_of(term: Expr, values: Facts) -> set[Side]:
    return {side for f in Mul.make_args(term) if (side := _of_what_is_finite(f, values)) is not None}


def use_supports(
    term: Expr, known: dict[str, tuple[Support, ...]], values: Facts
) -> tuple[Expr, tuple[Support, ...]]:
    """One product without the masks that a factor of it makes redundant, and the facts that were used."""
    used: list[Support] = []
    factors = [_within(f, known, values, used) for f in Mul.make_args(_under_deltas(term))]
    for mask, side in [(f, side) for f in factors if (side := _of_what_is_finite(f, values)) is not None]:
        others = [f for f in factors if f != mask]
        zero = next((f for f, value in zip(others, _all_outside(others, side, known), strict=True) if value == 0), None)
        if zero is not None and _is_finite_outside(others, side, known):
            factors[factors.index(mask)] = side.value(mask)
            used += _facts([zero], side, known).values()
    return Mul(*factors), tuple(used)


def _under_deltas(term: Expr) -> Expr:
    """A product whose masks are asked where its deltas are 1: `delta(m, n)*where(m <= n, 1, 0)` is `delta(m, n)`."""
    for delta in factors_of(term, Delta):
        axis, place = delta.args if isinstance(delta.args[0], Axis) else delta.args[::-1]
        for mask in factors_of(term, Where):
            holds = mask.condition.xreplace({axis: place})
            if isinstance(holds, BooleanAtom):
                term = term.xreplace({mask: mask.args[1] if holds else mask.args[2]})
    return term


_NOT_FINITE = (S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity)
"""What 0 times it is not 0 of, as the reciprocal of another tensor that is masked out."""


def _is_finite_outside(factors: list[Expr], side: Side, known: dict[str, tuple[Support, ...]]) -> bool:
    """Whether a product of factors that is 0 by one of them is 0 by what is known of the others."""
    return not any(value.has(*_NOT_FINITE) for value in _all_outside(factors, side, known))


def _all_outside(factors: list[Expr], side: Side, known: dict[str, tuple[Support, ...]]) -> list[Expr]:
    """Each factor outside a side of a condition."""
    put = {at: s.outside for at, s in _facts(factors, side, known).items()}
    return [f.xreplace(put) for f in factors]


def _facts(factors: list[Expr], side: Side, known: dict[str, tuple[Support, ...]]) -> dict[At, Support]:
    """What is known of the elements in some factors outside a side of a condition."""
    ats = (at for f in factors for at in reads_of(f))
    return {at: s for at in ats if (s := _outside(at, side, known)) is not None}


def _of_what_is_finite(factor: Expr, values: Facts) -> Side | None:
    """The side on which what is finite under a mask is not 0: a number, be it one of places, `where(s <= t, s - t, 0)`,
    or a polynomial of finite tensors.
    """
    side = masked_side(factor)
    value = factor if side is None else side.value(factor)
    if side is None or value.atoms(Where):
        return None
    if value.atoms(At):
        return side if values.of(value).is_finite else None
    places = free_axes(value)
    return side if not places or value.is_polynomial(*places) else None


def _within(
    factor: Expr, known: dict[str, tuple[Support, ...]], values: Facts, used: list[Support]
) -> Expr:
    """A sum without the masks that its terms do not need."""
    if not isinstance(factor, Sigma):
        return factor
    body, axes = opened(factor)
    plain, facts = use_supports(body, known, values)
    used += facts
    return sigma(plain, axes) if facts else factor


def of_definition(d: Definition, known: dict[str, tuple[Support, ...]]) -> tuple[Support, ...]:
    """Where a definition is 0, because every term of it has a factor that is."""
    shared: list[set[Side]] = []
    for term in Add.make_args(d.value):
        factors = list(Mul.make_args(term))
        masks = {side for f in factors if (side := masked_side(f)) is not None}
        zeros = {_side_at(f, s) for f in factors if isinstance(f, At) for s in known.get(f.name, ()) if s.outside == 0}
        above = {Side(Above(f, S.Zero)) for f in factors if isinstance(f, At) and f.is_nonnegative}
        shared.append({side for side in masks | zeros | above if _is_finite_outside(factors, side, known)})
    common = set.intersection(*shared)
    return tuple(Support(d.name, d.axes, side) for side in sorted(common, key=lambda side: side.order))


def _side_at(at: At, support: Support) -> Side:
    return support.side.at(dict(zip(support.axes, at.index, strict=True)))


def _outside(at: At, side: Side, known: dict[str, tuple[Support, ...]]) -> Support | None:
    """What is known of an element outside a side of a condition."""
    return next((s for s in known.get(at.name, ()) if _side_at(at, s) == side), None)
