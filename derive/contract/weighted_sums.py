"""A sum of products with a weight is a matrix times a vector: `sum(w[d] * u[n, d] * v[n, d], over=d)` is `(u * v) @ w`.

Nothing as large as `u` is multiplied with `w`. It pays where `u * v` is one tensor, or read by something else as well:
the gradient of the weight, `sum(u[n, d] * v[n, d], over=n)`. To divide by `w[n]` is to weigh with its reciprocal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from derive.contract.opened_sums import Known, Opened, common, is_product, opened
from derive.facts.costs.cost import work_and_names
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import ONE, multiplied
from derive.ir.nodes.inlining import inline
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.naming import name_of
from derive.ir.nodes.other_axes import plain, with_axes
from derive.ir.nodes.products import is_tensor, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of, put
from derive.ir.nodes.walking import node_axes, uses, walk
from derive.ir.program import Assign, Call, Node, Program, Read, Reduce, SizeOf, Statement, base

_KINDS = ("sum", "mean")


def weighted_sums(program: Program, nominal: Nominal) -> Program:
    """The same program, with such sums as matrices times vectors, each where that is less work."""
    best = program
    for node in dict.fromkeys(n for s in program.statements for n in walk(s.value) if isinstance(n, Reduce)):
        trial = _as_matrix_and_vector(node, best)
        if trial is not None and work_and_names(trial, nominal) < work_and_names(best, nominal):
            best = trial
    return best


def _as_matrix_and_vector(node: Reduce, program: Program) -> Program | None:
    """The program with a sum as a matrix times a vector; None where it is none, or nothing else has the matrix."""
    products = _products(program)
    found = _opened(node, products)
    weighed = _weighed(found)
    if not weighed or not any(node in walk(s.value) for s in program.statements):
        return None
    if len(weighed) == 1:
        return _put(program, {node: _over(found, weighed, found.written[weighed[0]])}, ())
    made = _matrix(found, weighed, program, products)
    new: dict[Reduce, Node] = {}
    for other in _sums(program, products):
        same = common(found, other, weighed)
        if same is not None and set(same.core) == set(weighed) and other.node.kind in _KINDS:
            index = tuple(found.index(str(a), same.names, other) for a in _axes(found, weighed))
            if all(i is not None for i in index):
                new[other.node] = _over(other, same.places, Read(made.name, index))  # type: ignore[arg-type]
    known = made in program.statements
    return _put(program, new, (made,)) if node in new and len(new) + known > 1 else None


def _products(program: Program) -> Known:
    """The statements that are products, by name."""
    return {n: s for n, s in program.assigned.items() if is_product(s)}


def _sums(program: Program, products: Known) -> Iterator[Opened]:
    nodes = dict.fromkeys(n for s in program.statements for n in walk(s.value) if isinstance(n, Reduce))
    yield from (_opened(n, products) for n in nodes)


def _opened(node: Reduce, products: Known) -> Opened:
    """The sum with products written out; what divides by less than it runs over multiplies by the reciprocal."""
    axes = set(node_axes(node.body))
    factors = [part for f in product_factors(node.body) for part in _as_factors(f, axes)]
    return replace(opened(replace(node, body=multiplied(factors)), {}, products), node=node)


def _as_factors(factor: Node, axes: set[str]) -> list[Node]:
    if not isinstance(factor, Call) or factor.fn != "div" or not set() < set(node_axes(factor.args[1])) < axes:
        return [factor]
    whole, by = factor.args
    others = [part for f in product_factors(whole) if f != ONE for part in _as_factors(f, axes)]
    return [*others, Call("div", (ONE, by))]


def _weighed(found: Opened) -> tuple[int, ...]:
    """The places of the factors that a vector along the summed axis weighs; none where a sum is no such thing."""
    node, factors = found.node, found.written
    axes = set(node_axes(node.body))
    if node.kind not in _KINDS or len(node.axes) != 1 or axes == set(node.axes) or not all(map(plain, factors)):
        return ()
    weighed = tuple(k for k, f in enumerate(factors) if set(node_axes(f)) == axes)
    rest = [f for k, f in enumerate(factors) if k not in weighed and is_tensor(f)]
    written = len(product_factors(node.body)) == len(factors) and len(weighed) == 1
    return weighed if rest and all(node_axes(f) == node.axes for f in rest) and not written else ()


def _axes(found: Opened, weighed: tuple[int, ...]) -> tuple[str, ...]:
    return axes_of(multiplied([found.written[k] for k in weighed]))


def _matrix(found: Opened, weighed: tuple[int, ...], program: Program, products: Known) -> Assign:
    """What is weighed, as a tensor over the plain names of its axes; the one that is there already, if it is."""
    taken = program.names
    value, axes = multiplied([found.written[k] for k in weighed]), _axes(found, weighed)
    names = {a: base(a) for a in axes}
    if len(set(names.values())) == len(names):
        value, axes = with_axes(value, names), tuple(names[a] for a in axes)
    known = next((s for s in products.values() if s.value == value and s.axes == axes), None)
    return known or Assign(name_of(value, taken), axes, value)


def _over(found: Opened, places: tuple[int, ...], matrix: Node) -> Node:
    """The sum with one matrix in place of some factors."""
    node = found.node
    rest = [f for k, f in enumerate(found.written) if k not in places]
    body = multiplied([*rest, matrix])
    if not any(is_tensor(f) for f in rest) or node.kind == "sum":
        return Reduce(node.kind, node.axes, body)
    return Call("div", (Reduce("sum", node.axes, body), multiplied([SizeOf(a) for a in node.axes])))


def _put(program: Program, new: Mapping[Reduce, Node], made: tuple[Assign, ...]) -> Program:
    """The program with other sums, what they read before them, and without what nothing reads any more.

    What they read may stand in the program already, and then perhaps behind the first of them: it moves before it.
    """
    out: list[Statement] = []
    pending = list(made)
    for s in program.statements:
        if s in made and s not in pending:
            continue
        pending = [p for p in pending if p != s]
        value = s.value
        for old, node in new.items():
            value = put(value, old, node)
        if value != s.value:
            out, pending = [*out, *pending], []
        out.append(replace(s, value=value))
    changed = without_unread(replace(program, statements=tuple(out)))
    for product in _products(changed).values():
        now, before = (len(uses(product.name, p.statements)) for p in (changed, program))
        if now < before:  # it was named for the sums as well
            changed = inline(product, changed) or changed
    return check(changed)
