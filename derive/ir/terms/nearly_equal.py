"""Sums of which one leaves nearly nothing of the other: `sum(s) - sum(s**2)` where each `s` is close to 1.

Summed as `s - s**2` each difference is rounded once, by what it is itself; of two sums, by what they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sympy import Add, Expr

from derive.ir.terms.elements import At
from derive.ir.terms.functions import having
from derive.ir.terms.products import factors_of
from derive.ir.terms.reductions import Sigma
from derive.primitives import row

_WITHIN_ONE: Any = (*having(lambda r: r.is_within_one), At)


def is_part(factor: Expr) -> bool:
    """Whether a factor leaves at most all of what it multiplies, and at least nothing: `tanh(x)**2`, `sigmoid(x)`.

    So does the square of a tensor for all that is known: what it is of may be such a function.
    """
    return factor != 1 and all(
        e.is_Integer
        and e > 0
        and isinstance(b, _WITHIN_ONE)
        and (e.is_even or b.is_nonnegative or row(type(b).__name__).low >= 0)
        for b, e in factor.as_powers_dict().items()
    )


def greater_of_differences(expr: Expr) -> frozenset[Sigma]:
    """The sums of an expression from which a part of all they sum is taken: `sum(s)` of `c*sum(s) - c*sum(s*t)`."""
    found: dict[Expr, list[tuple[Expr, Sigma]]] = {}
    for term in Add.make_args(expr):
        sums = factors_of(term, Sigma)
        if len(sums) == 1:
            number, outer = (term / sums[0]).as_coeff_Mul()
            found.setdefault(outer, []).append((number, sums[0]))
    return frozenset(
        s for members in found.values() for number, s in members if _has_its_part(s, number, members)
    )


def _has_its_part(whole: Sigma, number: Expr, members: Iterable[tuple[Expr, Sigma]]) -> bool:
    return any(
        n == -number and s.over == whole.over and is_part(s.body / whole.body) for n, s in members if s != whole
    )

