"""A number that multiplies or divides a matrix product wherever it is read goes into the product, which has it free.

`w[i, j] = exp(3 * s[i, j])` with `s` a product: the product is of `x` and `y` times 3. Only where that is as exact: a
number is rounded before a product takes it, and of `1 / sqrt(size(d))` all elements would be off the same way.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.nodes.arithmetic import ONE
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import reads, walk
from derive.ir.program import Call, Node, Num, Read


def with_scales(form: Normal) -> None:
    """Take such numbers into products, and products that are then only copied to where they are copied."""
    known = {n for n, _ in form.program.given}
    for name in [s.name for s in form.loops if s.is_product]:
        writers = [s for s in form.loops if s.name == name]
        if len(writers) != 1 or name in known | set(form.program.returns):
            continue
        (loop,) = writers
        scaled = _scaled(loop, form)
        if scaled:
            _take_in(loop, scaled, form)
            _to_copy(loop, form)


def _scaled(loop: Loop, form: Normal) -> set[Call]:
    """The quotients or products in which the loop's result is read, if it always is with the same number."""
    values = [s.value for s in form.loops]
    found = {n for v in values for n in walk(v) if isinstance(n, Call) and _number(n, loop.name) is not None}
    inside = {r for n in found for r in n.args if isinstance(r, Read)}
    every = {n for v in values for n in walk(v) if isinstance(n, Read) and n.name == loop.name}
    for v in values:  # a read that also stands by itself is not always with the number
        for call in found:
            v = put(v, call, ONE)
        if loop.name in reads(v):
            return set()
    same = {(c.fn, _number(c, loop.name)) for c in found}
    return found if every == inside and len(same) == 1 else set()


def _number(call: Call, name: str) -> Node | None:
    """By what a tensor of this name is multiplied or divided in a call."""
    if call.fn not in ("mul", "div"):
        return None
    left, right = call.args
    if call.fn == "mul" and isinstance(right, Read):
        left, right = right, left
    of = isinstance(left, Read) and left.name == name
    return right if of and isinstance(right, Num) and _is_exact(call.fn, right) else None


def _is_exact(fn: str, number: Num) -> bool:
    """Whether it, or what it is divided into, has no more digits than a float32."""
    if isinstance(number.value, float) or number.value == 0:
        return False
    factor = number.value if fn == "mul" else 1 / number.value
    below = factor.denominator
    return abs(factor.numerator).bit_length() <= 24 and below & (below - 1) == 0 and below < 2**64


def _take_in(loop: Loop, scaled: set[Call], form: Normal) -> None:
    call = next(iter(scaled))
    number = _number(call, loop.name)
    assert number is not None
    factor = number if call.fn == "mul" else Call("div", (ONE, number))
    at = form.loops.index(loop)
    form.loops[at] = replace(loop, value=Call("mul", (factor, loop.value)))
    for k, s in enumerate(form.loops):
        value = s.value
        for c in scaled:
            value = put(value, c, next(r for r in c.args if isinstance(r, Read)))
        form.loops[k] = replace(s, value=value)


def _to_copy(loop: Loop, form: Normal) -> None:
    """The product writes what is nothing but a copy of it."""
    readers = [s for s in form.loops if loop.name in {r.name for r in s.reads()}]
    if len(readers) != 1 or readers[0].kind != "set" or readers[0].value != Read(loop.name, loop.slots):
        return
    (copy,) = readers
    if copy.slots != loop.slots or sum(s.name == copy.name for s in form.loops) > 1:
        return
    at = next(k for k, s in enumerate(form.loops) if s.name == loop.name)
    form.loops[at] = replace(form.loops[at], name=copy.name, note=copy.note or loop.note)
    form.loops.remove(copy)


_PLACES = 4  # digits behind the point


def with_decimals(form: Normal) -> None:
    """A quotient by 5 or 10 is a product with 0.2 or 0.1, as a person writes it: a division takes as long as several.

    Only where the reciprocal is a short decimal. That is rounded, and so is the product: both together are off by one
    unit in the last place at most. Of 1/3 or 1/255 a whole multiple might no longer be whole.
    """
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
