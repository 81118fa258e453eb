"""Law: a sum over several axes is taken first over those that a factor lacks: what it weighs is then smaller.

`sum(w[n] * x[n, d]**2, over=(n, d))` is `sum(w[n] * s[n], over=n)` with `s[n] = sum(x[n, d]**2, over=d)`: nothing as
large as `x` is multiplied by `w`, and `s` is the gradient of `w`, which the backward would sum again.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Expr, Mul

from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta
from derive.ir.terms.reductions import Reduce
from derive.rules.splitting import order_axes, own_equation, split_name


def name_inner_sums(op: Op, fused: bool = False) -> Op:
    """The same op with such inner sums as equations of their own; where loops are `fused`, tensors' weights alone."""
    taken = op.names
    out: list[Equation] = []
    for equation in op.equations:
        inner = _inner(equation, fused)
        if inner is not None:
            own = equation.name if equation.given else equation.name.removesuffix(f"_{equation.kind}")
            axes = order_axes(free_axes(inner.body) - set(inner.over), (*equation.axes, *equation.over))
            out.append(own_equation(split_name(own, inner, taken), axes, inner, taken))
            rest = tuple(a for a in equation.over if a not in inner.over)
            body = equation.body / inner.body * out[-1].left
            equation = replace(equation, body=body, over=rest)
        out.append(equation)
    return replace(op, equations=tuple(out))


def _inner(equation: Equation, fused: bool) -> Reduce | None:
    """The sum that stands first in an equation; None where every factor has all summed axes, or none has all axes."""
    if equation.kind not in ("sum", "mean") or not equation.is_plain:
        return None
    factors, axes = Mul.make_args(equation.body), free_axes(equation.body)
    whole = [f for f in factors if free_axes(f) == axes]
    light = [f for f in factors if f not in whole]
    over = tuple(a for a in equation.over if not any(a in free_axes(f) for f in light))
    if not whole or not 0 < len(over) < len(equation.over) or not all(map(_is_plain, factors)):
        return None
    if fused and not any(f.atoms(At) for f in light):  # a place is at hand in a loop
        return None
    return Reduce(equation.kind, Mul(*whole), *over)


def _is_plain(factor: Expr) -> bool:
    """Whether a factor reads no windows and chooses nothing: these have ways of their own to be summed."""
    return not factor.atoms(Where, Delta) and all(isinstance(i, Axis | At) for at in factor.atoms(At) for i in at.index)
