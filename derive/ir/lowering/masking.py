"""Factors that are 0 by places alone: what they multiply is chosen, or left out, not multiplied by 0 or 1.

`(1 - delta(i, j)) * c[i, j]**2` is `where(i != j, c[i, j]**2, 0)`, and so is `where(i != j, c[i, j], 0) * c[i, j]`.
What is infinite there is left out as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Add, Basic, Eq, Expr, Function, Pow, S, exp, log
from sympy.logic.boolalg import Boolean, Not

from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, Scalar


@dataclass(frozen=True)
class Masked:
    """A product's conditions, outermost last, and the factors that are multiplied where all of them hold."""

    conditions: tuple[Boolean, ...]
    factors: tuple[Expr, ...]


def masked(factors: list[Expr], beside: set[Axis] | None) -> Masked:
    """The factors with what masks them apart; a choice between something and 0 gives way where it asks of all their
    axes and of those of what is multiplied `beside` (None: not known), and where another factor may be infinite.
    """
    infinite = any(map(may_be_infinite, factors))
    axes = None if beside is None else beside.union(*(free_axes(f) for f in factors))
    conditions: list[Boolean] = []
    rest: list[Expr] = []
    for f in factors:
        condition, value = _apart(f)
        if condition is None and infinite and is_or_nothing(f) and f.args[2] == 0:
            condition, value = f.args[:2]
            if condition not in conditions:
                conditions.append(condition)
            rest.append(value)
        elif condition is None or (value != 1 and not (free_axes(f) == free_axes(condition) == axes)):
            rest.append(f)
        else:
            conditions.append(condition)
            rest += [value] if value != 1 else []
    return Masked(tuple(conditions), tuple(rest))


def is_or_nothing(factor: Expr) -> bool:
    """Whether a factor is a choice between something, or 1, and 0."""
    return isinstance(factor, Where) and S.Zero in factor.args[1:]


def may_be_infinite(factor: Expr) -> bool:
    """Whether a factor of a product may be infinite where all tensors are finite."""
    base, exponent = factor.as_base_exp()
    if isinstance(factor, exp | log):
        return factor.has(At)
    return bool(exponent.is_negative and base.has(At) and not base.is_positive)


def _apart(factor: Expr) -> tuple[Boolean | None, Expr]:
    """When a factor is not 0, and what it is then; None and the factor where values decide, or nothing does."""
    if isinstance(factor, Where) and factor.is_mask:
        return factor.condition, S.One
    if isinstance(factor, Delta) and all(isinstance(i, Axis) for i in factor.args):
        return Eq(*factor.args), S.One
    if isinstance(factor, Where) and _is_of_places(factor.condition):
        if factor.args[2] == 0:
            return factor.condition, factor.args[1]
        if factor.args[1] == 0:
            return Not(factor.condition), factor.args[2]
    if isinstance(factor, Add) and len(factor.args) == 2 and S.One in factor.args:
        condition, value = _apart(1 - factor)
        if condition is not None and value == 1 and _is_of_places(condition):
            return Not(condition), S.One
    return None, factor


def _is_of_places(condition: Basic) -> bool:
    """Whether a condition compares whole numbers, so that it or its negation holds: of nan neither does."""
    return not condition.atoms(At, Scalar, Function, Pow)

