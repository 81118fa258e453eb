"""A finite gradient under a condition is multiplied by the condition: `where(x > 0, dy, 0)` is `dy * (x > 0)`.

A choice element by element takes ten times as long as a product on a CPU. They differ where what is left out is not
finite, so only sums and products of cotangents become products. What a maximum passes on, half of it at a tie, is
`dy * (1 + sign(a - b)) / 2`, also where both are infinite: they tie, and `inf - inf` is no number, whose sign is 0. It
is chosen by `a >= b` alone where it may not be finite; there inputs count as finite too: the chain rule multiplies by
them after the choice. So they do where no `where` of the op asks for values, and what is compared is what `relu` and
its like are of: were it not finite, their values would not be. A choice of what is compared, `where(r <= t, r, t)`, is
the smaller of both, and `where(abs(e) <= t, e, t*sign(e))` is `e` between `-t` and `t`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sympy import Expr, S

from derive.equations import Op
from derive.lengths.nominal import Nominal, nominal
from derive.lowering.raising import expanded, is_finite_number
from derive.nodes.arithmetic import ONE, ZERO, quotient
from derive.nodes.products import fraction, numbers_apart
from derive.nodes.soundness import check
from derive.nodes.walking import node_axes, reads, rebuilt, walk
from derive.passes.finite import Extremum, Finite, chooses, counts_ties, extrema, finite_of
from derive.passes.sides import on_each_side, vanishes_beside
from derive.passes.steps import clamped, half_of, total
from derive.program import Assign, Call, Node, Num, Program, Read, Scal, Statement

_TWO = Num(Fraction(2))


@dataclass(frozen=True)
class _Known:
    """What is finite where the cotangents are, and where the inputs are as well; and the tensors never below 0."""

    gradients: Finite
    values: Finite
    positive: frozenset[str]
    chooses: bool  # whether the op itself does, by values, so that what is not chosen may be anything
    extrema: Mapping[str, Extremum]
    lengths: Nominal

    def beside(self, condition: Node) -> Finite:
        """What is finite under a condition."""
        return self.gradients if self.chooses else self.gradients.with_more(self.values.tensors & reads(condition))

    def is_large(self, node: Node) -> bool:
        """Whether a node is as large as any operand or output: one choice less is worth a few passes."""
        largest = max((self.lengths.elements(axes) for axes in self.lengths.carriers), default=0.0)
        return self.lengths.elements(node_axes(node)) >= largest

    def have_a_gap(self, condition: Call) -> bool:
        """Whether the difference of what is compared is a number: one side is finite, and the other is if that is."""
        finite = [self.values.includes(n) for n in condition.args]
        return all(finite) or (any(finite) and not self.chooses)

    def after(self, s: Statement) -> _Known:
        """The same after a statement."""
        ties = isinstance(s, Assign) and counts_ties(s.value, self.extrema)
        return replace(self, gradients=self.gradients.after(s, ties), values=self.values.after(s, ties))


def with_masks(program: Program, cotangents: Collection[str], op: Op) -> Program:
    """The same backward of an op, with products for choices."""
    gradients, values = finite_of(op, cotangents)
    known = _Known(gradients, values, values.nonnegative, chooses(op), extrema(op), nominal(op))
    statements = []
    for s in program.statements:
        statements.append(replace(s, value=_within(s.value, known)))
        known = known.after(s)
    return check(replace(program, statements=tuple(statements)))


def _within(node: Node, known: _Known, chosen: bool = False) -> Node:
    """The node with products for choices; what is `chosen` by another choice stays one."""
    if not isinstance(node, Call):
        return rebuilt(node, lambda n: _within(n, known))
    if node.fn != "where":
        return replace(node, args=tuple(_within(a, known) for a in node.args))
    condition, value, other = node.args
    if other == ZERO and _is_zero_beside(condition, value, known):
        return _within(value, known, chosen)
    if not chosen and (product := _without_choice(node, known)) is not None:
        return product
    by_values = bool(reads(condition))  # places leave the same products to be taken on either side
    return replace(node, args=tuple(_within(a, known, by_values) for a in on_each_side(node).args))


def _without_choice(node: Call, known: _Known) -> Node | None:
    """A choice as a product, a maximum of what it compares, or one choice for two; None where it has to stay."""
    if (product := _masked(node, known)) is not None:
        return product
    if (extremum := _extremum(node) or clamped(node)) is not None:
        return extremum
    if (passed := _passed_on(node, known)) is not None:
        return passed
    blend = _blend(node, known)
    return _masked(_turned(node), known) if blend is None else _within(blend, known)


def _masked(node: Call, known: _Known) -> Node | None:
    """`where(c, v, 0)` as `v` times what is 1 where `c` holds, else 0; None where `v` may not be finite."""
    condition, value, other = node.args
    sign = _sign(condition, known)
    finite = known.beside(condition) if sign is None else known.values
    if other != ZERO or not reads(condition) or not reads(value) or not finite.includes(value):
        return None
    if sign is not None and _vanishes(value, sign.args[0]):
        return _within(value, known)
    return Call("mul", (_within(value, known), sign or Call("where", (condition, ONE, ZERO))))


def _turned(node: Call) -> Call:
    """The choice where the condition does not hold: what compares a nan holds in neither."""
    condition, value, other = node.args
    return replace(node, args=(Call("not", (condition,)), other, value))


def _is_zero_beside(condition: Node, value: Node, known: _Known) -> bool:
    """Whether a product is 0 wherever the condition does not hold: one factor is, and the others are finite."""
    _, above, below = _factored(value)
    zero = [n for n in above if vanishes_beside(condition, n)]
    rest = [n for n in above if n not in zero]
    return bool(zero) and not any(map(reads, below)) and all(map(known.beside(condition).includes, rest))


_OR_EQUAL = {"gt": "ge", "lt": "le"}
_MIRRORED = {"gt": "lt", "lt": "gt"}
_SMALLER = {"lt": "minimum", "le": "minimum", "gt": "maximum", "ge": "maximum"}
_LARGER = {"lt": "maximum", "le": "maximum", "gt": "minimum", "ge": "minimum"}


def _extremum(node: Call) -> Call | None:
    """The smaller or larger of two tensors, where they are what is compared: `where(r <= t, r, t)`."""
    condition, a, b = node.args
    if not isinstance(condition, Call) or condition.fn not in _SMALLER or not reads(condition):
        return None
    if (a, b) == condition.args:
        return Call(_SMALLER[condition.fn], (a, b))
    return Call(_LARGER[condition.fn], (b, a)) if (b, a) == condition.args else None


def _passed_on(node: Call, known: _Known) -> Node | None:
    """`where(a > b, v, where(a == b, v/2, 0))` as `v * (1 + sign(a - b)) / 2`, where `a >= b` unless `v` is finite."""
    passed = _step(node)
    if passed is None:
        return None
    condition, value, step = passed
    if known.values.includes(value):
        return half_of(_within(value, known), step)
    if not known.is_large(condition):
        return None
    reached: Node = Call(_OR_EQUAL[condition.fn], condition.args)
    value = _within(value, known)
    if isinstance(value, Call) and value.fn == "where" and value.args[2] == ZERO:  # the other end of a clamp
        reached, value = Call("and", (reached, value.args[0])), value.args[1]
    return on_each_side(Call("where", (reached, half_of(value, step), ZERO)))


def _step(node: Call) -> tuple[Call, Node, Node] | None:
    """What is asked and passed on, and a step from 0 to 2, of `where(a > b, v, where(a == b, v / 2, 0))`, 0 on either
    side; None for another choice.
    """
    if (found := _three_ways(node)) is None:
        return None
    condition, above, at_tie, below = found
    value = above if below == ZERO else below
    whole, half = _factored(value), _factored(at_tie)
    if ZERO not in (above, below) or whole[1:] != half[1:] or whole[0] != 2 * half[0]:
        return None
    if below == ZERO:
        return condition, value, Call("add", (_order(condition), ONE))
    return Call(_MIRRORED[condition.fn], condition.args), value, Call("sub", (ONE, _order(condition)))


def _blend(node: Call, known: _Known) -> Node | None:
    """`where(a > b, p, where(a == b, (p + q)/2, q))` as `(p + q + sign(a - b)*(p - q))/2`; None for another choice."""
    if (found := _three_ways(node)) is None:
        return None
    condition, p, half, q = found
    if expanded(Call("sub", (Call("add", (p, q)), Call("mul", (_TWO, half))))) != 0:
        return None
    if (weighed := _weighed(condition, p, q, known)) is not None:
        return weighed
    if not all(map(known.values.includes, (p, q))):
        return None
    if p == ZERO:  # half of q at a tie, all of it below
        return half_of(q, Call("sub", (ONE, _order(condition))))
    number, left = _apart(p, q)
    step: Node = _order(condition)
    if _are_opposite(p, q):  # nothing at a tie: `p + q` would be a tensor less itself
        return Call("mul", (step, p))
    if left == ONE and is_finite_number(half):
        return Call("add", (Call("mul", (Num(number / 2), step)), half))
    differ: Node = Num(number) if left == ONE else Call("sub", (p, q))
    apart: Node = step if differ == ONE else Call("mul", (step, differ))
    return Call("div", (Call("add", (total(p, q), apart)), _TWO))


def _weighed(condition: Call, p: Node, q: Node, known: _Known) -> Node | None:
    """`v * (m*(1 + step) + n*(1 - step))/2` for `p = m*v` and `q = n*v`, whatever `v` is; None for others.

    Numbers of the caller's, or whose multiples may not be finite, are not added up: one may be much larger.
    """
    (above, v), (below, w) = map(_number_apart, (p, q))
    given = any(isinstance(n, Scal) for number in (above, below) for n in walk(number))
    if v != w or ZERO in (above, below) or not (given or not known.values.includes(p)):
        return None
    step = _order(condition)
    here, there = Call("add", (step, ONE)), Call("sub", (ONE, step))
    return Call("mul", (_within(v, known), Call("add", (half_of(above, here), half_of(below, there)))))


def _number_apart(node: Node) -> tuple[Node, Node]:
    """The number of a product, and the rest: a caller's number that divides may be 0, and stays."""
    above, below = fraction(node)
    numbers, tensors = numbers_apart(above)
    by = [n for n in below if is_finite_number(n)]
    rest = [n for n in below if n not in by]
    return quotient(numbers, by), quotient(tensors, rest)


def _three_ways(node: Call) -> tuple[Call, Node, Node, Node] | None:
    """What `where(a > b, p, where(a == b, h, q))` compares, and p, h, q; None for another choice."""
    condition, above, other = node.args
    if not (isinstance(condition, Call) and condition.fn in ("gt", "lt") and isinstance(other, Call)):
        return None
    if other.fn != "where" or other.args[0] != Call("eq", condition.args):
        return None
    return condition, above, other.args[1], other.args[2]


def _order(condition: Call) -> Call:
    """1 where the condition holds, 0 where both sides are equal, else -1."""
    return Call("sign", (_gap(*(condition.args if condition.fn == "gt" else condition.args[::-1])),))


def _gap(above: Node, below: Node) -> Node:
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


def _sign(condition: Node, known: _Known) -> Call | None:
    """What is 1 where one thing is above another, and else 0, as the sign of what is never below 0."""
    if not isinstance(condition, Call) or condition.fn not in ("gt", "lt"):
        return None
    above, below = condition.args if condition.fn == "gt" else condition.args[::-1]
    if below == ZERO and isinstance(above, Read) and above.name in known.positive:
        return Call("sign", (above,))
    if known.chooses or not known.have_a_gap(condition):
        return None
    return Call("sign", (Call("relu", (_gap(above, below),)),))


def _vanishes(value: Node, asked: Node) -> bool:
    """Whether a product has a power of this as a factor, so that it is 0 where that is."""
    powers = [n.args[0] for n in _factored(value)[1] if isinstance(n, Call) and n.fn == "pow"]
    return asked in _factored(value)[1] or asked in powers


def _factored(node: Node) -> tuple[Fraction, Counter[Node], Counter[Node]]:
    """A product as its number, what is multiplied and what it is divided by."""
    if isinstance(node, Num) and isinstance(node.value, Fraction):
        return node.value, Counter(), Counter()
    if isinstance(node, Call) and node.fn == "neg":
        number, above, below = _factored(node.args[0])
        return -number, above, below
    if isinstance(node, Call) and node.fn in ("mul", "div"):
        (m, a, b), (n, c, d) = map(_factored, node.args)
        if node.fn == "div" and n != 0:
            return m / n, a + d, b + c
        return (m * n, a + c, b + d) if node.fn == "mul" else (Fraction(1), Counter([node]), Counter())
    return Fraction(1), Counter([node]), Counter()
