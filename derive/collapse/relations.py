"""Law: what is left of a reduction's equation, once others have eliminated its operands, is a relation.

`mu = mean(x)` with `x = xhat/rstd + mu` leaves `sum(xhat) = 0`; `s = sum(u)` with `u = p*s` leaves `sum(p) = 1`.
A relation rewrites a sum over a large tensor into something without that sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

from sympy import Add, Expr, Mul, S

from derive.collapse.inversions import Inversion, cannot_vanish
from derive.ir.algebra import normal, opened, rewrite, sigma, substitute
from derive.ir.equations import Equation, Op
from derive.ir.matching import match
from derive.ir.terms.axes import Axis, Size, free_axes, sorted_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, tensor_names
from derive.ir.terms.nearly_equal import greater_of_differences
from derive.ir.terms.products import by_axes, factors_of
from derive.ir.terms.reductions import Sigma
from derive.rules.stability.own_sums import divisors, summed_along

_DEPTH = 4  # how many inversions in a row may be used on one equation
_TOGETHER = 2  # how many axes a sum of terms is taken over


@dataclass(frozen=True)
class Relation:
    """`pattern = value`, an identity among forward tensors; `because` names the equations that prove it."""

    pattern: Sigma
    value: Expr
    because: tuple[str, ...]
    of_choices: bool = False  # whether a product with a choice is read as a choice of products for it

    def __str__(self) -> str:
        return f"{self.pattern} = {self.value}   by {', '.join(self.because)}"


_Level = tuple[Expr, tuple[str, ...]]

Relations = dict[frozenset[str], tuple[Relation, ...]]
"""Identities by the tensors that their sums read."""


def by_names(known: tuple[Relation, ...]) -> Relations:
    """Relations by the tensors that they are about, so that few are tried."""
    out: dict[frozenset[str], tuple[Relation, ...]] = {}
    for relation in known:
        key = frozenset(tensor_names(relation.pattern))
        out[key] = (*out.get(key, ()), relation)
    return out


def relations(op: Op, known: tuple[Inversion, ...]) -> tuple[Relation, ...]:
    """Every identity that the reductions leave, before and after eliminating their operands."""
    valid: dict[str, list[Inversion]] = {}
    for inversion in known:
        if inversion.nonzero is None:
            valid.setdefault(inversion.of, []).append(inversion)
    found: dict[Sigma, Relation] = {}
    several: list[_Level] = []
    for equation in op.equations:
        if equation.kind in ("sum", "mean") and equation.is_plain:
            for expr, because in _levels(equation, valid):
                if (relation := oriented(expr, because)) is not None:
                    known_one = found.get(relation.pattern)
                    if known_one is None or _length(relation) < _length(known_one):
                        found[relation.pattern] = relation
                elif len(because) > 1 and len(expr.atoms(Sigma)) > 1:
                    several.append((expr, because))
    for relation in _of_shares(op):
        found.setdefault(relation.pattern, relation)
    for relation in _by_the_others(several, by_names(tuple(found.values()))):
        found.setdefault(relation.pattern, relation)
    of_axes = tuple(found.values())
    return (*of_axes, *_by_first_names(op, of_axes), *_of_sums(op, by_names(of_axes)))


def _of_shares(op: Op) -> Iterator[Relation]:
    """That what is divided by its own sum adds up to 1, also where what is summed has no name: `exp(x - m) / s`."""
    sums = {e.name: e for e in op.equations if e.kind == "sum" and e.is_plain}
    for e in (e for e in op.equations if e.kind is None and e.is_plain):
        for total in divisors(e.body, sums):
            along = summed_along(e.body * total, total, sums[total.name])
            pattern = sigma(e.left, sorted_axes(along)) if along else None
            if isinstance(pattern, Sigma):
                yield Relation(pattern, S.One, (total.name, e.name))


def _by_the_others(several: list[_Level], known: Relations) -> Iterator[Relation]:
    """What is left of equations with several sums by what is known of others: `sum(p*(x - mu)) = 0` as `sum(p) = 1`."""
    for expr, because in several:
        less, used = use_relations(expr, known)
        names = (*because, *(n for r in used for n in r.because))
        relation = oriented(less, tuple(dict.fromkeys(names))) if used else None
        if relation is not None:
            yield relation


def _by_first_names(op: Op, known: tuple[Relation, ...]) -> Iterator[Relation]:
    """Those over an axis that is just as long as another, by that one's name: an adjoint may be summed by either."""
    lengths = {r.axis.base: r.formula for r in op.sizes if r.axis.fixed is None and r.given is None}
    for r in known:
        body, bound = opened(r.pattern)
        formulas = [(a, lengths.get(a.base)) for a in bound]
        put = {a: f.axis.copied(a.copy_number) for a, f in formulas if isinstance(f, Size) and not f.axis.is_pack}
        if put and not set(put.values()) & {*bound, *free_axes(body)}:
            pattern = sigma(body.xreplace(dict(put)), [put.get(a, a) for a in bound])
            if isinstance(pattern, Sigma):
                yield replace(r, pattern=pattern)


def _of_sums(op: Op, known: Relations) -> list[Relation]:
    """What is known of the terms of a sum is known of the sum: `sum(p) = 1` and `sum(q) = 1` leave `sum(p - q) = 0`.

    So is what is known of all that a term sums: a matrix less the means of its rows and of its columns, and its mean
    added, sums to 0 either way, since the means of its columns have that mean too.
    """
    out = []
    reductions = {e.name: (e.axes, e.weight * sigma(e.body, e.over))
                  for e in op.equations if e.kind in ("sum", "mean") and e.is_plain}  # fmt: skip
    for equation in op.equations:
        if equation.kind is None and equation.is_plain and isinstance(equation.body, Add):
            for axes in (c for k in range(1, _TOGETHER + 1) for c in combinations(equation.axes, k)):
                total, used = _total(reductions, sigma(equation.body, axes), known)
                if used and not total.atoms(Sigma):
                    because = (equation.name, *dict.fromkeys(name for r in used for name in r.because))
                    relation = oriented(sigma(equation.left, axes) - total, because)
                    out += [relation] if relation is not None else []
    return out


def _total(
    reductions: dict[str, tuple[tuple[Axis, ...], Expr]], total: Expr, known: Relations
) -> tuple[Expr, tuple[Relation, ...]]:
    """A sum by what is known of it, and of the sums that it sums."""
    total, used = use_relations(total, known)
    whole = {s: substitute(s, reductions) for s in total.atoms(Sigma) if tensor_names(s) & set(reductions)}
    if not used or not whole:
        return total, used
    changed, more = use_relations(normal(total.xreplace(dict(whole))), known)
    return changed, tuple(dict.fromkeys((*used, *more)))


def _length(relation: Relation) -> int:
    return len(relation.value.atoms(At))


def _levels(equation: Equation, valid: dict[str, list[Inversion]]) -> Iterator[_Level]:
    """What is 0 by an equation, with operands eliminated one after another, and by which equations."""
    start = normal(equation.weight * sigma(equation.body, equation.over) - equation.left)
    level: list[_Level] = [(start, (equation.name,))]
    for _ in range(_DEPTH):
        following = []
        for expr, because in level:
            yield expr, because
            inside = sorted(tensor_names(expr) & set(valid))
            for inversion in (i for name in inside for i in valid[name]):
                if inversion.through not in because:
                    changed = substitute(expr, {inversion.of: (inversion.axes, inversion.value)})
                    following.append((changed, (*because, inversion.through)))
        level = following


def oriented(expr: Expr, because: tuple[str, ...]) -> Relation | None:
    """`expr = 0` solved for its only sum, where the sum's coefficient cannot vanish."""
    with_sum: list[Expr] = []
    rest: list[Expr] = []
    for term in Add.make_args(expr):
        (with_sum if term.atoms(Sigma) else rest).append(term)
    if len(with_sum) != 1:
        return None
    sums = factors_of(with_sum[0], Sigma)
    if len(sums) != 1 or not sums[0].body.atoms(At):
        return None
    coefficient = with_sum[0] / sums[0]
    if coefficient.atoms(Sigma) or not cannot_vanish(coefficient):
        return None
    value = normal(Mul(-1, Add(*rest)) / coefficient)
    # a tensor that repeats one number along an axis would bring that axis to where nothing is said of it
    return Relation(sums[0], value, because) if free_axes(value) <= free_axes(sums[0]) else None


def use_relations(expr: Expr, known: Relations) -> tuple[Expr, tuple[Relation, ...]]:
    """The expression with every sum that a relation knows replaced, and the relations that were used.

    A sum from which a part of all that it sums is taken stays: `sum(s) - sum(s**2)` is more exact than `y - sum(s**2)`.
    """
    used: dict[Relation, None] = {}

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Sigma):
            return None
        for relation in known.get(frozenset(tensor_names(e)), ()):
            if e in whole and relation.value.atoms(At):
                continue
            before, one = _in_one_choice(e) if relation.of_choices else (S.One, e)
            mapping = match(relation.pattern, one) if isinstance(one, Sigma) else None
            if mapping is not None:
                used[relation] = None
                return before * relation.value.xreplace(dict(mapping))
        return None

    while True:
        whole = greater_of_differences(expr)
        changed = normal(rewrite(expr, rule))
        if changed == expr:
            return expr, tuple(used)
        expr = changed


def of_what_is_chosen(known: tuple[Relation, ...], divisors: Set[str]) -> tuple[Relation, ...]:
    """The identities, those of sums of choices for products with a choice as well.

    Not where values are asked for and something is divided by the sum: it is 0 where none is chosen, and the choice
    alone keeps what is divided by it out of the gradient there.
    """

    def speaks(r: Relation) -> bool:
        asked = r.pattern.body.condition if isinstance(r.pattern.body, Where) else None
        return asked is not None and not (asked.atoms(At) and tensor_names(r.value) & divisors)

    return tuple(replace(r, of_choices=speaks(r)) for r in known)


@lru_cache(maxsize=20_000)
def _in_one_choice(sum_: Sigma) -> tuple[Expr, Expr]:
    """A sum with a choice of something or 0 in its product as one choice, as equations say it: `where(c, a*b, 0)`.

    What is the same in all terms stands before it; not what the condition may keep finite, `where(c, 1 / s, 0)`.
    """
    body, bound = opened(sum_)
    factors = list(Mul.make_args(body))
    mask = next((f for f in factors if isinstance(f, Where) and f.args[2] == 0), None)
    if mask is None or mask == body:
        return S.One, sum_
    factors.remove(mask)
    inside, before = by_axes(factors, bound)
    for f in Mul.make_args(mask.args[1]):
        (before if f.is_Number or (isinstance(f, At) and not free_axes(f) & set(bound)) else inside).append(f)
    return Mul(*before), sigma(Where(mask.condition, Mul(*inside), S.Zero), bound)
