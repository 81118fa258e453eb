"""A number as a person writes it, in words and in LaTeX."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

_LARGEST_DENOMINATOR = 100
_SMALL = 1e-4


def decimal(number: Fraction) -> str | None:
    """The decimal that a person would have written, 0.044715 and 1e-7; None where that is the fraction: 3/10."""
    rest = number.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if number.denominator <= _LARGEST_DENOMINATOR or rest != 1:
        return None
    exact = Decimal(number.numerator) / Decimal(number.denominator)
    if abs(exact) >= _SMALL:
        return f"{exact:f}"
    digits, _, exponent = f"{exact.normalize():e}".partition("e")
    return f"{digits}e{int(exponent)}"
