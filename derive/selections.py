"""A sum of what an index selects is a gather or a scatter, however the selection is written.

`sum(where(eq(y[n], c), p[n, c], 0), over=c)`, or with `delta(y[n], c)`, is `p[n, y[n]]`; and
`sum(where(eq(to[k], n), m[k], 0), over=k)` adds `m[k]` at `to[k]`. What is not selected reaches neither.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Eq, Expr, Mul, S

from derive.equations import Equation, Op
from derive.terms.axes import Axis, Size, free_axes
from derive.terms.choices import Where
from derive.terms.elements import At, Delta

_Ranges = dict[str, Axis | None]
"""By the name of an index tensor, the axis that its values run over."""


def selected(op: Op) -> Op:
    """The same op with every such selection as a gather, or as a delta that scatters."""
    ranges = {o.name: o.ranges_over for o in op.operands if o.kind == "index"}
    return replace(op, equations=tuple(_selected(e, ranges) for e in op.equations))


def _selected(equation: Equation, ranges: _Ranges) -> Equation:
    if equation.kind not in ("sum", "mean"):
        return equation
    factors = list(Mul.make_args(equation.body))
    for factor in factors:
        place, value = _place(factor, ranges)
        if place is None:
            continue
        axis, index = place
        rest = Mul(*(f for f in factors if f != factor), value)
        if axis in equation.over:
            return _selected(_gathered(equation, rest.xreplace({axis: index}), axis), ranges)
        if axis in equation.axes and free_axes(index) & set(equation.over) and axis not in free_axes(rest):
            return replace(equation, body=Delta(axis, index) * rest)
    return equation


def _gathered(equation: Equation, body: Expr, axis: Axis) -> Equation:
    """The sum without an axis of which one place remains."""
    over = tuple(a for a in equation.over if a != axis)
    scale = equation.scale / Size(axis) if equation.kind == "mean" else equation.scale
    if over:
        return replace(equation, body=body, over=over, scale=scale)
    return replace(equation, body=scale * body, kind=None, over=(), scale=S.One)


def _place(factor: Expr, ranges: _Ranges) -> tuple[tuple[Axis, At] | None, Expr]:
    """The axis and the index of which a factor asks whether they are equal, and what it is where they are."""
    if isinstance(factor, Delta):
        pair, value = factor.args, S.One
    elif isinstance(factor, Where) and factor.args[2] == 0 and isinstance(factor.condition, Eq):
        pair, value = factor.condition.args, factor.args[1]
    else:
        return None, factor
    for axis, index in (pair, pair[::-1]):
        if isinstance(axis, Axis) and isinstance(index, At):
            over = ranges.get(index.name)
            if over is not None and over.base == axis.base:
                return (axis, index), value
    return None, factor
