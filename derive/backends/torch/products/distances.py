"""Distances of all pairs: `sum((x[i, d] - y[j, d])**2, over=d)` and `sum(abs(x[i, d] - y[j, d]), over=d)`.

A call makes them for some points at a time, so that no tensor of all differences leaves the cache. `torch.cdist` gives
a root, whose square is no longer exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from derive.backends.values import Value, is_pack, permute, squeeze
from derive.nodes.walking import node_axes
from derive.program import Call, Node, Num, Reduce

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


@dataclass(frozen=True)
class Pairs:
    """Two sets of points, the axis that tells the points of each, that of their coordinates, and what both share."""

    left: Node
    right: Node
    of_left: str
    of_right: str
    summed: str
    batch: tuple[str, ...]
    power: int


def pairs_of(node: Reduce) -> Pairs | None:
    """What a sum adds up the distances of; None where it adds up anything else."""
    body = node.body
    if node.kind not in ("sum", "mean") or len(node.axes) != 1 or not isinstance(body, Call):
        return None
    power = {"absolute": 1, "pow": 2}.get(body.fn)
    if power is None or (power == 2 and body.args[1] != Num(Fraction(2))):
        return None
    if not isinstance(body.args[0], Call) or body.args[0].fn != "sub":
        return None
    left, right = body.args[0].args
    mine, theirs = node_axes(left), node_axes(right)
    own, other = [a for a in mine if a not in theirs], [a for a in theirs if a not in mine]
    both = tuple(a for a in mine if a in theirs and a not in node.axes)
    summed = node.axes[0] in mine and node.axes[0] in theirs
    if len(own) != 1 or len(other) != 1 or not summed or any(map(is_pack, (*own, *other, *node.axes))):
        return None
    return Pairs(left, right, own[0], other[0], node.axes[0], both, power)


def distances(printer: Printer, node: Reduce) -> Value | None:
    """The call for a sum of distances, else None."""
    found = pairs_of(node) if printer.fuse else None
    if found is None:
        return None
    values = []
    for points, own in ((found.left, found.of_left), (found.right, found.of_right)):
        order = (*found.batch, own, found.summed)
        values.append(printer.as_real(points, permute(squeeze(printer.value(points, order)), order)))
    code = f"pair_distances({values[0].code}, {values[1].code}, p={found.power})"
    code += f".div_({printer.size(found.summed)})" if node.kind == "mean" else ""
    return Value(code, (*found.batch, found.of_left, found.of_right))
