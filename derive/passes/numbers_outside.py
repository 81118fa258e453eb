"""A number that all terms of a sum share is multiplied with the sum: `mean(x**2 / 2)` is `mean(x**2) / 2`.

Each term would be multiplied in a pass of its own. A number far from 1 stays where the author has it, who may have
kept the terms in range by it. So does one in a matrix product, which may take it along.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from derive.nodes.arithmetic import ONE
from derive.nodes.products import is_matrix_product
from derive.nodes.walking import by_axes, node_axes, rebuilt, walk
from derive.program import Assign, Call, Node, Num, Program, Read, Reduce

_FAR = 1000  # times larger or smaller than 1


def numbers_outside(program: Program) -> Program:
    """The program with such numbers behind sums and means."""
    statements = (replace(s, value=_outside(s.value)) if isinstance(s, Assign) else s for s in program.statements)
    return replace(program, statements=tuple(statements))


def _outside(node: Node) -> Node:
    node = rebuilt(node, _outside)
    if not isinstance(node, Reduce) or node.kind not in ("sum", "mean"):
        return node
    number, rest = _apart(node.body)
    product = is_matrix_product(replace(node, body=rest))
    plain = all(by_axes(n) for n in walk(rest) if isinstance(n, Read))
    whole = set(node.axes) <= set(node_axes(rest))
    if number == 1 or product or not plain or not whole or not 1 <= _FAR * abs(number) <= _FAR**2:
        return node
    return _times(number, replace(node, body=rest))


def _apart(node: Node) -> tuple[Fraction, Node]:
    """A value as a number times another."""
    if isinstance(node, Call) and node.fn == "neg":
        number, rest = _apart(node.args[0])
        return -number, rest
    if isinstance(node, Call) and node.fn in ("mul", "div"):
        (left, a), (right, b) = map(_apart, node.args)
        if node.fn == "div":
            return left / right, a if b == ONE else replace(node, args=(a, b))
        return left * right, b if a == ONE else a if b == ONE else replace(node, args=(a, b))
    if isinstance(node, Num) and isinstance(node.value, Fraction) and node.value != 0:
        return node.value, ONE
    return Fraction(1), node


def _times(number: Fraction, node: Node) -> Node:
    """A number times a value, as one writes it."""
    size = abs(number)
    if size.numerator == 1 and size != 1:
        node = Call("div", (node, Num(Fraction(size.denominator))))
    elif size != 1:
        node = Call("mul", (Num(size), node))
    return Call("neg", (node,)) if number < 0 else node
