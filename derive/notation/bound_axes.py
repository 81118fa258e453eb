"""A sum runs over the axis of what it reads: `sum(exp(z[n, j]), over=j)` of a `z[n, c]` is the sum over `c`.

On paper a sum in the denominator has an index of its own. As another axis of the same length it would hide that what is
summed is what stands above the line, and that the shares sum to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sympy import Basic, Expr

from derive.ir.equations import Equation, Operand
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.elements import Tensor, reads_of

_Declared = Mapping[str, tuple[Tensor, tuple[Expr, ...]]]


def over_own_axes(equations: Sequence[Equation], operands: Iterable[Operand], declared: _Declared) -> list[Equation]:
    """The equations without axes that are only summed over, and stand for one and the same axis of what they index."""
    kept = {a for o in operands for a in (*o.axes, *o.declared, o.ranges_over)}
    out = list(equations)
    for bound in dict.fromkeys(a for e in equations for a in e.over if a not in kept):
        axis = _own_axis(bound, out, declared)
        if axis is not None:
            out = [e.substituted({bound: axis, Size(bound): Size(axis)}) for e in out]
    return out


def _own_axis(bound: Axis, equations: Sequence[Equation], declared: _Declared) -> Axis | None:
    """The axis of all tensors that an axis indexes, where it does nothing else than being summed over."""
    found: set[Basic] = set()
    for e in equations:
        if bound not in e.over:
            if bound in e.axes or {bound, Size(bound)} & (e.body.atoms(Axis, Size) | e.scale.atoms(Axis, Size)):
                return None
            continue
        reads = reads_of(e.body)  # those in an index among them
        here = [(at, k) for at in reads for k, i in enumerate(at.index) if bound in i.atoms(Axis) and i not in reads]
        if not here or any(at.index[k] != bound for at, k in here):
            return None
        found |= {declared[at.name][1][k] for at, k in here}
    axis = found.pop() if len(found) == 1 else None
    if not isinstance(axis, Axis) or axis.is_pack or bound.is_pack or bound.fixed not in (None, axis.fixed):
        return None
    beside = (e for e in equations if bound in e.over)
    return axis if all(axis not in {*e.axes, *e.over, *free_axes(e.body)} for e in beside) else None
