"""Pairs of one set of points: what weighs them, and what a point weighs for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.ir.nodes.arithmetic import ZERO
from derive.ir.nodes.other_axes import plain_by_axes, with_axes
from derive.ir.nodes.products import fraction
from derive.ir.nodes.walking import by_axes_once, node_axes, walk
from derive.ir.program import Assign, AxisValue, Call, Node, Read
from derive.primitives import names

_ZERO_AT_ZERO = names(lambda r: r.at_0 == 0) | {"neg"}


def of_one_set(difference: Node) -> frozenset[str] | None:
    """The axes of a set of points that is subtracted from itself, `x[i, d] - x[j, d]`, which is 0 where they meet.

    No weight that stands there, however large, may be all that is left of the digits of the others.
    """
    one, other = difference.args if isinstance(difference, Call) and difference.fn == "sub" else (None, None)
    if not (isinstance(one, Read) and isinstance(other, Read) and one.name == other.name):
        return None
    differ = {(a, b) for a, b in zip(one.index, other.index, strict=True) if a != b}
    ends = frozenset(a for pair in differ for a in pair if isinstance(a, str))
    return ends if len(differ) == 1 and len(ends) == 2 else None


def is_by_differences(weight: Node, pair: frozenset[str], known: Mapping[str, Assign]) -> bool:
    """Whether a weight of pairs is computed from how the two points of each differ, by what is known of tensors."""
    for n in walk(weight):
        if isinstance(n, Call) and of_one_set(n) == pair:
            return True
        has_pair = isinstance(n, Read) and n.name in known and by_axes_once(n) and pair <= set(n.index)
        if has_pair and is_by_differences(*_inside(n, pair, known), known):  # type: ignore[arg-type]
            return True
    return False


def vanishes_for_own(factor: Node, pair: frozenset[str], known: Mapping[str, Assign]) -> bool:
    """Whether a product or quotient is 0 for a point and itself: by a difference, or as it was left out."""
    if not pair <= set(node_axes(factor)):
        return False
    if isinstance(factor, Read) and factor.name in known and by_axes_once(factor):
        return vanishes_for_own(*_inside(factor, pair, known), known)
    up, _ = fraction(factor)
    if up == [factor]:
        of_zero = (
            isinstance(factor, Call) and factor.fn in _ZERO_AT_ZERO and vanishes_for_own(factor.args[0], pair, known)
        )
        return of_zero or of_one_set(factor) == pair or _is_without(factor, pair, known)
    return any(vanishes_for_own(f, pair, known) for f in up)


def _inside(read: Read, pair: frozenset[str], known: Mapping[str, Assign]) -> tuple[Node, frozenset[str]]:
    """What a tensor is made of, and the axes of a pair as they are called there."""
    made = known[read.name]
    own = dict(zip(read.index, made.axes, strict=True))
    return made.value, frozenset(str(own[a]) for a in pair)


def without_own_pairs(weight: Node, pair: frozenset[str], known: Mapping[str, Assign]) -> Node:
    """A weight of pairs, without what it is for each point and itself."""
    if not pair <= set(node_axes(weight)) or _is_without(weight, pair, known):
        return weight
    first, second = sorted(pair, key=node_axes(weight).index)
    return Call("where", (Call("ne", (AxisValue(first), AxisValue(second))), weight, ZERO))


def _is_without(weight: Node, pair: frozenset[str], known: Mapping[str, Assign]) -> bool:
    """Whether a weight, or the tensor that it is, is chosen where two places differ, and 0 elsewhere; or both terms.

    A tensor that is above itself at another place is so at none that is the same.
    """
    if isinstance(weight, Call) and weight.fn in ("add", "sub"):
        return all(_is_without(a, pair, known) for a in weight.args)
    if isinstance(weight, Read) and weight.name in known and by_axes_once(weight) and pair <= set(weight.index):
        return _is_without(*_inside(weight, pair, known), {})
    if not isinstance(weight, Call) or weight.fn != "where" or weight.args[2] != ZERO:
        return False
    apart = [n for n in _conjuncts(weight.args[0]) if n.fn in ("ne", "lt", "gt")]
    if any({a.axis for a in n.args if isinstance(a, AxisValue)} == pair for n in apart):
        return True
    return any(_is_alike_at_one_place(n, pair) for n in apart if n.fn != "ne")  # which holds of nan and itself


def _is_alike_at_one_place(compared: Call, pair: frozenset[str]) -> bool:
    """Whether the sides of a comparison are one value where two axes are at the same place."""
    if not pair <= set(node_axes(compared)) or not all(map(plain_by_axes, compared.args)):
        return False
    one, other = sorted(pair)
    left, right = (with_axes(side, {one: other}) for side in compared.args)
    return left == right


def _conjuncts(condition: Node) -> Iterator[Call]:
    """What all has to hold for a condition to hold."""
    if isinstance(condition, Call) and condition.fn == "and":
        for a in condition.args:
            yield from _conjuncts(a)
    elif isinstance(condition, Call):
        yield condition
