"""What is divided by its own sum: `u / sum(u)`, which adds up to 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations

from sympy import Expr, Mul

from derive.decisions import AXES_IN_ALL_ORDERS
from derive.ir.equations import Equation
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At


def divisors(product: Expr, sums: Mapping[str, Equation]) -> Iterator[At]:
    """The tensors among these that a product is divided by."""
    below = (1 / f for f in Mul.make_args(product))
    return (at for at in below if isinstance(at, At) and at.name in sums)


def summed_along(value: Expr, total: At, of: Equation) -> frozenset[Axis]:
    """The axes along which a tensor adds up just this value, by the equation that says what it sums; none otherwise."""
    along, there = free_axes(value) - free_axes(total), dict(zip(of.axes, total.index, strict=True))
    if of.weight != 1 or len(along) != len(of.over) or len(along) > AXES_IN_ALL_ORDERS:
        return frozenset()
    orders = (dict(zip(of.over, order, strict=True)) for order in permutations(along))
    return frozenset(along) if any(of.body.xreplace(there | order) == value for order in orders) else frozenset()
