"""The differences whose sign is asked: `a*x - b*z` is 0 where both products are one number, if both are rounded.

What multiplies and subtracts in one pass does not round the second product: no tie would be left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from derive.ir.nodes.walking import walk
from derive.ir.program import COMPARISONS, Call, Node, Num, Read
from derive.primitives import names

_TELL = names(lambda r: r.chooses) | COMPARISONS


def told_by_sign(values: Iterable[tuple[str, Node]]) -> frozenset[Node]:
    """The differences in these values, each with its name, on whose sign something depends."""
    values = list(values)
    calls = [n for _, value in values for n in walk(value) if isinstance(n, Call) and n.fn in _TELL]
    asked = {f for n in calls for a in n.args for f in _factors(a)}
    names: set[str] = set()
    while not (read := {n.name for n in asked if isinstance(n, Read)}) <= names:
        names |= read
        asked |= {f for name, value in values if name in read for f in _factors(value)}
    return frozenset(n for n in asked if isinstance(n, Call) and _subtracts(n))


def _subtracts(node: Call) -> bool:
    """Whether a node is a difference, perhaps said as a sum with a minus sign in one term: `-a*x + b*z`."""
    return node.fn == "sub" or (node.fn == "add" and _is_negative(node.args[0]) != _is_negative(node.args[1]))


def _is_negative(node: Node) -> bool:
    """Whether a product is written with a minus sign."""
    if isinstance(node, Call) and node.fn in ("mul", "div"):
        return _is_negative(node.args[0]) != _is_negative(node.args[1])
    return (isinstance(node, Num) and node.value < 0) or (isinstance(node, Call) and node.fn == "neg")


def _factors(node: Node) -> Iterator[Node]:
    """What is multiplied or divided in a node: it has the sign of each, or the other, and is 0 with it."""
    if isinstance(node, Call) and node.fn in ("neg", "mul", "div"):
        for a in node.args:
            yield from _factors(a)
    else:
        yield node
