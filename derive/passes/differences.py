"""A tensor of all differences is not made where weighted sums of them are all that is read of it.

With `h[i, j, d] = x[i, d] - y[j, d]` and `dh[i, j, d] = w[i, j] * h[i, j, d]`, `sum(dh[i, j, d], over=j)` is
`sum(w[i, j] * (x[i, d] - y[j, d]), over=j)`. In loops the difference takes no memory; whole tensors are multiplied
without it, in a precision in which one product may be subtracted from the other. Where nothing weighs the differences,
`sum(h[i, j, d], over=j)` is as many times `x[i, d]`, less one sum of `y`.
"""

from __future__ import annotations

from dataclasses import replace

from derive.costs.cost import work_and_names
from derive.lengths.nominal import Nominal
from derive.nodes.arithmetic import multiplied, signless
from derive.nodes.other_axes import plain_by_axes, value_at
from derive.nodes.products import by_axes, fraction, is_of_differences, is_outer_difference, product_factors
from derive.nodes.soundness import check
from derive.nodes.walking import axes_along, by_axes_once, node_axes, rebuilt
from derive.passes.divided_factors import as_product
from derive.passes.leftovers import without_unread
from derive.passes.opened_sums import Known
from derive.program import Assign, Call, Node, Program, Read, Reduce, SizeOf


def sums_of_differences(program: Program, nominal: Nominal) -> Program:
    """The same program, with weighted sums of differences where these are less work than the tensor of them."""
    known = {n: s for n, s in program.assigned.items() if _is_plain(s)}
    known = {n: s for n, s in known.items() if _is_of_difference(s.value, known)}

    def within(node: Node) -> Node:
        node = rebuilt(node, within)
        is_sum = isinstance(node, Reduce) and node.kind in ("sum", "mean")
        return _weighted(node, known) if is_sum else node  # type: ignore[arg-type]

    changed = without_unread(check(program.with_values(within)))
    return changed if work_and_names(changed, nominal) < work_and_names(program, nominal) else program


def _is_plain(s: Assign) -> bool:
    """Whether a statement's value may stand where the tensor is read, under other names of its axes."""
    whole = all(isinstance(a, str) for a in s.axes) and set(axes_along(s.axes)) == set(node_axes(s.value))
    return whole and plain_by_axes(s.value)


def _is_of_difference(node: Node, known: Known) -> bool:
    """Whether a factor of a product or quotient, above the line, is a difference over more axes than its terms have."""
    if isinstance(node, Read) and node.name in known:
        return _is_of_difference(known[node.name].value, known)
    if isinstance(node, Call) and node.fn in ("mul", "div", "neg"):
        return any(_is_of_difference(a, known) for a in (node.args if node.fn == "mul" else node.args[:1]))
    return is_outer_difference(node)


def _weighted(node: Reduce, known: Known) -> Node:
    """The sum with the difference that is a factor of it, and what that is weighed by; itself without one."""
    body, minus = signless(_opened(node.body, known))
    up, down = fraction(body)
    differences = [f for f in up if is_outer_difference(f)]
    if len(differences) != 1:
        return node
    difference = differences[0]
    (inside, outside), (over, below) = (by_axes(part, node.axes) for part in (up, down))
    weight = as_product([f for f in inside if f != difference], over)
    if minus and (turned := _turned(difference)) is not None:
        difference, minus = turned, False
    total = Reduce("sum", node.axes, multiplied([*product_factors(weight), difference]))
    if not is_of_differences(total):
        return node
    below += [SizeOf(a) for a in node.axes if node.kind == "mean"]
    if not below:
        value = multiplied([*outside, total])
    elif outside:
        value = Call("mul", (Call("div", (multiplied(outside), multiplied(below))), total))
    else:
        value = Call("div", (total, multiplied(below)))
    return Call("neg", (value,)) if minus else value


def _turned(difference: Node) -> Node | None:
    """`y - x` for `x - y`."""
    is_of_two = isinstance(difference, Call) and difference.fn == "sub"
    return Call("sub", difference.args[::-1]) if is_of_two else None  # type: ignore[union-attr]


def _opened(node: Node, known: Known) -> Node:
    """A product or quotient with the values of known tensors in their place, those above the line."""
    if isinstance(node, Read) and node.name in known and by_axes_once(node):
        return _opened(value_at(known[node.name], node.index), known)
    if isinstance(node, Call) and node.fn in ("mul", "div", "neg"):
        count = len(node.args) if node.fn == "mul" else 1
        return replace(node, args=(*(_opened(a, known) for a in node.args[:count]), *node.args[count:]))
    return node
