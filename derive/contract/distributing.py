"""A small factor goes into a sum of products, where every product has a small factor for it to meet.

`r[n] * (a[c] * u[n, c, s] - b[n] * v[n, c, s])` multiplies by `r` at every place once more than
`(r[n] * a[c]) * u[n, c, s] - (r[n] * b[n]) * v[n, c, s]`. A product that such a sum alone reads is written there.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from derive.contract.opened_sums import is_product
from derive.facts.costs.cost import cheaper, node_work
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import multiplied, signed_terms, to_the, whole_power
from derive.ir.nodes.inlining import inline
from derive.ir.nodes.products import is_tensor, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import bottom_up, node_axes
from derive.ir.program import Assign, Call, Node, Num, Program


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
    if not isinstance(node, Call):
        return node
    factors = product_factors(node)
    sums = [f for f in factors if isinstance(f, Call) and f.fn in ("add", "sub")]
    if node.fn != "mul" or len(sums) != 1:
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
    number, powers = Fraction(1), dict[Node, int]()
    for f in (*factors, *product_factors(term)):
        if isinstance(f, Num) and isinstance(f.value, Fraction):
            number *= f.value
        else:
            root, exponent = whole_power(f)
            powers[root] = powers.get(root, 0) + exponent
    numbers: list[Node] = [] if number == 1 else [Num(number)]
    raised = [to_the(f, e) for f, e in powers.items()]
    return multiplied([*numbers, *sorted(raised, key=lambda f: len(node_axes(f)))])
