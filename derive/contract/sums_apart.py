"""A sum of products of matrices, added up place by place, is the sum of these products.

`sum(a[o, k] * u[n, k] + b[o, k] * v[n, k], over=k)` is `u @ a.T + v @ b.T`, and nothing runs over all three axes. What
is subtracted stays where both have a tensor in common, `x[n, k] * y[m, k] - x[n, k]**2`: they may be all but equal.
Not `x[n, k] * z[k] * y[m, k] - x[n, k] * w[m, k]`, whose products are rounded before they are subtracted in any case.
A quotient is such a product where a factor of it can be divided, `sum(a[n, k] * w[k, d] / b[n, k], over=k)` is
`(a / b) @ w`, and so is a sum of convolutions. A mean is such a sum, divided. A factor that is a sum over more axes
than its terms have is multiplied out: `q[i, k] * (u[j, k] + v[i, j])`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from derive.decisions import MATMUL
from derive.facts.costs.cost import node_work
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import ONE, multiplied, signed_terms, summed
from derive.ir.nodes.products import (
    divided_factors,
    fraction,
    is_matrix_product,
    is_outer_sum,
    is_tensor,
    powers,
    product_factors,
    weighed_terms,
)
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import node_axes, rebuilt, walk, with_sums
from derive.ir.program import Call, Index, Node, Num, Program, Read, Reduce, SizeOf, Window


def sums_apart(program: Program, nominal: Nominal) -> Program:
    """The same program, with a matrix product for every term of a sum where that is less work."""

    def within(node: Reduce) -> Node:
        total = replace(node, kind="sum")
        terms = _terms(total.body, divided=True)
        spread = replace(total, body=added([(divided_factors(*fraction(t)), minus) for t, minus in terms]))
        opened = replace(total, body=_multiplied_out(total.body))
        forms: list[Node] = [total, spread, *(f for f in map(_apart, (total, spread, opened)) if f is not None)]
        forms += [f for f in map(_inner_first, forms) if f not in forms]
        best = _inner_first(min(forms, key=lambda form: _work(form, nominal)))  # a product reads all that it sums, too
        if node.kind == "sum" or best == total:
            return best if node.kind == "sum" else node
        return mean_of(best, [SizeOf(a) for a in node.axes])

    return check(with_sums(program, within))


def mean_of(total: Node, sizes: list[Node]) -> Node:
    """A sum divided by how many it is of; what it has as often as that is no part of the quotient."""
    terms = [(_without(sizes, term), term, minus) for term, minus in signed_terms(total)]
    divided = [(Call("div", (term, multiplied(sizes))), minus) for once, term, minus in terms if once is None]
    if len(divided) == len(terms):
        return Call("div", (total, multiplied(sizes)))
    return added([*divided, *((once, minus) for once, _, minus in terms if once is not None)])


def _without(sizes: list[Node], term: Node) -> Node | None:
    """What a term is so many times; None where it is no such multiple."""
    factors = product_factors(term)
    return multiplied(factors[len(sizes) :]) if factors[: len(sizes)] == sizes and len(factors) > len(sizes) else None


def added(terms: list[tuple[Node, bool]]) -> Node:
    """The sum of signed terms, what is added before what is subtracted."""
    return summed(sorted(terms, key=lambda term: term[1]))


def _apart(node: Reduce) -> Node | None:
    """The sum of the terms' own sums; None where one of them would still run over all axes, or none is a product."""
    terms = _terms(node.body)
    subtracted = ((one, other) for one, minus in terms for other, also in terms if also and not minus)
    if len(terms) < 2 or any(_nearly_equal(*pair) for pair in subtracted):
        return None
    whole = set(node_axes(node.body))
    own = [_over_own(node, term) for term, _ in terms]
    if not any(map(_is_product, own)) or any(not _is_product(s) and set(node_axes(s.body)) == whole for s in own):
        return None
    return added([(_own_sum(node, term), minus) for term, minus in terms])


def _nearly_equal(one: Node, other: Node) -> bool:
    """Whether the difference of two terms may be more exact than they are: `z*(x - y)` is, of one rounding each.

    With a product in it that it has to round, as `z*(x*g - h)` has, it is not.
    """
    if not _may_be_alike([one], [other]):
        return False
    left, right = (Counter(powers(product_factors(term))) for term in (one, other))
    alone = [[f for f in rest.elements() if is_tensor(f)] for rest in (left - right, right - left)]
    return not (not _may_be_alike(*alone) and all(alone) and max(map(len, alone)) > 1)


def _may_be_alike(some: list[Node], others: list[Node]) -> bool:
    """Whether a number that the one reads may be one that the others read: `x[n, 0]` and `x[n, 1]` are two of them."""
    first, second = ([n for node in nodes for n in walk(node) if isinstance(n, Read)] for nodes in (some, others))
    return any(a.name == b.name and not _are_two_places(a, b) for a in first for b in second)


def _are_two_places(a: Read, b: Read) -> bool:
    """Whether two reads of a tensor are at two places of one of its dimensions."""
    numbers = [(_number_of(i), _number_of(j)) for i, j in zip(a.index, b.index, strict=True)]
    return any(None not in pair and pair[0] != pair[1] for pair in numbers)


def _number_of(index: Index) -> object:
    """The place that an index always is, counted from the first; None for any other."""
    fixed = isinstance(index, Window) and not index.steps and isinstance(index.offset, Num)
    return index.offset.value if fixed else None  # type: ignore[union-attr]


def differences_apart(node: Reduce) -> Node:
    """The products of matrices of a sum that weighs a difference, some of them subtracted: see `is_of_differences`."""
    terms = weighed_terms(product_factors(node.body))
    sums = [(others if term == ONE else [*others, term], minus) for others, term, minus in terms]
    return _inner_first(added([(_own_sum(node, multiplied(fs)), minus) for fs, minus in sums]))


def _over_own(node: Reduce, term: Node) -> Reduce:
    """The sum of one term over those of the axes that it has."""
    return Reduce("sum", tuple(a for a in node.axes if a in node_axes(term)), term)


def _terms(node: Node, minus: bool = False, divided: bool = False) -> list[tuple[Node, bool]]:
    """The terms of a sum, each with whether it is subtracted.

    A number times a sum is in each of that sum's terms, and where it is `divided`, what it is divided by.
    """
    out: list[tuple[Node, bool]] = []
    for term, negative in signed_terms(node, minus):
        inside: list[tuple[Node, bool]] = []
        by_number = isinstance(term, Call) and term.fn in ("mul", "div") and not all(map(is_tensor, term.args))
        if isinstance(term, Call) and (by_number or (divided and term.fn == "div")):
            k = 0 if term.fn == "div" or not is_tensor(term.args[1]) else 1
            own = _terms(term.args[k], negative, divided)
            inside = [(replace(term, args=_with(term.args, k, t)), sign) for t, sign in own]
        out += inside if len(inside) > 1 else [(term, negative)]
    return out


def _multiplied_out(node: Node) -> Node:
    """The terms of a sum, a product of them with each term of a factor in it that is larger than those are."""
    out: list[tuple[Node, bool]] = []
    for term, minus in _terms(node):
        factors = product_factors(term)
        k = next((k for k, f in enumerate(factors) if is_outer_sum(f)), None)
        if k is None:
            out.append((term, minus))
        else:
            opened = [multiplied([*factors[:k], t, *factors[k + 1 :]]) for t, _ in signed_terms(factors[k])]
            signs = [minus != own for _, own in signed_terms(factors[k])]
            out += signed_terms(_multiplied_out(added(list(zip(opened, signs, strict=True)))))
    return added(out)


def _inner_first(node: Node) -> Node:
    """Products of matrices in which each factor is summed first over the axes that no other has."""
    node = rebuilt(node, _inner_first)
    if not isinstance(node, Reduce) or not is_matrix_product(node):
        return node
    factors = product_factors(node.body)
    times = Counter(a for f in factors for a in node_axes(f))
    alone = [tuple(a for a in node.axes if a in node_axes(f) and times[a] == 1) for f in factors]
    if not any(alone):
        return node
    summed = [Reduce("sum", own, f) if own else f for own, f in zip(alone, factors, strict=True)]
    left = tuple(a for a in node.axes if not any(a in own for own in alone))
    return Reduce("sum", left, multiplied(summed)) if left else multiplied(summed)


def _with(args: tuple[Node, ...], k: int, other: Node) -> tuple[Node, ...]:
    return (*args[:k], other, *args[k + 1 :])


def _own_sum(node: Reduce, term: Node) -> Node:
    """A term's sum over the axes that it has, as often as the others have places."""
    own = _over_own(node, term)
    return multiplied([*(SizeOf(a) for a in node.axes if a not in own.axes), own if own.axes else term])


def of_term(node: Reduce, term: Node) -> Node:
    """The sum of one term of what is summed, or its mean."""
    if set(node.axes) <= set(node_axes(term)):
        return replace(node, body=term)
    total = _own_sum(node, term)
    return total if node.kind == "sum" else mean_of(total, [SizeOf(a) for a in node.axes])


def _is_product(node: Reduce) -> bool:
    """Whether a sum of products is one of matrices, or of a signal that is read through windows and a kernel."""
    return is_matrix_product(node) or _is_through_windows(node)


def _is_through_windows(node: Reduce) -> bool:
    factors = product_factors(node.body)
    slide = [f for f in factors if isinstance(f, Read) and any(isinstance(i, Window) and i.steps[1:] for i in f.index)]
    others = {a for f in factors if f not in slide for a in node_axes(f)}
    return len(slide) == 1 and len(factors) > 1 and others != set(node_axes(node.body))


def _work(node: Node, nominal: Nominal) -> float:
    """The work of a node, where a convolution loads what it multiplies once, as a product of matrices does.

    A factor of such a product that is larger than its terms is written for it, and read again; what is added to a
    product is not.
    """
    total = node_work(node, nominal)
    for n in walk(node):
        if isinstance(n, Reduce) and n.kind == "sum" and _is_through_windows(n):
            inside = sum((node_work(f, nominal) for f in product_factors(n.body)), 0.0)
            total -= node_work(n, nominal) - inside - nominal.elements(node_axes(n.body)) / MATMUL
        elif isinstance(n, Reduce) and is_matrix_product(n):
            total += sum(nominal.weighted(node_axes(f)) for f in product_factors(n.body) if is_outer_sum(f))
    return total
