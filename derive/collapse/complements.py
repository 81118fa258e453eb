"""Law: `1 - sigmoid(u) = sigmoid(-u)`: two terms become one, and nothing is lost where the sigmoid is nearly 1.

`dy * (1 - t - sigmoid(-x)) = dy * (sigmoid(x) - t)`. Taken where it is cheaper: a second sigmoid costs more than it
spares. Where both stand, `a*sigmoid(u) + a*sigmoid(-u) = a`. So is `1 - 2*sigmoid(u) = tanh(-u/2)`, of which nothing is
lost where `u` is nearly 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sympy import Add, Expr, Mul, tanh

from derive.terms.functions import sigmoid


def complements(value: Expr) -> Iterator[Expr]:
    """The value with one pair of terms `a - a*sigmoid(u)` written as `a*sigmoid(-u)`, or both as `a`, for each pair."""
    yield from _pairs(value, 1, lambda u: sigmoid(-u))
    terms = Add.make_args(value)
    for term in terms:
        for factor in (f for f in Mul.make_args(term) if isinstance(f, sigmoid)):
            other = term / factor * sigmoid(-factor.args[0])
            if other in terms:
                yield value - term - other + term / factor


def tangents(value: Expr) -> Iterator[Expr]:
    """The value with one pair of terms `a - 2*a*sigmoid(u)` written as `a*tanh(-u/2)`, for each such pair."""
    return _pairs(value, 2, lambda u: tanh(-u / 2))


def _pairs(value: Expr, times: int, one: Callable[[Expr], Expr]) -> Iterator[Expr]:
    terms = Add.make_args(value)
    for term in terms:
        for factor in Mul.make_args(term):
            rest = -term / factor / times
            if isinstance(factor, sigmoid) and rest in terms:
                yield value - term - rest + rest * one(factor.args[0])
