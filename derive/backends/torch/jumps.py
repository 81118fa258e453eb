"""Choices at a threshold whose branches do not meet there, without choosing: both are weighed by the mask.

What is not chosen is finite and adds 0: a number, a multiple of what is chosen, or what stands still at the threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction

from sympy import Dummy, Expr, Mul, S, expand

from derive.backends.torch.compared import HOLD, Comparison, Known, raised_by_names
from derive.backends.torch.or_nothing import in_full
from derive.backends.torch.pieces import piece
from derive.ir.lowering.raising import is_finite_number
from derive.ir.nodes.arithmetic import ONE, ZERO, multiplied, negated, number_apart, signless, times
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import node_axes, reads
from derive.ir.program import Call, Node, Num, Read, Scal
from derive.ir.terms.kinks import maximum, minimum, sign
from derive.schedule.compared import half_of

_LARGE = 2**15
"""What half precision still holds."""


def jump(asked: Comparison, node: Call, known: Known) -> Node | None:
    """`a*m + B(min(x, t))*(1 - m)` for `where(x > t, a, B(x))` with a number `a`; None for another choice.

    `where(x > t, x, a)` is one call, of PyTorch's `threshold`.
    """
    z, t = Dummy(real=True), raised_by_names(asked.threshold, {}, known)
    for branch_first in (False, True):
        branch, number = node.args[1:] if branch_first else node.args[:0:-1]
        if not (is_finite_number(number) or isinstance(number, Scal)) or not reads(branch):
            continue
        own = piece(branch, z, asked, branch_first, known)
        value = None if own is None else own.value
        if value == z and branch_first and asked.above_first:
            return Call("threshold", (asked.x, asked.threshold, number))
        if own is None or isinstance(number, Scal) or not _stays_small(own.value, z, t):
            continue
        above = branch_first == asked.above_first
        if (steps := _steps(own.value, z, t, above)) != 1:  # a mask of their own
            still = (own.value / steps).subs(z, (maximum if above else minimum)(HOLD, t))
            taken = asked.lowered(still * steps.subs(z, HOLD))
            return _with_number(number, asked.mask if not branch_first else _less(asked.mask), taken)
        taken = own.standing(above)  # still on the other branch's side
        mask, left = asked.mask, _less(asked.mask)
        of_branch, of_number = (mask, left) if branch_first else (left, mask)
        return _with_number(number, of_number, Call("mul", (taken, of_branch)))
    return None


def _with_number(number: Node, mask: Node, taken: Node) -> Node:
    """What is chosen where a mask is 0, and the number where it is 1."""
    return taken if number == ZERO else Call("add", (_times(number, mask), taken))


def beyond(asked: Comparison, node: Call, known: Known) -> Node | None:
    """`v * m` for `where(abs(u) > t, v, 0)` with a polynomial `v` of `u`, finite up to `t`; None for another."""
    x = asked.x.args[0] if isinstance(asked.x, Call) else None
    z = Dummy(real=True)
    value = None if x is None or not asked.above_first else raised_by_names(node.args[1], {x: z}, known)
    if value is None or not value.is_polynomial(z) or not value.has(z):
        return None
    return Call("mul", (node.args[1], Call("where", (node.args[0], ONE, ZERO))))


def _steps(branch: Expr, z: Dummy, threshold: Expr, above: bool) -> Expr:
    """The factors of a branch that are 0 on the other side of the threshold, as half of `1 + sign(x - t)` is below."""
    beyond: dict[Expr, int] = {}
    for s in branch.atoms(sign):
        ahead = next((k for k in (1, -1) if expand(s.args[0] - k * (z - threshold)) == 0), 0)
        beyond |= {s: -ahead if above else ahead} if ahead else {}
    return Mul(*(f for f in Mul.make_args(branch) if beyond and f.xreplace(beyond) == 0))


def _stays_small(value: Expr, z: Dummy, threshold: Expr) -> bool:
    """Whether a branch is finite at the threshold in any precision, so that a mask of 0 makes it 0."""
    if not threshold.is_number:
        return bool(value.is_polynomial(z))
    there = value.subs(z, threshold)
    size = abs(there.subs(dict.fromkeys(there.free_symbols, 1)))
    return bool(size.is_finite) and (size < _LARGE) is S.true  # SymPy does not say what `relu` of a number is


def step(asked: Comparison, node: Call, known: Known, is_finite: Callable[[Node], bool]) -> Node | None:
    """`v * (1 + sign(t - x))/2` for `where(x < t, v, where(x == t, v/2, 0))` with a finite `v`, or 1; else None."""
    _, first, rest = node.args
    found = _or_zero(rest)
    if found is None or not asked.strict or in_full(found[0], known) != Call("eq", (asked.x, asked.threshold)):
        return None
    (a, value), (b, same) = map(number_apart, (first, found[1]))
    if value != same or a != 2 * b or not (value == ONE or is_finite(value)):
        return None
    return half_of(first, Call("add", (Call("sign", (asked.gap,)), ONE)))


def step_between(node: Call, known: Known, inputs: Collection[str]) -> Node | None:
    """`(1 + sign(a - b))/2` for `where(a > b, 1, where(a == b, 1/2, 0))` of two inputs; None for another choice.

    What is computed may be infinite, and the difference of two infinities has no sign.
    """
    condition = in_full(node.args[0], known)
    if not isinstance(condition, Call) or condition.fn not in ("gt", "lt"):
        return None
    a, b = condition.args if condition.fn == "gt" else condition.args[::-1]
    first, other = node.args[1:]
    if not all(isinstance(x, Read) and x.name in inputs for x in (a, b)):
        return None
    if not isinstance(other, Call) or other.fn != "where" or other.args[1] != Num(Fraction(1, 2)):
        return None
    tie = in_full(other.args[0], known)
    if {first, other.args[2]} != {ONE, ZERO} or tie not in (Call("eq", (a, b)), Call("eq", (b, a))):
        return None
    order = Call("sign", (Call("sub", (a, b)),))
    above = Call("add", (order, ONE)) if first == ONE else Call("sub", (ONE, order))
    return Call("div", (above, Num(Fraction(2))))


def weighed(node: Call, mask: Node) -> Node | None:
    """`v * threshold(m, 0, c)`, which is `v` where `m` is 1 and `c*v` where it is 0, for `where(m, v, c*v)`; else None.

    `c` is a number. PyTorch's `threshold` takes it as it is where the mask is not above 0.
    """
    _, first, second = node.args
    for value, number, taken in (
        (first, _multiple(second, first), mask),
        (second, _multiple(first, second), _less(mask)),
    ):
        if number is not None:
            return _times(value, taken if number == ZERO else Call("threshold", (_signed(taken), ZERO, number)))
    (a, one), (b, other) = map(number_apart, (first, second))
    taken, size, rest = (mask, a, b) if a > 0 else (_less(mask), b, a)
    if one != other or not reads(one) or size < 0:
        return None
    return times(size, Call("mul", (one, Call("threshold", (_signed(taken), ZERO, Num(rest / size))))))


def one_of_three(node: Call, known: Known, is_finite: Callable[[Node], bool]) -> Node | None:
    """`v * (a*[c] + b*[e & ~c])` for `where(c, a*v, where(e, b*v, 0))` with numbers and a finite `v`; else None."""
    condition, first, rest = node.args
    found = _or_zero(rest)
    if found is None or node_axes(condition) != node_axes(found[0]):
        return None
    other, second = found
    (a, value), (b, same) = map(number_apart, (first, second))
    if value != same or not (value == ONE or (reads(value) and is_finite(value))) or 0 in (a, b):
        return None
    asked = (condition, _without(condition, other, known))
    masks = [Call("where", (c, ONE, ZERO)) for c in asked]
    weights = Call("add" if b > 0 else "sub", (times(a, masks[0]), times(abs(b), masks[1])))
    return weights if value == ONE else Call("mul", (value, weights))


def _or_zero(node: Node) -> tuple[Node, Node] | None:
    """The condition and the value of a choice between this and 0, which may be written as a product; else None."""
    if isinstance(node, Call) and node.fn == "where" and node.args[2] == ZERO and reads(node.args[0]):
        return node.args[0], node.args[1]
    product, minus = signless(node)
    factors = product_factors(product)
    masks = [f for f in factors if isinstance(f, Call) and f.fn == "where" and f.args[1:] == (ONE, ZERO)]
    rest = [f for f in factors if f not in masks]
    if len(masks) != 1 or not rest or not reads(masks[0].args[0]):
        return None
    return masks[0].args[0], negated(multiplied(rest)) if minus else multiplied(rest)


def _without(condition: Node, other: Node, known: Known) -> Node:
    """Where one condition holds and the first does not: what are equal are so where neither is larger."""
    first, second = in_full(condition, known), in_full(other, known)
    if isinstance(first, Call) and first.fn in ("gt", "lt") and second == Call("eq", first.args):
        return other
    return Call("and", (other, Call("not", (condition,))))


def _signed(mask: Node) -> Node:
    """What is above 0 where a mask is: of `sign(relu(x))`, `sign(x)`."""
    inner = mask.args[0] if isinstance(mask, Call) and mask.fn == "sign" else None
    return Call("sign", inner.args) if isinstance(inner, Call) and inner.fn == "relu" else mask


def _less(mask: Node) -> Node:
    """One less a mask; the opposite condition, where that has an answer already."""
    asked = mask.args[0] if isinstance(mask, Call) and mask.fn == "where" else None
    return Call("sub", (ONE, mask)) if asked is None else Call("where", (Call("not", (asked,)), ONE, ZERO))


def _times(a: Node, b: Node) -> Node:
    return b if a == ONE else Call("mul", (a, b))


def _multiple(node: Node, of: Node) -> Node | None:
    """The number that one node is, times the other; both may be numbers where the other is 1."""
    if of == ONE and (is_finite_number(node) or isinstance(node, Scal)):
        return node
    if isinstance(node, Call) and node.fn in ("div", "neg") and reads(of):
        inner, *by = node.args
        rest = ONE if inner == of else _multiple(inner, of)
        plain = rest is not None and all(map(is_finite_number, by))  # any other may be 0
        return Call(node.fn, (rest, *by)) if plain else None  # type: ignore[arg-type]
    if isinstance(node, Call) and node.fn == "mul" and of in node.args and reads(of):
        (rest,) = (a for a in node.args if a != of) if node.args[0] != node.args[1] else (of,)
        return rest if not reads(rest) and not node_axes(rest) else None
    return None
