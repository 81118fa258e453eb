"""The factors of a sum, multiplied until a product of matrices has its two."""

from __future__ import annotations

from itertools import combinations

from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import node_axes
from derive.ir.program import Call, Node


def numbers_and_two(value: Node) -> tuple[tuple[Node, ...], list[Node]]:
    """The factors that are numbers, and the others, of which two are left where there were more."""
    factors = product_factors(value)
    return tuple(f for f in factors if not node_axes(f)), _two([f for f in factors if node_axes(f)])


def _two(factors: list[Node]) -> list[Node]:
    """The factors multiplied until two are left, those first that make the smallest tensor."""
    while len(factors) > 2:
        pair = min(combinations(range(len(factors)), 2), key=lambda p: _size(factors, p))
        joined = Call("mul", tuple(factors[k] for k in pair))
        factors = [joined, *(f for k, f in enumerate(factors) if k not in pair)]
    return factors


def _size(factors: list[Node], pair: tuple[int, ...]) -> tuple[int, int]:
    """What is smallest is multiplied first: the axes of two factors' product, and of equals those that share more."""
    a, b = (set(node_axes(factors[k])) for k in pair)
    return (len(a | b), -len(a & b))
