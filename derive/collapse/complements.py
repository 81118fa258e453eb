"""Law: `1 - sigmoid(u) = sigmoid(-u)`: two terms become one, and nothing is lost where the sigmoid is nearly 1.

`dy * (1 - t - sigmoid(-x)) = dy * (sigmoid(x) - t)`. Taken where it is cheaper: a second sigmoid costs more than it
spares. Where both stand, `a*sigmoid(u) + a*sigmoid(-u) = a`. So is `1 - 2*sigmoid(u) = tanh(-u/2)`, of which nothing is
lost where `u` is nearly 0. What is 1 above 0 and 1/2 there, less `sign(u)*sigmoid(-|u|)`, is `sigmoid(u)`: the gradient
of `maximum(u, 0) + log(1 + exp(-|u|))`. Of a `p = sigmoid(u)` that the forward has beside `q = sigmoid(-u)`, `1 - p` is
`q`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sympy import Add, Dummy, Expr, Mul, S, tanh

from derive.ir.equations import Op
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.functions import sigmoid
from derive.ir.terms.kinks import absolute, maximum, minimum, sign


def complements(value: Expr) -> Iterator[Expr]:
    """The value with one pair of terms `a - a*sigmoid(u)` written as `a*sigmoid(-u)`, or both as `a`, for each pair."""
    yield from _pairs(value, 1, lambda u: sigmoid(-u))
    terms = Add.make_args(value)
    for term in terms:
        for factor in (f for f in Mul.make_args(term) if isinstance(f, sigmoid)):
            other = term / factor * sigmoid(-factor.args[0])
            if other in terms:
                yield value - term - other + term / factor


def slopes(value: Expr) -> Iterator[Expr]:
    """The value with one pair of terms `a*[u > 0] - a*sign(u)*sigmoid(-|u|)` written as `a*sigmoid(u)`, for each pair.

    `[u > 0]` is the gradient of `maximum(u, 0)`, 1/2 at 0, or that of `minimum(-u, 0)`; and `[u < 0]` is `1 - [u > 0]`.
    """
    terms = Add.make_args(value)
    for term in terms:
        factors = Mul.make_args(term)
        for u in (f.args[0] for f in factors if isinstance(f, sign) and sigmoid(-absolute(f.args[0])) in factors):
            rest = -term / sign(u) / sigmoid(-absolute(u))
            for above in (_step(maximum, u), _step(minimum, -u)):
                if rest * above in terms:
                    yield value - term - rest * above + rest * sigmoid(u)
            for below in (_step(minimum, u), _step(maximum, -u)):
                if -rest * below in terms:
                    yield value - term + rest * below - rest * sigmoid(-u)


def _step(extremum: type[Expr], u: Expr) -> Expr:
    """The gradient of the larger or the smaller of a value and 0."""
    z = Dummy(real=True)
    return extremum(z, S.Zero).diff(z).xreplace({z: u})


def tangents(value: Expr) -> Iterator[Expr]:
    """The value with one pair of terms `a - 2*a*sigmoid(u)` written as `a*tanh(-u/2)`, for each such pair."""
    return _pairs(value, 2, lambda u: tanh(-u / 2))


def both_sides(op: Op) -> dict[str, Tensor]:
    """By the name of each tensor of the forward that is a sigmoid of something, the one that is it of minus that."""
    of = {(e.body.args[0], e.index): e.target for e in op.equations if isinstance(e.body, sigmoid) and e.kind is None}
    return {e.name: of[-u, index] for (u, index), e in of.items() if (-u, index) in of}


def by_other_side(value: Expr, other: Mapping[str, Tensor]) -> Iterator[Expr]:
    """The value with all pairs of terms `a - a*p` written as `a*q`, where `p + q = 1`, then with the first alone."""
    first = _one_by_other_side(value, other) if other else None
    every, following = first, first
    while following is not None:
        every, following = following, _one_by_other_side(following, other)
    yield from dict.fromkeys(v for v in (every, first) if v is not None)


def _one_by_other_side(value: Expr, other: Mapping[str, Tensor]) -> Expr | None:
    terms = Add.make_args(value)
    for term in terms:
        for p in (f.as_base_exp()[0] for f in Mul.make_args(term)):
            rest = -term / p
            if isinstance(p, At) and p.name in other and rest in terms:
                return value - term - rest + rest * At(other[p.name], *p.index)
    return None


def _pairs(value: Expr, times: int, one: Callable[[Expr], Expr]) -> Iterator[Expr]:
    terms = Add.make_args(value)
    for term in terms:
        for factor in Mul.make_args(term):
            rest = -term / factor / times
            if isinstance(factor, sigmoid) and rest in terms:
                yield value - term - rest + rest * one(factor.args[0])
