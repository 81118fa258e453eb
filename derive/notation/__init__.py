"""What a spec author imports: axes, tensors, reductions, functions and `@op`.

`from derive import *` gives exactly the words in `__all__`.
"""

from __future__ import annotations

import keyword
import re
from typing import Any

from sympy import Expr, Symbol, oo, pi
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

from derive.errors import DeriveError
from derive.ir.terms.axes import PACK, Axis, Size, free_axes, sorted_axes
from derive.ir.terms.choices import BELOW_ALL, Concat, Where, same, unlike
from derive.ir.terms.elements import Delta
from derive.ir.terms.functions import WORDS
from derive.ir.terms.functions import __getattr__ as __getattr__
from derive.ir.terms.reductions import Reduce
from derive.notation.annotations import constant, index, length, scalar, tensor
from derive.notation.handles import RECORDING
from derive.notation.mistakes import hidden_axis
from derive.notation.spec import op
from derive.notation.values import expression

__all__ = [
    "amax", "amin", "axes", "clamp", "concat", "constant", "delta", "derivative", "eq", "index", "length", "mean", "ne",
    "oo", "op", "pi", "scalar", "size", "sum", "tensor", "where", *WORDS,
]  # fmt: skip

# --- axes and annotations ---------------------------------------------------------------------------------


def axes(names: str, *more: str) -> Any:
    """`axes("d")` is an axis, `axes("n c p=2")` a tuple of them, of which `p` has length 2.

    An axis's length is `size(axis)`. Raises DeriveError where a name or a length cannot be one.
    """
    if more:
        raise DeriveError(
            "axes() is given several texts", fix=f'write them as one: axes("{" ".join(map(str, (names, *more)))}")'
        )
    if not isinstance(names, str) or not names.strip():
        raise DeriveError("axes() needs at least one name, as one text", fix='write axes("n c")')
    made = tuple(_axis(text) for text in re.sub(r"\s*=\s*", "=", names.replace(",", " ")).split())
    twice = [a.base for a in made if [b.base for b in made].count(a.base) > 1]
    if twice:
        raise DeriveError(f"axes() names {twice[0]} twice", fix="give each axis a name of its own")
    return made[0] if len(made) == 1 else made


def _axis(text: str) -> Axis:
    name, fixed, length = text.partition("=")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise DeriveError(f"{name!r} cannot name an axis", fix="use a Python identifier")
    if not fixed:
        return Axis(name)
    if not length.isdecimal() or int(length) == 0:
        raise DeriveError(
            f"{length!r} is no length of axis {name}", fix=f'write a whole number above 0: axes("{name}=2")'
        )
    return Axis(name, fixed=int(length))


def _an_axis(given: Any) -> str:
    """What to write where something else is given for an axis."""
    if isinstance(given, str) and given.isidentifier():
        return f"write it without quotes: {given}"
    if isinstance(given, int):
        return "name the axis, not its position: d"
    if isinstance(given, Relational):
        (axis, *_) = sorted_axes(free_axes(given.lhs) or free_axes(given))
        return f"say where with where: sum(where({given}, …, 0), over={axis})"
    if isinstance(given, Size):
        return hidden_axis(given)
    return 'declare it with axes("…")' if given is None else 'name an axis, such as d, declared with axes("…")'


# --- words of an expression -------------------------------------------------------------------------------


def _reduction(kind: str, body: Any, over: Any) -> Reduce:
    over = tuple(over) if isinstance(over, tuple | list) else (over,)
    over = tuple(PACK if a is Ellipsis else a for a in over)
    for a in over:
        if not isinstance(a, Axis):
            raise DeriveError(f"{kind}(…, over={a!r}): not an axis", fix=_an_axis(a))
        if over.count(a) > 1:
            raise DeriveError(f"{kind} is taken over {a} twice", fix=f"name {a} once")
    return Reduce(kind, expression(body), *over)


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
        raise DeriveError(f"size({axis!r}): not an axis", fix=_an_axis(axis))
    return Size(axis)


def concat(*pieces: Any, along: Any) -> Expr:
    """Pieces one after another: `f.y[n, c] = concat(x[n, a], z[n, b], along=c)`."""
    if len(pieces) == 1 and isinstance(pieces[0], list | tuple):
        pieces = tuple(pieces[0])
    if not pieces:
        raise DeriveError("concat() joins nothing", fix="write concat(x[n, a], z[n, b], along=c)")
    if not isinstance(along, Axis):
        raise DeriveError(f"concat(…, along={along!r}): not an axis", fix=_an_axis(along))
    return Concat(along, *(expression(p) for p in pieces))


def where(condition: Any, a: Any, b: Any) -> Expr:
    """`a` where the condition holds, else `b`. Conditions compare axes or values."""
    if isinstance(condition, bool):
        raise DeriveError(
            f"the condition of where() is always {condition}",
            fix="compare with eq(a, b) and ne(a, b): Python's == asks whether two expressions are written alike",
        )
    condition = expression(condition)
    if not isinstance(condition, Boolean) or isinstance(condition, Symbol):
        raise DeriveError(f"{condition} is no condition", fix=f"compare it with something: ne({condition}, 0)")
    return Where(condition, *(BELOW_ALL if x == -oo else x for x in (expression(a), expression(b))))


def clamp(x: Any, low: Any = None, high: Any = None) -> Expr:
    """`x`, no less than `low` and no more than `high`; the whole gradient flows at its ends, as in `torch.clamp`."""
    if low is None and high is None:
        raise DeriveError("clamp() has no end", fix="write clamp(x, -1, 1), clamp(x, low=-1) or clamp(x, high=1)")
    value = element = expression(x)
    least, most = (None if end is None else expression(end) for end in (low, high))
    if least is not None and most is not None and (least > most) == True:  # noqa: E712 - of SymPy's truth values
        raise DeriveError(f"clamp(…, {low}, {high}): its low end is above its high one", fix="exchange them")
    if least is not None:
        value = where(element < least, least, value)
    return value if most is None else where(element > most, most, value)


def eq(a: Any, b: Any) -> Any:
    """The condition that two values are equal."""
    return same(expression(a), expression(b))


def ne(a: Any, b: Any) -> Any:
    """The condition that two values differ."""
    return unlike(expression(a), expression(b))


def delta(i: Any, j: Any) -> Expr:
    """1 where two indices are equal, else 0."""
    return Delta(expression(i), expression(j))


def derivative(y: Any, x: Any) -> Expr:
    """The entry of the Jacobian of one element of a tensor by one of another: `derivative(f.u[n], x[n, 0])`."""
    recorder = RECORDING.get()
    if recorder is None:
        raise DeriveError("derivative() is asked outside a spec", fix="write it in an equation: f.g[n] = derivative(…)")
    return recorder.derivative(y, x)
