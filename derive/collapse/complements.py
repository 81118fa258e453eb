"""Law: `1 - sigmoid(u) = sigmoid(-u)`: two terms become one, and nothing is lost where the sigmoid is nearly 1.

`dy * (1 - t - sigmoid(-x)) = dy * (sigmoid(x) - t)`. Taken where it is cheaper:
a second sigmoid costs more than it spares.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Add, Expr, Mul

from derive.functions import sigmoid


def complements(value: Expr) -> Iterator[Expr]:
    """The value with one pair of terms `a - a*sigmoid(u)` written as `a*sigmoid(-u)`, for each such pair."""
    terms = Add.make_args(value)
    for term in terms:
        for factor in Mul.make_args(term):
            rest = -term / factor
            if isinstance(factor, sigmoid) and rest in terms:
                yield value - term - rest + rest * sigmoid(-factor.args[0])
