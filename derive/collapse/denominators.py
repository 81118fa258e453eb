"""Law: `a/b - c/b**2 = (a*b - c)/b**2`, where that makes terms cancel: `1/(1 + u) - u/(1 + u)**2 = 1/(1 + u)**2`,
and `1/sqrt(1 + u) - u/sqrt(1 + u)**3 = 1/sqrt(1 + u)**3`. Or that makes a sum of them cancel: `u*v/(1 + u)**2 +
v/(1 + u)**2 = v/(1 + u)`.

What cancels on paper is not subtracted in numbers. `sign(u)*u` is `|u|`, so that it meets its like. Taken where it is
cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Add, Expr, Mul, Rational

from derive.ir.algebra import normal
from derive.ir.terms.kinks import absolute, sign


def cancelled(value: Expr) -> Iterator[Expr]:
    """The value with terms over one denominator, for each that leaves fewer of them."""
    terms = [_with_sizes(t) for t in Add.make_args(value)]
    below = dict.fromkeys((b, e % 1) for t in terms for b, e in _sums(t) if e < 0)  # roots and wholes apart
    for base, part in below:
        powers = {t: e for t in terms for b, e in _sums(t) if b == base and e < 0 and e % 1 == part}
        lowest, inside = min(powers.values()), list(powers)
        whole = normal(Add(*(t * base**-lowest for t in inside)))
        if len(Add.make_args(whole)) < len(inside):
            outside = (t for t in terms if t not in inside)
            yield Add(*outside, *(t * base**lowest for t in Add.make_args(whole)))
        elif (rest := _divided(whole, base)) is not None:
            yield Add(*(t for t in terms if t not in inside), *(t * base ** (lowest + 1) for t in Add.make_args(rest)))


def _divided(whole: Expr, base: Expr) -> Expr | None:
    """What a sum is times another; None where it is no multiple of it."""
    first = max(Add.make_args(base), key=lambda t: len(t.free_symbols))
    others = set(Mul.make_args(first))
    multiples = [t for t in Add.make_args(whole) if others <= set(Mul.make_args(t))]
    rest = Add(*(t / first for t in multiples))
    return rest if multiples and normal(rest * base - whole) == 0 else None


def _sums(term: Expr) -> list[tuple[Expr, Rational]]:
    """The sums among the factors of a term, each with its power, whole or of a root."""
    pairs = (f.as_base_exp() for f in Mul.make_args(term))
    return [(b, e) for b, e in pairs if isinstance(b, Add) and e.is_Rational]


def _with_sizes(term: Expr) -> Expr:
    """A product with `|u|` for `sign(u)*u`."""
    factors = Mul.make_args(term)
    for f in factors:
        if isinstance(f, sign) and f.args[0] in factors:
            return _with_sizes(term / f / f.args[0] * absolute(f.args[0]))
    return term
