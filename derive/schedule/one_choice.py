"""Choices by one condition are one choice: PyTorch chooses element by element, as slowly as thirty products.

`where(c, a, 0) + where(c, 0, b)` is `where(c, a, b)`, with `u` beside one of them `where(c, a, u*b)`. In a branch its
condition is known: `where(c, f(where(c, a, b)), d)` is `where(c, f(a), d)`, and under `x > t` the larger of both is `x`
and `(x - t)/(x - t)` is 1; but what is compared elsewhere as well, `max(x, z) > w`, is compared once. A minus sign
stands before a choice of something or 0, so that what is added here and taken away there is chosen once. A condition of
places alone chooses between something and 0, since sums up to a place and triangles are known by it. What stood before
a choice of 0 and is infinite there is left out as well: 0 for a nan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from derive.ir.nodes.arithmetic import ZERO, multiplied, signed_terms, summed
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import children, node_axes, reads, rebuilt, walk
from derive.ir.program import COMPARISONS, MIRRORED, Call, Join, Node, Program, Reduce, Scan
from derive.schedule.compared import in_branch, where_it_holds


def one_choice(program: Program) -> Program:
    """The same program with one choice for those by one condition in a sum, or inside one another."""
    asked = frozenset(n for s in program.statements for n in _asked(s.value))
    return check(program.with_values(lambda value: _within(value, asked)))


def _asked(node: Node, under: frozenset[frozenset[Node]] = frozenset()) -> Iterator[Node]:
    """The comparisons with extrema where it is not known which of both each is, `under` choices by what is compared."""
    if isinstance(node, Call) and node.fn in COMPARISONS:
        extrema = [n for n in walk(node) if isinstance(n, Call) and n.fn in ("maximum", "minimum")]
        if extrema and not any(frozenset(n.args) in under for n in extrema):
            yield node
    if isinstance(node, Call) and node.fn == "where":
        condition, *branches = node.args
        yield from _asked(condition, under)
        known = frozenset([frozenset(condition.args)]) if isinstance(condition, Call) else frozenset()
        for branch in branches:
            yield from _asked(branch, under | known)
        return
    for child in children(node):
        if isinstance(child, Call | Join | Reduce | Scan):
            yield from _asked(child, under)


def _within(node: Node, asked: frozenset[Node]) -> Node:
    if isinstance(node, Call) and node.fn in ("add", "sub"):
        return _sum(node, asked)
    node = rebuilt(node, lambda n: _within(n, asked))
    if not isinstance(node, Call) or node.fn != "where":
        return node
    if (inner := _narrower(node)) is not None or not reads(node.args[0]):
        return inner or node
    condition, a, b = node.args
    a = in_branch(a, condition, True, where_it_holds(condition), asked)
    b = in_branch(b, condition, False, {}, asked)
    if isinstance(a, Call) and a.fn == "neg" and b == ZERO and set(node_axes(condition)) <= set(node_axes(a)):
        return Call("neg", (Call("where", (condition, a.args[0], b)),))
    return _either(condition, a, b)


def _either(condition: Node, a: Node, b: Node) -> Call:
    """One choice for two of which both take the same: `where(c, a, where(e, a, b))` is `where(c | e, a, b)`.

    And `where(c, a, where(e, b, a))` is `where(~c & e, b, a)`.
    """
    choice = Call("where", (condition, a, b))
    if not isinstance(b, Call) or b.fn != "where" or set(node_axes(b.args[0])) != set(node_axes(condition)):
        return choice
    other, first, second = b.args
    if not reads(other) or a not in (first, second):
        return choice
    if a == first:
        return Call("where", (Call("or", (condition, other)), a, second))
    return Call("where", (Call("and", (Call("not", (condition,)), other)), first, a))


_IMPLIED = {"eq": ("ge", "le"), "gt": ("ge", "ne"), "lt": ("le", "ne")}


def _narrower(node: Call) -> Node | None:
    """The inner of two choices of something or 0, where its condition implies the outer one; else None.

    `where(i >= j, where(i == j, a, 0), 0)` is `where(i == j, a, 0)`.
    """
    outer, inner, other = node.args
    if not (isinstance(outer, Call) and isinstance(inner, Call) and inner.fn == "where"):
        return None
    asked = inner.args[0]
    if other != ZERO or inner.args[2] != ZERO or not isinstance(asked, Call) or asked.fn not in _IMPLIED:
        return None
    alike = asked.args == outer.args and outer.fn in _IMPLIED[asked.fn]
    turned = asked.args == outer.args[::-1] and outer.fn in _IMPLIED[MIRRORED.get(asked.fn, asked.fn)]
    return inner if alike or turned else None


@dataclass(frozen=True)
class _Term:
    """A summand: what is added or, with a minus, subtracted; of a choice, its condition and both branches."""

    value: Node
    minus: bool
    condition: Node | None = None
    branches: tuple[Node, Node] = (ZERO, ZERO)


def _sum(node: Call, asked: frozenset[Node]) -> Node:
    found = [_term(_within(value, asked), minus) for value, minus in signed_terms(node)]
    terms: list[_Term] = []
    for term in found:
        k = next((k for k, t in enumerate(terms) if t.condition is not None and t.condition == term.condition), None)
        if k is None:
            terms.append(term)
        else:
            minus = terms[k].minus and term.minus
            one, other = (replace(t, minus=t.minus and not minus) for t in (terms[k], term))
            branches = (_added(one, other, j) for j in (0, 1))
            value = _within(Call("where", (term.condition, *branches)), asked)  # type: ignore[arg-type]
            terms[k] = _term(value, minus)
    if len(terms) == len(found):
        return replace(node, args=tuple(_within(a, asked) for a in node.args))
    first = next((t for t in terms if not t.minus), terms[0])
    return summed((t.value, t.minus) for t in (first, *(t for t in terms if t is not first)))


def _term(value: Node, minus: bool) -> _Term:
    """A summand with its branches, where it is a choice, or a product with one that may be 0."""
    if isinstance(value, Call) and value.fn == "neg":
        return _term(value.args[0], not minus)
    factors = product_factors(value)
    choices = [f for f in factors if isinstance(f, Call) and f.fn == "where"]
    chosen = [f for f in choices if reads(f.args[0]) or f.args[2] == ZERO]  # a condition of places alone stays
    if len(chosen) != 1:
        return _Term(value, minus)
    condition, *branches = chosen[0].args
    rest = [f for f in factors if f is not chosen[0]]
    if rest and (ZERO not in branches or not set(node_axes(value)) <= set(node_axes(condition))):
        return _Term(value, minus)
    first, second = (b if b == ZERO else multiplied([*rest, b]) for b in branches)
    return _Term(value, minus, condition, (first, second))


def _added(one: _Term, other: _Term, k: int) -> Node:
    """The sum of what two choices have in one branch, at most one of them with a minus."""
    a, b = one.branches[k], other.branches[k]
    if b == ZERO:
        return Call("neg", (a,)) if one.minus and a != ZERO else a
    if a == ZERO:
        return Call("neg", (b,)) if other.minus else b
    if one.minus:
        return Call("sub", (b, a))
    return Call("sub" if other.minus else "add", (a, b))
