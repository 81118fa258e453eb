"""Law: the shares of a whole add up to 1: with `z = a + b`, `c*a/z + c*b/z = c`.

The maximum under a softmax whose denominator has one term more, `z = sum(u) + exp(sink - m)`, gets the gradient
`D*sum(u)/z + D*exp(sink - m)/z - D`, which is 0. In floating point it would be rounding, and work for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Add, Expr, Mul

from derive.ir.algebra import normal
from derive.ir.equations import Equation, Op, inline
from derive.ir.terms.elements import At

Wholes = dict[str, Equation]
"""The equations that are sums, by name."""


def wholes(op: Op) -> Wholes:
    """The equations of an op that are sums of two terms or more."""
    return {e.name: e for e in op.equations if e.kind is None and e.is_plain and isinstance(e.body, Add)}


def use_wholes(value: Expr, known: Wholes) -> tuple[Expr, tuple[str, ...]]:
    """The value with every full set of shares as what they are shares of, and the sums that say so."""
    used: list[str] = []
    while (found := next(_full_sets(value, known), None)) is not None:
        why, value = found
        used.append(why)
    return value, tuple(used)


def _full_sets(value: Expr, known: Wholes) -> Iterator[tuple[str, Expr]]:
    """Each sum whose shares all stand in the value, and the value without them."""
    terms = set(Add.make_args(value))
    for term in sorted(terms, key=lambda t: t.sort_key()) if len(terms) > 1 else ():
        for factor in Mul.make_args(term):
            whole, exponent = factor.as_base_exp()
            parts = _parts(whole, known) if exponent.is_negative else ()
            shares = {term / parts[0] * p for p in parts}
            if parts and shares <= terms:
                why = f"{whole} = {Add(*parts)}" if isinstance(whole, At) else f"the shares of {whole}"
                yield why, Add(*(terms - shares), term / parts[0] * whole)


def _parts(whole: Expr, known: Wholes) -> tuple[Expr, ...]:
    """The terms of a sum that stands as it is, or under a name."""
    if isinstance(whole, At) and whole.name in known:
        return Add.make_args(normal(inline(whole, known)))
    return whole.args if isinstance(whole, Add) else ()
