"""Sums before they get statements: two may be one, and one over the length of its axes is a mean."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache

from sympy import Add, Expr, Min, Mul, S

from derive.ir.algebra import is_contraction
from derive.ir.terms.axes import Size, free_axes
from derive.ir.terms.nearly_equal import is_part
from derive.ir.terms.products import factors_of
from derive.ir.terms.reductions import Reduce, Sigma, sums_of
from derive.schedule.positions import has_delta


def count_sums(values: list[Expr]) -> dict[Expr, int]:
    """In how many terms each sum stands."""
    counts: dict[Expr, int] = {}
    for value in values:
        for term in Add.make_args(value):
            for s in sums_of(term):
                counts[s] = counts.get(s, 0) + 1
    return counts


def merge_sums(expr: Expr, shared: Set[Expr]) -> Expr:
    """`c*sum(a) + c*sum(b) = c*sum(a + b)`: one reduction instead of two, unless one of them is needed by itself.

    Those of `c*sum(a) - c*sum(a*s)` with `s >= 0` are merged in any case: they may be nearly equal, and a sum of
    `a*(1 - s)` subtracts before it adds up, also where `sum(a)` is a product of matrices. So is a number of places less
    the sum of what is at most 1 at each.
    """
    return _merged(expr, sums_of(expr) & shared)


@lru_cache(maxsize=20_000)  # a search prices many forms, which have most of their definitions in common
def _merged(expr: Expr, shared: frozenset[Sigma]) -> Expr:
    groups: dict[tuple[Expr, tuple[str, ...]], list[tuple[Expr, Sigma]]] = {}
    out: list[Expr] = []
    for term in Add.make_args(expr):
        sums = factors_of(term, Sigma)
        if len(sums) == 1 and not has_delta(sums[0]):
            outer = term / sums[0]
            number = outer.as_coeff_Mul()[0]
            groups.setdefault((outer / number, tuple(a.base for a in sums[0].over)), []).append((number, sums[0]))
        else:
            out.append(term)
    for (outer, _), members in groups.items():
        for n, s in [m for m in members if _is_apart(m, members)]:
            members.remove((n, s))
            out.append(n * outer * s)
        if not members:
            continue
        counts = {t: n for t in out if (n := _counted(t, outer, members)) is not None}
        out = [t for t in out if t not in counts]
        members += [(n, Sigma(S.One, *members[0][1].over)) for n in counts.values()]
        merged = [m for m in members if m[1] not in shared or any(_nearly_equal(m, other) for other in members)]
        if len(merged) > 1:
            out.append(outer * _in_one(merged))
        out += [n * outer * s for n, s in members if len(merged) < 2 or (n, s) not in merged]
    return _elements_beside_means(Add(*out), shared)


def _is_apart(one: tuple[Expr, Sigma], members: list[tuple[Expr, Sigma]]) -> bool:
    """Whether a sum is a product of matrices, of which nothing takes nearly all away that is none."""
    others = (m for m in members if not is_contraction(m[1].body))
    return is_contraction(one[1].body) and not any(_nearly_equal(one, other) for other in others)


def _elements_beside_means(expr: Expr, shared: frozenset[Sigma]) -> Expr:
    """`b*sum(g*m) + c*sum(g*z)` is `sum(g*(b*m + c*z))` where `m` has fewer axes: what cancels does first."""
    terms = Add.make_args(expr)
    alone = [s for t in terms for s in factors_of(t, Sigma)]
    if len(terms) != 2 or len(alone) != 2 or not all(map(_may_take, terms, alone)) or shared & set(alone):
        return expr
    one, other = alone
    if len(one.over) != len(other.over) or free_axes(one) != free_axes(other):
        return expr
    whole = _in_one([(t / s, s) for t, s in zip(terms, alone, strict=True)])
    return whole if _has_mean_beside_element(whole) else expr


def _may_take(term: Expr, s: Sigma) -> bool:
    """Whether a sum is no product of matrices and may take in what it is multiplied by: that has no axes of its own."""
    return not has_delta(s) and not _is_product(s) and s in Mul.make_args(term) and free_axes(term / s) <= free_axes(s)


def _has_mean_beside_element(whole: Sigma) -> bool:
    """Whether two summands share all but, in one of them, what has not all axes that are summed."""
    if len(terms := Add.make_args(whole.body)) != 2:
        return False
    mine, theirs = (t.as_powers_dict() for t in terms)
    shared = Mul(*(b ** _common(e, theirs[b]) for b, e in mine.items() if b in theirs and not b.is_Number))
    rests = [free_axes(t / shared) & set(whole.over) for t in terms]
    return free_axes(shared) >= set(whole.over) and rests[0] != rests[1] and set(whole.over) in rests


def _common(one: Expr, other: Expr) -> Expr:
    """The exponent that two powers of one thing have in common."""
    return one if one == other else Min(one, other) if one.is_number and other.is_number else S.Zero


def _counted(term: Expr, outer: Expr, members: list[tuple[Expr, Sigma]]) -> Expr | None:
    """The number before a count of the places that these sums run over, where one takes a part of each 1 from it."""
    number = term / (outer * Mul(*(Size(a) for a in members[0][1].over)))
    taken = number.is_Number and any(n == -number and is_part(s.body) for n, s in members)
    return number if taken else None


def _in_one(members: list[tuple[Expr, Sigma]]) -> Sigma:
    """The sum of sums over the same axes, each by its deepest name: none that a sum inside one of them has."""
    over = [max(copies, key=lambda a: a.copy_number) for copies in zip(*(s.over for _, s in members), strict=True)]
    return Sigma(Add(*(n * s.body.xreplace(dict(zip(s.over, over, strict=True))) for n, s in members)), *over)


def _nearly_equal(one: tuple[Expr, Sigma], other: tuple[Expr, Sigma]) -> bool:
    """Whether two sums, each with its number, are subtracted and one has but a factor more, which is not negative."""
    powers = (other[1].body / one[1].body).as_powers_dict()
    part = any(all((sign * e).is_positive for e in powers.values()) for sign in (1, -1))
    not_negative = all(e.is_even or b.is_nonnegative for b, e in powers.items())
    return bool(part and one[1] != other[1] and (one[0] * other[0]).is_negative and not_negative)


def means_among(values: object, own: set[Expr]) -> set[Expr]:
    """The sums that are divided by their axes' sizes wherever they stand: means. A product of matrices is no mean."""
    found: dict[Expr, bool] = {}
    for value in values:  # type: ignore[attr-defined]
        for term in Add.make_args(value):
            sums = sums_of(term)
            powers = term.as_powers_dict() if sums else {}
            for s in sums:
                top = s in powers
                divided = top and all(powers.get(Size(a), 0) <= -1 for a in s.over)
                is_mean = divided and s not in own and not has_delta(s) and not _is_product(s)
                found[s] = found.get(s, True) and is_mean
    return {s for s, is_mean in found.items() if is_mean}


def _is_product(s: Sigma) -> bool:
    """Whether a sum is a product of matrices, or of one by a vector along the axis that is summed."""
    runs = [free_axes(f) for f in Mul.make_args(s.body) if not f.is_Number]
    vector, matrix = sorted(runs, key=len) if len(runs) == 2 else (set(), set())
    return is_contraction(s.body) or (len(s.over) == 1 and vector == set(s.over) < matrix)


def with_means(value: Expr, means: set[Expr]) -> Expr:
    """The value with these sums as means."""
    terms = []
    for term in Add.make_args(value):
        for s in [f for f in Mul.make_args(term) if f in means]:
            term = term / s * Reduce("mean", s.body, *s.over) * Mul(*(Size(a) for a in s.over))
        terms.append(term)
    return Add(*terms)
