"""Maxima up to a place, and the sums that their gradients take: over the run of places that have the same maximum.

With `m[t] = amax(where(u <= t, x[u], -oo), over=u)`, where `u <= t` and `x[u]` is `m[t]`, so is `m[u]`: `u` and `t` are
in one run of equal maxima. So `sum(where(x[u] == m[t], g[t], 0), over=t)` from `u` on is 0 where `x[u]` is not `m[u]`,
and else the sum of `g` from `u` to the end of its run. Where `m[t]` is -oo, the places behind `t` tie as well: so a sum
over `u` that does not leave them out is one over all places there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from derive.backends.code import call
from derive.backends.values import Dims, Value, align, position
from derive.ir.nodes.arithmetic import ONE, ZERO, quotient
from derive.ir.nodes.other_axes import with_axes
from derive.ir.nodes.products import by_axes
from derive.ir.nodes.walking import axes_along, by_axes_once, node_axes, walk
from derive.ir.program import MIRRORED, Assign, AxisValue, Call, Join, Node, Num, Read, Reduce, Run, Scan, SizeOf
from derive.ir.terms.axes import Axis

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

BEYOND = {"amax": Num(float("-inf")), "amin": Num(float("inf"))}
"""What no maximum or minimum is of."""

Ends = tuple[str, str, str, Node]
"""What a maximum is over, the axis it runs up to, their relation, and what it is of."""


def up_to(node: Reduce) -> Ends | None:
    """A maximum over what is masked by places alone; None for another reduction."""
    if node.kind not in BEYOND or len(node.axes) != 1:
        return None
    return next((e for e in _masked(node.body, BEYOND[node.kind]) if e[0] == node.axes[0]), None)


def _masked(node: Node, beyond: Node) -> list[Ends]:
    """A value masked by the places of two axes, only one of which it has; either way round."""
    if not isinstance(node, Call) or node.fn != "where" or node.args[2] != beyond:
        return []
    axes = node_axes(node.args[1])
    both = ((over, to, relation) for over, to, relation in ends(node.args[0]) if over in axes and to not in axes)
    return [(*e, node.args[1]) for e in both if not any(Axis(a).is_pack for a in e[:2])]


def in_runs(node: Reduce, maxima: Mapping[str, Assign], same_length: Callable[[str, str], bool]) -> Node | None:
    """A sum over the places that a running maximum is reached from, or at, as one within its run; None for another."""
    masks, above, below = unmasked(node.body)
    reached = next((r for m in masks if (r := _reached(m, maxima)) is not None), None)
    if node.kind != "sum" or len(node.axes) != 1 or reached is None:
        return None
    (u, t, relation, value), top = reached
    others = [m for m in masks if _reached(m, maxima) is None]
    over, to = (u, t) if node.axes == (u,) else (t, u)
    if node.axes != (over,) or relation not in ("le", "ge") or not same_length(u, t):
        return None
    both = [f for f in (*above, *below) if {u, t} <= set(node_axes(f))]
    if both or any((u, t, relation) not in ends(m) for m in others) or (over == t and not others):
        return None
    (inside, outside), (divisors, outer) = (by_axes(part, [over]) for part in (above, below))
    is_top: Node = Call("eq", (value, with_axes(top, {t: u})))
    if over == u:
        each = quotient(inside, divisors)
        inner: Node = Run(to, over, relation, Call("where", (is_top, each, ZERO)), same=top)
        if not others:
            every = SizeOf(t) if each == ONE else Reduce("sum", (u,), each)
            inner = Call("where", (Call("eq", (top, _nothing(top, maxima))), every, inner))
        return quotient([*outside, inner], outer)
    run = Run(to, over, MIRRORED[relation], quotient(inside, divisors), same=with_axes(top, {t: u}))
    return Call("where", (is_top, quotient([*outside, run], outer), ZERO))


def _nothing(top: Read, maxima: Mapping[str, Assign]) -> Num:
    """What a maximum is where it is of nothing."""
    value = maxima[top.name].value
    assert isinstance(value, Reduce)
    return BEYOND[value.kind]


def _reached(mask: Node, maxima: Mapping[str, Assign]) -> tuple[Ends, Read] | None:
    """What `where(u <= t, x[u], -oo) == m[t]` compares, where `m` is that maximum; None for another condition."""
    if not isinstance(mask, Call) or mask.fn != "eq":
        return None
    for value, top in (mask.args, mask.args[::-1]):
        if not isinstance(top, Read) or not by_axes_once(top) or top.name not in maxima:
            continue
        made = maxima[top.name]
        found = up_to(made.value) if isinstance(made.value, Reduce) else None
        if found is None or any(not isinstance(a, str) for a in made.axes) or not _is_read(found[3]):
            continue
        names = dict(zip(axes_along(made.axes), top.index, strict=True))
        for e in _masked(value, BEYOND[made.value.kind]):  # type: ignore[union-attr]
            if e[1:] == (names[found[1]], found[2], with_axes(found[3], names | {found[0]: e[0]})):
                return e, top
    return None


def _is_read(node: Node) -> bool:
    """Whether a node is made of tensors that are read by axes, and of numbers."""
    plain = all(not isinstance(n, AxisValue | SizeOf | Scan | Reduce | Join) for n in walk(node))
    return plain and all(by_axes_once(n) for n in walk(node) if isinstance(n, Read))


def unmasked(node: Node) -> tuple[list[Node], list[Node], list[Node]]:
    """The masks of a product, and its factors without them: what is multiplied, and what it is divided by."""
    if isinstance(node, Call) and node.fn in ("mul", "div"):
        (m, a, b), (n, c, d) = map(unmasked, node.args)
        if node.fn == "mul":
            return m + n, a + c, b + d
        return (m, a + d, b + c) if not n else (m, a, [*b, node.args[1]])
    if isinstance(node, Call) and node.fn == "where" and node.args[2] == ZERO:
        masks, above, below = unmasked(node.args[1])
        return [node.args[0], *masks], above, below
    return [], [node], []


def ends(mask: Node) -> list[tuple[str, str, str]]:
    """The summed axis, the axis it runs up to, and the relation of the first to the second; either way round."""
    if not isinstance(mask, Call) or mask.fn not in MIRRORED:
        return []
    a, b = mask.args
    if not isinstance(a, AxisValue) or not isinstance(b, AxisValue):
        return []
    return [(a.axis, b.axis, mask.fn), (b.axis, a.axis, MIRRORED[mask.fn])]


def run_sum(printer: Printer, node: Run, order: Dims) -> Value:
    """The code of a sum within a run, over all axes that either tensor has."""
    dims = tuple(d for d in order if d is not None and d in node_axes(node))
    inside = tuple(node.over if d == node.to else d for d in dims)
    body, same = printer.full(node.body, inside), printer.full(node.same, dims)
    ahead = True if node.relation == "ge" else None
    return align(Value(call("run_sums", body, same, position(dims, dims.index(node.to)), ahead=ahead), dims), order)
