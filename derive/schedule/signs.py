"""Two signs are one: `-(-x)` is `x`, `-2 * (-x)` is `2 * x`, `a - (-b)` is `a + b`, `a + (-2)` is `a - 2`.

Nothing adds 0 or multiplies by 1. A sum of negatives is minus the sum, and what is minus something and only added is
taken away instead.

Laws about choices put one node in the place of another, and leave such signs behind.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from derive.ir.nodes.arithmetic import ONE, ZERO, multiplied
from derive.ir.nodes.inlining import inline
from derive.ir.nodes.products import is_matrix_product, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import bottom_up, node_axes, rebuilt, uses, walk
from derive.ir.program import Assign, Call, Node, Num, Program, Read, Reduce, Statement
from derive.rules.statements import outermost
from derive.rules.tables.signs import SIGNS

_MINUS = Num(Fraction(-1))


def one_sign(program: Program) -> Program:
    """The same program with one sign where there are two."""
    program = program.with_values(plain)
    for s in program.statements:
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.fn == "neg" and _is_summand(s, program):
            program = (inline(s, program) or program).with_values(plain)
    for s in program.statements:
        made = _negated_alone(s, program)
        program = program if made is None else (inline(made, program) or program).with_values(plain)
    return check(program)


def signs_at_ties(program: Program) -> Program:
    """The same program with the sign of an extremum beside a mask of what ties with it: it has fewer places.

    `sign(z) * (z == y)` is `sign(y) * (z == y)`.
    """
    return check(program.with_values(lambda value: bottom_up(value, _sign_at_a_tie)))


def _sign_at_a_tie(node: Node) -> Node:
    factors = product_factors(node) if isinstance(node, Call) and node.fn == "mul" else []
    ties = [f.args[0].args for f in factors if isinstance(f, Call) and f.fn == "where" and f.args[1:] == (ONE, ZERO)
            and isinstance(f.args[0], Call) and f.args[0].fn == "eq"]  # fmt: skip
    signs = dict[Node, Node]()
    for a, b in (pair for one, other in ties for pair in ((one, other), (other, one))):
        if set(node_axes(b)) < set(node_axes(a)):
            signs[Call("sign", (a,))] = Call("sign", (b,))
    return multiplied([signs.get(f, f) for f in factors]) if signs.keys() & set(factors) else node


def _negated_alone(s: Statement, program: Program) -> Assign | None:
    """What makes the tensor that a statement is no more than minus of, if it is that."""
    inner = s.value.args[0] if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.fn == "neg" else None
    return program.assigned.get(inner.name) if isinstance(inner, Read) else None


def _is_summand(made: Assign, program: Program) -> bool:
    """Whether all that reads a tensor adds it to something else, or takes it away."""
    found = uses(made.name, program.statements)
    return all(
        any(isinstance(n, Call) and n.fn in ("add", "sub") and read in n.args for n in walk(reader.value))
        for reader, read in found
    )


def plain(node: Node) -> Node:
    """The node with every sum, product and minus below it written with one sign."""
    node = rebuilt(node, plain)
    return _reduced(node) if isinstance(node, Reduce) else outermost(_signed_number(node), SIGNS)


def _signed_number(node: Node) -> Node:
    """A number that is added, subtracted or negated with its sign before it: `a - 2` for `a + (-2)`."""
    if isinstance(node, Call) and node.fn == "neg" and isinstance(node.args[0], Num):
        return Num(-node.args[0].value)
    if not isinstance(node, Call) or node.fn not in ("add", "sub", "mul"):
        return node
    first, second = node.args
    if node.fn == "mul":
        return Call("neg", (second,)) if first == _MINUS else node
    if not isinstance(second, Num) or second.value >= 0 or first == ZERO:
        return node
    return Call("sub" if node.fn == "add" else "add", (first, Num(-second.value)))


def _reduced(node: Reduce) -> Node:
    """A sum, minus the sum of what it adds the negatives of: it is the smaller."""
    body = _unsigned(node.body) if node.kind in ("sum", "mean") and not is_matrix_product(node) else None
    return node if body is None else Call("neg", (replace(node, body=body),))


def _unsigned(node: Node) -> Node | None:
    """What a product or quotient is minus of; None where no factor has a sign."""
    if not isinstance(node, Call) or node.fn not in ("neg", "mul", "div"):
        return None
    if node.fn == "neg":
        return node.args[0]
    for k, factor in enumerate(node.args):
        if (opposite := _unsigned(factor)) is not None:
            return replace(node, args=(*node.args[:k], opposite, *node.args[k + 1 :]))
    return None
