"""The factors of a product, told apart by what they are and by the axes that they depend on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from sympy import Add, Basic, Expr, Mul, exp

from derive.ir.terms.axes import Axis, free_axes

F = TypeVar("F", bound=Basic)


def factors_of(product: Expr, kind: type[F]) -> list[F]:
    """The factors of a product that are of one kind."""
    return [f for f in Mul.make_args(product) if isinstance(f, kind)]


def without(product: Expr, kind: type[Basic]) -> Expr:
    """The product of the factors that are of any other kind."""
    return Mul(*(f for f in Mul.make_args(product) if not isinstance(f, kind)))


def with_one_exponential(product: Expr) -> Expr:
    """A product with the one exponential that its exponentials are together: SymPy adds up single terms alone."""
    exponents = [f.args[0] for f in factors_of(product, exp)]
    return without(product, exp) * exp(Add(*exponents)) if len(exponents) > 1 else product


def by_axes(factors: Iterable[Expr], axes: Collection[Axis]) -> tuple[list[Expr], list[Expr]]:
    """The factors that depend on any of these axes, and those that depend on none."""
    factors, some = list(factors), set(axes)
    inside = [f for f in factors if free_axes(f) & some]
    return inside, [f for f in factors if not free_axes(f) & some]
