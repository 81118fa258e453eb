"""Law: a sum with a multiple of a tensor is a multiple of the sum: of `y = g*x/r`, `sum(dy*y)` is `g/r * sum(dy*x)`.

Where `x` is read in any case, `y` need not be kept for this; and `dg = sum(dy*x/r)` starts from the same sum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from sympy import Expr, Mul

from derive.ir.algebra import substitute
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At, Scalar, tensor_names
from derive.ir.terms.reductions import Sigma
from derive.schedule.definitions import Definition


def sums_of_multiples(
    definitions: list[Definition], op: Op, kept: Collection[str]
) -> Iterator[tuple[list[Definition], str]]:
    """The definitions without a tensor that they read in sums alone, by way of one that is kept beside it."""
    for e in reversed(op.equations):
        whole = _multiple_of(e) if e.name in kept else None
        if whole is None or whole.name not in kept:
            continue
        of = {e.name: (e.axes, e.body)}
        changed = [replace(d, value=_in_sums(d.value, of)) for d in definitions]
        if not any(e.name in tensor_names(d.value) for d in changed):
            yield changed, f"{e.left} = {e.body}"


def _in_sums(value: Expr, of: dict[str, tuple[tuple[Axis, ...], Expr]]) -> Expr:
    """The value with the multiple written out where it stands in a sum."""
    put = {s: substitute(s, of) for s in value.atoms(Sigma) if tensor_names(s) & set(of)}
    return value.xreplace(dict(put)) if put else value


def _multiple_of(equation: Equation) -> At | None:
    """The tensor over all axes of an equation that is it times what has fewer, element by element."""
    if equation.kind is not None or not equation.is_plain or equation.first:
        return None
    factors = [f for f in Mul.make_args(equation.body) if not f.is_Number]
    whole = [f for f in factors if free_axes(f) == set(equation.axes)]
    if len(factors) == 1 or len(whole) != 1 or not isinstance(whole[0], At):
        return None
    return whole[0] if all(isinstance(f.as_base_exp()[0], At | Scalar) for f in factors) else None
