"""A tensor on one side of 0 and its product with a vector on the other is one call: `where(x > 0, x, a[c]*x)`.

PyTorch's `prelu` has the vector along the second dimension; leading ones are taken as one where it is the last.
`where(m, 1, a[c])` is `prelu` of what is 1 where the mask holds and -1 elsewhere, and of `-a`: as exact, also where `a`
is infinite, and five times as fast as a choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from derive.backends.code import Code, call, method, negative
from derive.backends.torch.compared import comparison
from derive.backends.torch.pointwise import cast
from derive.backends.values import Dims, Value, is_pack
from derive.ir.nodes.arithmetic import ONE, ZERO
from derive.ir.nodes.walking import reads
from derive.ir.program import Assign, Call, Node, Read

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def sloped(printer: Printer, node: Call, order: Dims) -> Value | None:
    """Such a choice as one call; None for another choice."""
    if node.fn != "where" or not reads(node.args[0]) or None in order:
        return None
    return _of_a_mask(printer, node, order) or _of_what_is_compared(printer, node, order)


def _of_a_mask(printer: Printer, node: Call, order: Dims) -> Value | None:
    """A choice between 1 and a slope."""
    condition, first, second = node.args
    slope, other = (second, first) if first == ONE else (first, second)
    if other != ONE or not _is_slope(printer, slope, order):
        return None
    mask = cast(printer.value(condition, order), printer.like)
    if mask.dims != order or not mask.owned:
        return None
    signs = mask.method("mul_", 2).method("sub_", 1) if first == ONE else mask.method("mul_", -2).method("add_", 1)
    return _printed(printer, node, signs, slope, negative)


def _of_what_is_compared(printer: Printer, node: Call, order: Dims) -> Value | None:
    """A choice between what is compared with 0 and a multiple of it."""
    condition, first, second = node.args
    known = {s.name: s for s in printer.program.statements if isinstance(s, Assign)}
    asked = comparison(condition, known)
    if asked is None or asked.threshold != ZERO:
        return None
    x, (above, below) = asked.x, (first, second) if asked.above_first else (second, first)
    factors = below.args if isinstance(below, Call) and below.fn == "mul" else ()
    slopes = [f for f in factors if f != x and _is_slope(printer, f, order)]
    value = printer.value(x, order)
    if above != x or x not in factors or len(slopes) != 1 or value.dims != order or value.boolean:
        return None
    return _printed(printer, node, value, slopes[0], lambda code: code)


def _is_slope(printer: Printer, node: Node, order: Dims) -> bool:
    """Whether a tensor is one number, or a vector along a dimension of several."""
    if not isinstance(node, Read) or not printer.dtypes.is_real(node) or printer.layouts[node.name] != node.index:
        return False
    return not node.index or (len(order) > 1 and not any(map(is_pack, order)) and node.index[0] in order)


def _printed(printer: Printer, node: Call, value: Value, slope: Node, signed: Callable[[Code], Code]) -> Value:
    assert isinstance(slope, Read)
    vector = signed(printer.named(slope.name))
    order, at = value.dims, value.dims.index(str(slope.index[0])) if slope.index else 1
    before: tuple[object, ...] = ("transpose", min(at, 1), max(at, 1))
    after = before
    if 1 < at == len(order) - 1:
        before, after = ("flatten", 0, at - 1), ("unflatten", 0, printer.shape(order[:-1]))
    made = Value(call("functional.prelu", value if at == 1 else method(value, *before), vector), order)  # type: ignore[arg-type]
    return printer.owned(node, made if at == 1 else made.method(*after))  # type: ignore[arg-type]
