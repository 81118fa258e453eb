"""On one side of a condition: under `u > 0`, `relu(u)` and `abs(u)` are `u` and `sign(u)` is 1; else `abs(u)` is `-u`.

`where(u > 0, relu(u)*v, 0)` needs no choice where `v` is finite: what is not chosen is 0.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from derive.ir.nodes.arithmetic import ZERO
from derive.ir.nodes.walking import rebuilt
from derive.ir.program import MIRRORED, Call, Node, Num


def on_each_side(node: Call) -> Call:
    """A choice whose branches are written as what they are on their side of what is compared with 0."""
    condition, chosen, other = node.args
    asked = _compared(condition)
    if asked is None:
        return node
    u, relation = asked
    above = relation in ("gt", "ge")
    first = _as(u, 1 if above else -1, relation in ("gt", "lt"), chosen)
    # where `u` is no number the condition does not hold: of what is chosen then, a function of `u` is none either
    second = _as(u, -1 if above else 1, False, other, numbers=False)
    return replace(node, args=(condition, first, second))


def vanishes_beside(condition: Node, factor: Node) -> bool:
    """Whether a factor is 0 wherever the condition does not hold: a power of `relu(u)` under `u > 0`."""
    asked = _compared(condition)
    if isinstance(factor, Call) and factor.fn == "pow":
        power = factor.args[1]
        return isinstance(power, Num) and power.value > 0 and vanishes_beside(condition, factor.args[0])
    return asked is not None and asked[1] in ("gt", "ge") and _is_relu(factor, asked[0])


def _compared(condition: Node) -> tuple[Node, str] | None:
    """What is compared with 0, and how."""
    if not isinstance(condition, Call) or condition.fn not in MIRRORED:
        return None
    u, threshold = condition.args
    if threshold == ZERO:
        return u, condition.fn
    return (threshold, MIRRORED[condition.fn]) if u == ZERO else None


def _is_relu(node: Node, u: Node) -> bool:
    return node in (Call("relu", (u,)), Call("maximum", (u, ZERO)), Call("maximum", (ZERO, u)))


def _as(u: Node, side: int, strict: bool, node: Node, numbers: bool = True) -> Node:
    """A node where `u` is above 0 (side 1) or below (-1), perhaps at it; with `numbers`, it may become one."""
    if not isinstance(node, Call):
        return rebuilt(node, lambda n: _as(u, side, strict, n, numbers))
    if node == Call("absolute", (u,)):
        return u if side > 0 else Call("neg", (u,))
    if numbers and strict and node == Call("sign", (u,)):
        return Num(Fraction(side))
    if _is_relu(node, u) and (side > 0 or numbers):
        return u if side > 0 else ZERO
    return replace(node, args=tuple(_as(u, side, strict, a, numbers) for a in node.args))
