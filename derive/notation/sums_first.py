"""A sum with a number in it is taken before a small number is added: `1 - p + 1e-8` is `(1 - p) + 1e-8`.

SymPy adds the two numbers, and in float32 `1.00000001 - p` is 0 where `p` is 1. So does the order of its terms, with a
number of the caller: `1 - p + eps`. Such a sum becomes an equation of its own.

So do two differences that are added or subtracted, `(p - q) - (u - v)`, of which SymPy makes one sum of four terms:
what is left of large numbers that nearly cancel would be lost in `p + v - u - q`. And so does one in brackets,
`c - (a - b)`.

Of every other sum of three terms or more the order and the brackets are noted beside its equation, for the forward.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from sympy import Add, Basic, Expr, Number, sympify

from derive.decisions import FAR_IN_A_SUM
from derive.ir.equations import Grouping
from derive.ir.terms.axes import Size
from derive.ir.terms.elements import At, Scalar
from derive.ir.terms.reductions import TakenFirst

_ONE_AT_A_TIME = RLock()  # the class is SymPy's, and everyone's

Written = dict[frozenset[Expr], tuple[Expr, Expr]]
"""What was added to what: the last two parts of each sum, by its terms."""


@contextmanager
def taken_first(file: str, written: Written) -> Iterator[None]:
    """Inside, sums to which code of this file adds a number that they would lose, or a difference, are `TakenFirst`.

    How each sum is written is added to `written`.
    """
    methods = {name: getattr(Expr, name) for name in ("__add__", "__radd__", "__sub__", "__rsub__")}
    with _ONE_AT_A_TIME:
        for name, method in methods.items():
            setattr(Expr, name, _keeping(method, file, written))
        try:
            yield
        finally:
            for name, method in methods.items():
                setattr(Expr, name, method)


def groupings(value: Basic, written: Written) -> list[Grouping]:
    """How the sums of three terms or more in an expression were written."""
    sums = sorted((e for e in value.atoms(Add) if len(e.args) > 2), key=lambda e: e.sort_key())
    found = (_grouping(e, written) for e in sums)
    return [g for g, e in zip(found, sums, strict=True) if g is not None and len(g.leaves) == len(e.args)]


def _key(total: Expr) -> frozenset[Expr]:
    """The terms of a sum without their numbers, which a factor of the sum changes."""
    return frozenset(_numberless(t) for t in Add.make_args(total))


def _numberless(term: Expr) -> Expr:
    return term.as_coeff_Mul()[1]


def _grouping(total: Expr, written: Written) -> Grouping | None:
    if (both := written.get(_key(total))) is None:
        return None
    left, right = (_grouping(side, written) if isinstance(side, Add) else _numberless(side) for side in both)
    if left is None or right is None:
        return None
    return Grouping((*(left.terms if isinstance(left, Grouping) else (left,)), right))


def _keeping(method: Callable[[Any, Any], Any], file: str, written: Written) -> Callable[[Any, Any], Any]:
    def total(one: Any, other: Any) -> Any:
        made = method(one, other)
        left, right = _key(one), _key(sympify(other))
        if isinstance(made, Add) and left | right == _key(made) and not left & right:  # no term has met another
            both = (one, sympify(other))
            written[_key(made)] = both[::-1] if method.__name__.startswith("__r") else both
        return made

    def added(one: Expr, other: Any) -> Any:
        if not isinstance(other, Expr | int | float) or sys._getframe(1).f_code.co_filename != file:
            return method(one, other)
        right = sympify(other)
        if _is_difference(one) and _is_difference(right) and not one.atoms(At) & right.atoms(At):
            return total(TakenFirst(one), TakenFirst(right))
        if _is_difference(right) and one.atoms(At) and not one.atoms(At) & right.atoms(At):
            return total(one, TakenFirst(right))  # `c - (a - b)`: whoever writes no brackets has it on the left
        if _would_lose(one, right):
            one = TakenFirst(one)
        elif _would_lose(right, one):
            other = TakenFirst(right)
        return total(one, other)

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
    return bool(ratio > FAR_IN_A_SUM or ratio * FAR_IN_A_SUM < 1)


def _is_number(term: Expr) -> bool:
    """Whether a term is made of numbers, the caller's among them."""
    of_caller = bool(term.free_symbols) and all(isinstance(s, Scalar) for s in term.free_symbols)
    return isinstance(term, Number) or (of_caller and not term.atoms(At, Size))
