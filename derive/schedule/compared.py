"""A choice by which of two values is the larger: its three values, what a branch knows of the two, and its arithmetic.

With `s = sign(a - b)`, which is 1, 0 or -1, what is half of both at a tie is `(p*(1 + s) + q*(1 - s))/2`, and what a
maximum passes on to one side is `dy*(1 + s)/2`. One of both is exactly 0; a sum of both would leave nothing of the
smaller one. Of `p` and `p - 1` it is `p - (1 - s)/2`, since `p - 1` is rounded in either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from sympy import Expr, S

from derive.facts.interpreter import Facts
from derive.ir.lowering.raising import expanded, is_finite_number
from derive.ir.nodes.arithmetic import ONE, ZERO, number_apart, quotient, times
from derive.ir.nodes.between import by_size
from derive.ir.nodes.products import fraction, numbers_apart
from derive.ir.nodes.walking import rebuilt
from derive.ir.program import COMPARISONS, MIRRORED, Call, Node, Num, Scal
from derive.ir.terms.numbers import is_short

_TWO = Num(Fraction(2))


@dataclass(frozen=True)
class Compared:
    """What is `above` where one value is larger than another, or smaller, `tie` where both are equal, else `below`."""

    condition: Call
    above: Node
    tie: Node
    below: Node

    @classmethod
    def of(cls, node: Call) -> Compared | None:
        """Of `where(a > b, p, where(a == b, h, q))`; None for another choice, or for one that is not half of both."""
        condition, above, other = node.args
        if not (isinstance(condition, Call) and condition.fn in ("gt", "lt") and isinstance(other, Call)):
            return None
        if other.fn != "where" or other.args[0] != Call("eq", condition.args):
            return None
        found = cls(condition, above, *other.args[1:])
        both = Call("sub", (Call("add", (above, found.below)), Call("mul", (_TWO, found.tie))))
        return found if expanded(both) == 0 else None

    @property
    def order(self) -> Call:
        """1 above, 0 at a tie, -1 below."""
        return Call("sign", (gap(*sides(self.condition)),))

    @property
    def passed_on(self) -> tuple[Call, Node, Call] | None:
        """Where something is passed on, what, and twice how much of it; None where both sides have some."""
        if self.below == ZERO:
            return self._reached(self.condition.fn), self.above, Call("add", (self.order, ONE))
        if self.above == ZERO:
            return self._reached(MIRRORED[self.condition.fn]), self.below, Call("sub", (ONE, self.order))
        return None

    def _reached(self, fn: str) -> Call:
        return Call({"gt": "ge", "lt": "le"}[fn], self.condition.args)


def sides(condition: Call) -> tuple[Node, Node]:
    """The larger and the smaller of what is compared, where that holds; at a tie in the order in which they stand."""
    first, second = condition.args
    return (second, first) if condition.fn in ("lt", "le") else (first, second)


# --- what a branch knows ----------------------------------------------------------------------------------------------

Answers = Mapping[Node, Node]
"""What some nodes are where a condition holds, or fails."""


def in_branch(node: Node, condition: Node, holds: bool, answers: Answers, kept: Collection[Node] = ()) -> Node:
    """A node where a condition holds or fails, element by element, but for what is `kept` as it is asked elsewhere."""
    if not isinstance(node, Call) or node in kept:
        return node
    if node.fn == "where" and node.args[0] == condition:
        return in_branch(node.args[1 if holds else 2], condition, holds, answers, kept)
    node = rebuilt(node, lambda n: in_branch(n, condition, holds, answers, kept))
    return answers.get(node, node)


def where_it_holds(condition: Node) -> Answers:
    """Under `a > b` the larger of both is `a`, and `(a - b)/(a - b)` is 1."""
    if not isinstance(condition, Call) or condition.fn not in COMPARISONS:
        return {}
    a, b = condition.args
    out: dict[Node, Node] = {}
    if condition.fn != "ne":
        for fn, one in zip(("maximum", "minimum"), sides(condition), strict=True):
            out |= dict.fromkeys((Call(fn, (a, b)), Call(fn, (b, a))), a if condition.fn == "eq" else one)
    if condition.fn in ("gt", "lt", "ne"):
        apart = [Call("sub", (a, b)), Call("sub", (b, a)), *([a] if b == ZERO else [b] if a == ZERO else [])]
        out |= {Call("div", (n, n)): ONE for n in apart}
    return out


def on_each_side(node: Call) -> Call:
    """A choice by the sign of `u`, its branches as they are there: under `u > 0`, `relu(u)` and `abs(u)` are `u`."""
    condition, chosen, other = node.args
    if (asked := _against_0(condition)) is None:
        return node
    u, relation = asked
    size, below = Call("absolute", (u,)), Call("neg", (u,))
    above = relation in ("gt", "ge")
    first: dict[Node, Node] = {size: u if above else below} | dict.fromkeys(_rectified(u), u if above else ZERO)
    first |= {Call("sign", (u,)): Num(Fraction(1 if above else -1))} if relation in ("gt", "lt") else {}
    # where `u` is no number the condition does not hold: of what is chosen then, a function of `u` is none either
    second: dict[Node, Node] = {size: below} if above else {size: u} | dict.fromkeys(_rectified(u), u)
    branches = in_branch(chosen, condition, True, first), in_branch(other, condition, False, second)
    return replace(node, args=(condition, *branches))


def vanishes_beside(condition: Node, factor: Node) -> bool:
    """Whether a factor is 0 wherever the condition does not hold: a power of `relu(u)` under `u > 0`."""
    if isinstance(factor, Call) and factor.fn == "pow":
        power = factor.args[1]
        return isinstance(power, Num) and power.value > 0 and vanishes_beside(condition, factor.args[0])
    asked = _against_0(condition)
    return asked is not None and asked[1] in ("gt", "ge") and factor in _rectified(asked[0])


def _against_0(condition: Node) -> tuple[Node, str] | None:
    """What is compared with 0, and how."""
    if not isinstance(condition, Call) or condition.fn not in MIRRORED or ZERO not in condition.args:
        return None
    u, threshold = condition.args
    return (u, condition.fn) if threshold == ZERO else (threshold, MIRRORED[condition.fn])


def _rectified(u: Node) -> tuple[Node, ...]:
    return Call("relu", (u,)), Call("maximum", (u, ZERO)), Call("maximum", (ZERO, u))


# --- what it is as arithmetic -----------------------------------------------------------------------------------------


def half_of(value: Node, step: Node) -> Node:
    """Half the product with a step of 0, 1 or 2; the half goes to a number of the value, where it has one.

    Both ends of a clamp are two steps, the product of which is twice the sum of their signs where one end is above the
    other: `dy * (sign(x - a) + sign(b - x)) / 2` with numbers `a < b`. A step of what is passed on itself is none: half
    of `u * (1 + sign(u))` is `relu(u)`, at the tie as well.
    """
    if value == ONE:
        return Call("div", (step, _TWO))
    for law in (_both_ends, _own_step):
        if (found := _in_factor(value, partial(law, step=step))) is not None:
            return found
    number, rest = number_apart(value)
    if rest == ONE:
        return Call("mul", (Num(number / 2), step))
    if abs(number.numerator) == 1:
        signed = rest if number > 0 else Call("neg", (rest,))
        return Call("div", (Call("mul", (signed, step)), Num(Fraction(2 * number.denominator))))
    return Call("mul", (times(number / 2, rest), step))


def _in_factor(value: Node, law: Callable[[Node], Node | None]) -> Node | None:
    """A product with one factor by a law, be it what is raised to a power above 0; None where none has it."""
    if (found := law(value)) is not None or not isinstance(value, Call) or value.fn not in ("mul", "div", "neg", "pow"):
        return found
    if value.fn == "pow" and not (isinstance(value.args[1], Num) and value.args[1].value > 0):
        return None
    for k, part in enumerate(value.args if value.fn == "mul" else value.args[:1]):
        if (changed := _in_factor(part, law)) is not None:
            return replace(value, args=(*value.args[:k], changed, *value.args[k + 1 :]))
    return None


def _own_step(value: Node, step: Node) -> Node | None:
    """Half of a step of `u` times `u` itself."""
    (sign,) = [a for a in step.args if a != ONE] if isinstance(step, Call) else [None]
    u = sign.args[0] if isinstance(sign, Call) and sign.fn == "sign" else None
    above = isinstance(step, Call) and step.fn == "add"
    if isinstance(u, Call) and u.fn == "neg":
        (u,), above = u.args, not above
    if u is None or value != u:
        return None
    return Call("relu", (u,)) if above else Call("minimum", (u, ZERO))


def _both_ends(value: Node, step: Node) -> Node | None:
    """Half the product of the steps at both ends, what is between which, the sum of their gaps, is a number above 0."""
    (here, gap), (there, other) = map(_sign_in, (step, value))
    if gap is None or other is None or not expanded(Call("add", (gap, other))).is_positive:
        return None
    return Call("add", (here, there))


def _sign_in(step: Node) -> tuple[Node, Node | None]:
    """The sign in `1 + sign(u)`, and of what it is; None for anything else."""
    if isinstance(step, Call) and step.fn == "add" and step.args[1] == ONE:
        sign = step.args[0]
        return sign, sign.args[0] if isinstance(sign, Call) and sign.fn == "sign" else None
    return step, None


def blend(found: Compared, values: Facts) -> Node | None:
    """What is half of both sides at a tie, without choosing; None where it is not, or has to be chosen."""
    p, q, step = found.above, found.below, found.order
    are_finite = all(values.of(n).is_finite for n in (p, q))
    if are_finite and _are_opposite(p, q):  # nothing at a tie
        return Call("mul", (step, p))
    if (weighed := _weighed(step, p, q)) is not None or not are_finite:
        return weighed
    here, there = Call("add", (step, ONE)), Call("sub", (ONE, step))
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

    Of short numbers, half the sum and difference of which are exact, it is `v * (u*step + w)`.
    """
    (above, v), (below, w) = map(_number_apart, (p, q))
    if v != w or ZERO in (above, below):
        return None
    here, there = Call("add", (step, ONE)), Call("sub", (ONE, step))
    weights = Call("add", (half_of(above, here), half_of(below, there)))
    numbers = [Fraction(n.value) for n in (above, below) if isinstance(n, Num) and is_finite_number(n)]
    if len(numbers) == 2:
        apart, half = (numbers[0] - numbers[1]) / 2, (numbers[0] + numbers[1]) / 2
        weights = Call("add", (times(apart, step), Num(half))) if is_short(apart) and is_short(half) else weights
    return weights if v == ONE else Call("mul", (v, weights))


def _number_apart(node: Node) -> tuple[Node, Node]:
    """The number of a product, and the rest: a caller's number that divides may be 0, and stays."""
    above, below = fraction(node)
    numbers, tensors = numbers_apart(above)
    by = [n for n in below if is_finite_number(n)]
    return quotient(numbers, by), quotient(tensors, [n for n in below if n not in by])


def clamped(node: Call) -> Node | None:
    """`where(abs(e) <= t, e, t*sign(e))` as `e` between `-t` and `t`, and a multiple of both branches; else None.

    So `where(abs(e) <= t, e/t, sign(e))` is that over `t`. A `t` of the caller's may be below 0, where no magnitude is:
    it is the sign times the smaller of both then.
    """
    condition, first, second = by_size(node.args[0]), *node.args[1:]
    if not isinstance(condition, Call) or condition.fn not in MIRRORED:
        return None
    for size, most in (condition.args, condition.args[::-1]):
        if not isinstance(size, Call) or size.fn != "absolute" or not isinstance(most, Num | Scal):
            continue
        below = (size == condition.args[0]) == (condition.fn in ("lt", "le"))
        inside, outside = (first, second) if below else (second, first)
        (e,) = size.args
        sign, (above, under) = Call("sign", (e,)), fraction(inside)
        if e not in above:
            continue
        above.remove(e)
        if expanded(Call("sub", (outside, quotient([*above, Call("mul", (most, sign))], under)))) != 0:
            continue
        if isinstance(most, Scal):
            return quotient([*above, Call("mul", (sign, Call("minimum", (size, most))))], under)
        if is_finite_number(most) and most.value > 0:
            return quotient([*above, Call("minimum", (Call("maximum", (e, Num(-most.value))), most))], under)
    return None


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
