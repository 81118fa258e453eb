"""What a maximum passes on to both sides: one where it is larger, the other where that is, half of both at a tie.

Each is weighed by a step that is exactly 0 on the other side, and no sum of both is made, which would leave nothing of
the smaller one.
"""

from __future__ import annotations

from fractions import Fraction

from sympy import Expr, S

from derive.facts.interpreter import Facts
from derive.ir.lowering.raising import expanded, is_finite_number
from derive.ir.nodes.arithmetic import ONE, ZERO, quotient, times
from derive.ir.nodes.products import fraction, numbers_apart
from derive.ir.program import Call, Node, Num
from derive.ir.terms.numbers import is_short
from derive.schedule.steps import half_of

_TWO = Num(Fraction(2))


def blend(node: Call, values: Facts) -> Node | None:
    """`where(a > b, p, where(a == b, (p + q)/2, q))` as `(p*(1 + sign(a - b)) + q*(1 - sign(a - b)))/2`, else None.

    One of both is exactly 0, and the other what it is: `p + q` would have no digits of a small one. Of `p` and `p - 1`
    it is `p - (1 - sign(a - b))/2`, since `p - 1` is rounded in either.
    """
    if (found := three_ways(node)) is None:
        return None
    condition, p, half, q = found
    if expanded(Call("sub", (Call("add", (p, q)), Call("mul", (_TWO, half))))) != 0:
        return None
    are_finite = all(values.of(n).is_finite for n in (p, q))
    step = order(condition)
    if are_finite and _are_opposite(p, q):  # nothing at a tie
        return Call("mul", (step, p))
    if (weighed := _weighed(step, p, q)) is not None:
        return weighed
    if not are_finite:
        return None
    here, there = Call("add", (step, ONE)), Call("sub", (ONE, step))
    if p == ZERO:  # half of q at a tie, all of it below
        return half_of(q, there)
    if (less := _less(q, p)) is not None:
        return Call("sub", (p, half_of(less, there)))
    if (less := _less(p, q)) is not None:
        return Call("sub", (q, half_of(less, here)))
    return Call("add", (half_of(p, here), half_of(q, there)))


def _less(node: Node, than: Node) -> Num | None:
    """The number by which a node is written as less than another: `1/2` for `p - 1/2` and `p`."""
    if not isinstance(node, Call) or node.fn not in ("add", "sub") or than not in node.args:
        return None
    number = node.args[1 - node.args.index(than)]
    if not is_finite_number(number) or (node.fn == "sub" and node.args[0] != than):
        return None
    return number if node.fn == "sub" else Num(-number.value)  # type: ignore[union-attr, return-value]


def _weighed(step: Call, p: Node, q: Node) -> Node | None:
    """`v * (m*(1 + step) + n*(1 - step))/2` for `p = m*v` and `q = n*v`, whatever `v` is; None for others.

    Of short numbers, whose sum is exact, it is `v * (u*step + w)`.
    """
    (above, v), (below, w) = map(_number_apart, (p, q))
    if v != w or ZERO in (above, below):
        return None
    weights = _short_weights(step, above, below)
    if weights is None:
        here, there = Call("add", (step, ONE)), Call("sub", (ONE, step))
        weights = Call("add", (half_of(above, here), half_of(below, there)))
    return weights if v == ONE else Call("mul", (v, weights))


def _short_weights(step: Call, above: Node, below: Node) -> Node | None:
    """`u*step + w` for two numbers of which both are exact, half their difference and half their sum; else None."""
    if not (isinstance(above, Num) and isinstance(below, Num)):
        return None
    if not (isinstance(above.value, Fraction) and isinstance(below.value, Fraction)):
        return None
    apart, half = (above.value - below.value) / 2, (above.value + below.value) / 2
    return Call("add", (times(apart, step), Num(half))) if is_short(apart) and is_short(half) else None


def _number_apart(node: Node) -> tuple[Node, Node]:
    """The number of a product, and the rest: a caller's number that divides may be 0, and stays."""
    above, below = fraction(node)
    numbers, tensors = numbers_apart(above)
    by = [n for n in below if is_finite_number(n)]
    rest = [n for n in below if n not in by]
    return quotient(numbers, by), quotient(tensors, rest)


def three_ways(node: Call) -> tuple[Call, Node, Node, Node] | None:
    """What `where(a > b, p, where(a == b, h, q))` compares, and p, h, q; None for another choice."""
    condition, above, other = node.args
    if not (isinstance(condition, Call) and condition.fn in ("gt", "lt") and isinstance(other, Call)):
        return None
    if other.fn != "where" or other.args[0] != Call("eq", condition.args):
        return None
    return condition, above, other.args[1], other.args[2]


def order(condition: Call) -> Call:
    """1 where the condition holds, 0 where both sides are equal, else -1."""
    return Call("sign", (gap(*(condition.args if condition.fn == "gt" else condition.args[::-1])),))


def gap(above: Node, below: Node) -> Node:
    """What has the sign of a difference: `e` for `a*e - (a - 1)*e` or `e - (-e)`."""
    if _are_opposite(above, below):
        return above
    number, node = _apart(above, below)
    if node is not None and node != ONE:
        return node if number > 0 else Call("neg", (node,))
    return above if below == ZERO else Call("neg", (below,)) if above == ZERO else Call("sub", (above, below))


def _are_opposite(a: Node, b: Node) -> bool:
    """Whether one node is minus the other, as `x - y` and `y - x` are."""
    return _apart(a, Call("neg", (b,))) == (0, ONE)


def _apart(a: Node, b: Node) -> tuple[Fraction, Node | None]:
    """A difference as a number times what cancelling leaves, 1 where that is the number; None where it is a sum."""
    names: dict[Node, Expr] = {}
    number, rest = expanded(Call("sub", (a, b)), names).as_coeff_Mul()
    known = {ONE: S.One} | names
    node = next((n for n, name in known.items() if name == rest), None) if number.is_Rational else None
    return (Fraction(number.p, number.q), node) if node is not None else (Fraction(0), None)
