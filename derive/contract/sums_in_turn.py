"""A sum of products is summed first over what its small factors lack.

`sum(w[n] * u[n, c] * v[n, c], over=(n, c))` is the sum of `w[n] * t[n]` with `t[n] = sum(u[n, c] * v[n, c], over=c)`:
nothing as large as `u` is multiplied by `w`, which is what such a sum is taken to cost (`facts/costs/cost.py`).
"""

from __future__ import annotations

from dataclasses import replace

from derive.ir.nodes.arithmetic import multiplied
from derive.ir.nodes.naming import new_name_of
from derive.ir.nodes.other_axes import plain
from derive.ir.nodes.products import is_matrix_product, is_of_differences, is_tensor, is_weighted, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of, put
from derive.ir.nodes.walking import node_axes, walk
from derive.ir.program import Assign, Node, Program, Read, Reduce, Statement

_KINDS = ("sum", "mean")


def sums_in_turn(program: Program) -> Program:
    """The same program, the inner ones of such sums with names."""
    out: list[Statement] = []
    taken = set(program.names)
    for s in program.statements:
        for node in dict.fromkeys(n for n in walk(s.value) if isinstance(n, Reduce)):
            inner = _inner(node)
            if inner is None:
                continue
            made = Assign(new_name_of(inner, taken), axes_of(inner), inner)
            out.append(made)
            s = replace(s, value=put(s.value, node, _outer(node, inner, Read(made.name, made.axes))))
        out.append(s)
    return check(replace(program, statements=tuple(out)))


def _inner(node: Reduce) -> Reduce | None:
    """The sum over the axes that the smaller factors lack; None where there are none, or it is one call already."""
    if node.kind not in _KINDS or is_matrix_product(node) or is_of_differences(node) or is_weighted(node):
        return None
    factors = product_factors(node.body)
    whole, over = set(node_axes(node.body)), set(node.axes)
    large = [f for f in factors if not _is_small(f, whole, over)]
    small = [f for f in factors if _is_small(f, whole, over)]
    lacking = over - {a for f in small for a in node_axes(f)}
    if not (small and large and lacking and lacking < over) or not all(map(plain, factors)):
        return None
    if any(is_tensor(f) and set(node_axes(f)) < whole for f in large):  # better the small are multiplied into that one
        return None
    return Reduce(node.kind, tuple(a for a in node.axes if a in lacking), multiplied(large))


def _is_small(factor: Node, whole: set[str], over: set[str]) -> bool:
    axes = set(node_axes(factor))
    return is_tensor(factor) and axes < whole and bool(over - axes)


def _outer(node: Reduce, inner: Reduce, read: Read) -> Reduce:
    """The same sum by way of the inner one."""
    large = product_factors(inner.body)
    rest = [f for f in product_factors(node.body) if f not in large]
    return Reduce(node.kind, tuple(a for a in node.axes if a not in inner.axes), multiplied([*rest, read]))
