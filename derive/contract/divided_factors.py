"""What divides the terms of a sum divides one factor of each, where what is left is a product of matrices.

`sum(a[n, k] * w[k, d] / b[n, k], over=k)` is `(a / b) @ w`, and nothing runs over all three axes.
"""

from __future__ import annotations

from derive.ir.nodes.arithmetic import ONE, multiplied, signed_terms, summed
from derive.ir.nodes.products import fraction
from derive.ir.nodes.walking import node_axes
from derive.ir.program import Call, Node, Reduce


def with_divided_factors(node: Reduce) -> Reduce:
    """The same sum, with every quotient among its terms as a product of factors, of which some are quotients."""
    values = [(as_product(*fraction(term)), minus) for term, minus in _terms(node.body)]
    return Reduce(node.kind, node.axes, summed(values))


def _terms(body: Node) -> list[tuple[Node, bool]]:
    """The signed terms of a sum, each divided by what all of them are."""
    if isinstance(body, Call) and body.fn == "div":
        above, below = body.args
        return [(Call("div", (term, below)), minus) for term, minus in _terms(above)]
    terms = signed_terms(body)
    return terms if len(terms) == 1 else [(t, minus != m) for term, m in terms for t, minus in _terms(term)]


def as_product(up: list[Node], down: list[Node]) -> Node:
    """The product, each divisor below the smallest factor that has all its axes."""
    factors = [f for f in up if f != ONE]
    for divisor in down:
        axes = set(node_axes(divisor))
        k = min(
            (k for k, f in enumerate(factors) if axes <= set(node_axes(f))),
            key=lambda k: len(node_axes(factors[k])),
            default=None,
        )
        if k is None:
            factors.append(Call("div", (ONE, divisor)))
        else:
            factors[k] = Call("div", (factors[k], divisor))
    return multiplied(factors) if factors else ONE
