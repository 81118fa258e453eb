"""A value or nothing, without choosing: `where(x > t, x - t, 0)` is `relu(x - t)`, and `where(m, 2, 0)` is `2 * m`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from derive.ir.nodes.arithmetic import ONE, ZERO
from derive.ir.nodes.walking import reads, rebuilt
from derive.ir.program import Assign, Call, Node, Num, Read, Scal

_LARGEST = 2**127
"""What float32 still holds; beyond it a number is infinite there."""
ABOVE = {"gt": True, "ge": True, "lt": False, "le": False}


def or_nothing(node: Node, known: Mapping[str, Assign], is_real: Callable[[Node], bool]) -> Node:
    """The same node without such choices; `known` holds the conditions that have names.

    Whole numbers, such as an index, stay what they are.
    """
    node = rebuilt(node, lambda n: or_nothing(n, known, is_real))
    if not isinstance(node, Call) or node.fn != "where" or node.args[2] != ZERO or not reads(node.args[0]):
        return node
    return (gap_or_nothing(node, known) if is_real(node) else None) or _number(node) or node


def in_full(condition: Node, known: Mapping[str, Assign]) -> Node:
    """A condition that may stand under a name."""
    named = isinstance(condition, Read) and condition.name in known and known[condition.name].axes == condition.index
    return known[condition.name].value if named else condition  # type: ignore[union-attr]


def gap_or_nothing(node: Call, known: Mapping[str, Assign]) -> Node | None:
    """`relu(x - t)` for `where(x > t, x - t, 0)`, or a power of it; None for another choice.

    Where the difference is no number, one of both is none or they are the same infinity: there it is 0.
    """
    condition, value = (in_full(n, known) for n in node.args[:2])
    if not isinstance(condition, Call) or condition.fn not in ABOVE:
        return None
    above, below = condition.args if ABOVE[condition.fn] else condition.args[::-1]
    gaps = [Call("sub", (above, below)), *([above] if below == ZERO else [])]
    power = value.args[1] if isinstance(value, Call) and value.fn == "pow" and value.args[0] in gaps else ONE
    gap = value.args[0] if isinstance(value, Call) and power != ONE else value
    if gap not in gaps or not reads(gap) or not isinstance(power, Num) or power.value <= 0:
        return None
    bounded = Call("nan_to_num", (Call("relu", (gap,)),))
    return bounded if power == ONE else Call("pow", (bounded, power))


def _number(node: Call) -> Node | None:
    """`a * m` for `where(m, a, 0)` with a number `a`; None for another choice."""
    condition, number, _ = node.args
    if number == ONE or not _is_finite(number):
        return None
    return Call("mul", (number, Call("where", (condition, ONE, ZERO))))


def _is_finite(node: Node) -> bool:
    """Whether a number is finite in any precision that is computed in.

    A `scalar` may be -oo, which fills a choice, and a quotient of lengths infinite. What is divided by is not 0.
    """
    if isinstance(node, Num):
        return isinstance(node.value, Fraction) and abs(node.value) < _LARGEST
    if not isinstance(node, Call) or node.fn not in ("neg", "mul", "div"):
        return False
    over, by = (node.args[:1], node.args[1:]) if node.fn == "div" else (node.args, ())
    return all(map(_is_finite, over)) and all(isinstance(n, Num | Scal) for n in by)
