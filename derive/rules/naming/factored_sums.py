"""The distributive law over the equations of a spec: the part of a sum that few factors have is a sum by itself.

- What a product of matrices is multiplied with or divided by place by place stands outside of it, where that is less:
  `sum(a[t, s] / z[t] * v[s, e], over=s)` is `sum(a[t, s] * v[s, e], over=s) / z[t]`. A matrix of scores is not divided,
  nor made a second time for it, and what is summed is divided as it stands. So are gradients: `dy / z` meets both.
- A sum over several axes is taken first over those that a factor lacks: `sum(w[n] * x[n, d]**2, over=(n, d))` is
  `sum(w[n] * s[n], over=n)` with `s[n] = sum(x[n, d]**2, over=d)`. What it weighs is then smaller, and `s` is the
  gradient of `w`, which the backward would sum again.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Expr, Mul

from derive.facts.interpreter import signs
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, Tensor
from derive.ir.terms.names import new_name
from derive.ir.terms.reductions import Reduce
from derive.rules.splitting import order_axes, own_equation, split_name


def with_factors_outside(op: Op) -> Op:
    """The same op with such factors behind the sums of which they are factors."""
    lengths, names = nominal(op), op.names
    equations: list[Equation] = []
    for e in op.equations:
        if outside := _outside(e, lengths):
            body = e.body / Mul(*outside)
            target = Tensor(new_name(f"{e.name}_sum", names), **signs(Reduce("sum", body, *e.over)))
            equations.append(replace(e, target=target, index=e.axes, body=body, given=False))
            e = replace(e, body=Mul(*outside) * equations[-1].left, kind=None, over=())
        equations.append(e)
    return replace(op, equations=tuple(equations))


def _outside(e: Equation, lengths: Nominal) -> list[Expr]:
    """The factors that stand outside of a product of matrices; none, of other sums."""
    if e.kind != "sum" or e.scale != 1 or e.target.is_integer or e.first or e.free:
        return []
    factors = Mul.make_args(e.body)
    outside = [f for f in factors if f.atoms(At) and not free_axes(f) & set(e.over) and not f.has(Where, Delta)]
    matrices = {free_axes(f) for f in factors if f not in outside and f.atoms(At)}
    if len(matrices) < 2 or not all(set(e.over) & m and m - set(e.over) for m in matrices):
        return []
    result = lengths.weighted(a.name for a in e.axes)
    sizes = {f: [lengths.weighted(a.name for a in m) for m in matrices if free_axes(f) <= m] for f in outside}
    return [f for f, own in sizes.items() if own and result < min(own)]


def name_inner_sums(op: Op, fused: bool = False) -> Op:
    """The same op with inner sums as equations of their own; where loops are `fused`, tensors' weights alone."""
    taken = op.names
    out: list[Equation] = []
    for equation in op.equations:
        inner = _inner(equation, fused)
        if inner is not None:
            own = equation.name if equation.given else equation.name.removesuffix(f"_{equation.kind}")
            axes = order_axes(free_axes(inner.body) - set(inner.over), (*equation.axes, *equation.over))
            out.append(own_equation(split_name(own, inner, taken), axes, inner, taken))
            rest = tuple(a for a in equation.over if a not in inner.over)
            equation = replace(equation, body=equation.body / inner.body * out[-1].left, over=rest)
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
