"""Law: where two sums that are subtracted have the same number for a point and itself, both leave that pair out.

`mass[n] * sum(inv[i, n] * dy[i, d], over=i) - dy[n, d] * sum(inv[n, j] * mass[j], over=j)` has `mass * inv * dy` of the
point n alone in both. Where the weight is computed from differences of the points it may be largest for those that
coincide, as each does with itself, and what cancels would take the digits of the others. A weight that is given is
multiplied as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product

from derive.ir.equations import Op
from derive.ir.nodes.arithmetic import quotient, signed_terms
from derive.ir.nodes.matching import reading
from derive.ir.nodes.naming import name_of
from derive.ir.nodes.other_axes import plain_by_axes, with_axes
from derive.ir.nodes.own_pairs import is_by_differences, vanishes_for_own, without_own_pairs
from derive.ir.nodes.products import fraction
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of, put
from derive.ir.nodes.walking import by_axes, children, node_axes, uses, walk
from derive.ir.program import Assign, Call, Node, Program, Read, Reduce
from derive.ir.terms.names import free_name
from derive.schedule.forward import forward_statements

Known = Callable[[], Mapping[str, Assign]]


@dataclass(frozen=True)
class _Sum:
    """A sum over the points `over` in the statement `at`, and the factors of the term that it stands in."""

    at: str
    total: Reduce
    over: str
    up: tuple[Node, ...]
    down: tuple[Node, ...]

    def where_it_meets(self, own: str) -> tuple[object, ...]:
        """What the term has for the point of the axis `own` and itself."""
        (up, down), names = fraction(self.total.body), {self.over: own}
        sides = [Counter(with_axes(f, names) for f in side) for side in ((*up, *self.up), (*down, *self.down))]
        return self.total.kind, frozenset(self.total.axes) - {self.over}, *(frozenset(c.items()) for c in sides)

    def weight(self, own: str, known: Known) -> Node | None:
        """What weighs the pairs of a point of `own` and one of `over`, if that is computed from their differences.

        Nothing is left out of what is 0 for a point and itself already.
        """
        up, down = self._weighing(own)
        pair = frozenset((self.over, own))
        if not any(is_by_differences(f, pair, known()) for f in up + down):
            return None
        if any(vanishes_for_own(f, pair, known()) for f in up):
            return None
        return quotient(up, down)

    def with_weight(self, own: str, weight: Node) -> Reduce:
        """The sum with another weight in the place of its own."""
        up, down = fraction(self.total.body)
        ours, divisors = self._weighing(own)
        first = up.index(ours[0]) if ours else 0
        kept = [f for f in up[first:] if f not in ours]
        below = [f for f in down if f not in divisors]
        return replace(self.total, body=quotient([*up[:first], weight, *kept], below))

    def _weighing(self, own: str) -> tuple[list[Node], list[Node]]:
        pair = {self.over, own}
        up, down = ([f for f in side if pair <= set(node_axes(f))] for side in fraction(self.total.body))
        return up, down


def without_what_cancels(program: Program, op: Op) -> Program:
    """The same program, with such sums without the pairs of a point and itself."""
    made = {e.name for e in op.equations}

    @cache
    def known() -> Mapping[str, Assign]:
        kept = tuple(name for name, _ in program.given if name in made)
        return {**forward_statements(op, kept).assigned, **program.assigned}

    for name in [s.name for s in program.assigned.values()]:
        for terms in _sums_of_terms(program.assigned[name].value):
            for (one, minus), (other, also_minus) in combinations(terms, 2):
                if minus != also_minus:
                    program = _left_out(program, name, one, other, known)
    return check(program)


def _sums_of_terms(node: Node) -> Iterator[list[tuple[Node, bool]]]:
    """The terms of every nested sum in a node, each with whether it is subtracted."""
    terms = signed_terms(node)
    if len(terms) > 1:
        yield terms
    below = [t for t, _ in terms] if len(terms) > 1 or terms[0][0] != node else children(node)
    for n in below:
        if isinstance(n, Call | Reduce):
            yield from _sums_of_terms(n)


def _left_out(program: Program, name: str, one: Node, other: Node, known: Known) -> Program:
    """The program with both terms of a statement without the pairs of a point and itself, where they cancel there."""
    s = program.assigned[name]
    for own in node_axes(s.value):
        for both in product(_sums(one, s, program), _sums(other, s, program)):
            weights = [t.weight(own, known) for t in both if own not in t.total.axes]
            if len(weights) == 2 and None not in weights and len({t.where_it_meets(own) for t in both}) == 1:
                order = [x.name for x in program.statements]
                for t, weight in sorted(zip(both, weights, strict=True), key=lambda b: order.index(b[0].at)):
                    apart = without_own_pairs(weight, frozenset((t.over, own)), program.assigned)  # type: ignore[arg-type]
                    program = program if apart == weight else _with(program, t, own, apart)
                return program
    return program


def _with(program: Program, t: _Sum, own: str, weight: Node) -> Program:
    """The program with another weight in a sum, by the name that this has before it, or one of its own."""
    k = next(k for k, s in enumerate(program.statements) if s.name == t.at)
    before, s, after = program.statements[:k], program.statements[k], program.statements[k + 1 :]
    known = (m for m in before if isinstance(m, Assign) and m.name in program.assigned)
    read = next((r for m in known if (r := reading(m, weight)) is not None), None)
    if read is None:
        name = free_name(f"{name_of(weight.args[1], ())}_of_others", program.names, "_")  # type: ignore[union-attr]
        made = Assign(name, axes_of(weight), weight)
        before, read = (*before, made), Read(name, made.axes)
    changed = replace(s, value=put(s.value, t.total, t.with_weight(own, read)))
    return replace(program, statements=(*before, changed, *after))


def _sums(term: Node, s: Assign, program: Program) -> Iterator[_Sum]:
    """The sums that are factors of a term, as they stand or by a name that nothing else reads, by each axis."""
    up, down = fraction(term)
    for k, factor in enumerate(up):
        made = program.assigned.get(factor.name) if isinstance(factor, Read) else None
        at, above, below = s, [factor], list[Node]()
        if made is not None and made.axes == factor.index and _is_read_once(made.name, program):  # type: ignore[union-attr]
            at, (above, below) = made, fraction(made.value)
        for j, total in enumerate(above):
            if isinstance(total, Reduce) and total.kind in ("sum", "mean") and _stands_once(total, at):
                others = [*up[:k], *up[k + 1 :], *above[:j], *above[j + 1 :]]
                divided = [*down, *below]
                if all(map(_is_plain, [*others, *divided, *(f for side in fraction(total.body) for f in side)])):
                    for over in total.axes:
                        yield _Sum(at.name, total, over, tuple(others), tuple(divided))


def _is_read_once(name: str, program: Program) -> bool:
    return name not in program.returns and len(uses(name, program.statements)) == 1


def _stands_once(total: Reduce, at: Assign) -> bool:
    return [n for n in walk(at.value) if n == total] == [total]


def _is_plain(factor: Node) -> bool:
    """Whether a factor may stand at other axes, and reads by axes alone."""
    return plain_by_axes(factor) and all(by_axes(n) for n in walk(factor) if isinstance(n, Read))
