"""Rewrite rules as rows: a law is a name, a left side, a right side, and when it holds.

`Row("complement", "c - c*sigmoid(u) => c*sigmoid(-u)")`. A name that no function has is a variable; `c` is the common
cofactor of all terms of a sum. A product on the left is matched within any product, its other factors are kept. A row
ends: its right side weighs less than its left. It divides by nothing that its left side does not divide by.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from types import CodeType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

COFACTOR = "c"

_OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow", ast.USub: "neg", ast.Gt: "gt",
    ast.GtE: "ge", ast.Lt: "lt", ast.LtE: "le", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip

WEIGHTS: Mapping[str, int] = {"neg": 0, "exp": 3, "log": 3, "where": 3, "sign": 2}
"""What a function weighs in the order by which rows end: 1 where it is not said."""


@dataclass(frozen=True)
class Row:
    """One law: `left => right`, under the conditions `when`, which ask facts of the variables: `negative(q)`.

    Raises ValueError where it has no end, or where its right side divides by what its left side does not.
    """

    name: str
    law: str
    when: str = ""
    stability: bool = False  # it is there for digits or range, else for size

    def __post_init__(self) -> None:
        (before, left), (after, right) = (fold(s, _weighed, _weight_of, lambda _: (1, {})) for s in self.sides)
        if after >= before or any(times > left.get(name, 0) for name, times in right.items()):
            raise ValueError(f"{self}: the right side does not weigh less, so that rewriting might not end")
        divided = [fold(s, _divided, lambda n: (frozenset({n}), frozenset()), _of_number)[1] for s in self.sides]
        if lost := divided[1] - divided[0] - self.nonzero:
            raise ValueError(f"{self}: the right side divides by {', '.join(sorted(lost))}, the left side does not")

    def __str__(self) -> str:
        return f"{self.name}: {self.law}" + (f" if {self.when}" if self.when else "")

    @cached_property
    def sides(self) -> tuple[ast.expr, ast.expr]:
        """Left and right, parsed."""
        left, right = (ast.parse(s.strip(), mode="eval").body for s in self.law.split("=>"))
        return left, right

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in the order in which they stand."""
        called = {id(n.func) for side in self.sides for n in ast.walk(side) if isinstance(n, ast.Call)}
        names = (n for side in self.sides for n in ast.walk(side) if isinstance(n, ast.Name) and id(n) not in called)
        return tuple(dict.fromkeys(n.id for n in names))

    @property
    def nonzero(self) -> frozenset[str]:
        """The variables that the conditions keep from being 0."""
        calls = [n for n in ast.walk(ast.parse(self.when or "()")) if isinstance(n, ast.Call)]
        said = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id in ("nonzero", "positive", "negative")]
        return frozenset(a.id for n in said for a in n.args if isinstance(a, ast.Name))

    @cached_property
    def _condition(self) -> CodeType:
        return compile(self.when or "True", self.name, "eval")

    def holds(self, facts: Mapping[str, Callable[..., object]], bound: Mapping[str, Any]) -> bool:
        """Whether facts say that the conditions hold of what the variables are."""
        return bool(eval(self._condition, {"__builtins__": {}, **facts}, dict(bound)))


@dataclass(frozen=True)
class Move(Generic[T]):
    """What laws make of a value, the last of them, and what stands under the names that were opened for it."""

    value: T
    row: Row
    opened: Mapping[T, T]

    @property
    def reason(self) -> str:
        """The law and the equations of the names, as a reader sees them."""
        law = self.row.law.replace("=>", "=")
        return "; ".join((law, *(f"{name} = {body}" for name, body in self.opened.items())))


def moves(value: T, once: Callable[[T], Iterator[Move[T]]]) -> Iterator[Move[T]]:
    """A value with laws wherever they hold, as one move; then with each at one place alone, as `once` has them."""
    alone = list(once(value))
    opened: dict[T, T] = {}
    whole, found = None, next(iter(alone), None)
    while found is not None:
        opened |= found.opened
        whole = replace(found, opened=dict(opened))
        found = next(once(found.value), None)
    yield from {move.value: move for move in (whole, *alone) if move is not None}.values()


def fold(
    side: ast.expr, word: Callable[[str, list[T]], T], variable: Callable[[str], T], number: Callable[[Fraction], T]
) -> T:
    """A side of a law, made of what each word, variable and number in it is; words are those of program nodes."""

    def of(node: ast.expr) -> T:
        match node:
            case ast.BinOp(ast.Constant(a), ast.Div(), ast.Constant(b)):
                return number(Fraction(a) / Fraction(b))  # type: ignore[arg-type]
            case ast.Constant(int(a)):
                return number(Fraction(a))
            case ast.Name(name):
                return variable(name)
            case ast.BinOp(left, operator, right):
                return word(_OPERATORS[type(operator)], [of(left), of(right)])
            case ast.UnaryOp(operator, operand):
                return word(_OPERATORS[type(operator)], [of(operand)])
            case ast.Compare(left, [operator], [right]):
                return word(_OPERATORS[type(operator)], [of(left), of(right)])
            case ast.Call(ast.Name(name), args):
                return word("absolute" if name == "abs" else name, [of(a) for a in args])
        raise ValueError(f"no pattern: {ast.unparse(node)}")

    return of(side)


_Weight = tuple[int, dict[str, int]]  # and how often each variable stands there


def _weight_of(name: str) -> _Weight:
    return 1, {name: 1}


def _weighed(word: str, parts: list[_Weight]) -> _Weight:
    names = {name for _, n in parts for name in n}
    times = {name: sum(n.get(name, 0) for _, n in parts) for name in names}
    return WEIGHTS.get(word, 1) + sum(w for w, _ in parts), times


_Divided = tuple[frozenset[str], frozenset[str]]  # the variables, and those that are divided by


def _of_number(_: Fraction) -> _Divided:
    return frozenset(), frozenset()


def _divided(word: str, parts: list[_Divided]) -> _Divided:
    names = frozenset().union(*(n for n, _ in parts))
    below = frozenset().union(*(b for _, b in parts))
    divides = word == "div" or (word == "pow" and bool(parts[1][0]))  # a power with a variable may divide
    return names, below | (parts[word == "div"][0] if divides else frozenset())
