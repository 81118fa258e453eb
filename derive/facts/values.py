"""Abstract values: what is known of a value wherever it is a number, and when it is 0, infinite or no number.

One transfer function for each kind of operation takes the abstract values of its arguments to that of its result. That
sums and products of finite values may be too large for a float is left aside, as is that quotients may be too small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from fractions import Fraction
from functools import reduce

from derive.primitives import CAP, ENTIRE, PRIMITIVES, Primitive, numeric

INF = math.inf

SMALLEST = Fraction(1, 10**12)
"""What a finite value is divided by with a finite result."""

Bound = Fraction | float
"""A number, exact, or an infinite one."""


class May(IntEnum):
    """Where something happens: never, in floats alone (too large, too small), where the forward is singular, anywhere.

    Singular is where it divides by 0, or takes a function of what that has no value for.
    """

    NEVER = 0
    ROUNDED = 1
    SINGULAR = 2
    ANYWHERE = 3


@dataclass(frozen=True)
class Value:
    """What is known of a value: that it lies between two numbers, and where it may be 0, infinite, no number."""

    low: Bound = -INF
    high: Bound = INF
    zero: May = May.ANYWHERE
    infinite: May = May.NEVER
    nan: May = May.NEVER
    whole: bool = False

    @property
    def is_finite(self) -> bool:
        return max(self.infinite, self.nan) == May.NEVER

    @property
    def has_no_pole(self) -> bool:
        """Whether it is finite but for what is too large for a float."""
        return max(self.infinite, self.nan) <= May.ROUNDED

    @property
    def is_nonnegative(self) -> bool:
        return self.low >= 0

    @property
    def is_positive(self) -> bool:
        """Whether it is above 0 wherever the forward is not singular; it may be too small for a float."""
        return self.low >= 0 and self.zero < May.ANYWHERE

    @property
    def is_away_from_0(self) -> bool:
        """Whether it is no smaller than `SMALLEST`, either way: what is finite may be divided by it."""
        return self.zero == May.NEVER

    @property
    def has_one_sign(self) -> bool:
        return self.low >= 0 or self.high <= 0

    @property
    def is_bounded(self) -> bool:
        return self.low > -INF and self.high < INF


UNKNOWN = Value(infinite=May.ANYWHERE, nan=May.ANYWHERE)
LENGTH = Value(Fraction(1), zero=May.NEVER, whole=True)
PLACE = Value(Fraction(0), whole=True)
ANSWER = Value(Fraction(0), Fraction(1), whole=True)
"""Of a comparison."""


def number(value: Fraction) -> Value:
    """The abstract value of a number."""
    return between(value, value, whole=value.denominator == 1)


def near(value: float) -> Value:
    """That of a number that a float is near."""
    if math.isinf(value):
        return Value(value, value, zero=May.NEVER, infinite=May.ANYWHERE)
    return UNKNOWN if math.isnan(value) else between(*_around(value))


def between(
    low: Bound,
    high: Bound,
    zero: May = May.ANYWHERE,
    infinite: May = May.NEVER,
    nan: May = May.NEVER,
    whole: bool = False,
) -> Value:
    """An abstract value with what follows from the numbers that it lies between."""
    if not -_LARGEST <= low <= _LARGEST:
        low = _LARGEST if low > 0 else -INF
    if not -_LARGEST <= high <= _LARGEST:
        high = -_LARGEST if high < 0 else INF
    if low > 0 or high < 0:
        zero = min(zero, May.NEVER if max(low, -high) >= SMALLEST else May.ROUNDED)
    if low > -INF and high < INF:
        infinite = min(infinite, May.NEVER if max(-low, high) * SMALLEST <= 1 else May.ROUNDED)
    return Value(low, high, zero, infinite, nan, whole)


_LARGEST = Fraction(2**1000)


def _worst(values: Sequence[Value]) -> May:
    return max(v.infinite for v in values)


def _no_number(values: Sequence[Value]) -> May:
    return max(v.nan for v in values)


def _around(value: float) -> tuple[Bound, Bound]:
    """Numbers that a float lies between, and what it was rounded from as well."""
    off = abs(Fraction(value)) / 10**12
    return Fraction(value) - off, Fraction(value) + off


def _ends(low: float, high: float) -> tuple[Bound, Bound]:
    """The ends of a range, exact where they are whole or infinite."""
    whole = [end if math.isinf(end) else Fraction(end) for end in (low, high)]
    plain = all(isinstance(end, float) or end.denominator == 1 for end in whole)
    return (whole[0], whole[1]) if plain else (_around(low)[0], _around(high)[1])


def _image(rises: Callable[[float], float], low: Bound, high: Bound, least: float, most: float) -> tuple[Bound, Bound]:
    """What a function that rises makes of the numbers between two, within the ends of its range."""
    ends = list(_ends(least, most))
    for k, end in enumerate((low, high)):
        try:
            exact = ends[k] if math.isinf(end) else _around(rises(float(end)))[k]
        except (OverflowError, ValueError):  # too large, or outside of what it takes
            continue
        ends[k] = max(exact, ends[k]) if k == 0 else min(exact, ends[k])
    return ends[0], ends[1]


# --- transfer functions ---------------------------------------------------------------------------------------------


def added(*values: Value) -> Value:
    """The sum; infinities of both signs have none."""
    low, high = sum((v.low for v in values), Fraction(0)), sum((v.high for v in values), Fraction(0))
    one_sign = all(v.low >= 0 for v in values) or all(v.high <= 0 for v in values)
    zero = min(v.zero for v in values) if one_sign else May.ANYWHERE
    rises = [v.infinite if v.high == INF else May.NEVER for v in values]
    falls = [v.infinite if v.low == -INF else May.NEVER for v in values]
    pairs = (min(up, down) for i, up in enumerate(rises) for k, down in enumerate(falls) if i != k)
    opposite = max(pairs, default=May.NEVER)
    return between(low, high, zero, _worst(values), max(opposite, _no_number(values)), all(v.whole for v in values))


def multiplied(*values: Value) -> Value:
    """The product; 0 times infinity is none."""
    return reduce(_product, values)


def _product(a: Value, b: Value) -> Value:
    ends = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    nan = max(min(a.infinite, b.zero), min(b.infinite, a.zero), a.nan, b.nan)
    return between(min(ends), max(ends), max(a.zero, b.zero), _worst((a, b)), nan, a.whole and b.whole)


def _times(a: Bound, b: Bound) -> Bound:
    return Fraction(0) if a == 0 or b == 0 else a * b


def negated(v: Value) -> Value:
    """Minus a value."""
    return replace(v, low=-v.high, high=-v.low)


def reciprocal(v: Value) -> Value:
    """One over a value: what is 0 becomes infinite, and the other way round."""
    if v.low < 0 and v.high <= 0:
        return negated(reciprocal(negated(v)))
    low, high = (_over(v.high), _over(v.low)) if v.low >= 0 else (-INF, INF)
    return between(low, high, v.infinite, min(v.zero, May.SINGULAR), v.nan)


def _over(end: Bound) -> Bound:
    """One over an end of what is never below 0."""
    return INF if end == 0 else Fraction(0) if end == INF else 1 / end


def raised(base: Value, exponent: Value) -> Value:
    """A power; one that is not whole takes nothing below 0."""
    if -_LONGEST < exponent.low == exponent.high < _LONGEST and not exponent.nan:
        return _to_the(base, Fraction(exponent.low))
    singular = max(base.nan, exponent.nan)
    infinite = max(May.ROUNDED, base.infinite, exponent.infinite)
    low = Fraction(0) if base.low >= 0 else -INF
    if exponent.whole and exponent.low >= 0:
        return between(low, INF, base.zero, infinite, singular)
    if base.low < 0:
        return between(low, INF, May.ANYWHERE, May.ANYWHERE, May.ANYWHERE)
    if exponent.low < 0:
        infinite = max(infinite, min(base.zero, May.SINGULAR))
    return between(low, INF, max(base.zero, May.ROUNDED, exponent.infinite), infinite, singular)


_LONGEST = 64
"""Powers up to this are computed of the ends, exactly."""


def _to_the(base: Value, exponent: Fraction) -> Value:
    if exponent == 0:
        return ONE
    if exponent < 0:
        return reciprocal(_to_the(base, -exponent))
    nan = base.nan
    if exponent.denominator != 1 and base.high < 0:
        return UNKNOWN
    if exponent.denominator != 1:
        nan = nan if base.low >= 0 else max(nan, May.SINGULAR)
        low, high = (max(end, Fraction(0)) for end in (base.low, base.high))
        low, high = _image(lambda x: x ** float(exponent), low, high, 0, INF)
    else:
        low, high = (end ** int(exponent) for end in (base.low, base.high))
        if exponent % 2 == 0:
            low, high = (Fraction(0) if base.low <= 0 <= base.high else min(low, high)), max(low, high)
    return between(low, high, base.zero, base.infinite, nan, base.whole and exponent.denominator == 1)


def chosen(*values: Value) -> Value:
    """One of several values."""
    low, high = min(v.low for v in values), max(v.high for v in values)
    zero = max(v.zero for v in values)
    return between(low, high, zero, _worst(values), _no_number(values), all(v.whole for v in values))


def larger(a: Value, b: Value) -> Value:
    """The larger of two values."""
    low, high = max(a.low, b.low), max(a.high, b.high)
    above = [v.zero for v in (a, b) if v.low >= 0]
    zero = min(above) if above else max(a.zero, b.zero)
    return between(low, high, zero, _worst((a, b)), _no_number((a, b)), a.whole and b.whole)


def smaller(a: Value, b: Value) -> Value:
    """The smaller of two values."""
    return negated(larger(negated(a), negated(b)))


def logarithm_of_sum(a: Value, b: Value) -> Value:
    """`log(exp(a) + exp(b))`: above both."""
    return between(max(a.low, b.low), INF, May.ANYWHERE, _worst((a, b)), _no_number((a, b)))


def applied(f: Primitive, v: Value) -> Value:
    """A function of one value, by its row."""
    outside = _outside(f, v)
    function = numeric(f) if f.rises else None
    low, high = _image(function, v.low, v.high, f.low, f.high) if function else _ends(f.low, f.high)
    infinite = max(outside, v.infinite)
    if f.finite == ENTIRE and (v.high > CAP or (v.low < -CAP and not (f.rises and f.low > -INF))):
        infinite = max(infinite, May.ROUNDED)
    zero = May.ANYWHERE
    if f.only_0:
        zero = v.zero
    elif f.is_open and 0 in (f.low, f.high):
        zero = max(May.ROUNDED, v.infinite)
    nan = max(v.nan, outside, v.infinite if f.is_periodic else May.NEVER)
    return between(low, high, zero, infinite, nan, f.is_whole or (v.whole and f.keeps_whole))


def _outside(f: Primitive, v: Value) -> May:
    """Where a function is asked for a value that it does not have."""
    least, most = f.takes
    if (v.low > least or least == -INF) and (v.high < most or most == INF):
        return May.NEVER
    if f.takes_ends and v.low >= least and v.high <= most:
        return May.NEVER
    if (least, most) == (0, INF) and v.low >= 0:
        return min(v.zero, May.SINGULAR)
    return May.SINGULAR


def magnitude(v: Value) -> Value:
    """The absolute value."""
    if v.has_one_sign:
        return v if v.low >= 0 else negated(v)
    return between(Fraction(0), max(-v.low, v.high), v.zero, v.infinite, v.nan, v.whole)


def reduced(kind: str, v: Value) -> Value:
    """A sum, mean, product or extremum of one value along axes, which may have no place."""
    nan = max(v.nan, May.NEVER if v.has_one_sign or kind in ("amax", "amin") else v.infinite)
    zero = v.zero if v.has_one_sign or kind == "prod" else May.ANYWHERE
    if kind in ("amax", "amin", "mean"):
        return between(v.low, v.high, zero, v.infinite, nan, v.whole and kind != "mean")
    low = Fraction(0) if v.low >= 0 else -INF
    high = Fraction(0) if v.high <= 0 and kind == "sum" else INF
    if kind == "prod":
        nan = max(nan, min(v.infinite, v.zero))
    return Value(low, high, max(zero, May.ROUNDED), v.infinite, nan, v.whole)


ONE = number(Fraction(1))

_OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": added,
    "sub": lambda a, b: added(a, negated(b)),
    "mul": multiplied,
    "neg": negated,
    "div": lambda a, b: multiplied(a, reciprocal(b)),
    "pow": raised,
    "rsqrt": lambda a: raised(a, number(Fraction(-1, 2))),
    "square": lambda a: raised(a, number(Fraction(2))),
    "where": lambda _, *branches: chosen(*branches),
    "threshold": lambda a, _, b: chosen(a, b),
    "maximum": larger,
    "minimum": smaller,
    "absolute": magnitude,
    "logaddexp": logarithm_of_sum,
    "atan2": lambda a, b: between(*_ends(-math.pi, math.pi), nan=_no_number((a, b))),
    "as_float64": lambda a: a,
    "narrow": lambda a: a,
    "rounded": lambda a: a,
    "pi": lambda: near(math.pi),
    "e": lambda: near(math.e),
    **{name: lambda *_: ANSWER for name in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not")},
}


def called(name: str, arguments: Sequence[Value]) -> Value:
    """The abstract value of an operation, by its name in programs; of one without a transfer function, none."""
    if name in _OPERATIONS:
        return _OPERATIONS[name](*arguments)
    return applied(PRIMITIVES[name], *arguments) if name in PRIMITIVES and len(arguments) == 1 else UNKNOWN
