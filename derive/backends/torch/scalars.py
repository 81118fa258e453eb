"""Numbers of Python in generated code: constants as a person writes them, and the functions of numbers in `math`."""

from __future__ import annotations

import math
from fractions import Fraction

from derive.backends.code import ATOM, PRODUCT, UNARY, Text, call, infix, method
from derive.backends.values import Value
from derive.facts.interpreter import Facts
from derive.facts.values import PLACE
from derive.ir.nodes.walking import walk
from derive.ir.program import AxisValue, Call, Node, Num, Scal, SizeOf
from derive.ir.terms.numbers import as_decimal, as_float, as_quotient, held, with_exponent
from derive.primitives import row

_LONGEST = 2**63
"""What torch takes as a whole number ends here; beyond it a number is a decimal."""


def number_code(node: Num) -> Value:
    """A constant as a person writes it: a decimal where one is exact and short, else a quotient."""
    value = held(node.value)
    if isinstance(value, float):
        return _number(("-math.inf" if value < 0 else "math.inf") if math.isinf(value) else repr(value))
    size = abs(value)
    sign = "-" if value < 0 else ""
    if size.denominator == 1:
        return _number(f"{sign}{size.numerator if size < _LONGEST else float(size)!r}")
    if (decimal := as_float(size)) is not None:
        return _number(f"{sign}{decimal}")
    return Value(Text(f"{sign}{' / '.join(map(as_decimal, as_quotient(size)))}", PRODUCT), scalar=True)


def _number(text: str) -> Value:
    return Value(Text(text, UNARY if text.startswith("-") else ATOM), scalar=True)


def large_number(node: Node) -> Value | None:
    """A large whole number of few digits beside real numbers: `-1e9`; None for any other node."""
    code = with_exponent(node.value) if isinstance(node, Num) and isinstance(node.value, Fraction) else None
    return None if code is None else _number(code)


WHOLE = frozenset({"add", "sub", "mul", "neg", "Mod", "maximum", "minimum", "absolute"})


def is_whole(node: Node) -> bool:
    """Whether a node counts: axes and whole numbers, added and multiplied."""
    if isinstance(node, Num):
        return isinstance(node.value, Fraction) and node.value.denominator == 1
    if isinstance(node, Call):
        return node.fn in WHOLE and all(is_whole(a) for a in node.args)
    return isinstance(node, AxisValue | SizeOf)


def is_never_refused(node: Call) -> bool:
    """Whether `math` takes the numbers: all that the spec says, of a length its root and floor, of the caller's few.

    A length less a number, `sqrt(size(n) - 1)`, has no root where the axis has no place.
    """
    if row(node.fn).everywhere or (node.fn == "pow" and is_whole(node.args[1])):
        return True
    lengths = any(isinstance(n, SizeOf) for n in walk(node))
    if node.fn in ("sqrt", "rsqrt") and lengths and not Facts(lengths=PLACE).of(node.args[0]).is_nonnegative:
        return False
    refused = Scal if node.fn in ("sqrt", "rsqrt", "floor") else (Scal, SizeOf)
    return not any(isinstance(n, refused) for a in node.args for n in walk(a))


def is_given(node: Node) -> bool:
    """Whether a number is made of the caller's numbers or of lengths, and may be 0."""
    return any(isinstance(n, Scal | SizeOf) for n in walk(node))


def scalar_call(node: Call, args: list[Value]) -> Value:
    """The same function of Python's numbers, also where tensors would be infinite or not a number."""
    fn = node.fn
    if not args:
        return Value(Text(f"math.{fn}"), scalar=True)
    if fn == "Mod":
        return Value(infix("%", *args), scalar=True)
    if text := row(fn).number:
        return Value(Text(text.format(**{name: a.code for name, a in zip("xy", args, strict=False)})), scalar=True)
    known = is_never_refused(node)
    if fn == "rsqrt":
        root = call("math.sqrt", *args) if known else call("of_numbers", '"sqrt"', *args)
        return Value(infix("/", 1, root) if known and not is_given(node) else call("ratio_of", 1, root), scalar=True)
    name = row(fn).torch_name
    if "." in name:  # not one that `of_numbers` finds
        of = call("torch.tensor", *args, dtype="torch.float64")
        return Value(method(call(f"torch.{name}", of), "item"), scalar=True)
    exists = known and hasattr(math, name)
    return Value(call(f"math.{name}", *args) if exists else call("of_numbers", f'"{name}"', *args), scalar=True)
