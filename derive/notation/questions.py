"""While a spec is read, its expressions answer no question of Python's: `if x[n, d]`, `x[n, d] == 0`, `and`, `in`.

SymPy answers all of them by how an expression is written: `a if x[n, d] else b` would be `a` without a word, and
`diff(f.u[n], x[n])` 0. So of SymPy a spec has what keeps values, and what says how something is written
(`methods.OF_SYMPY`); all else is refused, method or function. Only what the spec's own file asks is: SymPy asks its
own expressions all the time.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from types import FrameType
from typing import Any

from sympy import Add, Basic, Expr, Mul, Not, Number, NumberSymbol, Pow, Symbol
from sympy.core.function import Application
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import Boolean

from derive.errors import DeriveError
from derive.ir.terms.asked import asked
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.elements import At, Scalar, Tensor
from derive.notation.methods import CHANGING, OF_SYMPY, instead_of_sympy

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
            with _watching(_Watch(file)):
                yield
        finally:
            for (cls, name), method in before.items():
                if method is None:
                    delattr(cls, name)
                else:
                    setattr(cls, name, method)


class _Watch:
    """What Python tells of each call while a spec is read: calls of SymPy by code of this file are asked for."""

    def __init__(self, file: str):
        self.file = file

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (caller := frame.f_back) is None or caller.f_code.co_filename != self.file:
            return
        if frame.f_globals.get("__name__", "").startswith("sympy."):
            _check_call(frame)


@contextmanager
def _watching(watch: _Watch | None) -> Iterator[None]:
    before = sys.getprofile()
    if before is not None and not isinstance(before, _Watch):  # a profiler that runs keeps its place
        yield
        return
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


def unwatched() -> AbstractContextManager[None]:
    """Inside, nobody looks at calls: those of a word of the notation are many, and none is the spec's."""
    return _watching(None)


_MADE = (Add, Mul, Pow, Application, Number, NumberSymbol, Symbol, Boolean, ExprCondPair)
"""Classes of SymPy whose values mean themselves; the check of the equation says of which a spec may be made."""


def _check_call(frame: FrameType) -> None:
    """Refuse a call that makes something else of what a spec reads."""
    name, given = frame.f_code.co_name, frame.f_locals
    if "<locals>" in frame.f_code.co_qualname and callable(given.get("func")):  # one of SymPy's wrappers
        name, given = given["func"].__name__, {"args": given.get("args", ()), **given.get("kwargs", {})}
    values = list(_flat(given.values()))
    of = next((v for v in values if isinstance(v, Basic) and v.atoms(At, Axis, Scalar, Size, Tensor)), None)
    if of is None:
        return
    if name == "__new__":
        cls = next(v for v in values if isinstance(v, type))
        name, allowed, fix = cls.__name__, issubclass(cls, _MADE), ""
    elif name in OF_SYMPY:
        options = [given, *(v for v in given.values() if isinstance(v, dict))]
        changing = [k for k in CHANGING if any(o.get(k) for o in options)]
        allowed, fix = not changing, f"leave {', '.join(changing)} out, with which other values may come out"
    else:
        name = f"is_{given['fact']}" if name == "getit" else name
        allowed, fix = name.startswith("__"), ""
    if not allowed:
        cause = f"SymPy is asked for {name} of {of}, which has its values as the op runs"
        raise DeriveError(cause, fix=fix or instead_of_sympy(name))


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """What a function is called with, also in lists of it."""
    for value in values:
        yield value
        if isinstance(value, tuple | list):
            yield from _flat(value)


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
