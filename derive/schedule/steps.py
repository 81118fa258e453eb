"""What a maximum passes on: half the product of a gradient and a step, which is 2 above, 1 at a tie, 0 below.

Both ends of a clamp are two steps, the product of which is twice the sum of their signs where one end is above the
other: `dy * (sign(x - a) + sign(b - x)) / 2` with numbers `a < b`. A step of what is passed on itself is none: half of
`u * (1 + sign(u))` is `relu(u)`, at the tie as well.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from derive.ir.lowering.raising import expanded, is_finite_number
from derive.ir.nodes.arithmetic import ONE, ZERO, quotient
from derive.ir.nodes.between import by_size
from derive.ir.nodes.products import fraction
from derive.ir.program import COMPARISONS, Call, Node, Num, Read, Scal

_TWO, _MINUS = Num(Fraction(2)), Num(Fraction(-1))


def half_of(value: Node, step: Node) -> Node:
    """Half the product; the half goes to a number of the value, where it has one."""
    if value == ONE:
        return Call("div", (step, _TWO))
    if (found := _both_ends(value, step) or _rectified(value, step)) is not None:
        return found
    if isinstance(value, Call) and value.fn == "div" and is_finite_number(value.args[1]):
        return Call("div", (Call("mul", (value.args[0], step)), Num(2 * value.args[1].value)))  # type: ignore[union-attr]
    halved = _halved(value)
    return Call("div", (Call("mul", (value, step)), _TWO)) if halved is None else Call("mul", (halved, step))


def _halved(node: Node) -> Node | None:
    """A product with its number halved; None where it has no number."""
    if isinstance(node, Num) and isinstance(node.value, Fraction):
        return Num(node.value / 2)
    if not isinstance(node, Call) or node.fn not in ("mul", "div", "neg"):
        return None
    first, *rest = node.args
    if node.fn == "div" and isinstance(rest[0], Num) and isinstance(rest[0].value, Fraction):
        return Call("div", (first, Num(2 * rest[0].value)))
    halved = _halved(first)
    if node.fn == "mul" and halved in (ONE, _MINUS):
        return rest[0] if halved == ONE else Call("neg", (rest[0],))
    if halved is not None:
        return replace(node, args=(halved, *rest))
    last = _halved(rest[0]) if node.fn == "mul" else None
    return None if last is None else replace(node, args=(first, last))


def _rectified(value: Node, step: Node) -> Node | None:
    """Half the product of a step and a value that has what the step asks as a factor; None where it has none."""
    if not isinstance(step, Call) or not isinstance(value, Call | Read):
        return None
    sign, above = step.args[step.fn == "sub"], step.fn == "add"
    (u,) = sign.args if isinstance(sign, Call) and sign.fn == "sign" else (None,)
    if isinstance(u, Call) and u.fn == "neg":
        (u,), above = u.args, not above
    if value == u:
        return Call("relu", (u,)) if above else Call("minimum", (u, ZERO))
    if not isinstance(value, Call) or value.fn not in ("mul", "div", "neg", "pow"):
        return None
    if value.fn == "pow" and not (isinstance(value.args[1], Num) and value.args[1].value > 0):
        return None
    for k, part in enumerate(value.args if value.fn == "mul" else value.args[:1]):
        if (changed := _rectified(part, step)) is not None:
            return replace(value, args=(*value.args[:k], changed, *value.args[k + 1 :]))
    return None


def _both_ends(value: Node, step: Node) -> Node | None:
    """Half the product of a step and a value that has the step at the other end as a factor; None where it has none."""
    if (gap := _gap(step)) is not None and (other := _gap(value)) is not None and _are_apart(gap, other):
        signs = [n.args[0] for n in (step, value) if isinstance(n, Call)]
        return Call("add", (signs[0], signs[1]))
    if not isinstance(value, Call) or value.fn not in ("mul", "div", "neg"):
        return None
    for k, part in enumerate(value.args if value.fn == "mul" else value.args[:1]):
        if (changed := _both_ends(part, step)) is not None:
            return replace(value, args=(*value.args[:k], changed, *value.args[k + 1 :]))
    return None


def _gap(step: Node) -> Node | None:
    """What a step asks the sign of; None for anything else."""
    if isinstance(step, Call) and step.fn == "add" and step.args[1] == ONE:
        sign = step.args[0]
        return sign.args[0] if isinstance(sign, Call) and sign.fn == "sign" else None
    return None


def _are_apart(gap: Node, other: Node) -> bool:
    """Whether what is between both ends of a clamp, the sum of two differences, is a number above 0."""
    return bool(expanded(Call("add", (gap, other))).is_positive)


def clamped(node: Call) -> Node | None:
    """`where(abs(e) <= t, e, t*sign(e))` as `e` between `-t` and `t`, and a multiple of both branches; else None.

    So `where(abs(e) <= t, e/t, sign(e))` is that over `t`. A `t` of the caller's may be below 0, where no magnitude is:
    it is the sign times the smaller of both then.
    """
    condition, first, second = by_size(node.args[0]), *node.args[1:]
    if not isinstance(condition, Call) or condition.fn not in COMPARISONS - {"eq", "ne"}:
        return None
    for size, most in (condition.args, condition.args[::-1]):
        if not isinstance(size, Call) or size.fn != "absolute" or not isinstance(most, Num | Scal):
            continue
        below = (size == condition.args[0]) == (condition.fn in ("lt", "le"))
        inside, outside = (first, second) if below else (second, first)
        (e,) = size.args
        sign, by = Call("sign", (e,)), _multiple(inside, e)
        if by is None or not _are_equal(outside, _scaled(Call("mul", (most, sign)), *by)):
            continue
        if isinstance(most, Scal):
            return _scaled(Call("mul", (sign, Call("minimum", (size, most)))), *by)
        if is_finite_number(most) and most.value > 0:
            return _scaled(Call("minimum", (Call("maximum", (e, Num(-most.value))), most)), *by)
    return None


def _multiple(node: Node, of: Node) -> tuple[list[Node], list[Node]] | None:
    """What a product is multiplied with and divided by beside one factor; None where it lacks that."""
    above, below = fraction(node)
    if of not in above:
        return None
    above.remove(of)
    return above, below


def _scaled(value: Node, above: list[Node], below: list[Node]) -> Node:
    return quotient([*above, value], below)


def _are_equal(a: Node, b: Node) -> bool:
    return expanded(Call("sub", (a, b))) == 0
