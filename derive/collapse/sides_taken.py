"""Law: an extremum is the side that it takes: of `q = min(a, b)`, what passes on where `q` is `a` passes on `a`.

With `w` that share, 1 where `a` is the smaller, a half at a tie, else 0, `q*w = a*w` and `a*w - b*w = q - b`. A Huber
loss by `q = min(abs(r), d)`, `q**2/2 + d*(abs(r) - q)`, has the gradient `((q - d)*w + d)*sign(r)`, in which `d` takes
away most digits of a small `q`; it is `q*sign(r)`. And `w*b/q = w` of `q = max(b, floor)`: a norm over its own floor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sympy import Add, Expr, S
from sympy.core.relational import Relational, StrictGreaterThan, StrictLessThan

from derive.ir.equations import Op
from derive.ir.terms.choices import Where
from derive.ir.terms.kinks import maximum, minimum
from derive.ir.terms.products import factors_of

Extrema = dict[Expr, Expr]
"""What the forward has a name for that is the larger or the smaller of two values: the function, and its name."""


@dataclass(frozen=True)
class _Share:
    """The part of its gradient that an extremum passes on to one of its two values."""

    factor: Where
    extremum: Expr
    taken: Expr
    other: Expr


def extrema(op: Op) -> Extrema:
    """The equations of an op that are the larger or the smaller of two values."""
    return {e.body: e.left for e in op.equations if e.names_its_body and isinstance(e.body, minimum | maximum)}


def use_sides(value: Expr, known: Extrema) -> tuple[Expr, tuple[str, ...]]:
    """The value without the shares of extrema that it does not need, where it is shorter so, and of which these are."""
    if not value.atoms(Where):
        return value, ()
    used = dict[str, None]()
    changed = Add(*(_by_sides(term, known, used) for term in Add.make_args(value)))
    while (less := next(_pairs(changed, known, used), None)) is not None:
        changed = less
    return (changed, tuple(used)) if _size(changed) < _size(value) else (value, ())


def _size(value: Expr) -> tuple[int, int, int]:
    """The terms, the choices in them, and their other factors."""
    terms = [] if value == 0 else Add.make_args(value)
    return len(terms), sum(len(factors_of(t, Where)) for t in terms), sum(len(t.as_powers_dict()) for t in terms)


def _shares(term: Expr, known: Extrema) -> Iterator[_Share]:
    for factor in factors_of(term, Where):
        condition, first, rest = factor.args
        if not isinstance(condition, StrictGreaterThan | StrictLessThan) or not isinstance(rest, Where):
            continue
        tie, half, second = rest.args
        if {first, second} != {S.Zero, S.One} or half != S.Half or not isinstance(tie, Relational):
            continue
        a, b = condition.args
        function = (maximum if isinstance(condition, StrictGreaterThan) else minimum)(a, b)
        taken, other = (a, b) if first == 1 else (b, a)
        yield _Share(factor, known.get(function, function), taken, other)


def _by_sides(term: Expr, known: Extrema, used: dict[str, None]) -> Expr:
    """A product in which no extremum stands beside its own share."""
    for share in _shares(term, known):
        powers = term.as_powers_dict()
        power, other = powers.get(share.extremum, S.Zero), powers.get(share.taken, S.Zero)
        if not power.is_Integer or (power < 0 and not other.is_Integer):
            continue
        if power < 0:  # what is passed on to the side is 0 where a quotient of the two is not 1
            power = -min(-power, max(other, S.Zero))
        if power != 0:
            used[_said(share)] = None
            return _by_sides(term / share.extremum**power * share.taken**power, known, used)
    return term


def _pairs(value: Expr, known: Extrema, used: dict[str, None]) -> Iterator[Expr]:
    """The value with terms `c*a*w` and `-c*b*w` as `c*(q - b)`, for each such pair."""
    terms = Add.make_args(value)
    for term in terms:
        for share in _shares(term, known):
            rest = term / share.factor / share.taken
            other = -rest * share.other * share.factor
            if rest.as_numer_denom()[1] == term.as_numer_denom()[1] and other in terms:
                used[_said(share)] = None
                yield value - term - other + Add(*(rest * share.extremum, -rest * share.other))


def _said(share: _Share) -> str:
    return f"{share.extremum} is {share.taken} or {share.other}"
