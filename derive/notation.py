"""What a spec author imports: axes, tensors, reductions, functions and `@op`.

`from derive import *` gives exactly the words in `__all__`.
"""

from __future__ import annotations

import keyword
from typing import Any

from sympy import Eq, Expr, Ne, cos, erf, exp, log, oo, pi, sin, sqrt, sympify, tanh

from derive.annotations import constant, index, length, scalar, tensor
from derive.errors import DeriveError
from derive.functions import maximum, minimum, relu, rsqrt, sigmoid, sign, softplus
from derive.spec import op
from derive.terms import PACK, Axis, Concat, Delta, Reduce, Size, Where

__all__ = [
    "amax", "amin", "axes", "concat", "constant", "cos", "delta", "eq", "erf", "exp", "index", "length", "log",
    "maximum", "mean", "minimum", "ne", "oo", "op", "pi", "relu", "rsqrt", "scalar", "sigmoid",
    "sign", "sin", "size", "softplus", "sqrt", "sum", "tanh", "tensor", "where",
]  # fmt: skip

eq = Eq
ne = Ne


# --- axes and annotations ---------------------------------------------------------------------------------


def axes(names: str) -> Any:
    """`axes("d")` is an axis, `axes("n c")` a tuple of them. An axis's length is `size(axis)`."""
    made = tuple(Axis(name) for name in names.replace(",", " ").split())
    for axis in made:
        if not axis.base.isidentifier() or keyword.iskeyword(axis.base):
            raise DeriveError(f"{axis.base!r} cannot name an axis", fix="use a Python identifier")
    if not made:
        raise DeriveError("axes() needs at least one name", fix='write axes("n c")')
    return made[0] if len(made) == 1 else made


# --- words of an expression -------------------------------------------------------------------------------


def _reduction(kind: str, body: Any, over: Any) -> Reduce:
    over = over if isinstance(over, tuple) else (over,)
    over = tuple(PACK if a is Ellipsis else a for a in over)
    for a in over:
        if not isinstance(a, Axis):
            raise DeriveError(f"{kind}(…, over={a!r}): not an axis", fix='declare it with axes("…")')
    return Reduce(kind, sympify(body), *over)


def sum(body: Any, *, over: Any) -> Reduce:
    """The sum of `body` over one axis or a tuple of them."""
    return _reduction("sum", body, over)


def mean(body: Any, *, over: Any) -> Reduce:
    """The mean of `body` over one axis or a tuple of them."""
    return _reduction("mean", body, over)


def amax(body: Any, *, over: Any) -> Reduce:
    """The maximum of `body`; ties share the gradient evenly."""
    return _reduction("amax", body, over)


def amin(body: Any, *, over: Any) -> Reduce:
    """The minimum of `body`; ties share the gradient evenly."""
    return _reduction("amin", body, over)


def size(axis: Any) -> Expr:
    """The length of an axis."""
    axis = PACK if axis is Ellipsis else axis
    if not isinstance(axis, Axis):
        raise DeriveError(f"size({axis!r}): not an axis", fix='declare it with axes("…")')
    return Size(axis)


def concat(*pieces: Any, along: Any) -> Expr:
    """Pieces one after another: `f.y[n, c] = concat(x[n, a], z[n, b], along=c)`."""
    if not isinstance(along, Axis):
        raise DeriveError(f"concat(…, along={along!r}): not an axis", fix='declare it with axes("…")')
    return Concat(along, *(sympify(p) for p in pieces))


def where(condition: Any, a: Any, b: Any) -> Expr:
    """`a` where the condition holds, else `b`. Conditions compare axes or values."""
    return Where(condition, a, b)


def delta(i: Any, j: Any) -> Expr:
    """1 where two indices are equal, else 0."""
    return Delta(i, j)
