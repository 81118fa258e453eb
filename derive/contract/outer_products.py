"""A product over more axes than any factor has is not made where only sums read it: they are products of matrices.

With `m[n, o, i] = s[n, i] * w[o, i]`, `sum(m[n, o, i]**2, over=i)` is `sum(s[n, i]**2 * w[o, i]**2, over=i)`, and
`sum(m[n, o, i] * g[n, o], over=o)` is `s[n, i] * sum(w[o, i] * g[n, o], over=o)`.
"""

from __future__ import annotations

from derive.contract.opened_sums import Known, is_product
from derive.facts.costs.cost import cheaper
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import multiplied, to_the, whole_power
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.other_axes import plain, value_at
from derive.ir.nodes.products import by_axes, is_matrix_product, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import node_axes, with_sums
from derive.ir.program import Node, Program, Read, Reduce

_Powers = dict[Node, int]


def through_outer_products(program: Program, nominal: Nominal) -> Program:
    """The same program, with sums of the factors of such products where that is less work."""
    products = {n: s for n, s in program.assigned.items() if is_product(s)}
    changed = without_unread(check(with_sums(program, lambda node: _by_factors(node, products))))
    return cheaper(program, changed, nominal)


def _by_factors(node: Reduce, products: Known) -> Node:
    """A sum with the factors of the outer products in it; itself where there are none, or it is no matrix product."""
    powers = _factors(node.body, products)
    if node.kind != "sum" or powers == _factors(node.body, {}):
        return node
    factors = [to_the(f, e) for f, e in powers.items()]
    inside, outside = by_axes(factors, node.axes)
    total = Reduce("sum", node.axes, multiplied(inside)) if inside else node
    return multiplied([*outside, total]) if is_matrix_product(total) else node


def _factors(node: Node, products: Known) -> _Powers:
    """The factors of a product as powers, those of outer products in the place of these."""
    found: _Powers = {}
    for factor in product_factors(node):
        root, exponent = whole_power(factor)
        made = products.get(root.name) if isinstance(root, Read) and plain(root) else None
        if made is None or not isinstance(root, Read):
            inner: _Powers = {root: 1}
        else:
            inner = _factors(value_at(made, root.index), products)
            if any(set(node_axes(f)) == set(node_axes(root)) for f in inner):
                inner = {root: 1}  # as large as one of its factors
        for f, e in inner.items():
            found[f] = found.get(f, 0) + e * exponent
    return found
