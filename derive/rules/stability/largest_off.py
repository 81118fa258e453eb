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

from sympy import Add, And, Dummy, Expr, Mul, S, exp

from derive.ir.equations import Equation, Op, inline
from derive.ir.lowering.lower import node
from derive.ir.nodes.naming import name_of
from derive.ir.terms.axes import free_axes
from derive.ir.terms.choices import Where, unlike
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.functions import capped
from derive.ir.terms.kinks import maximum, minimum
from derive.ir.terms.names import free_name, new_name
from derive.ir.terms.reductions import Reduce
from derive.rules.splitting import axes_of_part, own_equation, split_name, without_unread
from derive.rules.stability.exponentials import (
    Shifted,
    exponent_of,
    exponentials,
    has_gradient,
    is_left_out,
    may_be_large,
    weights,
)

LEAST = -(10**30)
"""What stands for a maximum of -oo: exponentials less that are 0, where they would not be a number."""


@dataclass(frozen=True)
class _LessLargest:
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
        exponent = self.named - self.sign * self.largest
        body = others * exp(capped(exponent) if self.learned else exponent)
        if not e.given and e.name not in self.op.outputs:
            return replace(e, body=body)
        target = Tensor(new_name(f"{e.name}_scaled", taken, "_"), **e.target.assumptions0)
        return replace(e, target=target, body=body, given=False)

    def with_sums(self, e: Equation, sums: Mapping[str, Equation]) -> Equation | None:
        """An equation with these sums in the place of those it reads; nothing where the maximum does not cancel."""
        own, mark = exp(self.exponent), Dummy(positive=True)

        def marked(f: Expr) -> Expr:
            return f / own * mark if own in f.args and self.weights <= set(f.args) else f

        body = inline(e.body, self.known).replace(is_left_out, lambda f: exp(exponent_of(f)))
        body = body.replace(lambda f: isinstance(f, Mul), marked) if self.weights else body.xreplace({own: mark})
        if own in body.atoms(exp):  # without all that weighs it
            return None

        def taken(value: Expr) -> tuple[Expr, Expr] | None:
            if not isinstance(value, At) or value.name not in sums:
                return None
            new = sums[value.name]
            places = dict(zip(new.axes, value.index, strict=True))
            return At(new.target, *value.index), self.sign * self.largest.xreplace(places)

        learned = self.exponent if self.learned else None
        shifted = Shifted(taken, {self.largest.name}, self.sign, learned, self.others, self._is_more)
        value = shifted.put(body.xreplace({mark: exp(self.named)}))
        if value is None or (self.factors(e) and {own, exp(self.named)} & value.atoms(exp)):
            return None
        return replace(e, body=value)

    @property
    def _is_more(self) -> bool:
        """Whether the sum is more than exponentials: of a share of those alone the logarithm is known (log_shares)."""
        body = inline(self.total.body, self.known)
        return bool(self.others) or (isinstance(body, Mul) and bool(Mul(*weights(body)).atoms(At)))


def _beside_in(total: Expr, sums: Collection[str]) -> list[Expr | None]:
    """The exponents of what such a sum is added to, 0 of a number and none where one is not known."""
    own = [t for t in total.args if _degree(t, sums) != 0]
    others = [t for t in total.args if t not in own] if own else []
    return [S.Zero if t.is_number else exponent_of(t) for t in others]


def _degree(term: Expr, sums: Collection[str]) -> Expr:
    """How often a product has the exponential of the maximum, once for every such sum that it is not divided by."""
    powers = (f.as_base_exp() for f in Mul.make_args(term))
    return Add(*(n for base, n in powers if isinstance(base, At) and base.name in sums))


def with_largest_taken_off(op: Op) -> Op:
    """The same op with a maximum for every such sum. An op that gives the gradient of each named tensor is left."""
    for e in () if op.stepwise else op.equations:
        op = _without_largest(op, e)
    return op


def _without_largest(op: Op, total: Equation) -> Op:
    """The same op with the maximum taken off the exponents of this sum, if all that reads it is the same then.

    Not where the sum itself is wanted too, or its exponentials: they would be made twice.
    """
    if total.kind not in ("sum", "mean"):
        return op
    known = exponentials(op)
    exponent = _exponent(total, known)
    if exponent is None or not may_be_large(exponent, op):
        return op
    less = _with_others(_less(op, total, exponent, known))
    found = None if less is None else _bounded(less)
    if found is None:
        return op
    less, equations = found
    rest = without_unread(replace(op, equations=_with_made(less, equations)), op)
    large = {n for n, e in known.items() if exponent_of(e.body) == exponent} | {total.name}
    return op if any(e.name in large and e in op.equations for e in rest.equations) else rest


def _less(op: Op, total: Equation, exponent: Expr, known: Mapping[str, Equation]) -> _LessLargest:
    """The maximum of the exponents of a sum, of those that no weight of 0 leaves out."""
    weighed = frozenset(w for w in weights(inline(total.body, known)) if w.atoms(At) and not w.is_positive)
    kept = Where(And(*(unlike(w, S.Zero) for w in weighed)), exponent, -S.Infinity)
    learned, taken = any(has_gradient(w, op) for w in weighed), op.names
    if not isinstance(kept, Where):
        return _LessLargest(op, total, exponent, exponent, (_maximum(exponent, total, taken),), known, weighed, learned)
    asked = own_equation(name_of(node(kept), taken), axes_of_part(kept, total), kept, taken)  # once
    made = (asked, _maximum(asked.left, total, taken))
    return _LessLargest(op, total, exponent, asked.left, made, known, weighed, learned)


def _with_others(less: _LessLargest) -> _LessLargest | None:
    """With what is added to such sums in the maximum; None where that is not known, or another sum is not alike."""
    unlike_others = any(less.factors(e) and not less.is_alike(e) for e in less.op.equations)
    if unlike_others or less.total.name not in less.sums:  # what one leaves out is in the other
        return None
    beside = less.beside()
    if not beside:
        return None if beside is None else less
    value: Expr = less.largest
    for other in beside:
        value = (maximum if less.is_largest else minimum)(value, less.sign * other)
    return _made(less, f"{less.largest.name}_of_all", value, beside)


def _bounded(less: _LessLargest) -> tuple[_LessLargest, list[Equation]] | None:
    """The equations less the maximum, which is a number also where there is none, if it is added somewhere.

    There it is the least, or of a minimum the most.
    """
    found = _taken_off(less, less.taken)
    added = [e for e in found or () if _is_added(less.largest, e)]
    if any(_is_output(e, less) for e in added) or (added and may_be_none(less.chosen, less.op.equations)):
        value = maximum(less.largest, LEAST) if less.is_largest else minimum(less.largest, -LEAST)
        less = _made(less, f"{less.largest.name}_or_{'least' if less.is_largest else 'most'}", value, less.others)
        found = _taken_off(less, less.taken)
    return None if found is None else (less, found)


def _made(less: _LessLargest, name: str, value: Expr, others: tuple[Expr, ...]) -> _LessLargest:
    """With another maximum, of the one that it has and something else."""
    own = own_equation(free_name(name, less.taken), less.made[-1].axes, value, less.taken)
    return replace(less, made=(*less.made, own), others=others)


def _with_made(less: _LessLargest, equations: list[Equation]) -> tuple[Equation, ...]:
    """The equations with what makes the maximum before the first that reads it.

    Each is a statement, as what is written is: what it is of may be written over then.
    """
    made = [replace(e, free=e.left != less.of, given=True) for e in less.made]
    names = {e.name for e in made}
    first = next(k for k, e in enumerate(equations) if any(at.name in names for at in e.reads))
    return (*equations[:first], *made, *equations[first:])


def _maximum(exponent: Expr, total: Equation, taken: set[str]) -> Equation:
    """The largest exponent of each sum; of `-x` the smallest `x`."""
    is_minus = exponent.could_extract_minus_sign()
    reduced = Reduce("amin", -exponent, *total.over) if is_minus else Reduce("amax", exponent, *total.over)
    return own_equation(split_name(total.name, reduced, taken), total.axes, reduced, taken)


def _taken_off(off: _LessLargest, taken: set[str]) -> list[Equation] | None:
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


def _is_added(largest: At, e: Equation) -> bool:
    """Whether a maximum is read outside of exponentials, as logarithms leave it."""
    return any(at.name == largest.name for at in _without_exponentials(e.body).atoms(At))


def _is_output(e: Equation, less: _LessLargest) -> bool:
    """Whether a logarithm of a sum goes out, which is -oo where all exponents are, as that of 0 is.

    Not beside one of the exponents: the difference is no number then.
    """
    names = {at.name for at in less.of.atoms(At)}
    read = {at.name for at in _without_exponentials(e.body).atoms(At)}
    return e.name in less.op.outputs and e.kind is None and names.isdisjoint(read)


def _without_exponentials(body: Expr) -> Expr:
    return body.replace(lambda f: isinstance(f, exp), lambda f: S.One)


def may_be_none(value: Expr, equations: Iterable[Equation]) -> bool:
    """Whether all exponents may be -oo, as what a condition leaves out is."""
    plain = {e.name: e for e in equations if e.kind is None}
    read = {at.name for at in value.atoms(At)} & plain.keys()
    return value.has(S.Infinity, -S.Infinity) or any(may_be_none(plain[n].body, plain.values()) for n in read)


def _exponent(e: Equation, known: Mapping[str, Equation]) -> Expr | None:
    """What the exponentials that an equation adds up are of; nothing for another equation.

    Nor for what has fewer axes than the sum and what it sums, as the tails of a row have: it is summed in another way.
    But where a condition asks for more than places, there is none.
    """
    if e.scale != 1 or not e.is_plain:
        return None
    found = exponent_of(inline(e.body, known))
    inner = found.args[1] if isinstance(found, Where) and not found.args[0].atoms(At) else found
    whole = inner is not None and free_axes(inner) >= {*e.axes, *e.over}
    return found if whole else None
