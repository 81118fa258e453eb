"""The differences whose sign is asked: `a*x - b*z` is 0 where both products are one number, if both are rounded.

What multiplies and subtracts in one pass does not round the second product: no tie would be left.
"""

from __future__ import annotations

from collections.abc import Iterable

from derive.cost import is_tensor
from derive.program import COMPARISONS, Call, Node, Read
from derive.walking import walk

_TELL = frozenset({"sign", "relu", "absolute", "maximum", "minimum", *COMPARISONS})


def told_by_sign(values: Iterable[tuple[str, Node]]) -> frozenset[Node]:
    """The differences in these values, each with its name, on whose sign something depends."""
    values = list(values)
    calls = [n for _, value in values for n in walk(value) if isinstance(n, Call) and n.fn in _TELL]
    asked = {_without_numbers(a) for n in calls for a in n.args}
    names = {n.name for n in asked if isinstance(n, Read)}
    named = {_without_numbers(value) for name, value in values if name in names}
    return frozenset(n for n in asked | named if isinstance(n, Call) and n.fn == "sub")


def _without_numbers(node: Node) -> Node:
    """A node without a minus sign before it and numbers that it is multiplied with."""
    if isinstance(node, Call) and node.fn in ("neg", "mul", "div"):
        tensors = [a for a in node.args if is_tensor(a)]
        return _without_numbers(tensors[0]) if len(tensors) == 1 else node
    return node
