"""Deltas as positions: where a term that has some stands along each axis of its definition, and its value there."""

from __future__ import annotations

from collections.abc import Iterable

from sympy import Add, Expr, Mul, S

from derive.ir.algebra import normal, opened_by_name
from derive.ir.lowering import lower
from derive.ir.nodes.walking import index_axes
from derive.ir.program import Index, Node, Read
from derive.ir.program import Reduce as NodeReduce
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import Delta
from derive.ir.terms.products import factors_of, without
from derive.ir.terms.reductions import Reduce, Sigma
from derive.schedule.definitions import Definition


def slots_of(d: Definition, term: Expr) -> tuple[tuple[Expr, ...], Expr]:
    """Where a term with deltas stands along each axis of the definition, and its value there."""
    body, outer = term, S.One
    for s in factors_of(term, Sigma):
        if has_delta(s):
            body, outer = s, term / s
    if isinstance(body, Sigma):
        body, _ = opened_by_name(body, set(d.axes) | _bound(outer))
        body = body * outer
    slots: dict[Axis, Expr] = {}
    while True:
        deltas = [(f, _slot(f, d.axes, slots)) for f in factors_of(body, Delta)]
        used = next(((f, *found) for f, found in deltas if found is not None), None)
        if used is None:
            return tuple(slots.get(a, a) for a in d.axes), body
        delta, axis, other = used
        slots = {a: i.xreplace({axis: other}) for a, i in slots.items()} | {axis: other}
        body = Mul(*(g for g in Mul.make_args(body) if g != delta)).xreplace({axis: other})


def _bound(expr: Expr) -> set[Axis]:
    """The axes that sums and means in an expression run over: what is put into one must not have such an axis free."""
    sums = {a for s in expr.atoms(Sigma) for a in s.over}
    return sums | {a for r in expr.atoms(Reduce) for a in r.over}


def spread_over(slots: tuple[Expr, ...]) -> set[Axis]:
    """The axes over which values stand at these places."""
    return {a for i in slots for a in free_axes(i)}


def places_meet(slots: Iterable[Index]) -> bool:
    """Whether many places may be added to one: what says where is read along none of the axes where they stand.

    Then they are added to zeros first: float32 would lose the digits of many small terms that are added to something
    large one by one. In `dp[n, y[n, k]]` a few are, of one row.
    """
    slots = tuple(slots)
    reading = {a for i in slots if isinstance(i, Read) for a in index_axes(i)}
    return bool(reading) and reading.isdisjoint(slots)


def _slot(delta: Delta, axes: tuple[Axis, ...], slots: dict[Axis, Expr]) -> tuple[Axis, Expr] | None:
    for one, other in (delta.args, delta.args[::-1]):
        later = other in axes and axes.index(other) > axes.index(one) if one in axes else False
        if one in axes and one not in slots and one not in free_axes(other) and not later:
            return one, other
    return None  # a comparison of two values, which masks, such as `delta(ix[n, d], d)`


def has_delta(expr: Expr) -> bool:
    """Whether a term is put into its places by a delta, its own or that of a sum in it."""
    return bool(factors_of(expr, Delta)) or any(factors_of(s.body, Delta) for s in factors_of(expr, Sigma))


def every_place(d: Definition, spread: list[Expr]) -> tuple[Axis, list[Expr]] | None:
    """An axis of fixed length and the value at each of its places, where the terms stand at all of them."""
    values: dict[int, Expr] = {}
    found: set[Axis] = set()
    for term in spread:
        deltas, rest = factors_of(term, Delta), without(term, Delta)
        if len(deltas) != 1 or any(has_delta(t) for t in Add.make_args(rest)):
            return None
        place, axis = sorted(deltas[0].args, key=lambda a: not a.is_Integer)
        if not place.is_Integer or axis not in d.axes:
            return None
        found.add(axis)
        values[int(place)] = normal(rest.xreplace({axis: place}))
    if len(found) != 1:
        return None
    (axis,) = found
    return (
        (axis, [values[k] for k in range(len(values))])
        if axis.fixed and set(values) == set(range(axis.fixed))
        else None
    )


def grouped(terms: list[Expr]) -> list[Expr]:
    """Terms at the same positions as one: `delta*a + delta*b = delta*(a + b)`.

    What a sum puts at places along another axis too has positions of its own.
    """
    groups: dict[Expr, list[Expr]] = {}
    alone: list[Expr] = []
    for term in terms:
        deltas = Mul(*factors_of(term, Delta))
        if deltas == 1 or has_delta(term / deltas):
            alone.append(term)
        else:
            groups.setdefault(deltas, []).append(term / deltas)
    return [Mul(*Mul.make_args(deltas), Add(*rest), evaluate=False) for deltas, rest in groups.items()] + alone


def value_at_places(kind: str, slots: tuple[Expr, ...], value: Expr, over: tuple[Axis, ...]) -> Node:
    """The values at the places as a node, reduced first over the axes that the places do not have."""
    spread = {a for i in slots for a in free_axes(i)}
    rest = tuple(a.name for a in over if a not in spread)
    return NodeReduce(kind, rest, lower.node(value)) if rest else lower.node(value)
