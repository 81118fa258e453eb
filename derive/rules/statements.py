"""Rows of laws on nodes of a program, as they are written: `u + (-v) => u - v` is what a reader sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from derive.ir.nodes.walking import rebuilt
from derive.ir.program import Call, Node, Num, Program, Scal
from derive.rules.engine import Row, fold

FACTS: Mapping[str, Callable[[Node], bool]] = {
    "number": lambda n: isinstance(n, Num),
    "negative": lambda n: isinstance(n, Num) and n.value < 0,
}


def with_rows(program: Program, rows: Sequence[Row]) -> Program:
    """The same program with these laws wherever they hold in its values."""
    return program.with_values(lambda value: rewritten(value, rows))


def rewritten(node: Node, rows: Sequence[Row]) -> Node:
    """A node with these laws wherever they hold, inner ones first."""
    return outermost(rebuilt(node, lambda n: rewritten(n, rows)), rows)


def outermost(node: Node, rows: Sequence[Row]) -> Node:
    """A node with these laws, and those that hold of what they make; what it is made of has none left."""
    for row in rows if isinstance(node, Call) else ():
        left, right = _sides(row)
        bound: dict[str, Node] = {}
        if _is(left, node, row.variables, bound) and row.holds(FACTS, bound):
            return _made(right, bound, rows)
    return node


@cache
def _sides(row: Row) -> tuple[Node, Node]:
    """Both sides as nodes, a variable as a number of the caller's."""

    def call(word: str, args: list[Node]) -> Node:
        return Call(word, tuple(args))

    left, right = (fold(side, call, Scal, Num) for side in row.sides)
    return left, right


def _is(p: Node, node: Node, variables: Sequence[str], bound: dict[str, Node]) -> bool:
    """Whether a pattern is this node, with what its variables are then."""
    if isinstance(p, Scal) and p.name in variables:
        return bound.setdefault(p.name, node) == node
    if isinstance(p, Call) and isinstance(node, Call) and p.fn == node.fn and len(p.args) == len(node.args):
        return all(_is(a, b, variables, bound) for a, b in zip(p.args, node.args, strict=True))
    return p == node


def _made(p: Node, bound: Mapping[str, Node], rows: Sequence[Row]) -> Node:
    """A right side with what its variables are; minus a number is that number."""
    if not isinstance(p, Call):
        return bound[p.name] if isinstance(p, Scal) else p
    args = tuple(_made(a, bound, rows) for a in p.args)
    return Num(-args[0].value) if p.fn == "neg" and isinstance(args[0], Num) else outermost(Call(p.fn, args), rows)
