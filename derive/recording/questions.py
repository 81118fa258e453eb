"""While a spec is read, its expressions answer no question of Python's: `if x[n, d]`, `x[n, d] == 0`, `and`, `in`.

SymPy answers all of them by how an expression is written: `a if x[n, d] else b` would be `a` without a word. Only
what the spec's own file asks is refused: SymPy asks its own expressions all the time.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from sympy import Basic, Expr, Not, Symbol
from sympy.logic.boolalg import Boolean

from derive.errors import DeriveError
from derive.terms.asked import asked
from derive.terms.axes import Axis
from derive.terms.elements import At

_ONE_AT_A_TIME = RLock()  # the classes are SymPy's, and everyone's


@contextmanager
def refused(file: str) -> Iterator[None]:
    """Raises DeriveError in code of this file that asks an expression whether it is true, or the same as another."""
    asked = {
        (Basic, "__bool__"): _truth(file),
        (Basic, "__eq__"): _alike(file, Basic.__eq__, "=="),
        (Expr, "__eq__"): _alike(file, Expr.__eq__, "=="),
        (Basic, "__ne__"): _alike(file, Basic.__ne__, "!="),
        (Boolean, "__invert__"): _opposite,
        (Basic, "__array__"): _no_array,
        (Basic, "__array_ufunc__"): _of_array,
    }
    with _ONE_AT_A_TIME:
        before = {(cls, name): vars(cls).get(name) for cls, name in asked}
        for (cls, name), refusing in asked.items():
            setattr(cls, name, refusing)
        try:
            yield
        finally:
            for (cls, name), method in before.items():
                if method is None:
                    delattr(cls, name)
                else:
                    setattr(cls, name, method)


def _opposite(condition: Boolean) -> Any:
    """`~c`, whose comparisons of elements are left to the numbers first: of nan `x > 0` and `x <= 0` are both false."""
    return Not(asked(condition, At))


def _no_array(e: Basic, *_: Any, **__: Any) -> Any:
    raise DeriveError(
        f"NumPy is asked for an array of {e}, which is one element", fix="use the words of derive: sum(…, over=d), exp"
    )


_ARITHMETIC = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "power": operator.pow,
}  # fmt: skip
"""What NumPy calls the arithmetic that Python's signs stand for."""


def _of_array(e: Basic, function: Any, method: str, *args: Any, **_: Any) -> Any:
    """Arithmetic with a number of NumPy's; no function of its."""
    plain = _ARITHMETIC.get(function.__name__)
    if method != "__call__" or plain is None or any(getattr(a, "shape", ()) for a in args):
        return _no_array(e)
    return plain(*(a if isinstance(a, Basic) else a.item() for a in args))


def _truth(file: str) -> Any:
    def is_true(e: Basic) -> bool:
        if sys._getframe(1).f_code.co_filename != file or not e.free_symbols:
            return True
        condition = e if isinstance(e, Boolean) and not isinstance(e, Symbol) else f"ne({e}, 0)"
        raise DeriveError(
            f"asks whether {e} is true, which each element answers as the op runs",
            fix=f"write where({condition}, a, b) for a choice, and & | ~ between conditions",
        )

    return is_true


def _alike(file: str, method: Any, sign: str) -> Any:
    word = {"==": "eq", "!=": "ne"}[sign]

    def alike(a: Basic, b: Any) -> Any:
        if sys._getframe(1).f_code.co_filename != file or not _differ_by_element(a, b):
            return method(a, b)
        raise DeriveError(
            f"{sign} asks whether {a} and {b} are written alike", fix=f"compare their values: {word}({a}, {b})"
        )

    return alike


def _differ_by_element(a: Basic, b: Any) -> bool:
    """Whether the answer depends on more than the names of two axes."""
    both_axes = isinstance(a, Axis) and isinstance(b, Axis)
    return not both_axes and any(isinstance(e, Basic) and bool(e.free_symbols) for e in (a, b))
