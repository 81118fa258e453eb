"""What a choice keeps where an axis meets another, or an index, is computed at these places alone.

`where(eq(i, j), exp(x[i, j]), 0)` is `delta(i, j) * exp(x[i, i])`, and `where(eq(c, y[n]), f(z[n, c]), g(z[n, c]))` is
`g(z[n, c])` elsewhere, and `f(z[n, y[n]])` at `y[n]`. As it is written both values would be computed everywhere, and so
would the gradients of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sympy import Add, Basic, Eq, Expr, Function, Ge, Gt, Le, Lt, Mul, Ne, S, expand, oo, zoo

from derive.facts.lengths.requirements import lengths_agreed
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import Concat, Where
from derive.ir.terms.elements import At, Delta
from derive.ir.terms.reductions import Reduce
from derive.rules.index.asked_places import Ranges, indices_inside, places_named

_Meeting = tuple[Axis, Expr]
"""An axis, and what it meets: another axis, or the place that an index names."""


def computed_where_they_meet(op: Op) -> Op:
    """The same op with such choices as what holds elsewhere, and a delta times what holds there."""
    inside = {name for name, _ in indices_inside(op)}  # an index of -100 may name no place, and reads nothing then
    ranges: Ranges = {o.name: o.ranges_over for o in op.operands if o.kind == "index" and o.name in inside}
    length = lengths_agreed(op.operands, op.equations, op.sizes)
    found = tuple(_said(e, ranges, length) if e.kind is None and not e.target.is_integer else e for e in op.equations)
    return replace(op, equations=found)


def _said(e: Equation, ranges: Ranges, length: Callable[[Expr], Expr]) -> Equation:
    """The equation with each term that asks of such a meeting in two."""
    terms = []
    for term in Add.make_args(e.body):
        asked = dict.fromkeys(_asked(term, ranges))
        one = next(iter(asked), None) if len(asked) == 1 else None
        terms.append(_apart(term, one) if one is not None and _may_be_read(one, e, length) else term)
    return replace(e, body=Add(*terms))


def _asked(value: Expr, ranges: Ranges) -> Iterator[_Meeting]:
    """What is asked for by the choices among the factors of a product, and by those that are their values."""
    if isinstance(value, Where | Delta):
        condition = value.condition if isinstance(value, Where) else Eq(*value.args)
        i, j = condition.args if isinstance(condition, Eq | Ne) else (None, None)
        if isinstance(i, Axis) and isinstance(j, Axis):
            yield max(i, j, key=str), min(i, j, key=str)
        elif i is not None:
            yield from places_named(Eq(i, j), ranges)
    for part in value.args[1:] if isinstance(value, Where) else value.args if isinstance(value, Mul) else ():
        yield from _asked(part, ranges)


def _may_be_read(meeting: _Meeting, e: Equation, length: Callable[[Expr], Expr]) -> bool:
    """Whether what is read along an axis may be read where it meets the other."""
    axis, other = meeting
    if not {axis} | free_axes(other) <= set(e.axes):
        return False
    return not isinstance(other, Axis) or length(Size(axis)) == length(Size(other))


def _apart(term: Expr, meeting: _Meeting) -> Expr:
    """A term as what holds elsewhere and a delta times what holds there; as it is where that saves nothing."""
    elsewhere, there = (_told(term, meeting, holds) for holds in (False, True))
    left, value = _at(elsewhere, meeting), _at(there, meeting)
    if left is None or value is None or not value.atoms(At) or value == -left:
        return term
    if isinstance(meeting[1], At) and not elsewhere.atoms(Function):  # one value a row is put into what is at hand
        return term
    delta = Delta(*meeting)
    more = expand(value - left)
    if not left.has(oo, -oo, zoo) and not more.atoms(At):
        return elsewhere + delta * more
    return (elsewhere if left == 0 else Where(Ne(*meeting), elsewhere, S.Zero)) + delta * value


def _told(value: Expr, meeting: _Meeting, holds: bool) -> Expr:
    """What is chosen where they meet, or elsewhere."""
    if isinstance(value, Mul):
        return Mul(*(_told(f, meeting, holds) for f in value.args))
    if isinstance(value, Delta) and set(value.args) == set(meeting):
        return S.One if holds else S.Zero
    if not isinstance(value, Where):
        return value
    condition, *branches = value.args
    branches = [_told(b, meeting, holds) for b in branches]
    if isinstance(condition, Eq | Ne) and set(condition.args) == set(meeting):
        return branches[0 if isinstance(condition, Eq) == holds else 1]
    return Where(condition, *branches)


def _at(value: Expr, meeting: _Meeting) -> Expr | None:
    """A value where they meet; None where that is not told by putting one place for the other."""
    axis, other = meeting
    if value.has(Reduce, Concat) or any(not _is_plain(at, axis) for at in value.atoms(At)):
        return None
    return _put(value, axis, other)


def _is_plain(at: At, axis: Axis) -> bool:
    """Whether an element is read at a place of an axis, if at all, not one counted from it or merged of it."""
    return all(i == axis or isinstance(i, At) or axis not in free_axes(i) for i in at.index)


def _put(value: Basic, axis: Axis, other: Expr) -> Expr:
    """A value with one place for the other, and what is chosen by which is before the other."""
    compared = isinstance(value, Where) and isinstance(value.condition, Eq | Ne | Lt | Le | Gt | Ge)
    if compared and set(value.args[0].args) == {axis, other}:
        return _put(value.args[1 if isinstance(value.args[0], Eq | Le | Ge) else 2], axis, other)
    if isinstance(value, Size) or not value.args or axis not in free_axes(value):
        return other if value == axis else value
    return value.func(*(_put(a, axis, other) for a in value.args))
