"""Rewrite rules as rows: a law is a name, a left side, a right side, and when it holds.

`Row("complement", "c - c*sigmoid(u) => c*sigmoid(-u)")`. A name that no function has is a variable; `c` is the common
cofactor of all terms of a sum. A product on the left is matched within any product, its other factors are kept. A row
ends: its right side comes before its left in one order. It divides by nothing that its left side does not divide by.
"""

from __future__ import annotations

import ast
from collections import Counter
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

RANKS = {"log": 4, "exp": 2, "sigmoid": 1, "scale": -1} | dict.fromkeys(("add", "sub", "mul", "div", "pow"), 3)
"""How high a function stands in the order by which rows end, 0 where it is not said: it is put as lower ones."""


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
        numbers = self._said("number")
        left, right = (fold(s, _Term.of, lambda n: _Term(n, n in numbers), lambda _: _NUMBER) for s in self.sides)
        if not left.comes_after(right):
            raise ValueError(f"{self}: the right side does not come before the left, so that rewriting might not end")
        divided = [fold(s, _divided, lambda n: (frozenset({n}), frozenset()), _of_number)[1] for s in self.sides]
        if lost := divided[1] - divided[0] - self._said("nonzero", "positive", "negative"):
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

    def _said(self, *facts: str) -> frozenset[str]:
        """The variables of which the conditions say one of these facts."""
        calls = [n for n in ast.walk(ast.parse(self.when or "()")) if isinstance(n, ast.Call)]
        said = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id in facts]
        return frozenset(a.id for n in said for a in n.args if isinstance(a, ast.Name))

    @cached_property
    def _condition(self) -> CodeType:
        return compile(self.when or "True", self.name, "eval")

    def holds(self, facts: Mapping[str, Callable[..., object]], bound: Mapping[str, Any]) -> bool:
        """Whether facts say that the conditions hold of what the variables are."""
        return bool(eval(self._condition, {"__builtins__": {}, **facts}, dict(bound)))


@dataclass(frozen=True)
class Move(Generic[T]):
    """What laws make of a value, the last of them, its variables, and what stands under the names opened for it."""

    value: T
    row: Row
    bound: Mapping[str, T]
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


@dataclass(frozen=True)
class _Term:
    """A side as a tree: a function or operator and its arguments, or a variable; numbers are alike, and only scale."""

    word: str
    is_number: bool = False
    args: tuple[_Term, ...] = ()

    @classmethod
    def of(cls, word: str, args: list[_Term]) -> _Term:
        rest = [a for a in args if not a.is_number]
        if word == "neg" or (len(rest) == 1 and (word == "mul" or (word == "div" and rest == args[:1]))):
            word, args = "scale", rest
        return cls(word, False, tuple(args)) if rest else _NUMBER

    def comes_after(self, other: _Term) -> bool:
        """Whether it is above another in the recursive path order (Dershowitz, 1982), which ends."""
        if not self.args or other.is_number:
            return bool(self.args)
        if any(a == other or a.comes_after(other) for a in self.args):
            return True
        rank, below = RANKS.get(self.word, 0), RANKS.get(other.word, 0)
        if not other.args or rank < below or not all(self.comes_after(b) for b in other.args):
            return False
        left, right = list(Counter(self.args) - Counter(other.args)), list(Counter(other.args) - Counter(self.args))
        return rank > below or (bool(left) and all(any(a.comes_after(b) for a in left) for b in right))


_NUMBER = _Term("", True)

_Divided = tuple[frozenset[str], frozenset[str]]  # the variables, and those that are divided by


def _of_number(_: Fraction) -> _Divided:
    return frozenset(), frozenset()


def _divided(word: str, parts: list[_Divided]) -> _Divided:
    names = frozenset().union(*(n for n, _ in parts))
    below = frozenset().union(*(b for _, b in parts))
    divides = word == "div" or (word == "pow" and bool(parts[1][0]))  # a power with a variable may divide
    return names, below | (parts[word == "div"][0] if divides else frozenset())
