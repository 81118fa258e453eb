"""A maximum over what an index puts at each place: where its values stand, and how many of them share it.

`amax(where(eq(dst[e], v), s[e], -oo), over=e)` takes the largest `s[e]` of those with `dst[e] == v`. Its gradient goes
to the elements that are as large, in equal parts: each reads the maximum at its own place, and how many there are.
"""

from __future__ import annotations

from sympy import Expr, S

from derive.ir.equations import Equation
from derive.ir.terms.asked import Alike
from derive.ir.terms.axes import Axis
from derive.ir.terms.choices import Placed, Where
from derive.ir.terms.elements import At, Delta, Tensor

KINDS = ("amax", "amin")


def place(body: Expr, axes: tuple[Axis, ...]) -> tuple[Axis, Expr, Expr] | None:
    """The axis, the index that names its places, and the values there; None for another body."""
    if not isinstance(body, Placed):
        return None
    pair = body.condition.args
    for axis, index in (pair, pair[::-1]):
        if axis in axes and isinstance(index, At):
            return axis, index, body.args[1]
    return None


def slots(body: Expr, axes: tuple[Axis, ...]) -> tuple[tuple[Expr, ...], Expr] | None:
    """Where the values stand along each axis of the result, and the values."""
    found = place(body, axes)
    if found is None:
        return None
    axis, index, value = found
    at: dict[Axis, Expr] = {axis: index}
    return tuple(at.get(a, a) for a in axes), value


def ties(equation: Equation, name: str) -> Equation | None:
    """How many elements are as large as the maximum at each place; None where no index names the places."""
    found = place(equation.body, equation.axes) if equation.kind in KINDS else None
    if found is None:
        return None
    axis, index, value = found
    equal = Where(Alike(value, equation.left.xreplace({axis: index})), S.One, S.Zero)
    target = Tensor(name, nonnegative=True)
    return Equation(target, equation.index, Delta(axis, index) * equal, "sum", equation.over, given=False)


def local_derivative(equation: Equation, read: At, ties: At) -> Expr:
    """Of the maximum at each place, by an element: its part where that is as large."""
    found = place(equation.body, equation.axes)
    assert found is not None
    axis, index, value = found
    tie = Where(Alike(value, equation.left.xreplace({axis: index})), S.One, S.Zero)
    return value.diff(read) * Delta(axis, index) * tie / ties.xreplace({axis: index})
