"""A tensor that is a sum is not made where only sums read it, and can do without.

With `h[i, j, d] = x[i, d] + z[j, d]`, `sum(h[i, j, d] * w[d, o], over=d)` is `x @ w` and `z @ w`, added up place by
place. With `dh[i, j, d] = sum(g[i, j, o] * w[d, o], over=o)`, `sum(dh[i, j, d], over=j)` is `g.sum(1) @ w.T`; what has
fewer axes may be added, as a bias is. A mean of sums is such a sum, divided.
"""

from __future__ import annotations

from dataclasses import replace

from derive.contract.sums_apart import added, mean_of, of_term, sums_apart
from derive.facts.costs.cost import work_and_names
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import multiplied, signed_terms
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.other_axes import plain, plain_but_windows, value_at, with_axes
from derive.ir.nodes.products import is_matrix_product, is_outer_sum, is_tensor, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import axes_along, by_axes_once, node_axes, reads, uses, walk, with_sums
from derive.ir.program import Assign, Call, Node, Program, Read, Reduce, SizeOf, base


def through_named_sums(program: Program, nominal: Nominal) -> Program:
    """The same program, without such tensors where that is less work."""
    best = program
    for name in [s.name for s in program.statements]:
        made = [s for s in best.statements if s.name == name]  # as an earlier change has left it
        if len(made) == 1 and isinstance(s := made[0], Assign) and _is_sum(s):
            trial = _written_where_summed(s, best)
            trial = trial and sums_apart(trial, nominal)
            if trial is not None and work_and_names(trial, nominal) < work_and_names(best, nominal):
                best = trial
    return best


def _is_sum(s: Assign) -> bool:
    """Whether a statement adds up smaller tensors, or products of matrices."""
    if not all(isinstance(a, str) for a in s.axes) or set(s.axes) != set(node_axes(s.value)):
        return False
    terms = signed_terms(s.value)
    products = [t for t, _ in terms if isinstance(t, Reduce) and is_matrix_product(t) and plain_but_windows(t.body)]
    if products:  # what is subtracted stays beside it: they may be all but equal
        beside = [t for t, _ in terms if t not in products]
        return len({minus for _, minus in terms}) == 1 and all(_is_smaller(t, s.value) for t in beside)
    return plain(s.value) and is_outer_sum(s.value)


def _is_smaller(node: Node, than: Node) -> bool:
    """Whether a term is plain, and has fewer axes than what it is a term of."""
    return plain(node) and is_tensor(node) and set(node_axes(node)) < set(node_axes(than))


def _written_where_summed(made: Assign, program: Program) -> Program | None:
    """The program with a tensor's value where sums read it; None where something else does too."""
    found = uses(made.name, program.statements)
    changed = program.added_to & (reads(made.value) | {made.name})
    if made.name in program.returns or changed or not all(by_axes_once(read) for _, read in found):
        return None
    written = with_sums(program, lambda node: _with_value(node, made))
    return None if uses(made.name, written.statements) else check(without_unread(written))


def _with_value(node: Reduce, made: Assign) -> Node:
    """The sum with the tensor's value in the place of a factor that reads the tensor; sums of sums are one."""
    body = node.body
    if isinstance(body, Call) and (body.fn == "neg" or (body.fn == "div" and not is_tensor(body.args[1]))):
        inner = _with_value(replace(node, body=body.args[0]), made)
        return node if made.name in reads(inner) else replace(body, args=(inner, *body.args[1:]))
    if isinstance(body, Call) and body.fn in ("add", "sub"):
        return _term_by_term(node, made)
    factors = product_factors(body)
    read = next((f for f in factors if isinstance(f, Read) and f.name == made.name), None)
    if read is None:
        return node
    k = factors.index(read)
    before, behind = factors[:k], factors[k + 1 :]
    terms = signed_terms(made.value)
    if not any(isinstance(t, Reduce) for t, _ in terms):
        return replace(node, body=multiplied([*before, value_at(made, read.index), *behind]))
    names = dict(zip(axes_along(made.axes), read.index, strict=True))
    used = {*node_axes(node.body), *(a for n in walk(node) if isinstance(n, Reduce) for a in n.axes)}
    sums: list[tuple[Node, bool]] = []
    for t, minus in terms:
        own = {a: _fresh(a, used) for a in t.axes} if isinstance(t, Reduce) else {}
        inner = t.body if isinstance(t, Reduce) else t
        body = multiplied([*before, *behind, *product_factors(with_axes(inner, names | own))])
        sums.append((of_term(Reduce("sum", (*node.axes, *own.values()), body), body), minus))
    return added(sums) if node.kind == "sum" else mean_of(added(sums), [SizeOf(a) for a in node.axes])


def _term_by_term(node: Reduce, made: Assign) -> Node:
    """The sum of the tensor and of smaller ones as their sums, added up; the node itself where that is no such sum."""
    terms = signed_terms(node.body)
    read = [t for t, _ in terms if made.name in reads(t)]
    others = [t for t, _ in terms if t not in read]
    if len(read) != 1 or any(minus for _, minus in terms) or not all(_is_smaller(t, node.body) for t in others):
        return node
    first = _with_value(replace(node, body=read[0]), made)
    if made.name in reads(first):
        return node
    return added([(first, False), *((of_term(node, t), False) for t in others)])


def _fresh(axis: str, used: set[str]) -> str:
    """A name for an axis that is none of these."""
    name = base(axis)
    while name in used:
        name += "'"
    return name
