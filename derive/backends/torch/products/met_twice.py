"""The differences of a set of points, weighed over the one point and over the other, are one sum.

Every pair is met twice: `sum(w[n, j] * (x[n, d] - x[j, d]), over=j) - sum(v[i, n] * (x[i, d] - x[n, d]), over=i)` is
`sum((w[n, j] + v[j, n]) * (x[n, d] - x[j, d]), over=j)`. The weights are one matrix then, which is multiplied once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from derive.ir.nodes.arithmetic import multiplied, signed_terms, summed
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.other_axes import plain_by_axes, with_axes
from derive.ir.nodes.products import fraction, is_outer_difference, product_factors
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import node_axes, uses
from derive.ir.program import Assign, Call, Node, Program, Read, Reduce


@dataclass(frozen=True)
class _Sum:
    """`total`, in a product or quotient: what weighs the differences of the point `own` and all others, `other`."""

    term: Node
    minus: bool
    total: Reduce
    weight: Node
    own: Read
    other: Read

    @property
    def beside(self) -> tuple[Counter[Node], Counter[Node]]:
        """What the sum is multiplied with and divided by."""
        up, down = fraction(self.term)
        return Counter(f for f in up if f != self.total), Counter(down)


def weighed_once(program: Program) -> Program:
    """The same program with one such sum for two, where one statement adds them up."""
    statements = tuple(_together(s, program) if isinstance(s, Assign) else s for s in program.statements)
    return without_unread(replace(program, statements=statements))


def _together(s: Assign, program: Program) -> Assign:
    """The statement with sums of differences for two of them each."""
    terms = [(_written(term, s, program), minus) for term, minus in signed_terms(s.value)]
    found = [_sum_of(term, minus) for term, minus in terms]
    for k, one in enumerate(found):
        for j, other in list(enumerate(found))[k + 1 :]:
            if one is not None and other is not None and (joined := _joined(one, other)) is not None:
                rest = [t for m, t in enumerate(terms) if m not in (k, j)]
                return _together(replace(s, value=summed([(joined, one.minus), *rest])), program)
    return s


def _written(term: Node, reader: Assign, program: Program) -> Node:
    """A term, or the sum of differences that it is where that has a name, which nothing else reads."""
    made = program.assigned.get(term.name) if isinstance(term, Read) else None
    if made is None or made.axes != term.index or made.name in program.ends:  # type: ignore[union-attr]
        return term
    read_once = len(uses(made.name, program.statements)) == 1 and set(made.axes) <= set(reader.axes)
    return made.value if read_once and _sum_of(made.value, False) is not None else term


def _sum_of(term: Node, minus: bool) -> _Sum | None:
    """A term as a weighted sum of differences of one set of points, over one of the two; None for any other."""
    totals = [f for f in fraction(term)[0] if isinstance(f, Reduce)]
    if len(totals) != 1 or totals[0].kind != "sum" or len(totals[0].axes) != 1:
        return None
    factors = product_factors(totals[0].body)
    differences = [f for f in factors if is_outer_difference(f)]
    weights = [f for f in factors if f not in differences]
    if len(differences) != 1 or not weights or not all(map(plain_by_axes, weights)):
        return None
    sides = differences[0].args if isinstance(differences[0], Call) and differences[0].fn == "sub" else ()
    if len(sides) != 2 or not all(isinstance(n, Read) for n in sides):
        return None
    over = totals[0].axes[0]
    first, second = sides
    own, other = (second, first) if over in node_axes(first) else (first, second)
    return _Sum(term, minus != (own == second), totals[0], multiplied(weights), own, other)  # type: ignore[arg-type]


def _joined(one: _Sum, two: _Sum) -> Node | None:
    """Two sums as one with both weights, without the sign of the first; None where they weigh other differences."""
    axis = one.total.axes[0]
    names = {two.total.axes[0]: axis}
    same = one.own == two.own and one.other == with_axes(two.other, names) and one.beside == two.beside
    if not same or one.own.name != one.other.name or axis in node_axes(two.total):
        return None
    both = Call("sub" if one.minus != two.minus else "add", (one.weight, with_axes(two.weight, names)))
    total = replace(one.total, body=multiplied([both, Call("sub", (one.own, one.other))]))
    return put(one.term, one.total, total)
