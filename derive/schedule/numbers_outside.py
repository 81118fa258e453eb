"""A number that all terms of a sum share is multiplied with the sum: `mean(x**2 / 2)` is `mean(x**2) / 2`.

Each term would be multiplied in a pass of its own. A number far from 1 stays where the author has it, who may have
kept the terms in range by it. So does one in a matrix product, which may take it along.
"""

from __future__ import annotations

from dataclasses import replace

from derive.decisions import FAR
from derive.ir.nodes.arithmetic import number_apart, times
from derive.ir.nodes.products import is_matrix_product
from derive.ir.nodes.walking import by_axes, node_axes, rebuilt, walk
from derive.ir.program import Assign, Node, Program, Read, Reduce


def numbers_outside(program: Program) -> Program:
    """The program with such numbers behind sums and means."""
    statements = (replace(s, value=_outside(s.value)) if isinstance(s, Assign) else s for s in program.statements)
    return replace(program, statements=tuple(statements))


def _outside(node: Node) -> Node:
    node = rebuilt(node, _outside)
    if not isinstance(node, Reduce) or node.kind not in ("sum", "mean"):
        return node
    number, rest = number_apart(node.body)
    product = is_matrix_product(replace(node, body=rest))
    plain = all(by_axes(n) for n in walk(rest) if isinstance(n, Read))
    whole = set(node.axes) <= set(node_axes(rest))
    if number == 1 or product or not plain or not whole or not 1 <= FAR * abs(number) <= FAR**2:
        return node
    return times(number, replace(node, body=rest))
