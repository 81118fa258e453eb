"""What of a value is above 0 is its `relu`, however it is chosen: `where(u > 0, u, 0)`, `where(u <= 0, 0, u)`.

And `where(m < 1, 1 - m, 0)` is `relu(1 - m)`. Its slope is known by its value, so that a backward that has the value
needs neither `u` nor a mask. Not `where(u >= 0, u, 0)`, whose slope at 0 is 1.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Expr, GreaterThan, LessThan, StrictGreaterThan, StrictLessThan

from derive.ir.equations import Op
from derive.ir.terms.axes import free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import reads_of
from derive.ir.terms.kinks import relu


def with_relu(op: Op) -> Op:
    """The same op with every such choice as one function."""
    return replace(op, equations=tuple(replace(e, body=e.body.replace(_is_choice, _rectified)) for e in op.equations))


def _is_choice(e: Expr) -> bool:
    return type(e) is Where  # one by the places of an index is another


def _rectified(choice: Expr) -> Expr:
    condition, chosen, other = choice.args
    if other == 0 and isinstance(condition, StrictGreaterThan | StrictLessThan):
        value = chosen
    elif chosen == 0 and isinstance(condition, LessThan | GreaterThan):
        value = other
    else:
        return choice
    left, right = condition.args
    if isinstance(condition, StrictLessThan | LessThan) == (other == 0):  # `a < b`, and unless `a >= b`
        left, right = right, left
    number = next((s for s in (left, right) if not reads_of(s) and not free_axes(s)), None)  # no -oo less another
    real = bool(reads_of(value)) and not any(at.tensor.is_integer for at in reads_of(value))  # else it may be a place
    return relu(value) if real and number is not None and left - right == value else choice
