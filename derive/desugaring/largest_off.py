"""Sums of exponentials without the largest exponent, where that cancels: `exp(z)/sum(exp(z))`, `log(sum(exp(z)))`.

In float32 `exp(z)` overflows where `z` passes 88, and a whole sum underflows where all `z` lie below -104. With their
maximum `m`, `exp(z - m)` does neither. Shares of the sum and its logarithm are the same for every `m`: it is a number
that no gradient goes through. So it is of weighed sums, `sum(w*exp(z))`, and where something is added to the sum,
`exp(u) + sum(exp(z))` or `1 + sum(exp(z))`, of which `m` is the largest as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from sympy import Add, And, Expr, Mul, Pow, S, exp, log

from derive.desugaring.exponentials import exponent_of, exponentials, has_gradient, is_left_out, may_be_large, weights
from derive.desugaring.splitting import axes_of_part, own_equation, split_name
from derive.desugaring.stable import in_full
from derive.equations import Equation, Op
from derive.lowering.lower import node
from derive.nodes.naming import name_of
from derive.terms.axes import free_axes
from derive.terms.choices import Where, unlike
from derive.terms.elements import At, Tensor
from derive.terms.functions import capped
from derive.terms.kinks import maximum, minimum
from derive.terms.names import free_name
from derive.terms.reductions import Reduce

LEAST = -(10**30)
"""What stands for a maximum of -oo: exponentials less that are 0, where they would not be a number."""


def with_largest_taken_off(op: Op) -> Op:
    """The same op with a maximum for every such sum. An op that gives the gradient of each named tensor is left."""
    for e in () if op.stepwise else op.equations:
        op = _without_largest(op, e)
    return op


def _without_largest(op: Op, total: Equation) -> Op:
    """The same op with the maximum taken off the exponents of this sum, if all that reads it is the same then.

    Not where the sum itself is wanted too, or its exponentials: they would be made twice.
    """
    known = exponentials(op)
    exponent = _exponent(total, known)
    if exponent is None or not may_be_large(exponent, op):
        return op
    taken, made, of = op.names, [], exponent
    weighed = frozenset(w for w in weights(in_full(total.body, known)) if w.atoms(At) and not w.is_positive)
    kept = Where(And(*(unlike(w, S.Zero) for w in weighed)), exponent, -S.Infinity)
    learned = any(has_gradient(w, op) for w in weighed)
    if isinstance(kept, Where):  # asked once
        made.append(own_equation(name_of(node(kept), taken), axes_of_part(kept, total), kept, taken))
        of = made[-1].left
    largest = _maximum(of, total, taken)
    sign = S.One if largest.kind == "amax" else -S.One
    off = _Off(op, total, exponent, exponent if learned else of, largest.left, sign, known, weighed, learned)
    if any(off.factors(e) and not off.is_alike(e) for e in op.equations):  # what one leaves out is in the other
        return op
    if off.total.name not in off.sums:
        return op
    beside = off.beside()
    if beside is None:
        return op
    if beside:
        made.append(largest)
        largest = _of_all(largest, [off.sign * u for u in beside], taken)
        off = replace(off, largest=largest.left, others=beside)
    found = _taken_off(off, set(taken))
    added = [e for e in found or () if _is_added(largest, e)]
    if any(_is_output(e, of, op) for e in added) or (added and may_be_none(kept, op.equations)):
        made.append(largest)
        largest = _bounded(largest, off.sign == 1, taken)
        off = replace(off, largest=largest.left)
        found = _taken_off(off, set(taken))
    if found is None:
        return op
    # each a statement, as what is written is: what it is of may be written over then
    made = [replace(e, free=e.left != of, given=True) for e in (*made, largest)]
    first = next(k for k, e in enumerate(found) if any(at.name in {m.name for m in made} for at in e.reads))
    rest = without_unread(replace(op, equations=(*found[:first], *made, *found[first:])), op)
    large = {n for n, e in known.items() if exponent_of(e.body) == exponent} | {total.name}
    return op if any(e.name in large and e in op.equations for e in rest.equations) else rest


def _of_all(largest: Equation, others: Iterable[Expr], taken: set[str]) -> Equation:
    """The largest of a maximum and of what stands beside the sum, or the smallest."""
    value: Expr = largest.left
    for other in others:
        value = (maximum if largest.kind == "amax" else minimum)(value, other)
    return own_equation(free_name(f"{largest.name}_of_all", taken), largest.axes, value, taken)


def _bounded(largest: Equation, is_largest: bool, taken: set[str]) -> Equation:
    """A maximum that is a number also where there is none: the least, or of a minimum the most."""
    value = maximum(largest.left, LEAST) if is_largest else minimum(largest.left, -LEAST)
    name = free_name(f"{largest.name}_or_{'least' if is_largest else 'most'}", taken)
    return own_equation(name, largest.axes, value, taken)


def without_unread(op: Op, before: Op) -> Op:
    """The op without what nothing reads any more, as exponentials that are too large."""
    while True:
        read, was = ({at.name for e in o.equations for at in e.reads} for o in (op, before))
        rest = tuple(e for e in op.equations if e.name in {*read, *op.outputs} or e.name not in was)
        if len(rest) == len(op.equations):
            return op
        op = replace(op, equations=rest)


def _maximum(exponent: Expr, total: Equation, taken: set[str]) -> Equation:
    """The largest exponent of each sum; of `-x` the smallest `x`."""
    is_minus = exponent.could_extract_minus_sign()
    reduced = Reduce("amin", -exponent, *total.over) if is_minus else Reduce("amax", exponent, *total.over)
    return own_equation(split_name(total.name, reduced, taken), total.axes, reduced, taken)


def _taken_off(off: _Off, taken: set[str]) -> list[Equation] | None:
    """The equations with all such sums less the maximum; nothing where it does not cancel, or where none reads them."""
    op = off.op
    sums = {e.name: off.taken_from(e, taken) for e in op.equations if e.name in off.sums}
    readers = [e for e in op.equations if any(at.name in sums for at in e.reads)]
    changed = {e.name: off.with_sums(e, sums) for e in readers}
    if not readers or None in changed.values():
        return None
    out: list[Equation] = []
    for e in op.equations:
        out.append(changed.get(e.name) or e)
        if e.name in sums:
            kept = e.given or e.name in op.outputs
            out[-1:] = [e, sums[e.name]] if kept else [sums[e.name]]
    return _weighed_once(out, sums[off.total.name], taken)


def _weighed_once(equations: list[Equation], total: Equation, taken: set[str]) -> list[Equation]:
    """The equations with a name for the exponentials that a sum weighs, where something else weighs them alike."""
    factors = set(Mul.make_args(total.body))
    if len(factors) == 1:
        return equations

    def weighs(f: Expr) -> bool:
        return isinstance(f, Mul) and factors <= set(f.args)

    readers = [e for e in equations if weighs(e.body) or (e.body.atoms(Mul) and any(map(weighs, e.body.atoms(Mul))))]
    if len(readers) == 1 or not all({*total.axes, *total.over} <= {*e.axes, *e.over} for e in readers):
        return equations
    name = name_of(node(total.body), taken)
    made = own_equation(name, axes_of_part(total.body, total), total.body, taken)
    out = []
    for e in equations:
        if e is readers[0]:
            out.append(made)
        body = e.body.replace(weighs, lambda f: Mul(made.left, *(g for g in f.args if g not in factors)))
        out.append(replace(e, body=body) if e in readers else e)
    return out


def _is_added(largest: Equation, e: Equation) -> bool:
    """Whether a maximum is read outside of exponentials, as logarithms leave it."""
    return any(at.name == largest.name for at in _without_exponentials(e.body).atoms(At))


def _is_output(e: Equation, exponent: Expr, op: Op) -> bool:
    """Whether a logarithm of a sum goes out, which is -oo where all exponents are, as that of 0 is.

    Not beside one of the exponents: the difference is no number then.
    """
    names = {at.name for at in exponent.atoms(At)}
    read = {at.name for at in _without_exponentials(e.body).atoms(At)}
    return e.name in op.outputs and e.kind is None and names.isdisjoint(read)


def _without_exponentials(body: Expr) -> Expr:
    return body.replace(lambda f: isinstance(f, exp), lambda f: S.One)


def may_be_none(value: Expr, equations: Iterable[Equation]) -> bool:
    """Whether all exponents may be -oo, as what a condition leaves out is."""
    plain = {e.name: e for e in equations if e.kind is None}
    read = {at.name for at in value.atoms(At)} & plain.keys()
    return value.has(S.Infinity, -S.Infinity) or any(may_be_none(plain[n].body, plain.values()) for n in read)


def _beside_in(total: Expr, sums: Collection[str]) -> list[Expr | None]:
    """The exponents of what such a sum is added to, 0 of a number and none where one is not known."""
    own = [t for t in total.args if _degree(t, sums) != 0]
    others = [t for t in total.args if t not in own] if own else []
    return [S.Zero if t.is_number else exponent_of(t) for t in others]


def _degree(term: Expr, sums: Collection[str]) -> Expr:
    """How often a product has the exponential of the maximum, once for every such sum that it is not divided by."""
    powers = (f.as_base_exp() for f in Mul.make_args(term))
    return Add(*(n for base, n in powers if isinstance(base, At) and base.name in sums))


def _exponent(e: Equation, known: Mapping[str, Equation]) -> Expr | None:
    """What the exponentials that an equation adds up are of; nothing for another equation.

    Nor for what has fewer axes than the sum and what it sums, as the tails of a row have: it is summed in another way.
    But where a condition asks for more than places, there is none.
    """
    if e.kind not in ("sum", "mean") or e.scale != 1 or not e.is_plain:
        return None
    found = exponent_of(in_full(e.body, known))
    inner = found.args[1] if isinstance(found, Where) and not found.args[0].atoms(At) else found
    whole = inner is not None and free_axes(inner) >= {*e.axes, *e.over}
    return found if whole else None


@dataclass(frozen=True)
class _Off:
    """A maximum that is taken off the exponents of a sum, and of others along the same axes with multiples of these."""

    op: Op
    total: Equation
    exponent: Expr
    named: Expr  # the exponent, by its name if it has one
    largest: At  # or the smallest of minus the exponents
    sign: Expr  # of the largest in what is taken off
    known: Mapping[str, Equation]
    weights: frozenset[Expr] = frozenset()  # factors that may be 0: what they leave out is no part of the largest
    learned: bool = False  # factors that have a gradient, also where they are 0
    others: tuple[Expr, ...] = ()  # exponents of what stands beside the sum, which the largest bounds too

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
            body = in_full(e.body, self.known)
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
        factors = Mul.make_args(in_full(e.body, self.known)) if alike and set(self.total.axes) <= set(e.axes) else ()
        return tuple(factors) if sum(exponent_of(f) == self.exponent for f in factors) == 1 else ()

    def taken_from(self, e: Equation, taken: set[str]) -> Equation:
        """Such a sum with the maximum taken off."""
        others = Mul(*(f for f in self.factors(e) if exponent_of(f) != self.exponent))
        body = others * exp(self._capped(self.named - self.sign * self.largest))
        if not e.given and e.name not in self.op.outputs:
            return replace(e, body=body)
        target = Tensor(free_name(f"{e.name}_scaled", taken, "_"), **e.target.assumptions0)
        taken.add(target.name)
        return replace(e, target=target, body=body, given=False)

    def with_sums(self, e: Equation, sums: Mapping[str, Equation]) -> Equation | None:
        """An equation with these sums in the place of those it reads; nothing where the maximum does not cancel."""
        body = in_full(e.body, self.known).replace(is_left_out, lambda f: exp(exponent_of(f)))
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
        body = in_full(self.total.body, self.known)
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
