"""Sums of products that have factors in common start from one sum of those factors.

`sum(a[c] * u[n, c, s], over=(c, s))` and `sum(u[n, c, s], over=(n, s))` both come from
`t[n, c] = sum(u[n, c, s], over=s)`, as nothing else in either depends on `s`: one pass over `u`, and the rest is small.
Views are seen through, so that axes `(g, k)` of one sum may be the axis `c` of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from derive.contract.divided_factors import as_product
from derive.contract.opened_sums import Common, Opened, common, is_product, is_view, opened
from derive.decisions import GAIN, NAMED
from derive.facts.costs.cost import node_work
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import multiplied
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.naming import name_of
from derive.ir.nodes.other_axes import plain, with_axes
from derive.ir.nodes.products import fraction, is_tensor
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of, put
from derive.ir.nodes.walking import axes_along, index_axes, node_axes, reads, walk
from derive.ir.program import Assign, Call, Index, Node, Program, Read, Reduce, SizeOf, Statement, base

_KINDS = ("sum", "mean")


def shared_sums(program: Program, nominal: Nominal) -> Program:
    """The same program, its sums by way of common ones where that is less work."""
    while True:
        plans = sorted(_plans(program, nominal), key=lambda p: -p.gain(nominal))
        changed = (p.carried_out(program) for p in plans)
        better = next((c for c in changed if c is not None), None)
        if better is None:
            return program
        program = without_unread(check(better))


def _plans(program: Program, nominal: Nominal) -> Iterator[_Plan]:
    """Every way to start several sums from a common one that is worth it."""
    nodes = dict.fromkeys(n for s in program.statements for n in walk(s.value))
    views, products = ({n: s for n, s in program.assigned.items() if fits(s)} for fits in (is_view, is_product))
    sums = [opened(n, views, products) for n in nodes if isinstance(n, Reduce) and n.kind in _KINDS]
    taken = program.names
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
            plan = _planned(program, pattern, core, over, having, taken)
            if plan is not None and plan.gain(nominal) > 0:
                yield plan


def _heads(one: Opened) -> set[object]:
    """What two sums have one of in common, where they have a factor: a tensor, or a function and what it is made of."""
    return {(type(f), f.fn if isinstance(f, Call) else "", reads(f)) for f in one.factors}


@dataclass(frozen=True)
class _Plan:
    """A sum with a name, and the sums that start from it, each with what it becomes."""

    part: Assign
    named: bool  # whether the program has this statement already
    new: tuple[tuple[Reduce, Node], ...]

    def gain(self, nominal: Nominal) -> float:
        """The work that is spared, less than nothing where that is not enough."""
        before = sum(node_work(old, nominal) for old, _ in self.new)
        after = sum(node_work(new, nominal) for _, new in self.new)
        if not self.named:
            after += node_work(self.part.value, nominal)
            after += NAMED * nominal.weighted(set(axes_along(self.part.axes)))
        return before - after if before > GAIN * after else -1.0

    def carried_out(self, program: Program) -> Program | None:
        """The program by way of the common sum; None where that cannot come before all that start from it."""
        old = list(program.statements)
        uses = [k for k, s in enumerate(old) if any(n == o for n in walk(s.value) for o, _ in self.new)]
        at = min(uses)
        if self.part in old:
            at = min(at, old.index(self.part))
            old.remove(self.part)
        earlier = _needed_first(self.part, old, at)
        if earlier is None or any(program.statements[k] in earlier for k in uses):
            return None
        out: list[Statement] = [*old[:at], *earlier, self.part]
        for s in (s for s in old[at:] if s not in earlier):
            value = s.value
            for node, new in self.new:
                value = put(value, node, new)
            out.append(replace(s, value=value))
        return replace(program, statements=tuple(out))


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


def _planned(
    program: Program,
    pattern: Opened,
    core: tuple[int, ...],
    over: tuple[str, ...],
    having: list[Common],
    taken: set[str],
) -> _Plan | None:
    """The pattern's factors at `core`, summed over `over`, as a tensor; all that can start from it do."""
    users = [c for c in having if set(over) <= set(c.summed(pattern))]
    whole = len(core) == len(pattern.written) and set(over) == set(pattern.node.axes)
    part = next((s for s in program.statements if isinstance(s, Assign) and whole and _defines(s, pattern.node)), None)
    named = part is not None
    kind = "mean" if all(c.other.node.kind == "mean" for c in users) else "sum"
    if part is None:
        value = Reduce(kind, over, pattern.product(core))
        part = Assign(name_of(value, taken), axes_of(value), value)
    users = [c for c in users if not named or c.other is not pattern]
    new = tuple((c.other.node, _from_part(pattern, part, over, c)) for c in users)
    part = part if named else _unprimed(part)
    return _Plan(part, named, new) if len(users) + named > 1 else None


def _defines(s: Assign, node: Reduce) -> bool:
    return s.value == node and set(s.axes) == set(node_axes(node))


def _unprimed(part: Assign) -> Assign:
    """The statement with the plain names of its axes, where they stay apart."""
    value = part.value
    assert isinstance(value, Reduce)
    names = {a: base(a) for a in node_axes(value.body)}
    if not plain(value.body) or len(set(names.values())) < len(names):
        return part
    short = Reduce(value.kind, tuple(names[a] for a in value.axes), with_axes(value.body, names))
    return Assign(part.name, tuple(names[a] for a in part.axes if isinstance(a, str)), short)


def _from_part(pattern: Opened, part: Assign, over: tuple[str, ...], found: Common) -> Node:
    """A sum that has the part's factors, by way of the part: means and sums differ by the number of elements."""
    whole, inner = found.other.node, part.value
    assert isinstance(inner, Reduce)
    done = {a for axis in over for a in index_axes(_at(pattern, axis, found))}
    read = Read(part.name, tuple(_at(pattern, str(a), found) for a in part.axes))
    others = [f for k, f in enumerate(found.other.written) if k not in found.places]
    rest = tuple(a for a in whole.axes if a not in done)
    body = as_product(*fraction(multiplied([*others, read])))
    shorter = Reduce(whole.kind, rest, body) if rest else body
    if whole.kind == inner.kind:
        return shorter
    count = multiplied([SizeOf(a) for a in whole.axes if a in done])
    return Call("mul", (count, shorter)) if whole.kind == "sum" else Call("div", (shorter, count))


def _at(pattern: Opened, axis: str, found: Common) -> Index:
    index = pattern.index(axis, found.names, found.other)
    assert index is not None  # `having` holds no other
    return index
