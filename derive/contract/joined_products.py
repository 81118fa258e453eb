"""Two products with one matrix are the product of a sum with it: `a @ x + a.T @ x` is `(a + a.T) @ x`.

To add two matrices takes a pass over them; the second product would take as many as they have columns to multiply.
"""

from __future__ import annotations

from dataclasses import replace

from derive.facts.costs.cost import node_work
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.other_axes import plain, with_axes
from derive.ir.nodes.products import is_matrix_product, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import node_axes
from derive.ir.program import Call, Node, Program, Read, Reduce


def joined_products(program: Program, nominal: Nominal) -> Program:
    """The same program, with one product for two in a sum where that is less work."""
    return check(program.with_values(lambda value: _joined(value, nominal)))


def _joined(node: Node, nominal: Nominal) -> Node:
    if not isinstance(node, Call):
        return node
    whole = replace(node, args=tuple(_joined(a, nominal) for a in node.args))
    if whole.fn != "add":
        return whole
    first, second = whole.args
    if isinstance(second, Reduce):  # a sum of several terms is (a + b) + c
        inside = first.args if isinstance(first, Call) and first.fn == "add" else (first,)
        for k, term in enumerate(inside):
            both = _in_one(term, second) if isinstance(term, Reduce) else None
            if both is not None:
                rest = [t for m, t in enumerate(inside) if m != k]
                one = Call("add", (rest[0], both)) if rest else both
                if node_work(one, nominal) < node_work(whole, nominal):
                    return one
    return whole


def _in_one(one: Reduce, other: Reduce) -> Reduce | None:
    """The sum of two matrix products as one, where they share a factor but for the name of the summed axis."""
    if not all(is_matrix_product(r) and len(r.axes) == 1 and plain(r.body) for r in (one, other)):
        return None
    mine, theirs = product_factors(one.body), product_factors(other.body)
    if len(mine) != 2 or len(theirs) != 2:
        return None
    (bound,), (their_bound,) = one.axes, other.axes
    if bound in node_axes(other.body) and bound != their_bound:
        return None
    theirs = [with_axes(f, {their_bound: bound}) for f in theirs]
    for k, shared in enumerate(mine):
        if isinstance(shared, Read) and bound in node_axes(shared) and shared in theirs:
            rest = mine[1 - k], theirs[1 - theirs.index(shared)]
            if set(node_axes(rest[0])) == set(node_axes(rest[1])):
                return replace(one, body=Call("mul", (Call("add", rest), shared)))
    return None
