"""A tensor is not made where sums read it and can do without: it is inlined there.

- An outer product, over more axes than any factor has: with `m[n, o, i] = s[n, i] * w[o, i]`, `sum(m[n, o, i]**2,
  over=i)` is `sum(s[n, i]**2 * w[o, i]**2, over=i)`, and `sum(m[n, o, i] * g[n, o], over=o)` is `s[n, i] *
  sum(w[o, i] * g[n, o], over=o)`: products of matrices.
- A sum: with `h[i, j, d] = x[i, d] + z[j, d]`, `sum(h[i, j, d] * w[d, o], over=d)` is `x @ w` and `z @ w`, added up
  place by place. With `dh[i, j, d] = sum(g[i, j, o] * w[d, o], over=o)`, `sum(dh[i, j, d], over=j)` is
  `g.sum(1) @ w.T`; what has fewer axes may be added, as a bias is. A mean of sums is such a sum, divided.
- A difference of all pairs: with `h[i, j, d] = x[i, d] - y[j, d]` and `dh[i, j, d] = w[i, j] * h[i, j, d]`,
  `sum(dh[i, j, d], over=j)` is `sum(w[i, j] * (x[i, d] - y[j, d]), over=j)`. In loops the difference takes no memory;
  whole tensors are multiplied without it, in a precision in which one product may be subtracted from the other. Where
  nothing weighs the differences, `sum(h[i, j, d], over=j)` is as many times `x[i, d]`, less one sum of `y`. Nor do
  whole tensors need it where the others weigh its square, `sum(dh[i, j, d] * h[i, j, d], over=j)`, which one call sums
  as it is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from derive.contract.opened_sums import Known, is_product
from derive.contract.sums_apart import added, mean_of, of_term, sums_apart
from derive.facts.costs.cost import cheaper
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import multiplied, quotient, signed_terms, signless, to_the, whole_power
from derive.ir.nodes.distances import weighed_apart
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.other_axes import plain, plain_but_windows, plain_by_axes, value_at, with_axes
from derive.ir.nodes.products import (
    by_axes,
    divided_factors,
    fraction,
    is_matrix_product,
    is_of_differences,
    is_outer_difference,
    is_outer_sum,
    is_tensor,
    powers,
    product_factors,
)
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import axes_along, by_axes_once, node_axes, reads, rebuilt, uses, walk, with_sums
from derive.ir.program import Assign, Call, Node, Program, Read, Reduce, SizeOf, base


def inlined_in_sums(program: Program, nominal: Nominal) -> Program:
    """The same program, without tensors of these kinds, each where that is less work."""
    for kind in (_outer_products, _sums, _differences_weighed):
        program = kind(program, nominal)
    return program


def squares_of_differences(program: Program, nominal: Nominal) -> Program:
    """The same program, with weighed squares of differences where the tensor of these is read for nothing else.

    For whole tensors alone: loops make a difference once for all that they sum.
    """
    known = _differences(program)
    return _changed(program, nominal, lambda node: _with_square(node, known))


# --- outer products ---------------------------------------------------------------------------------------


def _outer_products(program: Program, nominal: Nominal) -> Program:
    """The same program, with sums of the factors of such products where that is less work."""
    products = {n: s for n, s in program.assigned.items() if is_product(s)}
    changed = without_unread(check(with_sums(program, lambda node: _by_factors(node, products))))
    return cheaper(program, changed, nominal)


def _by_factors(node: Reduce, products: Known) -> Node:
    """A sum with the factors of the outer products in it; itself where there are none, or it is no matrix product."""
    factors = powers(_factors(node.body, products))
    if node.kind != "sum" or factors == powers(product_factors(node.body)):
        return node
    inside, outside = by_axes((to_the(f, e) for f, e in factors.items()), node.axes)
    total = Reduce("sum", node.axes, multiplied(inside)) if inside else node
    return multiplied([*outside, total]) if is_matrix_product(total) else node


def _factors(node: Node, products: Known) -> list[Node]:
    """The factors of a product, each as often as it is one, those of outer products in the place of these."""
    out: list[Node] = []
    for root, times in powers(product_factors(node)).items():
        made = products.get(root.name) if isinstance(root, Read) and plain(root) else None
        inner = [root] if made is None else _factors(value_at(made, root.index), products)  # type: ignore[union-attr]
        if any(set(node_axes(f)) == set(node_axes(root)) for f in inner):
            inner = [root]  # as large as one of its factors
        out += inner * times
    return out


# --- sums -------------------------------------------------------------------------------------------------


def _sums(program: Program, nominal: Nominal) -> Program:
    """The same program, without such tensors where that is less work."""
    best = program
    for name in [s.name for s in program.statements]:
        made = [s for s in best.statements if s.name == name]  # as an earlier change has left it
        if len(made) == 1 and isinstance(s := made[0], Assign) and _is_sum(s):
            trial = _written_where_summed(s, best)
            trial = trial and sums_apart(trial, nominal)
            best = best if trial is None else cheaper(best, trial, nominal)
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
    if made.name in program.ends or changed or not all(by_axes_once(read) for _, read in found):
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


# --- differences of all pairs -----------------------------------------------------------------------------


def _differences_weighed(program: Program, nominal: Nominal) -> Program:
    """The same program, with weighted sums of differences where these are less work than the tensor of them."""
    known = _differences(program)
    return _changed(program, nominal, lambda node: _weighted(node, known))


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
    once = {n for n in known if counted[n] == 1 and n not in program.ends}

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
    weight = divided_factors([f for f in inside if f != difference], over)
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
    total = Reduce("sum", node.axes, multiplied([divided_factors(inside, over), to_the(root, 2)]))
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
