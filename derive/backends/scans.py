"""Sums of masked terms: `sum(where(u <= t, x[u], 0), over=u)` is a running sum, with no table of `u` against `t`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from derive.backends.values import ATOM, Value, position
from derive.cost import product_factors
from derive.masked_sums import as_product
from derive.program import Assign, AxisValue, Call, Node, Num, Program, Reduce, Scan, Scatter, multiplied
from derive.share import share
from derive.walking import node_axes, walk

_TURNED = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}


def with_scans(program: Program, same_length: Callable[[str, str], bool]) -> Program:
    """The program with every sum up to a place, or down to one, as a running sum, and masks inside matrix products."""

    def within(node: Node) -> Node:
        if isinstance(node, Call):
            return Call(node.fn, tuple(within(a) for a in node.args))
        return (_scanned(node, same_length) or as_product(node)) if isinstance(node, Reduce) else node

    statements = [replace(s, value=within(s.value)) for s in program.statements if isinstance(s, Assign | Scatter)]
    out = replace(program, statements=tuple(statements))
    return share(out) if any(isinstance(n, Scan) for s in out.statements for n in walk(s.value)) else out


def _scanned(node: Reduce, same_length: Callable[[str, str], bool]) -> Node | None:
    """`sum(f[t] * where(u <= t, g[u], 0), over=(u, …))` with the running sum of `g` in the place of the choice."""
    masks: list[Node] = []
    factors: list[Node] = []
    for f in product_factors(node.body):
        chosen = isinstance(f, Call) and f.fn == "where" and f.args[2] == Num(Fraction(0))
        masks += [f.args[0]] if chosen else []  # type: ignore[union-attr]
        factors += product_factors(f.args[1]) if chosen else [f]  # type: ignore[union-attr]
    if node.kind != "sum" or len(masks) != 1:
        return None
    for over, to, relation in _ends(masks[0]):
        inside = [f for f in factors if over in node_axes(f)]
        outside = [f for f in factors if f not in inside]
        if over not in node.axes or not inside or not same_length(over, to):
            continue
        if any(to in node_axes(f) for f in inside):
            continue
        summed = tuple(a for a in node.axes if a not in (over, to) and not any(a in node_axes(f) for f in outside))
        body = Reduce("sum", summed, multiplied(inside)) if summed else multiplied(inside)
        rest = tuple(a for a in node.axes if a != over and a not in summed)
        out = multiplied([*outside, Scan(to, over, relation, body)])
        return Reduce("sum", rest, out) if rest else out
    return None


def _ends(mask: Node) -> list[tuple[str, str, str]]:
    """The summed axis, the axis it runs up to, and the relation of the first to the second; either way round."""
    if not isinstance(mask, Call) or mask.fn not in _TURNED:
        return []
    a, b = mask.args
    if not isinstance(a, AxisValue) or not isinstance(b, AxisValue):
        return []
    return [(a.axis, b.axis, mask.fn), (b.axis, a.axis, _TURNED[mask.fn])]


def running(node: Scan, body: Value) -> Value:
    """The code of a running sum of a printed body."""
    at = position(body.dims, body.dims.index(node.over))
    dims = tuple(node.to if d == node.over else d for d in body.dims)
    if node.relation in ("le", "lt"):
        code = f"{body.inside(ATOM)}.cumsum({at})"
    else:
        code = f"{body.inside(ATOM)}.flip({at}).cumsum({at}).flip({at})"
    if node.relation in ("lt", "gt"):  # its own place left out: all move on by one
        behind = len(dims) - 1 - dims.index(node.to)
        moved = "1, -1" if node.relation == "lt" else "-1, 1"
        code = f"functional.pad({code}, ({'0, 0, ' * behind}{moved}))"
    return Value(code, dims)
