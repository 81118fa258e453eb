"""Law: the sum of an adjoint that has a name is its sum, however it was reached: `db = sum(dz)` where `z = x @ w + b`.

So is a multiple of it: `-4*sum(dr2)` for `2*sum(K*dK)` where `dr2 = -K*dK/2`.

Where `x @ w + b` stands inside a function, the chain rule goes to `b` and to the product apart, and both hold the same
local derivative.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Add, Expr

from derive.algebra import normal, sigma
from derive.definitions import Definition
from derive.terms.elements import At
from derive.terms.reductions import Sigma


def sums_of_adjoints(definition: Definition, named: list[tuple[At, Definition]]) -> Iterator[tuple[Expr, str]]:
    """The definition as a sum of each of these that it is a sum of, and what that is by definition."""
    if not definition.value.atoms(Sigma):
        return
    for left, other in named:
        over = set(other.axes) - set(definition.axes)
        if not over or not set(definition.axes) < set(other.axes) or other.value.atoms(Sigma):
            continue
        total = sigma(other.value, over)
        for times in _ratios(definition.value, total):
            if definition.value == normal(times * total):
                yield times * sigma(left, over), f"{left} = {other.value}"


def _ratios(value: Expr, total: Expr) -> tuple[Expr, ...]:
    """The numbers by which a term of the one may be one of the other."""
    first, others = Add.make_args(value)[0], Add.make_args(total)
    return tuple(r for t in others if t != 0 and (r := first / t).is_Rational)
