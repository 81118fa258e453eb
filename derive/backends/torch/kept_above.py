"""What is kept where something is above a number, `where(x > 0, dy, 0)`, is PyTorch's backward of a threshold.

It reads both once and writes once, where a product with a mask is two passes, and 0 times infinity is no number. What
is nan is passed on, as PyTorch's `relu` does it, and so nothing is asked of what is chosen itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.backends.code import call
from derive.backends.values import Dims, Value
from derive.ir.lowering.raising import is_finite_number
from derive.ir.nodes.arithmetic import ZERO
from derive.ir.nodes.walking import by_axes_once, reads
from derive.ir.program import Call, Node, Num, Read

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def kept_above(printer: Printer, node: Call, order: Dims) -> Value | None:
    """Such a choice between whole tensors as one call; None for another choice."""
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


def _whole(printer: Printer, node: Node, order: Dims) -> Value | None:
    """A value of all of these dimensions, of real numbers; None where it has fewer."""
    if not printer.dtypes.is_real(node):
        return None
    value = printer.value(node, order)
    return value if value.dims == order and not value.boolean and not value.weak and not value.scalar else None
