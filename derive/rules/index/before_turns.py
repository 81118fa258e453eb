"""A sum of what is read from the other end is taken as it lies, and turned: of `x[n, size(t) - 1 - t, d] * w[d]` over
`d` the sum of `x[n, t, d] * w[d]`, read at `size(t) - 1 - t`.

The result is no larger, and turned once; so is its gradient, which meets `x` as it lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sympy import Expr, S, expand

from derive.facts.lengths.nominal import nominal
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.names import new_name


def made_before_turns(op: Op) -> Op:
    """The same op with every such sum under a name of its own, which its equation reads from the other end."""
    taken, out = op.names, []
    for e in op.equations:
        axis = next(_turned(e, op), None)
        if axis is None:
            out.append(e)
            continue
        target = Tensor(new_name(f"{e.name}_ahead", taken), **e.target.assumptions0)
        ahead = replace(e, target=target, body=e.body.xreplace({_other_end(axis): axis}), given=False)
        out += [ahead, replace(e, body=ahead.left.xreplace({axis: _other_end(axis)}), kind=None, over=(), scale=S.One)]
    return replace(op, equations=tuple(out)) if len(out) > len(op.equations) else op


def _other_end(axis: Axis) -> Expr:
    return Size(axis) - 1 - axis


def _turned(e: Equation, op: Op) -> Iterator[Axis]:
    """The axes of a sum that everything with them reads from the other end of a dimension of that length."""
    if e.kind != "sum" or not e.is_plain or e.target.is_integer or e.first or e.free:
        return
    lengths = nominal(op)
    for axis in e.axes:
        reads = [at for at in e.reads if axis in free_axes(at)]
        rest = e.body.xreplace({at: S.One for at in reads})
        plain = bool(reads) and axis not in free_axes(rest) and all(_is_from_the_end(at, axis, op) for at in reads)
        larger = max((lengths.elements(a.base for a in free_axes(at)) for at in reads), default=0)
        if plain and lengths.elements(a.base for a in e.axes) <= larger:
            yield axis


def _is_from_the_end(at: At, axis: Axis, op: Op) -> bool:
    """Whether the axis stands in one index of an element, which counts a dimension of its own from the other end."""
    slots = [k for k, i in enumerate(at.index) if axis in free_axes(i)]
    turned = len(slots) == 1 and expand(at.index[slots[0]] - _other_end(axis)) == 0
    return turned and op.dims(at.name)[slots[0]] == axis.base
