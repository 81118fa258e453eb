"""What every term of a masked sum shares stands before the mask, where that leaves a product of matrices.

`sum(dy[n, t] * where(u <= t, x[n, u]*a[t, u] - x[n, u]*b[t, u], 0), over=(n, t, u))` would multiply over three axes;
with `x[n, u]` in front, `dy` and `x` are multiplied as matrices. What the mask alone keeps finite stays behind it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from derive.cost import is_matrix_product, product_factors
from derive.program import Call, Join, Node, Num, Program, Reduce, multiplied
from derive.soundness import check
from derive.walking import node_axes

_ZERO = Num(Fraction(0))


def before_masks(program: Program) -> Program:
    """The same program, with shared factors before the masks of its sums."""
    return check(replace(program, statements=tuple(replace(s, value=_within(s.value)) for s in program.statements)))


def _within(node: Node) -> Node:
    if isinstance(node, Call):
        return replace(node, args=tuple(_within(a) for a in node.args))
    if isinstance(node, Join):
        return replace(node, parts=tuple(_within(p) for p in node.parts))
    if not isinstance(node, Reduce):
        return node
    node = replace(node, body=_within(node.body))
    apart = replace(node, body=multiplied([f for whole in product_factors(node.body) for f in _apart(whole)]))
    return apart if is_matrix_product(apart) else node


def _apart(factor: Node) -> list[Node]:
    """A masked sum as the factors that its terms share and a mask of what is left; another factor as it is."""
    if not isinstance(factor, Call) or factor.fn != "where" or factor.args[2] != _ZERO:
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
