"""A quotient of tensors added in one pass over memory for three: `a - k*b/c` is `torch.addcdiv(a, b, c, value=-k)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.backends.code import Text
from derive.backends.torch.layout import is_product
from derive.backends.values import Dims, Value
from derive.ir.nodes.arithmetic import quotient
from derive.ir.nodes.products import fraction, is_tensor, numbers_apart
from derive.ir.program import Call, Node, Reduce
from derive.schedule.signs import plain as with_one_sign

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


@dataclass(frozen=True)
class _Added:
    """`start + factor * above / below`, with a number as the factor."""

    start: Node
    factor: Node
    above: Node
    below: Node

    @property
    def tensors(self) -> tuple[Node, Node, Node]:
        return self.start, self.above, self.below


def quotient_added(printer: Printer, node: Call, order: Dims) -> Value | None:
    """The call for a tensor plus, or less, a quotient of two large ones; None for any other node."""
    found = _found(printer, node)
    if found is None or node in printer.told_by_sign or not all(map(printer.dtypes.is_real, found.tensors)):
        return None
    factor = printer.value(with_one_sign(found.factor), ()).code
    return printer.issued(node, "addcdiv", found.tensors, order, value=None if factor == Text("1") else factor)


def _found(printer: Printer, node: Call) -> _Added | None:
    if node.fn not in ("add", "sub") or not all(map(is_tensor, node.args)):
        return None
    ways = (node.args, node.args[::-1]) if node.fn == "add" else (node.args,)
    for start, added in ways:
        above, below = fraction(added)
        (up, tensors), (down, divisors) = numbers_apart(above), numbers_apart(below)
        if len(tensors) != 1 or len(divisors) != 1 or not all(map(printer.memory.is_large, (*divisors, start))):
            continue
        if not any(_hides_much(n) for n in (start, *tensors, *divisors)):
            factor = quotient(up, down)
            return _Added(start, Call("neg", (factor,)) if node.fn == "sub" else factor, tensors[0], divisors[0])
    return None


def _hides_much(node: Node) -> bool:
    """Whether a part is better seen: a matrix product, which compiled calls may fuse otherwise, a choice or a sign."""
    return (isinstance(node, Reduce) and is_product(node)) or (isinstance(node, Call) and node.fn in ("neg", "where"))
