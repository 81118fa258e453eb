"""`exp(u) - 1` is `expm1(u)`, which has digits where `u` is small, wherever the exponential is not read by itself."""

from __future__ import annotations

from derive.ir.nodes.arithmetic import ONE
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import bottom_up
from derive.ir.program import Call, Node, Program


def exponentials_less_one(program: Program) -> Program:
    """The same program with every such difference as one function."""
    return check(program.with_values(lambda value: bottom_up(value, _changed)))


def _changed(node: Node) -> Node:
    if isinstance(node, Call) and node.fn == "sub":
        first, second = node.args
        if second == ONE and isinstance(first, Call) and first.fn == "exp":
            return Call("expm1", first.args)
        if first == ONE and isinstance(second, Call) and second.fn == "exp":
            return Call("neg", (Call("expm1", second.args),))
    return node
