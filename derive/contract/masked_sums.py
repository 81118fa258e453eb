"""Masked sums as products of matrices: what does not depend on the mask stands before it.

`sum(dy[n, t] * where(u <= t, x[n, u]*a[t, u] - x[n, u]*b[t, u], 0), over=(n, t, u))` would multiply over three axes;
with `x[n, u]` in front, `dy` and `x` are multiplied as matrices. What the mask alone keeps finite stays behind it.
And `sum(where(u <= t, dy[n, t] * x[n, u], 0), over=n)` is `where(u <= t, sum(dy[n, t] * x[n, u], over=n), 0)`.
"""

from __future__ import annotations

from dataclasses import replace

from derive.ir.nodes.arithmetic import ZERO, multiplied
from derive.ir.nodes.products import by_axes, is_matrix_product, is_tensor, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import node_axes, reads, with_sums
from derive.ir.program import Call, Node, Program, Reduce


def before_masks(program: Program) -> Program:
    """The same program, with shared factors before the masks of its sums."""
    return check(with_sums(program, _shared_first))


def with_masked_products(program: Program) -> Program:
    """The same program, with the choice made in one factor of every sum that is then a product of matrices."""
    return with_sums(program, as_product)


def after_sums(program: Program) -> Program:
    """The same program, with the choices of its sums after what is summed over axes that their conditions lack."""
    return check(with_sums(program, _choice_last))


def _choice_last(node: Reduce) -> Node:
    """A sum of a product with a choice as a choice of a matrix product, where no factor can take in the choice."""
    outside = product_factors(node.body)
    chosen = masked_factor(outside)
    if node.kind != "sum" or chosen is None or as_product(node) != node:
        return node
    condition, value, zero = chosen.args
    lacking = tuple(a for a in node.axes if a not in node_axes(condition))
    factors = [*product_factors(value), *(f for f in outside if f != chosen)]
    inside, before = by_axes(factors, lacking)
    running = not reads(condition) and bool(set(node_axes(condition)) & set(node.axes))  # a sum up to a place
    if running or not lacking or not inside or outside.count(chosen) > 1:
        return node
    total = Reduce("sum", lacking, multiplied(inside))
    if not is_matrix_product(total):
        return node
    rest = tuple(a for a in node.axes if a not in lacking)
    body = Call("where", (condition, multiplied([*before, total]), zero))
    return Reduce("sum", rest, body) if rest else body


def masked_factor(factors: list[Node]) -> Call | None:
    """The first factor that is a choice of something or 0."""
    return next((f for f in factors if isinstance(f, Call) and f.fn == "where" and f.args[2] == ZERO), None)


def as_product(node: Reduce) -> Reduce:
    """`sum(where(c, a*b, 0) * d)` with the choice made in one factor, where that leaves a product of matrices.

    Else in each factor that has all axes of `c`: what is left out is 0 in both, and may be infinite in neither.
    """
    outside = product_factors(node.body)
    chosen = masked_factor(outside)
    if node.kind != "sum" or chosen is None:
        return node
    condition, value, zero = chosen.args
    factors = product_factors(value)
    inside = [f for f in factors if set(node_axes(condition)) <= set(node_axes(f)) and is_tensor(f)]
    if not inside:
        return node
    rest = [*(f for f in factors if f not in inside), *(f for f in outside if f != chosen)]
    for own in ([multiplied(inside)], inside):  # all of them: what is left out may be infinite
        masked: list[Node] = [Call("where", (condition, f, zero)) for f in own]
        product = Reduce("sum", node.axes, multiplied([*masked, *rest]))
        if is_matrix_product(product):
            return product
    return node


def _shared_first(node: Reduce) -> Node:
    """A sum with what the terms under its masks share before them."""
    apart = replace(node, body=multiplied([f for whole in product_factors(node.body) for f in _apart(whole)]))
    return apart if is_matrix_product(apart) else node


def _apart(factor: Node) -> list[Node]:
    """A masked sum as the factors that its terms share and a mask of what is left; another factor as it is."""
    if not isinstance(factor, Call) or factor.fn != "where" or factor.args[2] != ZERO:
        return [factor]
    condition, value, zero = factor.args
    if not isinstance(value, Call) or value.fn not in ("add", "sub"):
        return [factor]
    first, second = (product_factors(a) for a in value.args)
    asked = set(node_axes(condition))
    shared = [f for f in first if f in second and not asked <= set(node_axes(f))]
    rest = [[f for f in part if f not in shared] for part in (first, second)]
    if not shared or not all(rest):
        return [factor]
    left = Call(value.fn, (multiplied(rest[0]), multiplied(rest[1])))
    return [*shared, Call("where", (condition, left, zero))]
