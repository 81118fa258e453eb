"""The arithmetic of a program's node in SymPy again, where a law is about numbers rather than about axes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction

from sympy import Dummy, Expr, Pow, Rational, expand

from derive.ir.program import Call, Node, Num

_ARITHMETIC: dict[str, Callable[..., Expr]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "pow": Pow,
}  # fmt: skip

Other = Callable[[Node], Expr | None]
"""What a node is that is no arithmetic; None: nothing that can be said."""


def raised(node: Node, names: Mapping[Node, Expr], other: Other) -> Expr | None:
    """A node as SymPy has it, some nodes by these names; None where `other` has none for something in it."""
    if node in names:
        return names[node]
    if is_finite_number(node):
        return Rational(node.value.numerator, node.value.denominator)  # type: ignore[union-attr]
    if not isinstance(node, Call) or node.fn not in _ARITHMETIC:
        return other(node)
    values = [raised(a, names, other) for a in node.args]
    return None if None in values else _ARITHMETIC[node.fn](*values)


def expanded(node: Node, names: dict[Node, Expr] | None = None) -> Expr:
    """The arithmetic of a node multiplied out; what is none goes by a name of its own, which is put among `names`."""
    own = {} if names is None else names
    return expand(raised(node, {}, lambda n: own.setdefault(n, Dummy())))


def is_finite_number(node: Node) -> bool:
    """Whether a node is a number of its own, not -oo."""
    return isinstance(node, Num) and isinstance(node.value, Fraction)
