"""Sums of exponentials without the largest exponent, where that cancels: `exp(z)/sum(exp(z))`, `log(sum(exp(z)))`.

In float32 `exp(z)` overflows where `z` passes 88, and a whole sum underflows where all `z` lie below -104. With their
maximum `m`, `exp(z - m)` does neither. Shares of the sum and its logarithm are the same for every `m`: it is a number
that no gradient goes through. So it is of weighed sums, `sum(w*exp(z))`, and where something is added to the sum,
`exp(u) + sum(exp(z))` or `1 + sum(exp(z))`, of which `m` is the largest as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sympy import And, Expr, Mul, S, exp

from derive.ir.equations import Equation, Op, inline
from derive.ir.lowering.lower import node
from derive.ir.nodes.naming import name_of
from derive.ir.terms.axes import free_axes
from derive.ir.terms.choices import Where, unlike
from derive.ir.terms.elements import At
from derive.ir.terms.kinks import maximum, minimum
from derive.ir.terms.names import free_name
from derive.ir.terms.reductions import Reduce
from derive.rules.splitting import axes_of_part, own_equation, split_name, without_unread
from derive.rules.stability.exponentials import exponent_of, exponentials, has_gradient, may_be_large, weights
from derive.rules.stability.less_largest import LessLargest

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


def _less(op: Op, total: Equation, exponent: Expr, known: Mapping[str, Equation]) -> LessLargest:
    """The maximum of the exponents of a sum, of those that no weight of 0 leaves out."""
    weighed = frozenset(w for w in weights(inline(total.body, known)) if w.atoms(At) and not w.is_positive)
    kept = Where(And(*(unlike(w, S.Zero) for w in weighed)), exponent, -S.Infinity)
    learned, taken = any(has_gradient(w, op) for w in weighed), op.names
    if not isinstance(kept, Where):
        return LessLargest(op, total, exponent, exponent, (_maximum(exponent, total, taken),), known, weighed, learned)
    asked = own_equation(name_of(node(kept), taken), axes_of_part(kept, total), kept, taken)  # once
    made = (asked, _maximum(asked.left, total, taken))
    return LessLargest(op, total, exponent, asked.left, made, known, weighed, learned)


def _with_others(less: LessLargest) -> LessLargest | None:
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


def _bounded(less: LessLargest) -> tuple[LessLargest, list[Equation]] | None:
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


def _made(less: LessLargest, name: str, value: Expr, others: tuple[Expr, ...]) -> LessLargest:
    """With another maximum, of the one that it has and something else."""
    own = own_equation(free_name(name, less.taken), less.made[-1].axes, value, less.taken)
    return replace(less, made=(*less.made, own), others=others)


def _with_made(less: LessLargest, equations: list[Equation]) -> tuple[Equation, ...]:
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


def _taken_off(off: LessLargest, taken: set[str]) -> list[Equation] | None:
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


def _is_output(e: Equation, less: LessLargest) -> bool:
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
