"""What a spec writes twice is one tensor: a part that is another, but for the names of axes, is read as that.

`amax(x[n, d], over=d)` inside two equations, or `mean(x[n, d], over=n)` beside `mean(x[n, e], over=n)`, would be two
tensors, both kept, of which no relation says that they are the same. What the author has named twice stays; what ops
that are called have inside is no name of the author's. A function that has a name is read by it wherever it stands:
`sum(exp(x[n, c] - m[n]), over=c)` where `u[n, c] = exp(x[n, c] - m[n])`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product

from sympy import Expr, Function

from derive.decisions import TWIN_AXES_IN_ALL_ORDERS
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At


def one_of_each(op: Op) -> Op:
    """The same op without what was split off of it a second time, or of what has a name."""
    named = {e.name for e in op.equations if (e.given and not e.called) or e.name in op.outputs}
    equations = _by_name(list(op.equations))
    while (pair := next(_pairs(equations, named), None)) is not None:
        first, second, order = pair
        at = equations.index(first)
        equations.remove(second)
        if second.name in named:
            equations[at] = second
            order = tuple(order.index(k) for k in range(len(order)))
            first, second = second, first
        equations = _by_name([_reading(e, second, first, order) for e in equations])
    return replace(op, equations=tuple(equations))


def _by_name(equations: list[Equation]) -> list[Equation]:
    """The equations with functions by the names that earlier ones give them."""
    out: list[Equation] = []
    names: dict[Expr, Expr] = {}
    for e in equations:
        twin = (e.kind is None and e.body in names) or e.target.is_integer  # one of them goes, or both are the author's
        out.append(e if twin else replace(e, body=e.body.xreplace(names)))
        if isinstance(e.body, Function) and not isinstance(e.body, Where) and e.names_its_body:
            names.setdefault(out[-1].body, e.left)
    return out


def _pairs(equations: list[Equation], named: set[str]) -> Iterator[tuple[Equation, Equation, tuple[int, ...]]]:
    """Two equations of one tensor, and for each axis of the first where the second has it."""
    for k, second in enumerate(equations):
        for first in equations[:k]:
            if {first.name, second.name} <= named:
                continue
            order = _same(first, second)
            if order is not None:
                yield first, second, order


def _same(first: Equation, second: Equation) -> tuple[int, ...] | None:
    """For each axis of the first where the second has it, if both define the same tensor; None if they do not."""
    if not _is_plain(first) or not _is_plain(second) or _kind(first) != _kind(second):
        return None
    for order, inner in product(_orders(len(first.axes)), _orders(len(first.over))):
        ours = (*first.axes, *first.over)
        theirs = (*(second.axes[k] for k in order), *(second.over[k] for k in inner))
        names: dict[Expr, Expr] = dict(zip(ours, theirs, strict=True))
        alike = first.body.xreplace(names) == second.body and first.scale.xreplace(names) == second.scale
        if alike and all(_as_long(a, b, first) for a, b in zip(ours, theirs, strict=True)):
            return order
    return None


def _is_plain(e: Equation) -> bool:
    return e.is_plain and e.kind != "concat" and e.ties is None and not e.target.is_integer


def _kind(e: Equation) -> tuple[object, ...]:
    """What equations of one tensor have in common at least; through one that cancels no gradient goes."""
    return e.kind, e.free, len(e.axes), len(e.over), {at.tensor for at in e.reads}


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    return permutations(range(count)) if count <= TWIN_AXES_IN_ALL_ORDERS else iter([tuple(range(count))])


def _as_long(a: Axis, b: Axis, e: Equation) -> bool:
    """Whether an axis of the equation is as long as another with which its body reads the same: of one dimension."""
    return a == b or (a.fixed == b.fixed and not a.is_pack and not b.is_pack and any(a in at.index for at in e.reads))


def _reading(e: Equation, gone: Equation, kept: Equation, order: tuple[int, ...]) -> Equation:
    """The equation with one tensor read in the place of another."""
    reads = {at: At(kept.target, *(at.index[k] for k in order)) for at in e.reads if at.tensor == gone.target}
    return replace(e, body=e.body.xreplace(reads)) if reads else e
