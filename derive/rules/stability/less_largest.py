"""Equations whose exponents have lost their maximum: the sums from which it is taken, and what reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from sympy import Add, Expr, Mul, Pow, S, exp, log

from derive.ir.equations import Equation, Op, inline
from derive.ir.terms.axes import free_axes
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.functions import capped
from derive.ir.terms.names import new_name
from derive.rules.stability.exponentials import exponent_of, is_left_out, weights


@dataclass(frozen=True)
class LessLargest:
    """An op whose exponents lose their maximum: those of a sum, and of others along the same axes with multiples."""

    op: Op
    total: Equation
    exponent: Expr
    of: Expr  # what the largest is of: the exponent, or by its name, where that chooses, what is not left out of it
    made: tuple[Equation, ...]  # what the largest is made by, itself the last
    known: Mapping[str, Equation]  # the op's exponentials
    weights: frozenset[Expr]  # factors that may be 0: what they leave out is no part of the largest
    learned: bool  # whether these have a gradient, also where they are 0
    others: tuple[Expr, ...] = ()  # exponents of what stands beside the sum, which the largest bounds too

    @property
    def largest(self) -> At:
        """Or the smallest of minus the exponents."""
        return self.made[-1].left

    @property
    def chosen(self) -> Expr:
        """What the largest is of, in full."""
        return self.made[0].body if self.made[0].kind is None else self.exponent

    @property
    def taken(self) -> set[str]:
        """The names that are taken."""
        return {*self.op.names, *(e.name for e in self.made)}

    @property
    def is_largest(self) -> bool:
        return any(e.kind == "amax" for e in self.made)

    @property
    def sign(self) -> Expr:
        """Of the largest, in what is taken off."""
        return S.One if self.is_largest else S.NegativeOne

    @property
    def named(self) -> Expr:
        """The exponent, by its name if it has one."""
        return self.exponent if self.learned else self.of

    @cached_property
    def sums(self) -> frozenset[str]:
        """The tensors from which it is taken. What reads one of them, as a sum of shares does, is a reader alone."""
        alike = {e.name: e for e in self.op.equations if self.is_alike(e)}
        return frozenset(n for n, e in alike.items() if not any(at.name in alike for at in e.reads))

    def beside(self) -> tuple[Expr, ...] | None:
        """The exponents of what is added to such sums wherever they are read, 0 of a number.

        None where one is not known, or where something is added in one place and not, or something else, in another.
        """
        sums = self.sums
        found: set[tuple[Expr | None, ...]] = set()
        for e in (e for e in self.op.equations if any(at.name in sums for at in e.reads)):
            body = inline(e.body, self.known)
            added = {a: _beside_in(a, sums) for a in body.atoms(Add)}
            added = {a: others for a, others in added.items() if others}
            found |= {tuple(exponents) for exponents in added.values()}
            rest = body.xreplace(dict.fromkeys(added, S.One))
            found |= {()} if any(at.name in sums for at in rest.atoms(At)) else set()
        one = found.pop() if len(found) == 1 else None
        known = one is not None and all(u is not None and free_axes(u) <= set(self.total.axes) for u in one)
        return tuple(u for u in one or () if u is not None) if known or (not found and one == ()) else None

    def is_alike(self, e: Equation) -> bool:
        """Whether an equation is a sum along the same axes of multiples of the same exponentials, and weighed alike."""
        factors = self.factors(e)
        return bool(factors) and self.weights <= set(factors)

    def factors(self, e: Equation) -> tuple[Expr, ...]:
        """Those of such a sum; none of another equation."""
        alike = e.kind == self.total.kind and e.over == self.total.over and e.is_plain
        factors = Mul.make_args(inline(e.body, self.known)) if alike and set(self.total.axes) <= set(e.axes) else ()
        return tuple(factors) if sum(exponent_of(f) == self.exponent for f in factors) == 1 else ()

    def taken_from(self, e: Equation, taken: set[str]) -> Equation:
        """Such a sum with the maximum taken off."""
        others = Mul(*(f for f in self.factors(e) if exponent_of(f) != self.exponent))
        body = others * exp(self._capped(self.named - self.sign * self.largest))
        if not e.given and e.name not in self.op.outputs:
            return replace(e, body=body)
        target = Tensor(new_name(f"{e.name}_scaled", taken, "_"), **e.target.assumptions0)
        return replace(e, target=target, body=body, given=False)

    def with_sums(self, e: Equation, sums: Mapping[str, Equation]) -> Equation | None:
        """An equation with these sums in the place of those it reads; nothing where the maximum does not cancel."""
        body = inline(e.body, self.known).replace(is_left_out, lambda f: exp(exponent_of(f)))
        if self.weights:
            if exp(self.exponent) in body.replace(lambda f: isinstance(f, Mul), self._unweighed).atoms(exp):
                return None
            body = body.replace(lambda f: isinstance(f, Mul), self._kept)
        else:
            body = body.xreplace({exp(self.exponent): exp(self.named)})
        body = body.xreplace({at: self._in_full(at, sums[at.name]) for at in body.atoms(At) if at.name in sums})
        body = body.replace(lambda f: isinstance(f, Add), self._factored)
        body = body.replace(lambda f: isinstance(f, log), self._logarithm)
        body = body.replace(lambda f: isinstance(f, Mul), self._in_one)
        if self.factors(e) and {exp(self.exponent), exp(self.named)} & body.atoms(exp):
            return None
        return replace(e, body=body) if all(map(self._is_small, body.atoms(exp))) else None

    def _kept(self, f: Expr) -> Expr:
        """A product of the exponential and all that weighs it, as that of what is not left out."""
        rest = self._unweighed(f)
        return f if rest == f else rest * exp(self.named)

    def _unweighed(self, f: Expr) -> Expr:
        """The same without the exponential."""
        own = exp(self.exponent)
        return f / own if own in f.args and self.weights <= set(f.args) else f

    def _capped(self, exponent: Expr) -> Expr:
        """An exponent less the largest, which is above 0 where a factor with a gradient is 0."""
        return capped(exponent) if self.learned else exponent

    def _in_full(self, at: At, new: Equation) -> Expr:
        places = dict(zip(new.axes, at.index, strict=True))
        return At(new.target, *at.index) * exp(self.sign * self.largest.xreplace(places))

    def _factored(self, f: Expr) -> Expr:
        """A sum with the exponential of a maximum among its terms' factors, less that."""
        factors = {g for t in f.args for g in Mul.make_args(t) if self._is_of_largest(g)}
        one = factors.pop() if len(factors) == 1 and self.others else S.One
        return one * Add(*(t / one for t in f.args)) if one == exp(self.sign * self.largest) else f

    def _logarithm(self, f: Expr) -> Expr:
        """The logarithm of what has the exponential of a maximum as a factor, without it."""
        factors = Mul.make_args(f.args[0])
        small = [g for g in factors if isinstance(g, exp) and self._is_small(g)] if self._is_more else []
        own = [g for g in factors if self._is_of_largest(g) or g in small]
        with_it = any(isinstance(g, exp) for g in factors if g not in own)
        rest = Mul(*(g for g in factors if g not in own))
        turned = isinstance(rest, Pow) and rest.exp == -1
        return f if with_it else Add(*(g.args[0] for g in own), -log(1 / rest) if turned else log(rest))

    @property
    def _is_more(self) -> bool:
        """Whether the sum is more than exponentials: of a share of those alone the logarithm is known (log_shares)."""
        body = inline(self.total.body, self.known)
        return bool(self.others) or (isinstance(body, Mul) and bool(Mul(*weights(body)).atoms(At)))

    def _in_one(self, f: Expr) -> Expr:
        """A product of exponentials, the maximum's among them, with one of what they add up to."""
        exponentials = [g for g in f.args if isinstance(g, exp)]
        if not any(map(self._is_of_largest, exponentials)):
            return f
        exponent = Add(*(g.args[0] for g in exponentials))
        own = self.exponent in (g.args[0] for g in exponentials)
        return Mul(*(g for g in f.args if g not in exponentials), exp(self._capped(exponent) if own else exponent))

    def _is_of_largest(self, f: Expr) -> bool:
        return isinstance(f, exp) and {at.name for at in f.atoms(At)} == {self.largest.name}

    def _is_small(self, f: Expr) -> bool:
        """Whether an exponential is not of a maximum alone, and of none that is added, or of a part of one."""
        terms = Add.make_args(f.args[0].args[0] if isinstance(f.args[0], capped) else f.args[0])
        own = [t for t in terms if any(at.name == self.largest.name for at in t.atoms(At))]
        others = any(t.atoms(At) for t in terms if t not in own)
        times = (-self.sign * t.as_coeff_Mul()[0] for t in own)
        return not own or ((others or S.Zero in self.others) and all(n.is_Integer and n > 0 for n in times))


def _beside_in(total: Expr, sums: Collection[str]) -> list[Expr | None]:
    """The exponents of what such a sum is added to, 0 of a number and none where one is not known."""
    own = [t for t in total.args if _degree(t, sums) != 0]
    others = [t for t in total.args if t not in own] if own else []
    return [S.Zero if t.is_number else exponent_of(t) for t in others]


def _degree(term: Expr, sums: Collection[str]) -> Expr:
    """How often a product has the exponential of the maximum, once for every such sum that it is not divided by."""
    powers = (f.as_base_exp() for f in Mul.make_args(term))
    return Add(*(n for base, n in powers if isinstance(base, At) and base.name in sums))
