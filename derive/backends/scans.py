"""Sums of masked terms: `sum(where(u <= t, x[u], 0), over=u)` is a running sum, with no table of `u` against `t`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from derive.backends.values import ATOM, Value, position
from derive.cost import Nominal, work
from derive.passes.masked_sums import as_product
from derive.passes.share import share
from derive.program import Assign, AxisValue, Call, Node, Num, Program, Reduce, Scan, Scatter, multiplied
from derive.terms.axes import Axis
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


def spares_half(anew: tuple[Program, ...], running: tuple[Program, ...], lengths: Nominal) -> bool:
    """Whether running sums spare half of the work of programs that sum anew for every place."""
    if not any(isinstance(n, Scan) for p in running for s in p.statements for n in walk(s.value)):
        return False
    before, after = (sum(work(p, lengths) for p in programs) for programs in (anew, running))
    return before > 2 * after


def _scanned(node: Reduce, same_length: Callable[[str, str], bool]) -> Node | None:
    """`sum(f[t] * where(u <= t, g[u], 0), over=(u, …))` with the running sum of `g` in the place of the choice.

    Factors that are divided by are such factors too, whether the choice is divided or what it chooses.
    """
    masks, above, below = _unmasked(node.body)
    if node.kind != "sum" or len(masks) != 1:
        return None
    for over, to, relation in _ends(masks[0]):
        inside, divisors = ([f for f in part if over in node_axes(f)] for part in (above, below))
        outside, outer_divisors = ([f for f in part if over not in node_axes(f)] for part in (above, below))
        if over not in node.axes or not [*inside, *divisors] or any(Axis(a).is_pack for a in (over, to)):
            continue
        if any(to in node_axes(f) for f in (*inside, *divisors)):
            continue
        left = {a for f in (*outside, *outer_divisors) for a in node_axes(f)}
        summed = tuple(a for a in node.axes if a not in (over, to) and a not in left)
        body = _quotient(inside, divisors)
        body = Reduce("sum", summed, body) if summed else body
        scan = Scan(to, over, relation, body, same_length(over, to))
        rest = tuple(a for a in node.axes if a != over and a not in summed)
        out = _quotient([*outside, scan], outer_divisors)
        return Reduce("sum", rest, out) if rest else out
    return None


def _unmasked(node: Node) -> tuple[list[Node], list[Node], list[Node]]:
    """The masks of a product, and its factors without them: what is multiplied, and what it is divided by."""
    if isinstance(node, Call) and node.fn in ("mul", "div"):
        (m, a, b), (n, c, d) = map(_unmasked, node.args)
        if node.fn == "mul":
            return m + n, a + c, b + d
        return (m, a + d, b + c) if not n else (m, a, [*b, node.args[1]])
    if isinstance(node, Call) and node.fn == "where" and node.args[2] == Num(Fraction(0)):
        masks, above, below = _unmasked(node.args[1])
        return [node.args[0], *masks], above, below
    return [], [node], []


def _quotient(above: list[Node], below: list[Node]) -> Node:
    """A product, divided by another where there is one."""
    one = Num(Fraction(1))
    out = multiplied([f for f in above if f != one] or [one])
    return Call("div", (out, multiplied(below))) if below else out


def _ends(mask: Node) -> list[tuple[str, str, str]]:
    """The summed axis, the axis it runs up to, and the relation of the first to the second; either way round."""
    if not isinstance(mask, Call) or mask.fn not in _TURNED:
        return []
    a, b = mask.args
    if not isinstance(a, AxisValue) or not isinstance(b, AxisValue):
        return []
    return [(a.axis, b.axis, mask.fn), (b.axis, a.axis, _TURNED[mask.fn])]


def running(node: Scan, body: Value, size: Callable[[str], str]) -> Value:
    """The code of a running sum of a printed body. Where lengths differ, zeros follow what is there, or the end goes.

    What leaves its own place out is a running sum of one place more, without the first or the last of its places.
    """
    at = position(body.dims, body.dims.index(node.over))
    dims = tuple(node.to if d == node.over else d for d in body.dims)
    behind = "0, 0, " * (len(dims) - 1 - dims.index(node.to))
    longer = "0" if node.equal else f"{size(node.to)} - {size(node.over)}"

    def padded(code: str, before: str, after: str) -> str:
        return code if before == after == "0" else f"functional.pad({code}, ({behind}{before}, {after}))"

    if node.relation in ("le", "lt"):
        code = body.inside(ATOM) if node.equal and node.relation == "le" else body.code
        code = f"{padded(code, '0' if node.relation == 'le' else '1', longer)}.cumsum({at})"
        return Value(code if node.relation == "le" else f"{code}.narrow({at}, 0, {size(node.to)})", dims)
    code = body.inside(ATOM) if node.relation == "ge" else padded(body.code, "0", "1")
    code = f"{code}.flip({at}).cumsum({at}).flip({at})"
    code = code if node.relation == "ge" else f"{code}.narrow({at}, 1, {size(node.to if node.equal else node.over)})"
    return Value(padded(code, "0", longer), dims)
