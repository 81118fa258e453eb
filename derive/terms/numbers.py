"""A number as a person writes it, in words and in LaTeX."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

_LARGEST_DENOMINATOR = 100
_SMALL = 1e-4
_LARGE = 10**6
_LONGER_THAN_FLOATS = 2**53


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


def with_exponent(number: Fraction) -> str | None:
    """`1e9`, `-1e30`, `2.5e7`, as a person writes a large whole number of few digits; None for any other."""
    if number.denominator != 1 or abs(number) < _LARGE or number % _LARGE:
        return None
    digits, _, exponent = f"{Decimal(number.numerator).normalize():e}".partition("e")
    return f"{digits}e{int(exponent)}"


def as_float(number: Fraction) -> str | None:
    """`0.3` and `0.0356774081363001`, the float that a fraction is nearest to, where a person writes a decimal.

    So it is where that is exact, or where the fraction is of whole numbers longer than a float: a product of decimals.
    """
    nearest = repr(float(number))
    long = max(abs(number.numerator), number.denominator) >= _LONGER_THAN_FLOATS
    return nearest if long or Fraction(nearest) == number else None
