"""Law: the sum of an adjoint that has a name is its sum, however it was reached: `db = sum(dz)` where `z = x @ w + b`.

Where `x @ w + b` stands inside a function, the chain rule goes to `b` and to the product apart, and both hold the same
local derivative.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Expr

from derive.algebra import normal, sigma
from derive.definitions import Definition
from derive.terms.elements import At
from derive.terms.reductions import Sigma


def by_adjoints(definition: Definition, named: list[tuple[At, Definition]]) -> Iterator[tuple[Expr, str]]:
    """The definition as a sum of each of these that it is a sum of, and what that is by definition."""
    if not definition.value.atoms(Sigma):
        return
    for left, other in named:
        over = set(other.axes) - set(definition.axes)
        if not over or not set(definition.axes) < set(other.axes) or other.value.atoms(Sigma):
            continue
        for sign in (1, -1):
            if definition.value == normal(sign * sigma(other.value, over)):
                yield sign * sigma(left, over), f"{left} = {other.value}"
