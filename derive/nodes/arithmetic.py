"""Arithmetic on nodes of a program: 0 and 1, a product of factors, the terms of a sum, what a power is of."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce

from derive.program import Call, Node, Num

ZERO, ONE = Num(Fraction(0)), Num(Fraction(1))


def multiplied(factors: list[Node]) -> Node:
    """The product of some factors, left to right."""
    return reduce(lambda product, f: Call("mul", (product, f)), factors)


def signed_terms(node: Node, minus: bool = False) -> list[tuple[Node, bool]]:
    """The terms of a nested sum, left to right, each with whether it is subtracted."""
    if isinstance(node, Call) and node.fn in ("add", "sub"):
        left, right = node.args
        return signed_terms(left, minus) + signed_terms(right, minus != (node.fn == "sub"))
    if isinstance(node, Call) and node.fn == "neg":
        return signed_terms(node.args[0], not minus)
    return [(node, minus)]


def whole_power(factor: Node) -> tuple[Node, int]:
    """A factor as a whole power above 0 of something; of itself the first, where it is no such power."""
    if isinstance(factor, Call) and factor.fn == "pow":
        root, exponent = factor.args
        if isinstance(exponent, Num) and isinstance(exponent.value, Fraction) and exponent.value > 0:
            return (root, int(exponent.value)) if exponent.value.denominator == 1 else (factor, 1)
    return factor, 1
