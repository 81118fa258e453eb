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

from derive.facts.finite import Extremum, after, chooses, counts_ties, extrema, finite_of
from derive.facts.interpreter import Facts
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.equations import Op
from derive.ir.lowering.raising import is_finite_number
from derive.ir.nodes.arithmetic import ONE, ZERO, number_apart
from derive.ir.nodes.products import fraction
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import by_axes_once, node_axes, reads, rebuilt
from derive.ir.program import MIRRORED, Assign, Call, Node, Program, Read, Reduce, Statement
from derive.schedule.compared import Compared, blend, clamped, gap, half_of, on_each_side, sides, vanishes_beside


@dataclass(frozen=True)
class _Known:
    """What is finite where the cotangents are, and where the inputs are as well; and the tensors never below 0."""

    gradients: Facts
    values: Facts
    positive: frozenset[str]
    chooses: bool  # whether the op itself does, by values, so that what is not chosen may be anything
    extrema: Mapping[str, Extremum]
    lengths: Nominal
    inputs: frozenset[str]  # of the op, and what its forward makes
    there: frozenset[str]  # what the backward makes or has in any case, and not the answer to a comparison in its place

    def beside(self, condition: Node) -> Facts:
        """What is finite under a condition."""
        asked = {} if self.chooses else {name: self.values.named(name) for name in reads(condition)}
        return self.gradients.with_more({name: v for name, v in asked.items() if v.is_finite})

    def is_large(self, node: Node) -> bool:
        """Whether a node is as large as any operand or output: one choice less is worth a few passes."""
        largest = max((self.lengths.elements(axes) for axes in self.lengths.carriers), default=0.0)
        return self.lengths.elements(node_axes(node)) >= largest

    def have_a_gap(self, condition: Call) -> bool:
        """Whether the difference of what is compared is a number: one side is finite, and the other is if that is."""
        finite = [self.values.of(n).is_finite for n in condition.args]
        return all(finite) or (any(finite) and not self.chooses)

    def after(self, s: Statement) -> _Known:
        """The same after a statement."""
        ties = isinstance(s, Assign) and counts_ties(s.value, self.extrema)
        return replace(self, gradients=after(self.gradients, s, ties), values=after(self.values, s, ties))


def with_masks(program: Program, cotangents: Collection[str], op: Op) -> Program:
    """The same backward of an op, with products for choices."""
    gradients, values = finite_of(op, cotangents)
    pointwise = (e.name for e in op.equations if e.kind in (None, "sum", "mean"))
    positive = frozenset(name for name in pointwise if values.named(name).is_nonnegative)
    there = frozenset(op.outputs) | {s.name for s in program.statements} | positive
    inputs = frozenset(op.tensors)
    known = _Known(gradients, values, positive, chooses(op), extrema(op), nominal(op), inputs, there)
    places = {e.name for e in op.equations if e.target.is_integer}  # products with a sign are no places
    statements = []
    for s in program.statements:
        statements.append(s if s.name in places else replace(s, value=_within(s.value, known)))
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
    found = Compared.of(node)
    if found is not None and (passed := _passed_on(found, known)) is not None:
        return passed
    blended = None if found is None else blend(found, known.values)
    return _masked(_turned(node), known) if blended is None else _within(blended, known)


def _masked(node: Call, known: _Known) -> Node | None:
    """`where(c, v, 0)` as `v` times what is 1 where `c` holds, else 0; None where `v` may not be finite."""
    condition, value, other = node.args
    if (flowing := _of_what_flows(node, known)) is not None:
        return flowing
    sign = _sign(condition, known)
    finite = known.beside(condition) if sign is None else known.values
    if other != ZERO or not reads(condition) or not reads(value) or not finite.of(value).is_finite:
        return None
    if _is_cumulative(value):
        return None
    if sign is not None and _vanishes(value, sign.args[0]):
        return _within(value, known)
    if sign is not None and on_each_side(node) != node:  # a branch that is shorter on its side is worth a choice
        return None
    return Call("mul", (_within(value, known), sign or Call("where", (condition, ONE, ZERO))))


def _of_what_flows(node: Call, known: _Known) -> Node | None:
    """`where(x > 0, dy*v, 0)` as `where(x > 0, dy, 0)*v` with a finite `v`, for a gradient of the shape of `x`.

    PyTorch has that choice as one call, the backward of its threshold, in which `dy` may be infinite.
    """
    condition, value, other = node.args
    if other != ZERO or not isinstance(condition, Call) or condition.fn != "gt":
        return None
    x, least = condition.args
    if not isinstance(x, Read) or x.name not in known.there or not is_finite_number(least) or not by_axes_once(x):
        return None
    if isinstance(value, Call) and value.fn in ("add", "sub"):
        whole = set(node_axes(value)) == set(node_axes(x)) and x.name not in reads(value)
        return replace(node, args=(condition, _within(value, known), other)) if whole else None
    _, above, below = _factored(value)
    flows = next((f for f in above if _is_gradient(f, x, known)), None)
    if flows is None or above[flows] > 1 or _vanishes(value, x):
        return None
    rest = put(value, flows, ONE)
    if any(map(reads, below)) or not known.beside(condition).of(rest).is_finite:
        return None
    return put(value, flows, Call("where", (condition, flows, ZERO)))


def _is_cumulative(node: Node) -> bool:
    """Whether it is a sum up to a place, or from one on: PyTorch leaves places of it out in one call more."""
    return isinstance(node, Reduce) and isinstance(node.body, Call) and node.body.fn == "where"


def _is_gradient(node: Node, x: Read, known: _Known) -> bool:
    """Whether a node is a tensor of the shape of `x` that the backward makes, or is given."""
    made = isinstance(node, Read) and node.index == x.index and node.name not in known.inputs
    return made and known.gradients.of(node).is_finite


def _turned(node: Call) -> Call:
    """The choice where the condition does not hold: what compares a nan holds in neither."""
    condition, value, other = node.args
    return replace(node, args=(Call("not", (condition,)), other, value))


def _is_zero_beside(condition: Node, value: Node, known: _Known) -> bool:
    """Whether a product is 0 wherever the condition does not hold: one factor is, and the others are finite."""
    _, above, below = _factored(value)
    zero = [n for n in above if vanishes_beside(condition, n)]
    rest = [n for n in above if n not in zero]
    return bool(zero) and not any(map(reads, below)) and all(known.beside(condition).of(n).is_finite for n in rest)


def _extremum(node: Call) -> Call | None:
    """The smaller or larger of two tensors, where they are what is compared: `where(r <= t, r, t)`."""
    condition, *taken = node.args
    if not isinstance(condition, Call) or condition.fn not in MIRRORED or not reads(condition):
        return None
    larger, smaller = sides(condition)
    if taken not in ([larger, smaller], [smaller, larger]):
        return None
    return Call("maximum" if taken[0] == larger else "minimum", condition.args)


def _passed_on(found: Compared, known: _Known) -> Node | None:
    """`where(a > b, v, where(a == b, v/2, 0))` as `v * (1 + sign(a - b)) / 2`, where `a >= b` unless `v` is finite."""
    if (passed := found.passed_on) is None:
        return None
    reached, value, step = passed
    if known.values.of(value).is_finite:
        return half_of(_within(value, known), step)
    if not known.is_large(reached):
        return None
    value = _within(value, known)
    if isinstance(value, Call) and value.fn == "where" and value.args[2] == ZERO:  # the other end of a clamp
        reached, value = Call("and", (reached, value.args[0])), value.args[1]
    return on_each_side(Call("where", (reached, half_of(value, step), ZERO)))


def _sign(condition: Node, known: _Known) -> Call | None:
    """What is 1 where one thing is above another, and else 0, as the sign of what is never below 0."""
    if not isinstance(condition, Call) or condition.fn not in ("gt", "lt"):
        return None
    above, below = condition.args if condition.fn == "gt" else condition.args[::-1]
    if below == ZERO and isinstance(above, Read) and above.name in known.positive:
        return Call("sign", (above,))
    if known.chooses or not known.have_a_gap(condition):
        return None
    return Call("sign", (Call("relu", (gap(above, below),)),))


def _vanishes(value: Node, asked: Node) -> bool:
    """Whether a product has a power of this as a factor, so that it is 0 where that is."""
    powers = [n.args[0] for n in _factored(value)[1] if isinstance(n, Call) and n.fn == "pow"]
    return asked in _factored(value)[1] or asked in powers


def _factored(node: Node) -> tuple[Fraction, Counter[Node], Counter[Node]]:
    """A product as its number, what is multiplied and what it is divided by."""
    number, rest = number_apart(node)
    above, below = fraction(rest)
    return number, Counter(above), Counter(below)
