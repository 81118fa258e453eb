"""What is computed into merged axes is a tensor over these axes, and a copy: `xhat[n, (g, k)] = (z[n, g, k] - mu[n, g])
* rstd[n, g]` has an equation for each, as one who names `zhat[n, g, k]` writes it.

A law of the equation speaks of axes, and `zhat` is what the backward keeps; the copy only looks at it.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import S

from derive.facts.interpreter import signs
from derive.ir.equations import Equation, Op
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.names import new_name


def merged_apart(op: Op) -> Op:
    """The same op with each computation into merged axes as an equation of its own."""
    taken = op.names
    out: list[Equation] = []
    for equation in op.equations:
        if not _computes(equation):
            out.append(equation)
            continue
        name = new_name(f"{equation.name}_apart", taken)
        made = replace(equation, target=Tensor(name, **signs(equation.target)), index=equation.axes, given=False)
        out += [made, replace(equation, body=made.left, kind=None, over=(), scale=S.One)]
    return replace(op, equations=tuple(out))


def _computes(equation: Equation) -> bool:
    if equation.is_plain or equation.target.is_integer or equation.kind == "concat":
        return False
    alone = equation.kind is None and isinstance(equation.body, At)
    return equation.is_over_axes and not alone
