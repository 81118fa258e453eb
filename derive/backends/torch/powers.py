"""Powers of a tensor by the places of an axis, `x ** k`: product after product; their weighed sums by Horner's rule.

PyTorch takes as long for one power of real numbers as for fifty products, and has no whole exponents that are tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from derive.backends.code import call
from derive.backends.torch.distances import DISTANCE
from derive.backends.values import Dims, Value, align, is_pack, position
from derive.ir.nodes.arithmetic import ZERO, multiplied
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import node_axes, reads, walk
from derive.ir.program import AxisValue, Call, Join, Node, Num, Reduce, Scan, Shares

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


@dataclass(frozen=True)
class _Powers:
    """`base ** (axis + first)`, with the exponent 0 in the place of what is below."""

    base: Node
    axis: str
    first: int = 0


def powers(printer: Printer, node: Call, order: Dims) -> Value | None:
    """All powers of a tensor by an axis as one call; None for anything else."""
    found = _powers(printer, node)
    if found is None or None in order or found.axis == DISTANCE:
        return None
    dims = tuple(d for d in order if d == found.axis or d in node_axes(found.base))
    x = printer.full(found.base, tuple(d for d in dims if d != found.axis))
    first = [found.first] if found.first else []
    at = position(dims, dims.index(found.axis))
    made = Value(call("powers", x, printer.size(found.axis), at, *first), dims)
    return printer.owned(node, made) if dims == order else align(made, order)


def polynomial(printer: Printer, node: Reduce, order: Dims) -> Value | None:
    """A weighed sum of powers by the axis that is summed over; None for another sum."""
    factors = product_factors(node.body) if node.kind == "sum" and len(node.axes) == 1 else []
    found = {f: p for f in factors if isinstance(f, Call) and (p := _powers(printer, f)) is not None}
    if len(found) != 1:
        return None
    ((factor, one),) = found.items()
    weights = [f for f in factors if f != factor]
    own = node_axes(one.base)
    inside = all(one.axis in node_axes(w) and set(node_axes(w)) <= {*own, one.axis} for w in weights)
    if one.axis != node.axes[0] or not weights or not inside:
        return None
    dims = tuple(d for d in order if d in own)
    x, given = printer.full(one.base, dims), printer.value(multiplied(weights), (*dims, one.axis))
    first = [one.first] if one.first else []
    real = given if given.dims[-1:] == (one.axis,) and not given.boolean and not given.weak else None
    return None if real is None else Value(call("polynomial", x, real, *first), dims)


def _powers(printer: Printer, node: Call) -> _Powers | None:
    """What is raised to all powers of an axis that it does not have; None where few numbers are, or other powers."""
    if node.fn != "pow" or not printer.fuse:
        return None
    base, exponent = node.args
    axis, first = _exponent(exponent)
    axes = node_axes(base)
    whole = not any(isinstance(n, Reduce | Join | Scan | Shares | AxisValue) for n in walk(base))
    if axis is None or axis in axes or not reads(base) or not whole or any(map(is_pack, (*axes, axis))):
        return None
    return _Powers(base, axis, first) if printer.dtypes.is_real(base) else None


def _exponent(node: Node) -> tuple[str | None, int]:
    """The axis and the number of `k`, `k + 1` and of the larger of `k - 1` and 0; no axis for anything else."""
    if isinstance(node, AxisValue):
        return node.axis, 0
    if isinstance(node, Call) and node.fn == "maximum" and node.args[1] == ZERO:
        inner = node.args[0]
        if isinstance(inner, Call) and inner.fn == "sub":
            number = _number(inner.args[1])
            return (inner.args[0].axis, -number) if isinstance(inner.args[0], AxisValue) and number else (None, 0)
    if isinstance(node, Call) and node.fn == "add" and isinstance(node.args[0], AxisValue):
        number = _number(node.args[1])
        return (node.args[0].axis, number) if number else (None, 0)
    return None, 0


def _number(node: Node) -> int:
    """A whole number above 0; 0 for anything else."""
    is_whole = isinstance(node, Num) and isinstance(node.value, Fraction) and node.value.denominator == 1
    return int(node.value) if is_whole and node.value > 0 else 0  # type: ignore[union-attr]
