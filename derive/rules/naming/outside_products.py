"""What a product of matrices is multiplied with or divided by place by place stands outside of it, where that is less.

`sum(a[t, s] / z[t] * v[s, e], over=s)` is `sum(a[t, s] * v[s, e], over=s) / z[t]`: a matrix of scores is not divided,
nor made a second time for it, and what is summed is divided as it stands. So are gradients: `dy / z` meets both.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Expr, Mul

from derive.facts.interpreter import signs
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, Tensor
from derive.ir.terms.names import new_name
from derive.ir.terms.reductions import Reduce


def with_factors_outside(op: Op) -> Op:
    """The same op with such factors behind the sums of which they are factors."""
    lengths, names, equations = nominal(op), op.names, []
    for e in op.equations:
        outside, inside = _apart(e, lengths)
        if not outside:
            equations.append(e)
            continue
        body = Mul(*inside)
        target = Tensor(new_name(f"{e.name}_sum", names), **signs(Reduce("sum", body, *e.over)))
        summed = replace(e, target=target, index=e.axes, body=body, given=False)
        equations += [summed, replace(e, body=Mul(*outside) * summed.left, kind=None, over=())]
    return replace(op, equations=tuple(equations))


def _apart(e: Equation, lengths: Nominal) -> tuple[list[Expr], list[Expr]]:
    """The factors that stand outside of a product of matrices, and those that are summed; none, of other sums."""
    factors = list(Mul.make_args(e.body))
    if e.kind != "sum" or e.scale != 1 or e.target.is_integer or e.first or e.free:
        return [], factors
    outside = [f for f in factors if f.atoms(At) and not free_axes(f) & set(e.over) and not f.has(Where, Delta)]
    inside = [f for f in factors if f not in outside]
    matrices = {free_axes(f) for f in inside if f.atoms(At)}
    contracted = len(matrices) > 1 and all(set(e.over) & m for m in matrices) and all(m - set(e.over) for m in matrices)
    if not contracted:
        return [], factors
    result = lengths.weighted(a.name for a in e.axes)
    own = {f: [lengths.weighted(a.name for a in m) for m in matrices if free_axes(f) <= m] for f in outside}
    less = [f for f, sizes in own.items() if sizes and result < min(sizes)]
    return less, [f for f in factors if f not in less]
