"""What lies between minus a number and it is no larger than it: `(x >= -t) & (x <= t)` is `abs(x) <= t`."""

from __future__ import annotations

from fractions import Fraction

from derive.ir.nodes.arithmetic import negated
from derive.ir.program import Call, Node, Num, Scal

_SIDES = {"and": (("le", "ge"), ("lt", "gt")), "or": (("gt", "lt"), ("ge", "le"))}
"""How both are compared, the upper number first: inside of both, and outside of one."""


def by_size(condition: Node) -> Node:
    """Such a condition as one on the magnitude, whatever `t` and `x` are; any other as it is."""
    if not isinstance(condition, Call) or condition.fn not in _SIDES or len(condition.args) != 2:
        return condition
    for upper, lower in (condition.args, condition.args[::-1]):
        if not isinstance(upper, Call) or not isinstance(lower, Call):
            return condition
        if (upper.fn, lower.fn) not in _SIDES[condition.fn]:
            continue
        (x, most), (y, least) = upper.args, lower.args
        is_number = isinstance(most, Scal) or (isinstance(most, Num) and isinstance(most.value, Fraction))
        if x == y and is_number and least == negated(most):
            return Call(upper.fn, (Call("absolute", (x,)), most))
    return condition
