"""What is multiplied and summed: products of matrices, weighted sums, differences of all pairs; factors told apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from derive.ir.nodes.arithmetic import ONE, multiplied, signed_terms, whole_power
from derive.ir.nodes.walking import node_axes, reads
from derive.ir.program import Call, Node, Reduce


def is_tensor(node: Node) -> bool:
    """Whether a node reads a tensor or runs over an axis; else it is a number."""
    return bool(reads(node) or node_axes(node))


def is_matrix_product(node: Reduce) -> bool:
    """Whether a sum of a product runs over more axes than any factor has."""
    if node.kind != "sum" or not isinstance(node.body, Call) or node.body.fn != "mul":
        return False
    union = set(node_axes(node.body))
    return all(set(node_axes(f)) != union for f in product_factors(node.body))


def is_outer_sum(factor: Node) -> bool:
    """Whether it is a sum over more axes than any of its terms has."""
    terms = [set(node_axes(t)) for t, _ in signed_terms(factor)]
    return len(terms) > 1 and all(axes < set(node_axes(factor)) for axes in terms)


def is_outer_difference(factor: Node) -> bool:
    """Whether it is such a sum in which something is subtracted."""
    return is_outer_sum(factor) and len({minus for _, minus in signed_terms(factor)}) == 2


def is_of_differences(node: Reduce) -> bool:
    """Whether a sum weighs a difference, `w[i, j] * (x[i, d] - y[j, d])`, and is matrix products when multiplied out.

    Where nothing weighs it, it is as many times one side, less the sum of the other.
    Of two differences, or the square of one, that would lose twice as many digits, which float64 has not.
    """
    factors = product_factors(node.body) if node.kind == "sum" else []
    if [is_outer_difference(f) for f in factors].count(True) != 1:
        return False
    products = [replace(node, body=multiplied([*others, t])) for others, t, _ in weighed_terms(factors)]
    whole = set(node_axes(node.body))
    return all(is_matrix_product(p) or set(node_axes(p.body)) < whole for p in products)


def weights(node: Reduce) -> list[Node]:
    """What a sum weighs differences by: the product of its other factors, where that has fewer axes, else each."""
    body, others = node.body, [f for f in product_factors(node.body) if not is_outer_difference(f)]
    while isinstance(body, Call) and body.fn == "mul" and is_outer_difference(body.args[1]):
        body = body.args[0]
    return [body] if product_factors(body) == others and set(node_axes(body)) < set(node_axes(node.body)) else others


def weighed_terms(factors: Sequence[Node]) -> list[tuple[list[Node], Node, bool]]:
    """The terms of the difference among some factors, each with the other factors and whether it is subtracted."""
    k = next(k for k, f in enumerate(factors) if is_outer_difference(f))
    return [([*factors[:k], *factors[k + 1 :]], term, minus) for term, minus in signed_terms(factors[k])]


def is_weighted(node: Reduce) -> bool:
    """Whether a sum of a product weighs a matrix with a vector along the one axis that is summed."""
    factors = product_factors(node.body)
    if node.kind != "sum" or len(node.axes) != 1 or len(factors) != 2:
        return False
    return any(node_axes(v) == node.axes and set(node_axes(m)) > set(node.axes) for v, m in (factors, factors[::-1]))


def product_factors(node: Node) -> list[Node]:
    """The factors of a nested product, left to right."""
    if isinstance(node, Call) and node.fn == "mul":
        return [f for a in node.args for f in product_factors(a)]
    return [node]


def fraction(node: Node) -> tuple[list[Node], list[Node]]:
    """The factors of a nested product or quotient, left to right: what is multiplied, and what it is divided by."""
    factors = quotient_factors(node)
    return [f for f, divides in factors if not divides], [f for f, divides in factors if divides]


def quotient_factors(node: Node) -> list[tuple[Node, bool]]:
    """The factors of a nested product or quotient, left to right, each with whether it divides."""
    if isinstance(node, Call) and node.fn in ("mul", "div"):
        left, right = map(quotient_factors, node.args)
        return left + [(f, divides != (node.fn == "div")) for f, divides in right]
    return [(node, False)]


def by_axes(factors: Iterable[Node], axes: Collection[str]) -> tuple[list[Node], list[Node]]:
    """The factors that run over any of these axes, and those that run over none."""
    factors, some = list(factors), set(axes)
    inside = [f for f in factors if some & set(node_axes(f))]
    return inside, [f for f in factors if not some & set(node_axes(f))]


def numbers_apart(factors: Iterable[Node]) -> tuple[list[Node], list[Node]]:
    """The factors that are numbers, and those that are tensors."""
    factors = list(factors)
    return [f for f in factors if not is_tensor(f)], [f for f in factors if is_tensor(f)]


def powers(factors: Iterable[Node]) -> dict[Node, int]:
    """What is multiplied by some factors, each with how often."""
    found: dict[Node, int] = {}
    for root, times in map(whole_power, factors):
        found[root] = found.get(root, 0) + times
    return found


def divided_factors(up: list[Node], down: list[Node]) -> Node:
    """The product, each divisor below the smallest factor that has all its axes."""
    factors = [f for f in up if f != ONE]
    for divisor in down:
        whole = (k for k, f in enumerate(factors) if set(node_axes(divisor)) <= set(node_axes(f)))
        k = min(whole, key=lambda k: len(node_axes(factors[k])), default=len(factors))
        factors[k:] = [Call("div", (factors[k] if k < len(factors) else ONE, divisor)), *factors[k + 1 :]]
    return multiplied(factors or [ONE])
