"""A sum that a condition keeps from the ends of an axis runs over the places between them.

`sum(where(t + 1 < size(t), (x[n, t + 1] - x[n, t]) ** 2, 0), over=t)` is the sum over `t_inner`, which has one place
less, of the differences of two slices: nothing is computed that would be left out again.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Expr, Mul, S

from derive.facts.lengths.ends import about_one_end, ends_of
from derive.ir.equations import Equation, Op, Requirement
from derive.ir.terms.axes import Axis, Rest, Size, free_axes
from derive.ir.terms.choices import Where
from derive.rules.index.guards import without_guards
from derive.rules.index.inner_axes import InnerAxes, asked_of, without


def between_ends(op: Op) -> Op:
    """The same op with every such sum over fewer places, and the lengths of what it runs over."""
    inner = InnerAxes(op, _left)
    needs: dict[Axis, Requirement] = {}
    equations = [_shorter(e, inner, needs) for e in op.equations]
    return without_guards(op, equations, inner.sizes, needs.values()) if inner.made else op


def _shorter(e: Equation, inner: InnerAxes, needs: dict[Axis, Requirement]) -> Equation:
    """The equation over what its conditions leave of its axes."""
    if e.kind not in ("sum", "mean"):
        return e
    asked = [c for f in Mul.make_args(e.body) if isinstance(f, Where) and f.args[2] == 0 for c in asked_of(f)]
    found = [ends for a in e.over if not a.is_pack and (ends := ends_of(a, asked)) is not None]
    if not found:
        return e
    gone = [c for c in asked if free_axes(c) <= {ends.axis for ends in found} and about_one_end(c)]
    made = {ends.axis: inner.axis(ends) for ends in found}
    for ends in found:
        if ends.first + ends.last == 1 and not ends.axis.fixed:
            what = f"axis {ends.axis.base}"
            need = Requirement(inner.op.written_for(e), what, Size(ends.axis), ">=", S.One)
            needs.setdefault(made[ends.axis], need)
    places = {ends.axis: made[ends.axis] + ends.first for ends in found}
    body = Mul(*(without(f, gone) for f in Mul.make_args(e.body)))
    over = tuple(made.get(a, a) for a in e.over)
    return replace(e, body=inner.moved(body, places, gone), kind="sum", over=over, scale=e.weight)


def _left(between: Expr) -> Expr:
    """How many places are left: where one is left out, of an axis that has a place at all, which the op checks."""
    return between if between.as_coeff_Add()[0] == -1 else Rest(between)
