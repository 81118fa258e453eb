"""Sums of products that have factors in common start from these.

- From one sum: `sum(a[c] * u[n, c, s], over=(c, s))` and `sum(u[n, c, s], over=(n, s))` both come from
  `t[n, c] = sum(u[n, c, s], over=s)`, as nothing else in either depends on `s`: one pass over `u`, and the rest is
  small. Views are seen through, so that axes `(g, k)` of one sum may be the axis `c` of another.
- From one product: `sum(w[d] * u[n, d] * v[n, d], over=d)`, with `sum(u[n, d] * v[n, d], over=n)` beside it, is
  `(u * v) @ w`, and nothing as large as `u` is multiplied with `w`. To divide by `w[n]` is to weigh with `1 / w[n]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from derive.contract.opened_sums import Common, Known, Opened, common, is_product, is_view, opened
from derive.decisions import GAIN, NAMED
from derive.facts.costs.cost import cheaper, node_work
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import ONE, multiplied
from derive.ir.nodes.inlining import inline
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.naming import name_of
from derive.ir.nodes.other_axes import plain, with_axes
from derive.ir.nodes.products import divided_factors, fraction, is_tensor, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of, put
from derive.ir.nodes.walking import axes_along, index_axes, node_axes, reads, uses, walk
from derive.ir.program import Assign, Call, Index, Node, Program, Read, Reduce, SizeOf, Statement, base


def shared_sums(program: Program, nominal: Nominal) -> Program:
    """The same program, its sums by way of common ones where that is less work."""
    while True:
        plans = sorted(_plans(program, nominal), key=lambda p: -p.gain(nominal))
        changed = (p.carried_out(program) for p in plans)
        better = next((c for c in changed if c is not None), None)
        if better is None:
            return program
        program = better


def weighted_sums(program: Program, nominal: Nominal) -> Program:
    """The same program, with sums that have a weight as matrices times vectors, each where that is less work."""
    best = program
    for node in _sums(program):
        trial = _as_matrix_and_vector(node, best)
        best = best if trial is None else cheaper(best, trial, nominal)
    return best


def _sums(program: Program) -> list[Reduce]:
    nodes = dict.fromkeys(n for s in program.statements for n in walk(s.value) if isinstance(n, Reduce))
    return [n for n in nodes if n.kind in ("sum", "mean")]


def _statements(program: Program, fits: Callable[[Assign], bool]) -> Known:
    return {n: s for n, s in program.assigned.items() if fits(s)}


@dataclass(frozen=True)
class _Plan:
    """A product, or a sum of one, with a name, and the sums that start from it, each with what it becomes."""

    part: Assign
    new: Mapping[Reduce, Node]
    named: bool  # whether the program has this statement already

    def gain(self, nominal: Nominal) -> float:
        """The work that is spared, less than nothing where that is not enough."""
        before = sum(node_work(old, nominal) for old in self.new)
        after = sum(node_work(new, nominal) for new in self.new.values())
        if not self.named:
            after += node_work(self.part.value, nominal)
            after += NAMED * nominal.weighted(set(axes_along(self.part.axes)))
        return before - after if before > GAIN * after else -1.0

    def carried_out(self, program: Program) -> Program | None:
        """The program by way of the part; None where that cannot come before all that start from it."""
        old = list(program.statements)
        users = [k for k, s in enumerate(old) if any(isinstance(n, Reduce) and n in self.new for n in walk(s.value))]
        at = min(users)
        if self.part in old:
            at = min(at, old.index(self.part))
            old.remove(self.part)
        earlier = _needed_first(self.part, old, at)
        if earlier is None or any(program.statements[k] in earlier for k in users):
            return None
        later = (replace(s, value=_by_way(s.value, self.new)) for s in old[at:] if s not in earlier)
        return without_unread(check(replace(program, statements=(*old[:at], *earlier, self.part, *later))))


def _by_way(value: Node, new: Mapping[Reduce, Node]) -> Node:
    for old, node in new.items():
        value = put(value, old, node)
    return value


def _needed_first(part: Assign, statements: list[Statement], at: int) -> list[Statement] | None:
    """What stands behind a place in the program and is read by a statement that is to stand there."""
    out: list[Statement] = []
    for name in sorted(reads(part.value)):
        made = [s for s in statements[at:] if s.name == name and s not in out]
        if not made:
            continue
        inner = _needed_first(made[0], statements, at) if isinstance(made[0], Assign) and len(made) == 1 else None
        if inner is None:
            return None
        out += [*(s for s in inner if s not in out), made[0]]
    return out


def _unprimed(part: Assign) -> Assign:
    """The statement with the plain names of its axes, where they stay apart."""
    value, body = part.value, part.value.body if isinstance(part.value, Reduce) else part.value
    names = {a: base(a) for a in node_axes(body)}
    if not plain(body) or len(set(names.values())) < len(names):
        return part
    return Assign(part.name, tuple(names[a] for a in part.axes if isinstance(a, str)), with_axes(value, names))


def _at(pattern: Opened, axis: Index, found: Common) -> Index:
    index = pattern.index(str(axis), found.names, found.other)
    assert index is not None  # what has a whole pattern, `Common.whole`, can name its axes
    return index


# --- one sum --------------------------------------------------------------------------------------------------------


def _plans(program: Program, nominal: Nominal) -> Iterator[_Plan]:
    """Every way to start several sums from a common one that is worth it."""
    views, products = (_statements(program, fits) for fits in (is_view, is_product))
    sums = [opened(n, views, products) for n in _sums(program)]
    tried: set[object] = set()
    heads = {s.node: _heads(s) for s in sums}
    for pattern in sums:
        tensors = [k for k, f in enumerate(pattern.factors) if is_tensor(f)]
        near = [s for s in sums if heads[s.node] & heads[pattern.node]]
        for other in near:
            found = common(pattern, other, tensors) if other is not pattern else None
            over = found.summed(pattern) if found is not None else ()
            if found is None or not over:
                continue
            core = tuple(k for k in sorted(found.core) if set(node_axes(pattern.factors[k])) & pattern.apart(over))
            if (pattern.node, core, over) in tried:
                continue
            tried.add((pattern.node, core, over))
            having = [c for s in near if (c := common(pattern, s, core)) is not None and c.whole(pattern, core)]
            plan = _planned(program, pattern, core, over, [c for c in having if set(over) <= set(c.summed(pattern))])
            if plan is not None and plan.gain(nominal) > 0:
                yield plan


def _heads(one: Opened) -> set[object]:
    """What two sums have one of in common, where they have a factor: a tensor, or a function and what it is made of."""
    return {(type(f), f.fn if isinstance(f, Call) else "", reads(f)) for f in one.factors}


def _planned(
    program: Program, pattern: Opened, core: tuple[int, ...], over: tuple[str, ...], users: list[Common]
) -> _Plan | None:
    """The pattern's factors at `core`, summed over `over`, as a tensor; all that can start from it do."""
    node = pattern.node
    whole = len(core) == len(pattern.written) and set(over) == set(node.axes)
    made = (s for s in program.assigned.values() if s.value == node and set(s.axes) == set(node_axes(node)))
    part = next(made, None) if whole else None
    if named := part is not None:
        users = [c for c in users if c.other is not pattern]
    else:
        kind = "mean" if all(c.other.node.kind == "mean" for c in users) else "sum"
        value = Reduce(kind, over, pattern.product(core))
        part = Assign(name_of(value, program.names), axes_of(value), value)
    new = {c.other.node: _from_part(pattern, part, over, c) for c in users}
    return _Plan(part if named else _unprimed(part), new, named) if len(users) + named > 1 else None


def _from_part(pattern: Opened, part: Assign, over: tuple[str, ...], found: Common) -> Node:
    """A sum that has the part's factors, by way of the part: means and sums differ by the number of elements."""
    whole, inner = found.other.node, part.value
    assert isinstance(inner, Reduce)
    done = {a for axis in over for a in index_axes(_at(pattern, axis, found))}
    read = Read(part.name, tuple(_at(pattern, a, found) for a in part.axes))
    rest = tuple(a for a in whole.axes if a not in done)
    body = divided_factors(*fraction(multiplied([*found.others, read])))
    shorter = Reduce(whole.kind, rest, body) if rest else body
    if whole.kind == inner.kind:
        return shorter
    count = multiplied([SizeOf(a) for a in whole.axes if a in done])
    return Call("mul", (count, shorter)) if whole.kind == "sum" else Call("div", (shorter, count))


# --- one product, weighed -------------------------------------------------------------------------------------------


def _as_matrix_and_vector(node: Reduce, program: Program) -> Program | None:
    """The program with a sum as a matrix times a vector; None where it is none, or nothing else has the matrix."""
    products = _statements(program, is_product)
    found = _with_reciprocals(node, products)
    weighed = _weighed(found)
    if not weighed or node not in (sums := _sums(program)):
        return None
    matrix = multiplied([found.written[k] for k in weighed])
    if len(weighed) == 1:
        changed = program.with_values(lambda value: put(value, node, _weighing(found, weighed, matrix)))
    else:
        made = _unprimed(Assign(name_of(matrix, program.names), axes_of(matrix), matrix))
        made = next((s for s in products.values() if (s.value, s.axes) == (made.value, made.axes)), made)
        others = (common(found, _with_reciprocals(n, products), weighed) for n in sums)
        users = [c for c in others if c is not None and c.whole(found, weighed)]
        at = ((c, Read(made.name, tuple(_at(found, a, c) for a in axes_of(matrix)))) for c in users)
        new = {c.other.node: _weighing(c.other, c.places, read) for c, read in at}
        plan = _Plan(made, new, made in program.statements)
        carried_out = plan.carried_out(program) if node in new and len(new) + plan.named > 1 else None
        if carried_out is None:
            return None
        changed = carried_out
    changed = without_unread(changed)
    for product in _statements(changed, is_product).values():
        now, before = (len(uses(product.name, p.statements)) for p in (changed, program))
        if now < before:  # it was named for the sums as well
            changed = inline(product, changed) or changed
    return check(changed)


def _with_reciprocals(node: Reduce, products: Known) -> Opened:
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
    if len(node.axes) != 1 or axes == set(node.axes) or not all(map(plain, factors)):
        return ()
    weighed = tuple(k for k, f in enumerate(factors) if set(node_axes(f)) == axes)
    rest = [f for k, f in enumerate(factors) if k not in weighed and is_tensor(f)]
    written = len(product_factors(node.body)) == len(factors) and len(weighed) == 1
    return weighed if rest and all(node_axes(f) == node.axes for f in rest) and not written else ()


def _weighing(found: Opened, places: tuple[int, ...], matrix: Node) -> Node:
    """The sum with one matrix in place of some factors."""
    node = found.node
    rest = [f for k, f in enumerate(found.written) if k not in places]
    body = multiplied([*rest, matrix])
    if not any(is_tensor(f) for f in rest) or node.kind == "sum":
        return Reduce(node.kind, node.axes, body)
    return Call("div", (Reduce("sum", node.axes, body), multiplied([SizeOf(a) for a in node.axes])))
