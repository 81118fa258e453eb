"""A number as a person writes it, in words and in LaTeX, and as floats hold it."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

_LARGEST_DENOMINATOR = 100
_SMALL = 1e-4
_LARGE = 10**6
_LONGER_THAN_FLOATS = 2**53
_SHORT = 2**8
"""A whole number below this, by a power of two, is a float of any precision."""


def decimal(number: Fraction) -> str | None:
    """The decimal that a person would have written, 0.044715 and 1e-7; None where that is the fraction: 3/10."""
    if number.denominator <= _LARGEST_DENOMINATOR or _decimal_part(number.denominator) != number.denominator:
        return None
    return as_decimal(number)


def as_quotient(number: Fraction) -> tuple[Fraction, Fraction]:
    """Numerator and denominator of a positive number with the fewest digits: 3 and 8.314, not 1500/4157; 10/3."""
    top, bottom = number.numerator, number.denominator
    if bottom == 1 or max(top, bottom) >= _LONGER_THAN_FLOATS:
        return Fraction(top), Fraction(bottom)
    ways = [(Fraction(top, by), Fraction(bottom, by)) for by in (1, _decimal_part(top), _decimal_part(bottom))]
    return min(ways, key=lambda way: sum(map(_digits, way)))


def as_decimal(number: Fraction) -> str:
    """A number that a decimal is exactly, in digits: `1.702`, `851`, `1e-7`."""
    if number.denominator == 1:
        return str(number)
    exact = Decimal(number.numerator) / Decimal(number.denominator)
    if abs(exact) >= _SMALL:
        return f"{exact:f}"
    digits, _, exponent = f"{exact.normalize():e}".partition("e")
    return f"{digits}e{int(exponent)}"


def _digits(number: Fraction) -> int:
    return len(as_decimal(number).replace(".", ""))


def _decimal_part(number: int) -> int:
    """The largest factor of a whole number that is made of twos and fives."""
    rest = number
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return number // rest


def with_exponent(number: Fraction) -> str | None:
    """`1e9`, `-1e30`, `2.5e7`, as a person writes a large whole number of few digits; None for any other."""
    if number.denominator != 1 or abs(number) < _LARGE or number % _LARGE:
        return None
    digits, _, exponent = f"{Decimal(number.numerator).normalize():e}".partition("e")
    return f"{digits}e{int(exponent)}"


def held(number: Fraction | float) -> Fraction | float:
    """A number as a tensor holds it: infinite where it is larger than any, as a product of two large ones may be."""
    if isinstance(number, float) or abs(number) < 2**1024:
        return number
    return math.inf if number > 0 else -math.inf


def is_power_of_2(number: Fraction) -> bool:
    """Whether a product with it is exact: 1, -1, 2, 1/4."""
    return number != 0 and all(k & (k - 1) == 0 for k in (abs(number.numerator), number.denominator))


def is_short(number: Fraction) -> bool:
    """Whether it is exact in any precision."""
    top, bottom = abs(number.numerator), number.denominator
    return bottom & (bottom - 1) == 0 and max(top, bottom) < _SHORT


def as_float(number: Fraction) -> str | None:
    """`0.3` and `0.0356774081363001`, the float that a fraction is nearest to, where a person writes a decimal.

    So it is where that is exact, or where the fraction is of whole numbers longer than a float: a product of decimals.
    """
    nearest = repr(float(number))
    long = max(abs(number.numerator), number.denominator) >= _LONGER_THAN_FLOATS
    return nearest if long or Fraction(nearest) == number else None
