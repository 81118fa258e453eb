"""What is kept where something is above a number, `where(x > 0, dy, 0)`, is PyTorch's backward of a threshold.

It reads both once and writes once, where a product with a mask is two passes, and 0 times infinity is no number. What
is nan is passed on, as PyTorch's `relu` does it, and so nothing is asked of what is chosen itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.backends.code import call
from derive.backends.values import Dims, Value
from derive.ir.lowering.raising import is_finite_number
from derive.ir.nodes.arithmetic import ZERO, multiplied
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import by_axes_once, reads
from derive.ir.program import Call, Node, Num, Read

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def kept_above(printer: Printer, node: Call, order: Dims) -> Value | None:
    """Such a choice between whole tensors as one call; None for another choice."""
    node = node if printer.exact else _chosen(node)
    condition = node.args[0] if node.fn == "where" and node.args[2] == ZERO else None
    if not isinstance(condition, Call) or condition.fn != "gt" or not is_finite_number(condition.args[1]):
        return None
    x, least = condition.args
    if not isinstance(x, Read) or not by_axes_once(x) or not isinstance(least, Num) or x.name in reads(node.args[1]):
        return None
    asked, value = printer.value(x, order), _whole(printer, node.args[1], order)
    if value is None or asked.dims != order or not printer.dtypes.is_real(x) or not printer.fuse:
        return None
    made = call("torch.ops.aten.threshold_backward", value, asked, printer.number(least))
    return printer.owned(node, Value(made, order))


def _chosen(node: Call) -> Call:
    """A product with the step `sign(relu(x))` as what it keeps above 0; any other node as it is."""
    factors = product_factors(node) if node.fn == "mul" else []
    for f in factors:
        inner = f.args[0] if isinstance(f, Call) and f.fn == "sign" else None
        if isinstance(inner, Call) and inner.fn == "relu":
            rest = multiplied([g for g in factors if g is not f])
            return Call("where", (Call("gt", (*inner.args, ZERO)), rest, ZERO))
    return node


def _whole(printer: Printer, node: Node, order: Dims) -> Value | None:
    """A value of all of these dimensions, of real numbers; None where it has fewer."""
    if not printer.dtypes.is_real(node):
        return None
    value = printer.value(node, order)
    return value if value.dims == order and not value.boolean and not value.weak and not value.scalar else None
