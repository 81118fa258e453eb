"""A tensor of all differences is not made where weighted sums of them are all that is read of it.

With `h[i, j, d] = x[i, d] - y[j, d]` and `dh[i, j, d] = w[i, j] * h[i, j, d]`, `sum(dh[i, j, d], over=j)` is
`sum(w[i, j] * (x[i, d] - y[j, d]), over=j)`. In loops the difference takes no memory; whole tensors are multiplied
without it, in a precision in which one product may be subtracted from the other. Where nothing weighs the differences,
`sum(h[i, j, d], over=j)` is as many times `x[i, d]`, less one sum of `y`. Nor do whole tensors need
it where the others weigh its square, `sum(dh[i, j, d] * h[i, j, d], over=j)`, which one call sums as it is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from derive.contract.divided_factors import as_product
from derive.contract.opened_sums import Known
from derive.facts.costs.cost import cheaper
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import multiplied, quotient, signless, to_the, whole_power
from derive.ir.nodes.distances import weighed_apart
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.other_axes import plain_by_axes, value_at
from derive.ir.nodes.products import by_axes, fraction, is_of_differences, is_outer_difference, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import axes_along, by_axes_once, node_axes, reads, rebuilt, with_sums
from derive.ir.program import Assign, Call, Node, Program, Read, Reduce, SizeOf


def sums_of_differences(program: Program, nominal: Nominal) -> Program:
    """The same program, with weighted sums of differences where these are less work than the tensor of them."""
    known = _differences(program)
    return _changed(program, nominal, lambda node: _weighted(node, known))


def squares_of_differences(program: Program, nominal: Nominal) -> Program:
    """The same program, with weighed squares of differences where the tensor of these is read for nothing else.

    For whole tensors alone: loops make a difference once for all that they sum.
    """
    known = _differences(program)
    return _changed(program, nominal, lambda node: _with_square(node, known))


def _differences(program: Program) -> Known:
    """The tensors that are differences of all pairs, or multiples of such."""
    found: dict[str, Assign] = {}
    for name, s in program.assigned.items():
        if _is_plain(s) and _is_of_difference(s.value, found):
            found[name] = s
    return found


def _changed(program: Program, nominal: Nominal, weighted: Callable[[Reduce], Node]) -> Program:
    """The program with its sums changed, where that is less work."""
    changed = _put_back(without_unread(check(with_sums(program, weighted))), _differences(program))
    return cheaper(program, changed, nominal)


def _put_back(program: Program, known: Known) -> Program:
    """The program with such a tensor that a sum reads, and nothing else, in that sum: of squares, one call makes it."""
    counted = Counter(n for s in program.statements for n in (*reads(s.value), *(r for i in s.slots for r in reads(i))))
    once = {n for n in known if counted[n] == 1 and n not in program.returns}

    def put(node: Node, summed: bool) -> Node:
        if isinstance(node, Read) and summed and node.name in once and by_axes_once(node):
            return value_at(known[node.name], node.index)
        return rebuilt(node, lambda n: put(n, summed or isinstance(node, Reduce)))

    return without_unread(check(program.with_values(lambda node: put(node, summed=False))))


def _is_plain(s: Assign) -> bool:
    """Whether a statement's value may stand where the tensor is read, under other names of its axes."""
    whole = all(isinstance(a, str) for a in s.axes) and set(axes_along(s.axes)) == set(node_axes(s.value))
    return whole and plain_by_axes(s.value)


def _is_of_difference(node: Node, before: Known) -> bool:
    """Whether a factor of a product or quotient, above the line, is a difference over more axes than its terms have, or
    one of those before.
    """
    if isinstance(node, Read):
        return node.name in before
    if isinstance(node, Call) and node.fn in ("mul", "div", "neg"):
        return any(_is_of_difference(a, before) for a in (node.args if node.fn == "mul" else node.args[:1]))
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
    return _beside(node, total, outside, below, minus) if is_of_differences(total) else node


def _with_square(node: Reduce, known: Known) -> Node:
    """The sum with the square of a difference, and what that is weighed by; itself without one."""
    body, minus = signless(_opened(node.body, known))
    up, down = fraction(body)
    if (found := _square_among(up, down, known)) is None:
        return node
    root, up, down = found
    (inside, outside), (over, below) = (by_axes(part, node.axes) for part in (up, down))
    total = Reduce("sum", node.axes, multiplied([as_product(inside, over), to_the(root, 2)]))
    return _beside(node, total, outside, below, minus) if weighed_apart(total) is not None else node


def _square_among(up: list[Node], down: list[Node], known: Known) -> tuple[Node, list[Node], list[Node]] | None:
    """The root of the one square of a difference in a quotient, with what divides twice, and what is left of this."""
    squares = [f for f in up if whole_power(f)[1] == 2]
    roots = [signless(_opened(whole_power(f)[0], known))[0] for f in squares]
    differences = [f for f in up if is_outer_difference(f)]
    if not differences:
        found = [k for k, root in enumerate(roots) if any(map(is_outer_difference, fraction(root)[0]))]
        return (roots[found[0]], [f for f in up if f != squares[found[0]]], down) if len(found) == 1 else None
    if len(differences) != 2 or differences[0] != differences[1]:
        return None
    twice = [n for n in dict.fromkeys(down) if down.count(n) == 2]
    root = quotient(differences[:1], twice)
    return root, [f for f in up if f != differences[0]], [n for n in down if n not in twice]


def _beside(node: Reduce, total: Reduce, outside: list[Node], below: list[Node], minus: bool) -> Node:
    """A sum as another, with what that is multiplied with and divided by; of a mean, by its lengths as well."""
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
