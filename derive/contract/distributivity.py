"""The distributive law over products, each way where it is less work.

- Into a sum: `r[n] * (a[c] * u[n, c, s] - b[n] * v[n, c, s])` multiplies by `r` at every place once more than
  `(r[n] * a[c]) * u[n, c, s] - (r[n] * b[n]) * v[n, c, s]`. A product that such a sum alone reads is written there.
- Out of two products with one matrix: `a @ x + a.T @ x` is `(a + a.T) @ x`. To add two matrices takes a pass over them;
  the second product would take as many as they have columns to multiply.
- Out of a sum over axes: `sum(w[n] * u[n, c] * v[n, c], over=(n, c))` is the sum of `w[n] * t[n]` with
  `t[n] = sum(u[n, c] * v[n, c], over=c)`: nothing as large as `u` is multiplied by `w`, which is what such a sum is
  taken to cost (`facts/costs/cost.py`).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from derive.contract.opened_sums import is_product
from derive.facts.costs.cost import cheaper, node_work
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import multiplied, signed_terms, to_the
from derive.ir.nodes.inlining import inline
from derive.ir.nodes.naming import new_name_of
from derive.ir.nodes.other_axes import plain, with_axes
from derive.ir.nodes.products import (
    is_matrix_product,
    is_of_differences,
    is_tensor,
    is_weighted,
    powers,
    product_factors,
)
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of, put
from derive.ir.nodes.walking import bottom_up, node_axes, walk
from derive.ir.program import Assign, Call, Node, Num, Program, Read, Reduce, Statement


def distributed(program: Program, nominal: Nominal) -> Program:
    """The same program, with small factors inside the sums that they multiply where that is less work."""
    best = _everywhere(program, nominal)
    for s in program.statements:
        if isinstance(s, Assign) and is_product(s) and (apart := inline(s, best)) is not None:
            changed = _everywhere(apart, nominal)
            best = cheaper(best, changed, nominal) if changed != apart else best
    return check(best)


def _everywhere(program: Program, nominal: Nominal) -> Program:
    return program.with_values(lambda value: bottom_up(value, lambda n: _within(n, nominal)))


def _within(node: Node, nominal: Nominal) -> Node:
    """The node, distributed where it is a product for which that is less work."""
    factors = product_factors(node)
    sums = [f for f in factors if isinstance(f, Call) and f.fn in ("add", "sub")]
    if len(factors) == 1 or len(sums) != 1:
        return node
    others = [f for f in factors if f is not sums[0]]
    if not any(len(product_factors(t)) > 1 for t, _ in signed_terms(sums[0])):
        return node  # `t - s` of what is given is exact, and `k*t - k*s` subtracts two numbers that are rounded
    small = all(set(node_axes(f)) < set(node_axes(node)) for f in others)
    if not small or not any(is_tensor(f) for f in others):
        return node
    spread = _spread(sums[0], others)
    return spread if node_work(spread, nominal) < node_work(node, nominal) else node


def _spread(term: Node, factors: list[Node]) -> Node:
    """The terms of a sum, each times all factors, from small to large."""
    if isinstance(term, Call) and term.fn in ("add", "sub", "neg"):
        return replace(term, args=tuple(_spread(a, factors) for a in term.args))
    if isinstance(term, Call) and term.fn == "div":
        return replace(term, args=(_spread(term.args[0], factors), term.args[1]))
    number, others = Fraction(1), list[Node]()
    for f in (*factors, *product_factors(term)):
        if isinstance(f, Num) and isinstance(f.value, Fraction):
            number *= f.value
        else:
            others.append(f)
    numbers: list[Node] = [] if number == 1 else [Num(number)]
    raised = [to_the(f, e) for f, e in powers(others).items()]
    return multiplied([*numbers, *sorted(raised, key=lambda f: len(node_axes(f)))])


# --- out of two products --------------------------------------------------------------------------------------------


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
    inside = first.args if isinstance(first, Call) and first.fn == "add" else (first,)
    for k, term in enumerate(inside):  # a sum of several terms is (a + b) + c
        both = _in_one(term, second)
        if both is not None:
            one = Call("add", (inside[1 - k], both)) if len(inside) > 1 else both
            if node_work(one, nominal) < node_work(whole, nominal):
                return one
    return whole


def _in_one(one: Node, other: Node) -> Reduce | None:
    """The sum of two matrix products as one, where they share a factor but for the name of the summed axis."""
    if not isinstance(one, Reduce) or not isinstance(other, Reduce):
        return None
    mine, theirs = product_factors(one.body), product_factors(other.body)
    products = all(is_matrix_product(r) and len(r.axes) == 1 and plain(r.body) for r in (one, other))
    if not products or len(mine) != 2 or len(theirs) != 2:
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


# --- out of a sum over axes -----------------------------------------------------------------------------------------


def sums_in_turn(program: Program) -> Program:
    """The same program, with sums of products first over what their small factors lack, under names."""
    out: list[Statement] = []
    taken = set(program.names)
    for s in program.statements:
        for node in dict.fromkeys(n for n in walk(s.value) if isinstance(n, Reduce)):
            small, inner = _inner(node)
            if inner is not None:
                made = Assign(new_name_of(inner, taken), axes_of(inner), inner)
                out.append(made)
                rest = tuple(a for a in node.axes if a not in inner.axes)
                outer = Reduce(node.kind, rest, multiplied([*small, Read(made.name, made.axes)]))
                s = replace(s, value=put(s.value, node, outer))
        out.append(s)
    return check(replace(program, statements=tuple(out)))


def _inner(node: Reduce) -> tuple[list[Node], Reduce | None]:
    """The smaller factors, and the sum over the axes that they lack; none if there are none, or one call sums it."""
    factors = product_factors(node.body)
    whole, over = set(node_axes(node.body)), set(node.axes)
    small = [f for f in factors if is_tensor(f) and set(node_axes(f)) < whole and not over <= set(node_axes(f))]
    large = [f for f in factors if f not in small]
    lacking = tuple(a for a in node.axes if not any(a in node_axes(f) for f in small))
    one_call = node.kind not in ("sum", "mean") or is_matrix_product(node) or is_of_differences(node)
    if one_call or is_weighted(node) or not (small and large and 0 < len(lacking) < len(over)):
        return small, None
    # beside a large factor that is no whole one the small are better multiplied into that
    apart = not any(is_tensor(f) and set(node_axes(f)) < whole for f in large) and all(map(plain, factors))
    return small, Reduce(node.kind, lacking, multiplied(large)) if apart else None
