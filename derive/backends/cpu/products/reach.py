"""How far a tile of a chain reaches along another axis, where a condition on both leaves nothing before or beyond.

With `where((j <= i) & (j > i - 100), s[i, j], -oo)` the rows of a tile from `i` to `i'` have weights from `j = i - 99`
to `j = i'`, and zeros elsewhere: loops and products of the tile begin and end there. What is masked out is taken to be
finite: 0 times it is 0.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from derive.backends.cpu.products.chains import Chain
from derive.backends.cpu.products.matrices import Product
from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.statements.normal import FOLDS, Loop
from derive.ir.nodes.arithmetic import ONE
from derive.ir.nodes.walking import axes_along, walk
from derive.ir.program import AxisValue, Call, Node, Num, Read, SizeOf
from derive.primitives import row

_IDENTITY = dict(zip(FOLDS, (0.0, -math.inf, math.inf), strict=True))


@dataclass(frozen=True)
class Offset:
    """A whole number, and so many times each of some lengths."""

    number: int
    lengths: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Reach:
    """A tile needs the places of `axis` from its first row plus `start`, and those before its end plus `end`."""

    axis: str
    start: Offset | None
    end: Offset | None


def reach(chain: Chain) -> Reach | None:
    """How far its tiles reach along an axis, if any comparison says so."""
    if any(isinstance(s, Product) and s.windowed for s in chain.steps):
        return None
    loops = [s for step in chain.steps if isinstance(step, Group) for s in step.loops]
    calls = dict.fromkeys(n for s in loops for n in walk(s.value) if isinstance(n, Call))
    borders = [b for b in (_border(call, chain) for call in calls) if b is not None]
    for axis in dict.fromkeys(b.axis for b in borders):
        own = [b for b in borders if b.axis == axis]
        start = next((b.start for b in own if _Elsewhere(chain, axis, {b.call: b.before}).is_nothing()), None)
        end = next((b.end for b in own if _Elsewhere(chain, axis, {b.call: not b.before}).is_nothing()), None)
        if start is not None or end is not None:
            return Reach(axis, start, end)
    return None


# --- comparisons of a place on the tiled axis and one on another ---------------------------------------------


@dataclass(frozen=True)
class _Border:
    """A comparison that is `before` for all rows of a tile at places before `start`, and not so from `end` on."""

    call: Call
    axis: str
    before: bool
    start: Offset  # from the tile's first row
    end: Offset  # from the tile's end


def _border(call: Call, chain: Chain) -> _Border | None:
    if call.fn not in ("lt", "le", "gt", "ge"):
        return None
    left, right = call.args if call.fn in ("lt", "le") else reversed(call.args)  # left - right < 0, or <= 0
    terms: Counter[Node] = Counter()
    if not _linear(Call("sub", (left, right)), 1, terms):
        return None
    places = {n.axis: times for n, times in terms.items() if isinstance(n, AxisValue) and times}
    others = [a for a in places if a != chain.tiled]
    if len(others) != 1 or others[0] in chain.axes:
        return None
    sign = places[others[0]]
    if abs(sign) != 1 or places.get(chain.tiled) != -sign:
        return None
    # j - t + c <= 0 holds up to j = t - c, and t - j + c <= 0 from j = t + c on; where both may not be equal, one place
    # less: for all rows before the one place from the first of them, for none from the other place after the last on
    strict = call.fn in ("lt", "gt")
    more = int(not strict) if sign > 0 else int(strict)
    lengths = tuple((n.axis, -sign * times) for n, times in terms.items() if isinstance(n, SizeOf) and times)
    number = -sign * terms[ONE] + more
    return _Border(call, others[0], sign > 0, Offset(number, lengths), Offset(number - 1, lengths))


def _linear(node: Node, sign: int, terms: Counter[Node]) -> bool:
    """Counts how often each place and length stands in a sum of such, and the ones; False if it is none."""
    if isinstance(node, AxisValue | SizeOf):
        terms[node] += sign
        return True
    if isinstance(node, Num) and not isinstance(node.value, float) and node.value.denominator == 1:
        terms[ONE] += sign * int(node.value)
        return True
    if not isinstance(node, Call) or node.fn not in ("add", "sub", "neg"):
        return False
    signs = (sign, sign) if node.fn == "add" else (sign, -sign) if node.fn == "sub" else (-sign,)
    return all(_linear(a, s, terms) for a, s in zip(node.args, signs, strict=True))


# --- what is there elsewhere---------------------------------------------------------------------------------


@dataclass
class _Elsewhere:
    """What a chain makes at places of an axis where some conditions are known."""

    chain: Chain
    axis: str
    known: dict[Call, bool]
    values: dict[str, float | bool | None] = field(default_factory=dict)  # of its tensors that have the axis
    rows: dict[str, float | bool | None] = field(default_factory=dict)  # of those that have not

    def is_nothing(self) -> bool:
        """Whether nothing that outlives the chain comes from there."""
        return all(self._product(s) if isinstance(s, Product) else self._group(s) for s in self.chain.steps)

    def _group(self, group: Group) -> bool:
        return all(self._loop(s) for s in group.loops)

    def _loop(self, s: Loop) -> bool:
        if s.name in self.values:
            return False
        if self.axis not in s.domain:
            self.rows[s.name] = None if s.kind != "set" or s.name in self.rows else self.value(s.value)
            return not any(r.name in self.values or self.axis in axes_along(r.index) for r in s.reads())
        if s.changes or not self._reads_in_place(s):
            return False
        value = self.value(s.value)
        if self.axis in s.over:  # in a total of the tile as in a fold of each row
            return value == _IDENTITY[s.kind] and not isinstance(value, bool)
        if s.name not in self.chain.local or s.slots.count(self.axis) != 1:
            return False
        self.values[s.name] = None if s.is_fold else value
        return True

    def _reads_in_place(self, s: Loop) -> bool:
        """Whether what the chain has made along the axis is read along it, and nothing else is at places of it."""
        for r in s.reads():
            if r.name in self.values and r.index.count(self.axis) != 1:
                return False
            if any(self.axis in axes_along((i,)) for i in r.index if i != self.axis):
                return False
        return True

    def _product(self, p: Product) -> bool:
        sides = {m.name: m.dims for m in (p.a, p.b, p.out)}
        mine = [n for n, dims in sides.items() if self.axis in dims]
        if any(n in self.values and n not in mine for n in sides) or self.axis in p.batch:
            return False
        for n in mine:
            rest = [a for a in sides[n] if a not in self.chain.stepped]
            if n not in self.chain.local and rest[0] != self.axis:
                return False  # the distance of its rows is the length of the axis
        if not mine or (p.name in self.chain.local and self.axis not in p.inner):
            self.values |= {p.name: None} if self.axis in sides[p.name] else {}
            return True
        zeros = any(self.values.get(n) == 0 for n in (p.a.name, p.b.name) if n in mine)
        return zeros and (self.axis in p.inner or p.name in self.chain.sums)

    def value(self, node: Node) -> float | bool | None:
        """The value of a node there, if that is one number or truth."""
        if isinstance(node, Num):
            return float(node.value)
        if isinstance(node, Read):
            return (self.values if self.axis in node.index else self.rows).get(node.name)
        if not isinstance(node, Call):
            return None
        if node in self.known:
            return self.known[node]
        return self._called(node.fn, [self.value(a) for a in node.args])

    def _called(self, fn: str, args: list[float | bool | None]) -> float | bool | None:
        if fn == "where":
            condition, yes, no = args
            return (yes if condition else no) if isinstance(condition, bool) else (yes if yes == no else None)
        if fn in ("and", "or"):
            decides = fn == "or"
            return decides if decides in args else (not decides if None not in args else None)
        if fn == "not":
            return None if args[0] is None else not args[0]
        if fn == "mul":
            return 0.0 if 0 in args else None
        if fn == "div":
            return 0.0 if args[0] == 0 else None
        if fn == "rounded":
            return args[0]
        if fn == "neg":
            return None if args[0] is None else -args[0]
        if fn in ("add", "sub"):
            return _sum(args[0], args[1] if fn == "add" or args[1] is None else -args[1])
        return row(fn).at_minus_infinity if args == [-math.inf] else None


def _sum(a: float | None, b: float | None) -> float | None:
    """A sum of what may be any finite number where it is None."""
    if a is not None and b is not None:
        return a + b
    return next((x for x in (a, b) if x is not None and math.isinf(x)), None)

