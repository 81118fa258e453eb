"""A few exponentials added up, as `exp(a) + exp(b)`: the logarithm of such a sum and its shares, without overflow.

The logarithm of two is one function, `logaddexp`, whose derivatives are sigmoids. Of more, of weighed ones and of
shares the largest exponent `m` is taken off: `m + log(w*exp(a - m) + v*exp(b - m))`, `exp(a - m) / (exp(a - m) + ...)`.
It cancels, so that no gradient goes through it. Sums along an axis are those of largest_off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from sympy import Add, Expr, Mul, S, exp, log

from derive.ir.equations import Equation, Op, inline
from derive.ir.terms.choices import Where, unlike
from derive.ir.terms.elements import At
from derive.ir.terms.functions import capped, log1p, logaddexp, softplus
from derive.ir.terms.kinks import maximum, minimum
from derive.ir.terms.names import free_name
from derive.rules.splitting import axes_of_part, own_equation, without_unread
from derive.rules.stability.exponentials import Shifted, exponent_of, has_gradient, is_left_out, may_be_large, weights
from derive.rules.stability.largest_off import LEAST


def with_few_exponentials(op: Op) -> Op:
    """The same op with every such logarithm and share. An op that gives the gradient of each named tensor is left.

    So is what reads a sum that is wanted itself, or exponentials that are: they would be made twice.
    """
    wanted: set[str] = set()
    left: set[frozenset[Expr]] = set()
    while not op.stepwise:
        found = _Found(op, wanted, left)
        for e in op.equations:
            found.take(e)
        changed = without_unread(replace(op, equations=tuple(found.equations)), op)
        still = found.sums & {e.name for e in changed.equations}
        exponents = {f.args[0] for e in changed.equations for f in e.body.atoms(exp)}
        beside = {of for of in found.changed if of & exponents}
        if not still and not beside:
            return changed
        wanted |= still
        left |= beside
    return op


_Terms = Mapping[Expr, Expr]
"""By exponent, 0 of a number, what is before each exponential of a sum."""


def _terms(total: Expr) -> _Terms | None:
    """What a sum adds up; nothing where it is not of exponentials with numbers and factors alone, two at least.

    Nor where one is subtracted, or weighed and beside a number: of `1 - p` and `1 + w*p` the logarithm has more digits.
    """
    found: dict[Expr, Expr] = {}
    for term in Add.make_args(total):
        u = S.Zero if term.is_number else exponent_of(term)
        if u is None or (isinstance(term, Where) and not isinstance(term.args[1], exp)):
            return None
        weight = term if term.is_number else Mul(*weights(term)) if not is_left_out(term) else S.One
        found[u] = found.get(u, S.Zero) + weight
    own = [w for u, w in found.items() if not u.is_number]
    known = all(w.is_number for w in own)
    subtracted = any(w.as_coeff_Mul()[0].is_negative for w in found.values())
    return found if len(found) > 1 and not subtracted and (known or len(own) > 1) else None


@dataclass
class _Found:
    """The equations so far, and what is known of exponentials and of their sums by name."""

    op: Op
    wanted: set[str]  # sums that are left
    left: set[frozenset[Expr]]  # so are sums of the exponentials of these
    equations: list[Equation] = field(default_factory=list)
    named: dict[str, Equation] = field(default_factory=dict)
    largest: dict[Expr, At] = field(default_factory=dict)
    sums: set[str] = field(default_factory=set)  # that were read, and are not any more where this is done
    changed: set[frozenset[Expr]] = field(default_factory=set)  # the exponents of such sums

    def take(self, e: Equation) -> None:
        """Add an equation, with the largest exponents that it reads before it."""
        body = e.body.replace(lambda f: isinstance(f, log | log1p), partial(self._within, e))
        body = body.replace(lambda f: isinstance(f, Mul), partial(self._within, e))
        self.equations.append(e if body == e.body else replace(e, body=body))
        full = inline(e.body, self.named)
        known = exponent_of(full) is not None or _terms(full) is not None
        if known and e.kind is None and e.is_plain and not e.first and e.name not in self.wanted:
            self.named[e.name] = replace(e, body=full)

    def _within(self, e: Equation, f: Expr) -> Expr:
        """A logarithm or a product without the largest exponents of its sums; as it stands where they do not cancel."""
        sums: dict[Expr, _Terms] = {}
        made: dict[Expr, Equation] = {}
        largest: set[str] = set()

        def taken(total: Expr) -> tuple[Expr, Expr] | None:
            terms = self._of_sum(total)
            if terms is None:
                return None
            sums[total] = terms
            if not isinstance(f, Mul) and (own := _of_two(terms)) is not None:
                return S.One, own
            m = self._largest(e, terms, made, of_log=not isinstance(f, Mul))
            largest.add(m.name)
            return self._without(terms, m), m

        full = inline(f, self.named)
        full = log(1 + full.args[0]) if isinstance(full, log1p) else full
        value = Shifted(taken, largest).put(full)
        if value is None or not sums:
            return f
        self.largest |= {of: m.left for of, m in made.items()}
        self.equations += made.values()
        self.changed |= {frozenset(terms) for terms in sums.values()}
        self.sums |= {at.name for at in f.atoms(At) if at.name in self.named and _terms(self.named[at.name].body)}
        return value

    def _of_sum(self, total: Expr) -> _Terms | None:
        """What such a sum adds up, where an exponential may be too large."""
        terms = _terms(total) if isinstance(total, Add) else None
        if terms is None or frozenset(terms) in self.left or self._is_less_extremum(terms):
            return None
        return terms if any(may_be_large(u, self.op) for u in terms) else None

    def _is_less_extremum(self, terms: _Terms) -> bool:
        """Whether something is taken off each exponent that is the larger or the smaller of two values."""
        inside = [u.atoms(At, maximum, minimum) for u in terms]
        names = {e.name for e in self.equations if isinstance(e.body, maximum | minimum)}
        return any(not isinstance(m, At) or m.name in names for m in set.intersection(*inside))

    def _largest(self, e: Equation, terms: _Terms, made: dict[Expr, Equation], of_log: bool) -> At:
        """The largest exponent of what a sum does not leave out; of a logarithm a number also where all are -oo."""
        exponents = (_kept(u, terms[u]) for u in sorted(terms, key=lambda u: u.is_number))
        has_number = any(u.is_number for u in terms)
        value = reduce(maximum, (*exponents, S(LEAST)) if of_log and not has_number else exponents)
        if value in self.largest:
            return self.largest[value]
        if value not in made:
            taken = self.op.names | {m.name for m in self.largest.values()} | {m.name for m in made.values()}
            name = free_name(f"{e.name}_largest", taken)
            own = own_equation(name, axes_of_part(value, e), value, set(self.op.names))
            made[value] = replace(own, free=True, given=True)
        return made[value].left

    def _without(self, terms: _Terms, m: At) -> Expr:
        """A sum of exponentials with this taken off each exponent, which is below 0 then if it is kept."""
        learned = {u for u, weight in terms.items() if _may_leave_out(weight) and has_gradient(weight, self.op)}
        return Add(*(w * exp(capped(u - m) if u in learned else _kept(u, w) - m) for u, w in terms.items()))


def _may_leave_out(weight: Expr) -> bool:
    return bool(weight.atoms(At)) and not weight.is_positive


def _kept(exponent: Expr, weight: Expr) -> Expr:
    """The exponent of what is weighed, but for what a weight of 0 leaves out."""
    return Where(unlike(weight, S.Zero), exponent, -S.Infinity) if _may_leave_out(weight) else exponent


def _of_two(terms: _Terms) -> Expr | None:
    """The logarithm of two exponentials, each times a number, or of one and a number; nothing for another sum."""
    if len(terms) != 2 or not all(w.is_number and w.is_positive for w in terms.values()):
        return None
    (u, first), (v, second) = terms.items()
    if first == second:
        return log(first) + (softplus(u + v) if S.Zero in terms else logaddexp(u, v))
    return logaddexp(u + log(first), v + log(second))
