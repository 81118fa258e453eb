"""A quotient by 5 or by 10 is a product with 0.2 or 0.1, as a person writes it: a division takes as long as several.

Only where the reciprocal is a short decimal. That is rounded, and so is the product: both together are off by one unit
in the last place at most. Of 1/3 or 1/255 a whole multiple might no longer be whole.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from derive.backends.cpu.statements.normal import Normal
from derive.ir.nodes.walking import reads
from derive.ir.program import Call, Node, Num

_PLACES = 4  # digits behind the point


def with_decimals(form: Normal) -> None:
    """Multiply by such numbers in all loops."""
    for k, loop in enumerate(form.loops):
        form.loops[k] = replace(loop, value=_changed(loop.value))


def _changed(node: Node) -> Node:
    if not isinstance(node, Call):
        return node
    args = tuple(map(_changed, node.args))
    if node.fn == "div" and isinstance(args[1], Num) and _is_decimal(args[1]) and reads(args[0]):
        return Call("mul", (Num(1 / Fraction(args[1].value)), args[0]))
    return replace(node, args=args)


def _is_decimal(number: Num) -> bool:
    """Whether its reciprocal is a short decimal, and not one that compilers multiply by in any case: a power of two."""
    n = Fraction(number.value) if not isinstance(number.value, float) else Fraction(0)
    return n.denominator == 1 and n > 0 and 10**_PLACES % n.numerator == 0 and n.numerator % 5 == 0
