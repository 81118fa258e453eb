"""What is known of the values of each function: a row a function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

INF = math.inf


@dataclass(frozen=True)
class Range:
    """The values of a function of one number, and the numbers that it takes."""

    low: float = -INF  # its values lie between these two
    high: float = INF
    is_open: bool = False  # and reach neither: a range from 0 has no 0
    at_0: bool = False  # it is 0 at 0
    nowhere_else: bool = False  # and at no other number
    rises: Callable[[float], float] | None = None  # what it is, where larger numbers never give smaller values
    takes: tuple[float, float] = (-INF, INF)  # it is a number between these two
    takes_ends: bool = False  # and at them
    overflows: bool = False  # of a large number it is too large for a float
    is_periodic: bool = False  # of an infinite one it is no number
    is_whole: bool = False


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _sigmoid(x: float) -> float:
    return math.exp(min(x, 0.0)) / (1 + math.exp(-abs(x)))


def _odd(rises: Callable[[float], float], low: float = -INF, high: float = INF, overflows: bool = False) -> Range:
    return Range(low, high, is_open=True, at_0=True, nowhere_else=True, rises=rises, overflows=overflows)


RANGES: dict[str, Range] = {
    "exp": Range(0, is_open=True, rises=math.exp, overflows=True),
    "expm1": _odd(math.expm1, low=-1, overflows=True),
    "log": Range(rises=math.log, takes=(0, INF)),
    "log1p": Range(at_0=True, nowhere_else=True, rises=math.log1p, takes=(-1, INF)),
    "sqrt": Range(0, at_0=True, nowhere_else=True, rises=math.sqrt, takes=(0, INF), takes_ends=True),
    "sigmoid": Range(0, 1, is_open=True, rises=_sigmoid),
    "softplus": Range(0, is_open=True, rises=_softplus),
    "tanh": _odd(math.tanh, -1, 1),
    "erf": _odd(math.erf, -1, 1),
    "erfc": Range(0, 2, is_open=True),
    "one_plus_erf": Range(0, 2, is_open=True),
    "sigmoid_of_size": Range(0, 1, is_open=True),
    "sin": Range(-1, 1, at_0=True, is_periodic=True),
    "cos": Range(-1, 1, is_periodic=True),
    "tan": Range(at_0=True, is_periodic=True, takes=(-1.5, 1.5)),
    "sinh": _odd(math.sinh, overflows=True),
    "cosh": Range(1, overflows=True),
    "asin": Range(-math.pi / 2, math.pi / 2, at_0=True, nowhere_else=True, takes=(-1, 1), takes_ends=True),
    "acos": Range(0, math.pi, takes=(-1, 1), takes_ends=True),
    "atan": _odd(math.atan, -math.pi / 2, math.pi / 2),
    "asinh": _odd(math.asinh),
    "acosh": Range(0, takes=(1, INF), takes_ends=True),
    "atanh": Range(at_0=True, nowhere_else=True, takes=(-1, 1)),
    "erfinv": Range(at_0=True, nowhere_else=True, takes=(-1, 1)),
    "loggamma": Range(takes=(0, INF)),
    "digamma": Range(takes=(0, INF)),
    "absolute": Range(0, at_0=True, nowhere_else=True),
    "relu": Range(0, at_0=True, rises=lambda x: max(x, 0)),
    "sign": Range(-1, 1, at_0=True, nowhere_else=True, rises=lambda x: (x > 0) - (x < 0), is_whole=True),
    "floor": Range(at_0=True, rises=math.floor, is_whole=True),
}
