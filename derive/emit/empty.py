"""Which gradients an empty batch would leave nan, where the gradient of nothing is 0.

The statistics of an empty batch are nan, and so is a sum over it, which is 0, times one of them:
`rsqrt_v * sum(dy * u)`. Gradients are linear in the incoming ones: where none of these has an element, they are 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from derive.ir.nodes.walking import axes_along, children, node_axes, walk
from derive.ir.program import Assign, Call, Node, Program, Read, Reduce, SizeOf, base


def left_undefined(forward: Program, backward: Program, cotangents: Sequence[str]) -> tuple[str, ...]:
    """The gradients that hold elements and are nan, or divided by 0, where the cotangents have an empty first axis."""
    axes = dict(backward.given)
    first = {axes[c][:1] for c in cotangents}
    if len(first) != 1 or () in first:
        return ()
    ((batch,),) = first
    found = _undefined(backward, batch, _undefined(forward, batch, ()) & set(axes))
    return tuple(name for name in backward.returns if name in found and name not in axes)


def _undefined(program: Program, axis: str, given: Collection[str]) -> set[str]:
    """The tensors without this axis that have no value where it is empty."""
    found = set(given)
    for s in program.statements:
        here = axis not in map(base, axes_along(s.slots))
        if here and (_is_undefined(s.value, axis, found) or (not isinstance(s, Assign) and s.onto in found)):
            found.add(s.name)
    return found


def _is_undefined(node: Node, axis: str, known: set[str]) -> bool:
    """Whether a node has no value where the axis is empty: a mean, a quotient by its length, what is made of such."""
    if isinstance(node, Read):
        return node.name in known
    if isinstance(node, Reduce) and axis in map(base, node.axes):
        return node.kind == "mean"
    if axis in map(base, node_axes(node)):  # it has no elements
        return False
    if isinstance(node, Call) and node.fn in ("div", "pow"):
        by = node.args[1] if node.fn == "div" else node.args[0]
        if any(isinstance(n, SizeOf) and base(n.axis) == axis for n in walk(by)):
            return True
    return any(_is_undefined(n, axis, known) for n in children(node))  # type: ignore[arg-type]
