"""A sum with a number in it is taken before a small number is added: `1 - p + 1e-8` is `(1 - p) + 1e-8`.

SymPy adds the two numbers, and in float32 `1.00000001 - p` is 0 where `p` is 1. So does the order of its terms, with a
number of the caller: `1 - p + eps`. Such a sum becomes an equation of its own.

So do two differences that are added or subtracted, `(p - q) - (u - v)`, of which SymPy makes one sum of four terms:
what is left of large numbers that nearly cancel would be lost in `p + v - u - q`. And so does one in brackets,
`c - (a - b)`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from sympy import Add, Expr, Number, sympify

from derive.terms.axes import Size
from derive.terms.elements import At, Scalar
from derive.terms.reductions import TakenFirst

_ONE_AT_A_TIME = RLock()  # the class is SymPy's, and everyone's

_FAR = 64
"""How many times larger than another a number is, for their sum to have fewer digits of the smaller one."""


@contextmanager
def taken_first(file: str) -> Iterator[None]:
    """Inside, sums to which code of this file adds a number that they would lose, or a difference, are `TakenFirst`."""
    methods = {name: getattr(Expr, name) for name in ("__add__", "__radd__", "__sub__", "__rsub__")}
    with _ONE_AT_A_TIME:
        for name, method in methods.items():
            setattr(Expr, name, _keeping(method, file))
        try:
            yield
        finally:
            for name, method in methods.items():
                setattr(Expr, name, method)


def _keeping(method: Callable[[Any, Any], Any], file: str) -> Callable[[Any, Any], Any]:
    def added(one: Expr, other: Any) -> Any:
        if not isinstance(other, Expr | int | float) or sys._getframe(1).f_code.co_filename != file:
            return method(one, other)
        right = sympify(other)
        if _is_difference(one) and _is_difference(right) and not one.atoms(At) & right.atoms(At):
            return method(TakenFirst(one), TakenFirst(right))
        if _is_difference(right) and one.atoms(At) and not one.atoms(At) & right.atoms(At):
            return method(one, TakenFirst(right))  # `c - (a - b)`: whoever writes no brackets has it on the left
        if _would_lose(one, right):
            one = TakenFirst(one)
        elif _would_lose(right, one):
            other = TakenFirst(right)
        return method(one, other)

    return added


def _is_difference(total: Expr) -> bool:
    """Whether elements are subtracted from elements, none of a window, whose terms may be those of the next."""
    if not isinstance(total, Add) or not all(t.atoms(At) for t in total.args):
        return False
    reads = total.atoms(At)
    both = len({bool(t.could_extract_minus_sign()) for t in total.args}) == 2
    return both and not any(at.is_integer or any(isinstance(i, Add) for i in at.index) for at in reads)


def _would_lose(total: Expr, number: Expr) -> bool:
    """Whether a sum of elements has a number that would be added to this one first."""
    if not isinstance(total, Add) or not _is_number(number) or number.is_zero:
        return False
    own = Add(*(t for t in total.args if _is_number(t)))
    if own == 0 or not any(not at.is_integer for at in total.atoms(At)):
        return False
    if not isinstance(own, Number) or not isinstance(number, Number):
        return True
    ratio = abs(own / number)
    return bool(ratio > _FAR or ratio * _FAR < 1)


def _is_number(term: Expr) -> bool:
    """Whether a term is made of numbers, the caller's among them."""
    of_caller = bool(term.free_symbols) and all(isinstance(s, Scalar) for s in term.free_symbols)
    return isinstance(term, Number) or (of_caller and not term.atoms(At, Size))
