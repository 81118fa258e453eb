"""A decimal in a spec is the fraction it was written as: 0.5 is 1/2, 0.044715 is 8943/200000.

It is so from its first use on. SymPy takes a decimal out of a function at once: `exp(x - 0.5)` would be
`0.6065...*exp(x)`, and `exp(s - 1e9*(1 - m))` would be 0, which `exp(-1e9)` is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sympy import Basic, Expr, Float, Rational
from sympy.core.cache import clear_cache
from sympy.core.sympify import converter

_SHORT = 12  # digits of a decimal that somebody means


def exact(expr: Basic) -> Any:
    """The expression with its decimals as fractions; one over a long decimal is a long decimal again."""
    ratios = [r for r in expr.atoms(Rational) if r.q > 10**_SHORT and 10 ** int(r.q).bit_length() % int(r.q)]
    return expr.xreplace({n: _fraction(Float(n)) for n in (*expr.atoms(Float), *ratios)})


@contextmanager
def exact_from_the_start() -> Iterator[None]:
    """Inside, what SymPy makes of a number of Python's is a fraction; one thread at a time."""
    before, met = converter.get(float), []

    def fraction(number: float) -> Expr:
        met.append(number)
        return exact(Float(number))

    clear_cache()  # where SymPy remembers what `exp(0.5)` was before, a decimal
    converter[float] = fraction
    try:
        yield
    finally:
        del converter[float]
        if before is not None:
            converter[float] = before
        if met:
            clear_cache()  # where SymPy remembers what `exp(0.5)` is, for everyone


def _fraction(f: Float) -> Expr:
    """The decimal as written, up to its 17 digits; arithmetic between short ones gives a short one: 0.1 * 3 is 3/10."""
    digits = [c for c in str(f).partition("e")[0] if c.isdigit()]
    return Rational(str(f) if len("".join(digits).strip("0")) <= _SHORT else repr(float(f)))
