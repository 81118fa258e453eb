"""A condition on places that is asked twice gets a name: the index that it guards and the value are under one mask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from derive.ir.nodes.naming import name_of
from derive.ir.nodes.other_axes import uncopied
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import axes_along, children, node_axes, reads, walk
from derive.ir.program import COMPARISONS, CONDITIONS, Assign, Call, Index, Node, Program, Read, Statement, base
from derive.ir.terms.names import free_name

_LOGIC = CONDITIONS - COMPARISONS


def masks_first(program: Program) -> Program:
    """The same program with a name for every such condition, in front of the first statement that asks it.

    Two places compared, `j <= i`, have a form of their own where they choose, `tril`, and a name where they are written
    out (`reads/ranges.py`).
    """
    statements, taken = list(program.statements), program.names
    while asked := _asked_twice(statements):
        first = next(k for k, s in enumerate(statements) if asked in map(_plain, _conditions(s.value)))
        name = free_name("mask", taken, "_") if asked.fn in _LOGIC else name_of(asked, taken)
        mask = Assign(name, _axes_beside(asked, statements[first]), asked)
        taken.add(name)
        statements = [*statements[:first], mask, *(_reading(s, asked, mask) for s in statements[first:])]
    return check(replace(program, statements=tuple(statements))) if taken - program.names else program


def _asked_twice(statements: list[Statement]) -> Call | None:
    """The largest condition on computed places that is asked in two places."""
    found = Counter(_plain(n) for s in statements for n in _conditions(s.value))
    often = [n for n, count in found.items() if count > 1]
    return max(often, key=lambda n: len(list(walk(n))), default=None)


def _axes_beside(condition: Call, asking: Statement) -> tuple[str, ...]:
    """The axes of a condition in the order of a tensor that it chooses from."""
    axes = node_axes(condition)
    met = [axes_along(asking.axes), *(node_axes(n) for n in walk(asking.value) if isinstance(n, Read))]
    orders = [tuple(b for a in found if (b := base(a)) in axes) for found in met]
    return next((order for order in orders if sorted(order) == sorted(axes)), axes)


def _reading(s: Statement, asked: Call, mask: Assign) -> Statement:
    """The statement with the mask read wherever it asks that condition, of whichever axes of those lengths."""
    for n in [n for n in _conditions(s.value) if _plain(n) == asked]:
        own = {base(a): a for a in node_axes(n)} | {a: a for a in node_axes(n)}
        s = replace(s, value=put(s.value, n, Read(mask.name, tuple(own[str(a)] for a in mask.axes))))
    return s


def _plain(condition: Call) -> Call:
    """The condition with axes for their copies in sums, `k` for `k'`, unless it asks of both."""
    plain = uncopied(condition)
    return plain if isinstance(plain, Call) else condition


def _conditions(node: Node | Index) -> Iterator[Call]:
    """Every condition below a node that reads no tensors."""
    if isinstance(node, Read):
        return
    if isinstance(node, Call) and node.fn in CONDITIONS and node_axes(node) and not reads(node) and _computes(node):
        yield node
    for child in children(node):
        yield from _conditions(child)


def _computes(condition: Call) -> bool:
    """Whether a condition is more than a place beside another, or beside a number."""
    if condition.fn == "not":
        return isinstance(condition.args[0], Call) and _computes(condition.args[0])
    return condition.fn not in COMPARISONS or any(isinstance(a, Call) for a in condition.args)
