"""What is known of a value's sign from how it is computed: `exp` of what is never positive costs a third less.

A law of numbers each: squares are not negative, nor are sums of such; nothing exceeds a maximum over it, since what
stands beside an extremum is computed as what that is taken of (`rounded.py`). Nan aside.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from derive.backends.cpu.statements.normal import Normal
from derive.facts.values import LENGTH, PLACE, UNKNOWN, Value, called, number, reduced
from derive.ir.nodes.walking import reads
from derive.ir.program import AxisValue, Call, Index, Node, Num, Read, SizeOf


def never_positive(node: Node, form: Normal) -> bool:
    """Whether a value is at most 0 wherever it is a number."""
    return _Signs(form).of(node).high <= 0


class _Signs:
    """The signs of a program's tensors, each found once."""

    def __init__(self, form: Normal):
        given = [n for n, _ in form.program.given]
        times = Counter([s.name for s in form.loops] + given)
        self.known = {s.name: s for s in form.loops if times[s.name] == 1}
        self.changed = {s.name for s in form.loops} & set(given)  # a maximum over one may be of its values before
        self.found: dict[str, Value] = {}

    def of(self, node: Node) -> Value:
        if isinstance(node, Num):
            infinite = Value(low=Fraction(0)) if node.value > 0 else Value(high=Fraction(0))  # less itself is no number
            return infinite if isinstance(node.value, float) else number(node.value)
        if isinstance(node, SizeOf | AxisValue):
            return LENGTH if isinstance(node, SizeOf) else PLACE
        if isinstance(node, Read):
            return self._of_tensor(node.name)
        divisor = _divisor(node)
        if not isinstance(node, Call) or (divisor is not None and not _never_minus_zero(divisor)):
            return UNKNOWN
        if node.fn == "sub":
            a, b = node.args
            if (self.extremum(a, b), self.extremum(b, a)) in (("amax", ""), ("", "amin")):
                return Value(high=Fraction(0))
        if node.fn == "mul" and node.args[0] == node.args[1]:
            node = Call("pow", (node.args[0], Num(Fraction(2))))
        return called(node.fn, [self.of(a) for a in node.args])

    def _of_tensor(self, name: str) -> Value:
        """A sum of values of one sign has that sign; an extremum over nothing is infinite."""
        if name not in self.found:
            self.found[name] = UNKNOWN
            loop = self.known.get(name)
            if loop is not None and loop.kind in ("set", "sum"):
                value = self.of(loop.value)
                self.found[name] = value if loop.kind == "set" else reduced("sum", value)
        return self.found[name]

    def extremum(self, value: Node, fold: Node) -> str:
        """What kind of extremum the second is over elements of which the first is one."""
        loop = self.known.get(fold.name) if isinstance(fold, Read) else None
        if loop is None or loop.kind not in ("amax", "amin") or not isinstance(fold, Read):
            return ""
        places: dict[str, Index] = {}
        for slot, index in zip(loop.slots, fold.index, strict=True):
            if not isinstance(slot, str):
                return ""
            places[slot] = index
        found = not reads(loop.value) & self.changed and _is_element(loop.value, value, places, frozenset(loop.over))
        return loop.kind if found else ""


def _divisor(node: Node) -> Node | None:
    """What a value is divided by, also under a root or as a power; None where it is no quotient."""
    if not isinstance(node, Call) or node.fn not in ("div", "rsqrt", "pow"):
        return None
    if node.fn == "pow":
        exponent = node.args[1]
        return None if isinstance(exponent, Num) and (exponent.value > 0 or _is_even(exponent)) else node.args[0]
    return node.args[-1]


def _is_even(exponent: Node) -> bool:
    return isinstance(exponent, Num) and exponent.value % 2 == 0


def _never_minus_zero(divisor: Node) -> bool:
    """Dividing by -0 gives the other infinity."""
    if isinstance(divisor, Call):
        return divisor.fn in ("exp", "absolute") or (divisor.fn == "pow" and _is_even(divisor.args[1]))
    return isinstance(divisor, SizeOf) or (isinstance(divisor, Num) and divisor.value != 0)


def _is_element(pattern: object, value: object, places: dict[str, Index], over: frozenset[str]) -> bool:
    """Whether a value is what a fold's body is at some place on the axes it folds, and at `places` on the others."""
    pattern, value = (n.args[0] if isinstance(n, Call) and n.fn == "rounded" else n for n in (pattern, value))
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
