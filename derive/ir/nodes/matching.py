"""Equality of values up to the names of their axes and the order of factors and terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType

from derive.ir.nodes.arithmetic import signed_terms
from derive.ir.nodes.other_axes import Renaming, plain
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import axes_along, children, index_axes
from derive.ir.program import Assign, AxisValue, Call, Index, Merged, Node, Read, Reduce, SizeOf, base

_NONE: Renaming = MappingProxyType({})
_Part = Node | Index


def match(pattern: _Part, other: _Part, names: Renaming = _NONE) -> Renaming | None:
    """What to put for the pattern's axes, besides `names`, so that it becomes the other; None where nothing does."""
    return next(_matches(pattern, other, names), None)


def reading(made: Assign, node: Node) -> Read | None:
    """The read of a tensor that is this value; None where it is another."""
    names = _NONE if made.value == node else match(made.value, node)
    axes = (names.get(a, a) if names and isinstance(a, str) else a for a in made.axes)
    return None if names is None else Read(made.name, tuple(axes))


def _matches(pattern: _Part, n: _Part, names: Renaming) -> Iterator[Renaming]:
    if isinstance(pattern, str):
        if isinstance(n, str) or (isinstance(n, Merged) and plain(n)):
            taken = set(axes_along(names.values())) & set(index_axes(n))
            if names[pattern] == n if pattern in names else not taken:
                yield {**names, pattern: n}
    elif isinstance(pattern, AxisValue) and isinstance(n, AxisValue):
        yield from _matches(pattern.axis, n.axis, names)
    elif isinstance(pattern, Reduce) and isinstance(n, Reduce) and pattern.kind == n.kind:
        inside = _matches(pattern.body, n.body, names)
        yield from (found for found in inside if {found.get(a) for a in pattern.axes} == set(n.axes))
    elif isinstance(pattern, Call | Read | Merged):
        (head, parts), (other, theirs) = _apart(pattern), _apart(n)
        if head == other and len(parts) == len(theirs):
            yield from _paired(parts, theirs, names, in_order=head not in _IN_ANY_ORDER)
    elif isinstance(pattern, SizeOf) and isinstance(n, SizeOf):
        yield from [names] if base(pattern.axis) == base(n.axis) else []
    elif pattern == n and all(names.get(a, a) == a for a in index_axes(pattern)):
        yield {**names, **{a: a for a in index_axes(pattern)}}


_IN_ANY_ORDER = ("sum", "mul", "distance", "eq", "ne")


def _apart(n: _Part) -> tuple[object, Sequence[_Part]]:
    """What makes a value of its parts, and these; a sum's terms with their signs, and `|a - b|` as a distance."""
    if not isinstance(n, Call):
        return (type(n), n.name if isinstance(n, Read) else ""), children(n)
    if n.fn == "mul":
        return n.fn, product_factors(n)
    if n.fn in ("add", "sub"):
        return "sum", [Call("neg", (t,)) if minus else t for t, minus in signed_terms(n)]
    inner = n.args[0] if n.fn == "absolute" else None
    return ("distance", inner.args) if isinstance(inner, Call) and inner.fn == "sub" else (n.fn, n.args)


def _paired(parts: Sequence[_Part], others: Sequence[_Part], names: Renaming, in_order: bool) -> Iterator[Renaming]:
    if not parts:
        yield names
    for k in range(min(1, len(others)) if in_order else len(others)):
        for found in _matches(parts[0], others[k], names):
            yield from _paired(parts[1:], [*others[:k], *others[k + 1 :]], found, in_order)
