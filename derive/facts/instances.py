"""Values of programs at random places: two nodes that agree wherever both are numbers are the same function.

Axes are a few long, what a program is given is drawn, and its statements are evaluated when they are read (Schwartz,
1980: what agrees at random places differs but by chance). Numbers that the nodes are made of, and small whole ones, are
drawn as well as others, so that ties and thresholds are met. What cannot be evaluated is drawn itself, so that what
agrees then agrees whatever it is.

What one of two nodes asks and the other does not must be asked of a number, and have been answered both ways: whether
two tensors are the same, or a value is finite, is so rarely that chance does not tell.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, product
from random import Random
from typing import Any, TypeVar

from derive.ir.nodes.products import is_tensor
from derive.ir.nodes.walking import children, node_axes
from derive.ir.program import COMPARISONS, Assign, AxisValue, Call, Index, Node, Num, Read, Reduce, Scal, SizeOf, base
from derive.primitives import PRIMITIVES, numeric

Place = Mapping[str, int]
T = TypeVar("T")

PLACES, FEWEST = 128, 32
"""How many places two nodes are compared at, and how many of them must tell something."""

_NEAR, _NOISE = 1e-9, 1e-11
_TOLD = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 6.0)
_SINGULAR = (-1.0, 0.0, 0.0, 1.0)
_LENGTHS = (5, 4, 3)

REDUCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum, "mean": lambda v: math.fsum(v) / len(v), "amax": max, "amin": min, "prod": math.prod,
}  # fmt: skip

_SIGNS: dict[str, Callable[..., float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "floordiv": operator.floordiv, "mod": operator.mod,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "and": lambda a, b: a and b, "or": lambda a, b: a or b,
    "not": operator.not_, "pi": lambda: math.pi, "e": lambda: math.e,
}  # fmt: skip


@cache
def _function(fn: str) -> Callable[..., float] | None:
    return _SIGNS.get(fn) or (numeric(PRIMITIVES[fn]) if fn in PRIMITIVES else None)


def is_evaluated(fn: str) -> bool:
    """Whether a function has values here; what has none is drawn."""
    return fn == "where" or _function(fn) is not None


_UNDEFINED = (ArithmeticError, ValueError, TypeError)  # a complex power is not compared


class _Along(ast.NodeTransformer):
    """Reductions such as `sum(u, d)` as functions of what is reduced, and of all places of an axis."""

    def __init__(self, parameters: ast.arguments):
        self.parameters = parameters

    def visit_Call(self, node: ast.Call) -> ast.Call:
        if isinstance(node.func, ast.Name) and node.func.id in REDUCTIONS:
            body, axis = node.args
            return ast.Call(node.func, [ast.Lambda(self.parameters, body), axis], [])
        self.generic_visit(node)
        return node


def of_numbers(formula: str, variables: Sequence[str], axes: Sequence[str] = ()) -> Callable[..., float | None]:
    """A formula as a function of its variables at a place, and of their values at all places of each axis, a tuple a
    place: None where it is no number.
    """
    parsed = ast.parse(f"lambda {', '.join((*variables, *axes))}: {formula}", mode="eval")
    assert isinstance(parsed.body, ast.Lambda)
    names = {n.id for n in ast.walk(parsed) if isinstance(n, ast.Name)}
    inner = ast.parse(f"lambda {', '.join(variables)}: 0", mode="eval").body
    assert isinstance(inner, ast.Lambda)
    parsed.body.body = _Along(inner.args).visit(parsed.body.body)
    reduced = {k: lambda u, places, f=f: f([u(*values) for values in places]) for k, f in REDUCTIONS.items()}
    known = {fn: f for fn in names if (f := _function(fn))} | {"where": lambda c, a, b: a if c else b} | reduced
    function = eval(compile(ast.fix_missing_locations(parsed), "a formula", "eval"), known)

    def of(*values: Any) -> float | None:
        try:
            found = function(*values)
        except _UNDEFINED:
            return None
        return None if isinstance(found, complex) else found

    return of


@dataclass
class Instance:
    """One drawing: `made` are the statements that say what a tensor holds, `numbers` what is drawn beside others."""

    made: Mapping[str, Assign]
    numbers: Sequence[float] = ()
    seed: int = 0
    lengths: Mapping[str, int] = field(default_factory=dict)  # of axes; of others as their names have it
    known: dict[tuple[object, ...], Any] = field(default_factory=dict)
    axes: dict[Node, tuple[str, ...]] = field(default_factory=dict)  # of what is remembered
    answers: dict[Node, set[bool]] = field(default_factory=dict)  # to all that was asked

    def value(self, node: Node, at: Place) -> float:
        """An element. Raises ArithmeticError or ValueError where it is no number."""
        if isinstance(node, Num):
            return float(node.value)
        if isinstance(node, AxisValue):
            return at[node.axis]
        if isinstance(node, SizeOf):
            return self.length(node.axis)
        if isinstance(node, Scal):
            return self._drawn(node.name, ())
        if isinstance(node, Call) and node.fn == "where":  # what is not chosen may be no number
            condition, *branches = node.args
            return self.value(branches[not self.value(condition, at)], at)
        if isinstance(node, Call) and (f := _function(node.fn)) is not None:
            args = [self.value(a, at) for a in node.args]
            if _asks(node):
                self.answers.setdefault(node, set()).add(_answer(node.fn, args))
            return f(*args)
        if isinstance(node, Reduce):
            return self.remembered(node, at, lambda _: self._reduced(node, at))
        if isinstance(node, Read) and all(isinstance(i, str) for i in node.index):
            return self._element(node, at)
        return self.remembered(node, at, lambda place: self._drawn(str(node), place))

    def remembered(self, node: Node, at: Place, found: Callable[[tuple[int, ...]], T]) -> T:
        """What was found of a node at this place of its axes."""
        axes = self.axes.get(node)
        if axes is None:
            axes = self.axes[node] = node_axes(node)
        place = tuple(at[a] for a in axes)
        if (node, place) not in self.known:
            self.known[node, place] = found(place)
        return self.known[node, place]

    def number(self, node: Node, at: Place, once: bool = False) -> float | None:
        """An element; None where it is no finite number. It is remembered, unless it is asked for `once`."""
        if not once:
            return self.remembered(node, at, lambda _: self.number(node, at, once=True))
        try:
            found = self.value(node, at)
        except _UNDEFINED:
            return None
        return float(found) if not isinstance(found, complex) and math.isfinite(found) else None

    def _reduced(self, node: Reduce, at: Place) -> float:
        return REDUCTIONS[node.kind]([self.value(node.body, {**at, **p}) for p in self.places(node.axes)])

    def places(self, axes: Sequence[str]) -> Iterator[dict[str, int]]:
        """All places of some axes."""
        for found in product(*(range(self.length(a)) for a in axes)):
            yield dict(zip(axes, found, strict=True))

    def length(self, axis: str) -> int:
        return self.lengths.get(base(axis)) or _LENGTHS[Random(base(axis)).randrange(len(_LENGTHS))]

    def _element(self, node: Read, at: Place) -> float:
        place = tuple(at[str(i)] for i in node.index)
        key = (node.name, place)
        if key not in self.known:
            s = self.made.get(node.name)
            if s is None or not all(isinstance(a, str) for a in s.axes):
                return self._drawn(node.name, place)
            self.known[key] = self.value(s.value, dict(zip(map(str, s.axes), place, strict=True)))
        return self.known[key]

    def _drawn(self, name: str, place: tuple[int, ...]) -> float:
        key = (name, place, "drawn")
        if key not in self.known:
            drawn = Random(f"{self.seed} {name} {place}")
            if self.seed % 2:  # several are singular at once
                self.known[key] = drawn.choice(_SINGULAR)
            elif drawn.random() < 0.5:
                self.known[key] = drawn.choice((*_TOLD, *self.numbers))
            else:
                self.known[key] = drawn.gauss(0, 2)
        return self.known[key]


def agree(
    one: Node, other: Node, axes: Sequence[str], drawings: Sequence[Instance], of: Collection[Node] = ()
) -> bool:
    """Whether two nodes are one function, by their values at random places of these axes: one `of` some parts of both.

    They must be numbers in the same places, and in enough of them more than what rounding may leave of 0.
    """
    told = seen = 0
    for drawing in drawings:
        for at in islice(drawing.places(axes), PLACES):
            a, b = drawing.number(one, at), drawing.number(other, at, once=True)
            if (a is None) != (b is None) or (a is not None and b is not None and not near(a, b)):
                return False
            told += a is not None and abs(a) > _NOISE
            seen += 1
            if seen >= PLACES and told >= FEWEST:
                return _is_told(one, other, drawings, of) and _is_told(other, one, drawings, of)
    return False


def _is_told(one: Node, other: Node, drawings: Sequence[Instance], of: Collection[Node]) -> bool:
    """Whether all that the one asks of these parts, and the other does not, was answered both ways."""
    made = drawings[0].made
    for asked in _asked(one, made, of) - _asked(other, made, of):
        number = len(asked.args) == 1 or not all(map(is_tensor, asked.args))
        finite = all(math.isfinite(a.value) for a in asked.args if isinstance(a, Num))
        answers = set[bool]().union(*(d.answers.get(asked, ()) for d in drawings))
        if not (number and finite and len(answers) > 1):
            return False
    return True


def _asked(node: Node, made: Mapping[str, Assign], of: Collection[Node]) -> set[Call]:
    """The comparisons in a node, under all names, and functions that choose; not those in the parts that it is `of`."""
    found, seen, pending = set[Call](), set[Node | Index](), list[Node | Index]([node])
    while pending:
        n = pending.pop()
        if n in seen or n in of:
            continue
        seen.add(n)
        if isinstance(n, Call) and _asks(n):
            found.add(n)
        pending.extend((made[n.name].value,) if isinstance(n, Read) and n.name in made else children(n))
    return found


def _asks(node: Call) -> bool:
    return node.fn in COMPARISONS or (node.fn in PRIMITIVES and PRIMITIVES[node.fn].chooses)


def _answer(fn: str, args: Sequence[float]) -> bool:
    """What a comparison is; of a function that chooses, whether its first argument is the larger, or above 0."""
    if fn in COMPARISONS:
        return bool(_SIGNS[fn](*args))
    return args[0] > (args[1] if len(args) > 1 else 0)


def drawings(made: Mapping[str, Assign], numbers: Sequence[float]) -> list[Instance]:
    """As many as it takes where nodes have few places."""
    return [Instance(made, numbers, seed) for seed in range(4 * PLACES)]


def near(a: float, b: float) -> bool:
    return abs(a - b) <= max(_NEAR * max(abs(a), abs(b)), _NOISE)
