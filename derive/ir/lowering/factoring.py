"""Normal forms, factored so that few passes touch large tensors.

A normal form is a sum of products. It is taken apart again the way a person writes it: what is common to all terms in
front, a large factor that several terms share taken out of them (Horner). Nothing here knows an op; the axes of the
factors are the only guide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import gcd

from sympy import Add, Expr, Integer, Mul, Poly, Pow, Rational, S, expand, factor_list, symbols
from sympy import gcd as common_divisor

from derive.ir.lowering.masking import is_or_nothing, may_be_infinite
from derive.ir.lowering.ordering import ordered_terms, weight
from derive.ir.terms.axes import free_axes
from derive.ir.terms.choices import Where

_TINY = Rational(1, 1000)
"""What is below it keeps a sum from being 0, and is no share of one."""


@dataclass(frozen=True)
class Product:
    """`number * powers * sums`: one summand, its nested sums already factored."""

    number: Rational
    powers: tuple[Expr, ...]
    sums: tuple[Sum, ...] = ()


@dataclass(frozen=True)
class Sum:
    """Summands, in reading order."""

    parts: tuple[Product, ...]


@lru_cache(maxsize=20_000)  # a search prices many forms, which have most of their definitions in common
def factor(expr: Expr) -> Product:
    """The shape in which a normal form is written down."""
    return _factor(tuple(_Term.of(t) for t in ordered_terms(expr)))


@dataclass(frozen=True)
class _Term:
    """One product as its number and the exponent of each base."""

    number: Expr
    powers: tuple[tuple[Expr, Expr], ...]

    @staticmethod
    def of(term: Expr) -> _Term:
        number, powers = S.One, {}
        for f in Mul.make_args(term):
            b, e = f.as_base_exp()
            if f.is_Number:
                number *= f
            elif e.is_Rational:
                powers[b] = e
            else:
                powers[f] = S.One
        return _Term(number, tuple(powers.items()))

    def over(self, number: Expr, powers: dict[Expr, Expr]) -> _Term:
        left = {b: e - powers.get(b, S.Zero) for b, e in self.powers}
        return _Term(self.number / number, tuple((b, e) for b, e in left.items() if e != 0))

    @cached_property
    def exponents(self) -> dict[Expr, Expr]:
        return dict(self.powers)

    @cached_property
    def signed(self) -> dict[tuple[Expr, Expr], None]:
        """Its bases, each with the sign of its exponent: what may be taken out of it."""
        return {(b, S.One if e.is_positive else S.NegativeOne): None for b, e in self.powers}

    def is_among(self, others: Sequence[_Term]) -> bool:
        """Whether one of the others has the same number and the same powers."""
        return any(o.number == self.number and o.exponents == self.exponents for o in others)

    @property
    def product(self) -> Product:
        return Product(self.number, tuple(Pow(b, e) for b, e in self.powers))


@lru_cache(maxsize=20_000)  # Horner's step asks for what is left over twice, at every level
def _factor(terms: tuple[_Term, ...]) -> Product:
    if len(terms) == 1:
        return terms[0].product
    number, common = common_factor(terms)
    common = {b: e for b, e in common.items() if not _leaks(b, e, terms)}
    common = {b: e for b, e in common.items() if not _joins_small(b, [t.over(number, common) for t in terms])}
    rest = tuple(t.over(number, common) for t in terms)
    powers = tuple(Pow(b, e) for b, e in common.items())
    if (repeated := _repeated(rest)) is not None:
        return Product(number * repeated.number, _times(*powers, *repeated.powers))
    inner = _shared_out(rest)
    if len(inner.parts) == 1:
        (only,) = inner.parts
        return Product(number * only.number, _times(*powers, *only.powers), only.sums)
    return Product(number, powers, (inner,))


@lru_cache(maxsize=20_000)
def _shared_out(terms: tuple[_Term, ...]) -> Sum:
    """Horner's step: group the terms that share a large factor, until no grouping spares an operation."""
    shared = _best_shared(terms)
    if shared is None:
        return Sum(_as_choices(tuple(t.product for t in terms)))
    b, e = shared
    having, outside = [t for t in terms if shared in t.signed], tuple(t for t in terms if shared not in t.signed)
    apart = [t for t in having if b.is_nonnegative and t.over(-S.One, {b: e}).is_among(outside)]
    inside = tuple(t.over(S.One, {b: e}) for t in having if t not in apart)
    if apart and inside:  # u - u*s beside v*s is u*(1 - s) + v*s, and not u + s*(v - u), where v may be small
        outside = tuple(t for t in terms if t in outside or t in apart)
    else:
        inside = tuple(t.over(S.One, {b: e}) for t in having)
    grouped = _factor(inside)
    grouped = replace(grouped, powers=_times(Pow(b, e), *grouped.powers))
    if not outside:
        return Sum((grouped,))
    rest = _factor(outside) if grouped.sums else grouped
    if grouped.sums and _unordered(grouped) == _unordered(_turned(rest)):
        rest = _turned(rest)
    if grouped.sums and _unordered(grouped) == _unordered(rest):  # u*s + v*s = (u + v)*s
        number, sums = _with_ones(rest.number, rest.sums)
        ratio = replace(grouped, number=grouped.number / rest.number, sums=())
        both = Product(number, (), (Sum((replace(rest, number=S.One, sums=()), ratio)), *sums))
        return Sum((_unsigned(both),))
    return Sum((*_shared_out(outside).parts, grouped))


def _as_choices(parts: tuple[Product, ...]) -> tuple[Product, ...]:
    """`a*[c] + b*(1 - [c])` as `where(c, a, b)`."""
    for p in parts:
        for mask in (f for f in p.powers if isinstance(f, Where) and f.is_mask):
            opposite = Where(mask.condition, S.Zero, S.One)
            others = [q for q in parts if opposite in q.powers]
            both = opposite in p.powers  # which is 0, and nothing to choose from
            if len(others) == 1 and not both and sum(mask in q.powers for q in parts) == 1:
                a, b = (q.number * Mul(*(f for f in q.powers if f not in (mask, opposite))) for q in (p, *others))
                choice = Product(S.One, (Where(mask.condition, a, b),))
                return _as_choices((*(q for q in parts if q not in (p, *others)), choice))
    return parts


def _repeated(terms: Sequence[_Term]) -> Product | None:
    """A polynomial as its factors, where one of them is repeated: near it, `1 + p*(p - 2)` has no digits left."""
    bases = list({b: None for t in terms for b, _ in t.powers})
    if len(terms) < 3 or len(bases) > 2:
        return None
    exponents = [[dict(t.powers).get(b, S.Zero) for b in bases] for t in terms]
    if not all(e.is_Integer and e >= 0 for row in exponents for e in row):
        return None
    if not all(t.number.is_Rational for t in terms):
        return None
    stand = symbols(f"b:{len(bases)}")
    whole = Add(*(t.number * Mul(*(Pow(b, e) for b, e in zip(stand, row, strict=True)))
                  for t, row in zip(terms, exponents, strict=True)))  # fmt: skip
    number, factors = factor_list(whole, *stand)
    if all(e == 1 or not isinstance(f, Add) for f, e in factors):
        return None
    named = dict(zip(stand, bases, strict=True))
    for k, (f, e) in enumerate(factors):  # 1000000000*r + 1, to a power, as r + 1e-9
        largest = max(map(abs, Poly(f, *stand).coeffs()))
        if largest > 1 / _TINY:
            number, factors[k] = number * largest**e, (f / largest, e)
    even = [(-f if e % 2 == 0 and f.as_coeff_Add()[0].is_negative else f, e) for f, e in factors]  # (1 - p)**2
    return Product(number, tuple(Pow(expand(f).xreplace(named), e) for f, e in even))


def _turned(p: Product, k: int = 0) -> Product:
    """The same product with the sign of one of its sums changed, and its own: `a - b` is `-(b - a)`."""
    if not p.sums:
        return p
    turned = Sum(tuple(replace(t, number=-t.number) for t in p.sums[k].parts))
    return replace(p, number=-p.number, sums=(*p.sums[:k], turned, *p.sums[k + 1 :]))


def _unsigned(p: Product) -> Product:
    """The product without a minus in front, where one of its sums is a difference."""
    differences = [k for k, s in enumerate(p.sums) if any(t.number.is_negative for t in s.parts)]
    return _turned(p, differences[-1]) if p.number.is_negative and differences else p


def _unordered(p: Product) -> set[frozenset[Product]]:
    return {frozenset(s.parts) for s in p.sums}


def _times(*powers: Expr) -> tuple[Expr, ...]:
    """The factors, those of one base as one power."""
    bases = dict.fromkeys(p.as_base_exp()[0] for p in powers)
    return tuple(Mul(*(p for p in powers if p.as_base_exp()[0] == b)) for b in bases)


def _with_ones(number: Expr, sums: tuple[Sum, ...]) -> tuple[Expr, tuple[Sum, ...]]:
    """`1/2 + a*x` as `1/2 * (1 + 2*a*x)`: the number joins those in front; one as small as `1e-9` stays."""
    out = []
    for s in sums:
        plain = [p.number for p in s.parts if not p.powers and not p.sums]
        unit = plain[0] if len(plain) == 1 and abs(plain[0]) > _TINY else S.One
        number *= unit
        out.append(Sum(tuple(replace(p, number=p.number / unit) for p in s.parts)))
    return number, tuple(out)


def common_factor(terms: Sequence[_Term]) -> tuple[Expr, dict[Expr, Expr]]:
    """What every term has: numbers by their greatest common divisor, others by their lowest power."""
    numbers = [t.number for t in terms]
    number = S.One
    if all(n.is_Integer for n in numbers):
        number = Integer(gcd(*map(int, numbers)))
    elif len({abs(n) for n in numbers}) == 1:
        number = common_divisor([abs(n) for n in numbers])
    if all(n.is_negative for n in numbers):
        number = -number
    common: dict[Expr, Expr] = {}
    for b, _ in terms[0].powers:
        exponents = [t.exponents.get(b, S.Zero) for t in terms]
        if all(x.is_positive for x in exponents) or all(x.is_negative for x in exponents):
            common[b] = min(exponents, key=abs)
    return number, common


def _leaks(b: Expr, e: Expr, terms: Sequence[_Term]) -> bool:
    """Whether a factor that may be infinite would come out from behind masks of which none may hold.

    `where(c, x/y, 0) + where(d, z/y, 0)` is 0 where neither is chosen, also where y is; with `1/y` outside it is nan.
    """
    if not may_be_infinite(Pow(b, e)):
        return False
    masks = [frozenset((f.args[0], f.args[1] == 0) for f, _ in t.powers if is_or_nothing(f)) for t in terms]
    left = [own - frozenset.intersection(*masks) for own in masks]
    alone = {mask for own in left if len(own) == 1 for mask in own}
    return all(left) and not any((condition, not turned) in alone for condition, turned in alone)


def _joins_small(b: Expr, rest: Sequence[_Term]) -> bool:
    """Whether each of the terms has a factor that a common one of theirs may be multiplied by, and both are small.

    `a*u/r - b*v/r` with numbers of a row `a`, `b` and `r` takes a pass less than `(a*u - b*v)/r`.
    """
    whole = set().union(*(free_axes(f) for t in rest for f, _ in t.powers))
    own = free_axes(b)
    return bool(own) and all(any(own | free_axes(f) < whole for f, _ in t.powers) for t in rest)


def _best_shared(terms: Sequence[_Term]) -> tuple[Expr, Expr] | None:
    """The largest factor that more than one term has, if taking it out spares an operation on something large.

    Of factors as large, the one that leaves the least: `t + a*x*(1 - t**2)` and not `a*x + t*(1 - a*t*x)`.
    """
    best, gain, left = None, 0, 0
    having: dict[tuple[Expr, Expr], list[_Term]] = {}
    for t in terms:
        for factor in t.signed:
            having.setdefault(factor, []).append(t)
    candidates = [c for c, inside in having.items() if len(inside) > 1]
    for b, e in sorted(candidates, key=lambda c: (c[0].sort_key(), c[1])):
        inside = having[b, e]
        mine = (len(inside) - 1) * 32 ** weight(b) if weight(b) else 0
        if mine == 0 or mine < gain or _leaks(b, e, inside):
            continue
        if _joins_small(b, [t.over(S.One, {b: e}) for t in inside]):
            continue
        number, common = common_factor(inside)
        rest = sum(len(t.over(number, common).powers) for t in inside)
        if mine > gain or rest < left:
            best, gain, left = (b, e), mine, rest
    return best
