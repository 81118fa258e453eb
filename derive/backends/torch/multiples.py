"""A tensor and the Python numbers that it is multiplied or divided by."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from derive.backends.code import Code, Text
from derive.ir.nodes.products import is_tensor
from derive.ir.program import Call, Node, Num
from derive.schedule.signs import plain as with_one_sign

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def split(node: Node) -> tuple[list[tuple[Node, bool]], list[Node]]:
    """The Python numbers (True: divided by) and the tensors of a chain of products and quotients."""
    if isinstance(node, Call) and node.fn == "mul":
        (n1, t1), (n2, t2) = split(node.args[0]), split(node.args[1])
        return n1 + n2, t1 + t2
    if isinstance(node, Call) and node.fn == "div" and not is_tensor(node.args[1]):
        n1, t1 = split(node.args[0])
        return [*n1, (node.args[1], True)], t1
    if not is_tensor(node):
        return [(node, False)], []
    return [], [node]


def factor_code(printer: Printer, numbers: list[tuple[Node, bool]], negative: bool) -> Code | None:
    """The product of Python numbers, each multiplied or divided by, as code; None where that is 1."""
    out: Node = Num(Fraction(-1 if negative else 1))
    for n, divides in numbers:
        if isinstance(n, Num) and isinstance(out, Num):
            out = Num(out.value / n.value if divides else out.value * n.value)
        else:
            out = Call("div" if divides else "mul", (out, n))
    code = printer.value(with_one_sign(out), ()).code
    return None if code == Text("1") else code
