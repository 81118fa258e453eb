"""How far all pairs of two sets of points are apart: summed over coordinates, or weighed and summed over points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from derive.ir.nodes.arithmetic import ONE, quotient
from derive.ir.nodes.products import fraction, is_tensor
from derive.ir.nodes.walking import node_axes
from derive.ir.program import Call, Node, Num, Reduce


@dataclass(frozen=True)
class Apart:
    """`weight * abs(scale * (left - right)) ** power`, with an axis of points that each side has for itself."""

    left: Node
    right: Node
    of_left: str
    of_right: str
    power: int
    scale: Node | None
    weight: Node | None

    @property
    def both(self) -> tuple[str, ...]:
        """The axes that both sides have."""
        return tuple(a for a in node_axes(self.left) if a != self.of_left)

    @property
    def turned(self) -> Apart:
        """The same with the sides exchanged."""
        return replace(self, left=self.right, right=self.left, of_left=self.of_right, of_right=self.of_left)


def apart(body: Node) -> Apart | None:
    """What a product or quotient says of how far points are apart; None where that is nothing, or two things."""
    up, down = fraction(body)
    roots = [(f, root) for f in up if (root := _root(f)) is not None]
    if len(roots) != 1:
        return None
    power, (base, exponent) = roots[0]
    above, below = fraction(base)
    differences = [f for f in above if isinstance(f, Call) and f.fn == "sub"]
    if len(differences) != 1:
        return None
    scale, weight = _others(above, differences[0], below), _others(up, power, down)
    if not all(n is None or is_tensor(n) for n in (scale, weight)):
        return None
    left, right = differences[0].args
    mine, theirs = node_axes(left), node_axes(right)
    own, other = [a for a in mine if a not in theirs], [a for a in theirs if a not in mine]
    return Apart(left, right, own[0], other[0], exponent, scale, weight) if len(own) == len(other) == 1 else None


def _root(factor: Node) -> tuple[Node, int] | None:
    """What a factor is the square or the absolute value of, and which of both."""
    if not isinstance(factor, Call) or factor.fn not in ("absolute", "pow"):
        return None
    if factor.fn == "absolute":
        return factor.args[0], 1
    return (factor.args[0], 2) if factor.args[1] == Num(Fraction(2)) else None


def _others(above: list[Node], apart_from: Node, below: list[Node]) -> Node | None:
    """What is left of a quotient; None for 1."""
    whole = quotient([f for f in above if f != apart_from], below)
    return None if whole == ONE else whole


def summed_apart(node: Reduce) -> Apart | None:
    """The distances that a sum over coordinates adds up, whatever weighs a coordinate the same for all on the left."""
    found = apart(node.body) if node.kind in ("sum", "mean") and len(node.axes) == 1 else None
    if found is None or node.axes[0] not in found.both:
        return None
    return next((f for f in (found, found.turned) if _axes_of(f.scale, f.weight) <= {*f.both, f.of_right}), None)


def weighed_apart(node: Reduce) -> Apart | None:
    """What a sum over the points on the left, with those on the right or without, weighs pair by pair."""
    found = apart(node.body) if node.kind == "sum" else None
    if found is None or len(coordinates(found)) != 1:
        return None
    pair, weighed = {found.of_left, found.of_right}, _axes_of(found.weight)
    if not pair <= weighed <= {*pair, *found.both} or not set(node.axes) <= weighed:
        return None
    sides = (f for f in (found, found.turned) if f.of_left in node.axes)
    return next((f for f in sides if _axes_of(f.scale) <= {*f.both, f.of_right}), None)


def coordinates(found: Apart) -> list[str]:
    """The axes of the difference that nothing weighs: those of coordinates."""
    return [a for a in found.both if a not in _axes_of(found.weight)]


def _axes_of(*nodes: Node | None) -> set[str]:
    return {a for n in nodes if n is not None for a in node_axes(n)}
