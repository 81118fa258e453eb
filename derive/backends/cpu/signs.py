"""What is known of a value's sign from how it is computed: `exp` of what is never positive costs a third less.

A law of numbers each: squares are not negative, nor are sums of such; nothing exceeds a maximum over it. Nan aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from derive.backends.cpu.normal import Loop, Normal
from derive.program import AxisValue, Call, Index, Node, Num, Read, SizeOf
from derive.walking import reads

_NOT_NEGATIVE = frozenset({"exp", "sigmoid", "softplus", "relu", "absolute", "sqrt", "rsqrt", "cosh"})
_DEEPEST = 8  # definitions of definitions


class Sign(NamedTuple):
    """What a value can never be."""

    negative: bool = False
    positive: bool = False


def never_positive(node: Node, form: Normal) -> bool:
    """Whether a value is at most 0 wherever it is a number."""
    times = Counter([s.name for s in form.loops] + [n for n, _ in form.program.given])
    return _sign(node, {s.name: s for s in form.loops if times[s.name] == 1}, _changed(form), 0).positive


def _changed(form: Normal) -> frozenset[str]:
    """The inputs that are written to: a maximum over one may be of its values before."""
    return frozenset(s.name for s in form.loops) & {n for n, _ in form.program.given}


def _sign(node: Node, known: Mapping[str, Loop], changed: frozenset[str], depth: int) -> Sign:
    if isinstance(node, Num):
        return Sign(node.value >= 0, node.value <= 0)
    if isinstance(node, SizeOf | AxisValue):
        return Sign(negative=True)
    if isinstance(node, Read):
        loop = known.get(node.name)
        if loop is None or depth > _DEEPEST:
            return Sign()
        return _sign(loop.value, known, changed, depth + 1)  # a sum or an extremum of values of one sign has that sign
    if not isinstance(node, Call):
        return Sign()
    if node.fn == "sub" and _under_its_maximum(node.args[0], node.args[1], known, changed):
        return Sign(positive=True)
    return _of_call(node, [_sign(a, known, changed, depth) for a in node.args])


def _of_call(node: Call, signs: list[Sign]) -> Sign:
    if node.fn == "neg":
        return Sign(*reversed(signs[0]))
    if node.fn == "add":
        return Sign(all(s.negative for s in signs), all(s.positive for s in signs))
    if node.fn == "sub":
        (a, b) = signs
        return Sign(a.negative and b.positive, a.positive and b.negative)
    if node.fn == "mul" or (node.fn == "div" and _never_minus_zero(node.args[1])):
        return _product(node, signs)
    if node.fn == "pow":
        return Sign(negative=_is_even(node.args[1]))
    if node.fn == "maximum":
        return Sign(any(s.negative for s in signs), all(s.positive for s in signs))
    if node.fn == "minimum":
        return Sign(all(s.negative for s in signs), any(s.positive for s in signs))
    return Sign(negative=node.fn in _NOT_NEGATIVE)


def _product(node: Call, signs: list[Sign]) -> Sign:
    if node.fn == "mul" and node.args[0] == node.args[1]:
        return Sign(negative=True)
    a, b = signs
    same = (a.negative and b.negative) or (a.positive and b.positive)
    return Sign(same, (a.negative and b.positive) or (a.positive and b.negative))


def _is_even(exponent: Node) -> bool:
    return isinstance(exponent, Num) and exponent.value % 2 == 0


def _never_minus_zero(divisor: Node) -> bool:
    """Dividing by -0 gives the other infinity."""
    if isinstance(divisor, Call):
        return divisor.fn in ("exp", "absolute") or (divisor.fn == "pow" and _is_even(divisor.args[1]))
    return isinstance(divisor, SizeOf) or (isinstance(divisor, Num) and divisor.value != 0)


def _under_its_maximum(value: Node, least: Node, known: Mapping[str, Loop], changed: frozenset[str]) -> bool:
    """Whether the second is a maximum over elements of which the first is one."""
    loop = known.get(least.name) if isinstance(least, Read) else None
    if loop is None or loop.kind != "amax" or not isinstance(least, Read) or reads(loop.value) & changed:
        return False
    places: dict[str, Index] = {}
    for slot, index in zip(loop.slots, least.index, strict=True):
        if not isinstance(slot, str):
            return False
        places[slot] = index
    return _is_element(loop.value, value, places, frozenset(loop.over))


def _is_element(pattern: object, value: object, places: dict[str, Index], over: frozenset[str]) -> bool:
    """Whether a value is what a fold's body is at some place on the axes it folds, and at `places` on the others."""
    if isinstance(pattern, Call) and isinstance(value, Call):
        same = pattern.fn == value.fn and len(pattern.args) == len(value.args)
        return same and all(_is_element(a, b, places, over) for a, b in zip(pattern.args, value.args, strict=True))
    if isinstance(pattern, Read) and isinstance(value, Read):
        same = pattern.name == value.name and len(pattern.index) == len(value.index)
        return same and all(_is_place(a, b, places, over) for a, b in zip(pattern.index, value.index, strict=True))
    if isinstance(pattern, AxisValue):
        return False
    return not isinstance(pattern, Call | Read) and pattern == value


def _is_place(pattern: Index, index: Index, places: dict[str, Index], over: frozenset[str]) -> bool:
    if not isinstance(pattern, str):
        return False
    return (places.setdefault(pattern, index) if pattern in over else places.get(pattern)) == index
