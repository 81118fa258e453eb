"""Products that two places have in common are multiplied first in both, so that they are one and the same node.

`a * b * u` and `b * a * v` become `(a * b) * u` and `(a * b) * v`, of which `a * b` can be shared.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import combinations

from derive.cost import is_matrix_product, is_tensor, product_factors
from derive.program import Call, Join, Node, Program, Reduce
from derive.soundness import check
from derive.walking import node_axes, rebuilt


def common_products(program: Program) -> Program:
    """The same program with the factors that two products share, and that span them, multiplied first in both."""
    statements = list(program.statements)
    done: set[frozenset[Node]] = set()
    while (common := _largest_common([p for s in statements for p in _products(s.value)], done)) is not None:
        done.add(frozenset(common))
        statements = [replace(s, value=_put_first(s.value, common)) for s in statements]
    return check(replace(program, statements=tuple(statements)))


def _products(node: Node) -> list[Call]:
    """Every product that is not itself a factor of one, matrix products left out."""
    if isinstance(node, Reduce):
        return [] if is_matrix_product(node) else _products(node.body)
    if isinstance(node, Join):
        return [p for part in node.parts for p in _products(part)]
    if not isinstance(node, Call):
        return []
    if node.fn == "mul":
        return [node, *(p for f in product_factors(node) for p in _products(f))]
    return [p for a in node.args for p in _products(a)]


def _largest_common(products: list[Call], done: set[frozenset[Node]]) -> tuple[Node, ...] | None:
    best: tuple[Node, ...] = ()
    for one, other in combinations(dict.fromkeys(products), 2):
        theirs = product_factors(other)
        common = tuple(f for f in dict.fromkeys(_spanning(one)) if f in theirs)
        if len(common) > max(1, len(best)) and frozenset(common) not in done:
            best = common
    return best or None


def _spanning(product: Call) -> list[Node]:
    """The factors that run over all axes of the product: to multiply two of them is a pass over it."""
    axes = set(node_axes(product))
    return [f for f in product_factors(product) if is_tensor(f) and axes and set(node_axes(f)) == axes]


def _put_first(node: Node, common: tuple[Node, ...]) -> Node:
    if isinstance(node, Reduce) and is_matrix_product(node):
        return node
    if not isinstance(node, Call) or node.fn != "mul":
        return rebuilt(node, lambda n: _put_first(n, common))
    factors = [f if f in common else _put_first(f, common) for f in product_factors(node)]
    if set(common) <= set(_spanning(node)):
        rest = list(factors)
        for f in common:
            rest.remove(f)
        small = [f for f in rest if set(node_axes(f)) != set(node_axes(node))]
        factors = [*small, reduce(_times, common), *(f for f in rest if f not in small)]
    return reduce(_times, factors)


def _times(a: Node, b: Node) -> Node:
    return Call("mul", (a, b))
