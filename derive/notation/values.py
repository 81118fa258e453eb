"""What a spec gives where one value is wanted: an expression, never a text, a list or nothing."""

from __future__ import annotations

from typing import Any
from unicodedata import category

from sympy import Basic, Expr, SympifyError, sympify
from sympy.logic.boolalg import Boolean

from derive.errors import DeriveError

AS_INPUT = "pass it as an input, c: constant[n], and read its elements: c[n]"
"""What to do with numbers that are not the op's own."""


def expression(value: Any) -> Basic:
    """The value as SymPy has it. Raises DeriveError where it is none.

    SymPy would run a text as a program: `'x[n, d]'` is no element of `x`.
    """
    found = None
    if not isinstance(value, str | bytes):
        try:
            found = sympify(value)
        except DeriveError:  # of a tensor without its axes
            raise
        except (SympifyError, TypeError, ValueError):  # a tensor of PyTorch's is no number, unless it has one element
            found = None
    if isinstance(found, Expr | Boolean):
        return found
    if type(value).__module__.partition(".")[0] in ("torch", "numpy"):
        raise DeriveError("a tensor of numbers stands in an expression", fix=AS_INPUT)
    shown = "a generator" if type(value).__name__ == "generator" else repr(value)
    raise DeriveError(f"{shown} is no expression", fix="write one value, made of elements and numbers")


def printable(text: str) -> str:
    """A docstring without what no file or terminal can show: control characters and halves of others, as escapes."""
    shown = (c if c in "\n\t" or category(c) not in ("Cc", "Cs") else ascii(c)[1:-1] for c in text)
    return "".join(shown)
