"""What functions cost in C, in units of about a quarter of a nanosecond an element, measured with `-O3` and vectors."""

from __future__ import annotations

from derive.ir.nodes.walking import walk
from derive.ir.program import Call, Node, Num, Read
from derive.primitives import row

_CALLED = 40.0  # the C library's, an element at a time
_UNIT = 0.2  # of arithmetic
_BY_PLACE = 10.0  # a power of which a place is the exponent
MOST_FACTORS = 16  # the exponent up to which products are as exact, and faster


def calls(node: Node) -> list[Call]:
    """Every operation of an expression; a product and its rounding are one."""
    return [n for n in walk(node) if isinstance(n, Call) and n.fn != "rounded"]


def whole_exponent(call: Call) -> int | None:
    """The exponent of a power that is written as products."""
    exponent = call.args[1]
    if not isinstance(exponent, Num) or not 2 <= exponent.value <= MOST_FACTORS:
        return None  # infinity among others
    return int(exponent.value) if exponent.value == int(exponent.value) else None


def units(call: Call) -> float:
    """What an operation costs by itself."""
    if call.fn == "pow" and whole_exponent(call) is not None:
        return _UNIT
    if call.fn == "pow" and not any(isinstance(n, Read) for n in walk(call.args[1])):
        return _BY_PLACE
    units = row(call.fn).units
    return _CALLED if units is None else units


def is_heavy(call: Call) -> bool:
    """Whether it costs more than arithmetic does."""
    return units(call) > _UNIT
