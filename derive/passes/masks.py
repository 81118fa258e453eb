"""A finite gradient under a condition is multiplied by the condition: `where(x > 0, dy, 0)` is `dy * (x > 0)`.

A choice element by element takes ten times as long as a product on a CPU. They differ where what is left out is not
finite, so only sums and products of cotangents become products. What a maximum passes on, half of it at a tie, is
`dy * (1 + sign(a - b)) / 2`, chosen by `a >= b` alone where it may not be finite; there inputs count as finite too: the
chain rule multiplies by them after the choice. So they do where no `where` of the op asks for values, and what is
compared is what `relu` and its like are of: were it not finite, their values would not be. One element at least is as
large as a maximum of them, so that what they share is finite, too. A choice of what is compared, `where(r <= t, r, t)`,
is the smaller of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sympy import Add, Dummy, Expr, Mul, Number, Pow, erf, expand, tanh

from derive.cost import Nominal, is_matrix_product, is_weighted
from derive.equations import Op
from derive.functions import maximum, minimum, relu, sigmoid, sign
from derive.lower import node as lowered
from derive.nominal import nominal
from derive.passes.sides import on_each_side, vanishes_beside
from derive.passes.steps import half_of
from derive.program import Assign, AxisValue, Call, Index, Node, Num, Program, Read, Reduce, Scal, Scatter, SizeOf
from derive.raising import is_finite_number, raised
from derive.soundness import check
from derive.terms.axes import Axis, Size
from derive.terms.choices import Concat, Where
from derive.terms.elements import At, Scalar
from derive.walking import node_axes, reads, rebuilt

_ONE, _TWO, _ZERO = (Num(Fraction(k)) for k in (1, 2, 0))
_KEEPS = frozenset({"add", "sub", "mul", "neg", "where", "maximum", "minimum", "relu", "absolute"})
_BOUNDED = frozenset({"sign", "sigmoid", "tanh", "erf"})


Extremum = tuple[Node, tuple[str, ...], tuple[Index, ...]]
"""What a maximum or minimum is of, over which axes, and its own axes."""


@dataclass(frozen=True)
class _Finite:
    """Names of finite tensors: sums and products of cotangents, and of inputs as well; and of what is never below 0."""

    gradients: frozenset[str]
    values: frozenset[str]
    positive: frozenset[str]
    chooses: bool  # whether the op itself does, by values, so that what is not chosen may be anything
    extrema: Mapping[str, Extremum]
    lengths: Nominal

    def beside(self, condition: Node) -> frozenset[str]:
        """What is finite under a condition."""
        return self.gradients if self.chooses else self.gradients | (self.values & reads(condition))

    def is_large(self, node: Node) -> bool:
        """Whether a node is as large as any operand or output: one choice less is worth a few passes."""
        largest = max((self.lengths.elements(axes) for axes in self.lengths.carriers), default=0.0)
        return self.lengths.elements(node_axes(node)) >= largest

    def have_a_gap(self, condition: Call) -> bool:
        """Whether the difference of what is compared is a number: one side is finite, and the other is if that is."""
        finite = [is_finite(n, self.values) for n in condition.args]
        return all(finite) or (any(finite) and not self.chooses)

    def counts_ties(self, node: Node) -> bool:
        """Whether a node counts what is as large as a maximum of it: one at least, where that is a number."""
        if not isinstance(node, Reduce) or node.kind != "sum" or not isinstance(node.body, Call):
            return False
        if node.body.fn != "where" or node.body.args[1:] != (_ONE, _ZERO):
            return False
        tie = node.body.args[0]
        sides = (tie.args, tie.args[::-1]) if isinstance(tie, Call) and tie.fn == "eq" else ()
        tops = ((top, (value, node.axes, top.index)) for value, top in sides if isinstance(top, Read))
        return any(self.extrema.get(top.name) == counted for top, counted in tops)

    def with_statement(self, s: Assign | Scatter) -> _Finite:
        """The same after a statement."""
        if isinstance(s, Scatter):
            return replace(self, gradients=self.gradients - {s.name}, values=self.values - {s.name})
        kinds = (self.gradients, self.values)
        if self.counts_ties(s.value):
            kinds = (self.gradients | {over(s.name)}, self.values | {over(s.name)})
        now = [known | {s.name} if is_finite(s.value, known) else known - {s.name} for known in kinds]
        return replace(self, gradients=now[0], values=now[1])


def with_masks(program: Program, cotangents: Collection[str], op: Op) -> Program:
    """The same backward of an op, with products for choices."""
    positive = frozenset(e.name for e in op.equations if e.kind is None and e.body.is_nonnegative)
    chooses = any(w.condition.atoms(At) for e in op.equations for w in e.body.atoms(Where))
    values = polynomials(op) | frozenset(cotangents)
    known = _Finite(frozenset(cotangents), values, positive, chooses, _extrema(op), nominal(op))
    statements = []
    for s in program.statements:
        statements.append(replace(s, value=_within(s.value, known)))
        known = known.with_statement(s)
    return check(replace(program, statements=tuple(statements)))


def _within(node: Node, known: _Finite, chosen: bool = False) -> Node:
    """The node with products for choices; what is `chosen` by another choice stays one."""
    if not isinstance(node, Call):
        return rebuilt(node, lambda n: _within(n, known))
    if node.fn == "where" and node.args[2] == _ZERO and _is_zero_beside(node.args[0], node.args[1], known):
        return _within(node.args[1], known, chosen)
    if node.fn == "where" and not chosen:
        condition, value, other = node.args
        sign = _sign(condition, known)
        finite = known.beside(condition) if sign is None else known.values
        if other == _ZERO and reads(condition) and reads(value) and is_finite(value, finite):
            vanishes = sign is not None and _vanishes(value, sign.args[0])
            mask = sign or Call("where", (condition, _ONE, _ZERO))
            return _within(value, known) if vanishes else Call("mul", (_within(value, known), mask))
        if (extremum := _extremum(node)) is not None:
            return extremum
        step = _step(node, known)
        if step is not None and is_finite(value, known.values):
            return half_of(_within(value, known), step)
        if step is not None and known.is_large(condition) and isinstance(condition, Call):
            reached: Node = Call(_OR_EQUAL[condition.fn], condition.args)
            value = _within(value, known)
            if isinstance(value, Call) and value.fn == "where" and value.args[2] == _ZERO:  # the other end of a clamp
                reached, value = Call("and", (reached, value.args[0])), value.args[1]
            return Call("where", (reached, half_of(value, step), _ZERO))
        if (blend := _blend(node, known)) is not None:
            return _within(blend, known)
    if node.fn == "where":
        node = on_each_side(node)
    return replace(node, args=tuple(_within(a, known, node.fn == "where") for a in node.args))


def _is_zero_beside(condition: Node, value: Node, known: _Finite) -> bool:
    """Whether a product is 0 wherever the condition does not hold: one factor is, and the others are finite."""
    _, above, below = _factored(value)
    zero = [n for n in above if vanishes_beside(condition, n)]
    rest = [n for n in above if n not in zero]
    return bool(zero) and not any(map(reads, below)) and all(is_finite(n, known.beside(condition)) for n in rest)


_OR_EQUAL = {"gt": "ge", "lt": "le"}
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


def _step(node: Call, known: _Finite) -> Node | None:
    """What is 2 above, 1 at, 0 below, for `where(a > b, v, where(a == b, v / 2, 0))`; None for another choice."""
    condition, value, other = node.args
    if not (isinstance(condition, Call) and condition.fn in ("gt", "lt") and isinstance(other, Call)):
        return None
    if other.fn != "where" or other.args[0] != Call("eq", condition.args) or other.args[2] != _ZERO:
        return None
    whole, half = _factored(value), _factored(other.args[1])
    if not known.have_a_gap(condition) or whole[1:] != half[1:] or whole[0] != 2 * half[0]:
        return None
    return Call("add", (_order(condition), _ONE))


def _blend(node: Call, known: _Finite) -> Node | None:
    """`where(a > b, p, where(a == b, (p + q)/2, q))` as `(p + q + sign(a - b)*(p - q))/2`; None for another choice."""
    condition, p, other = node.args
    if not (isinstance(condition, Call) and condition.fn in ("gt", "lt") and isinstance(other, Call)):
        return None
    if other.fn != "where" or other.args[0] != Call("eq", condition.args) or not known.have_a_gap(condition):
        return None
    _, half, q = other.args
    names: dict[Node, Expr] = {}
    off = Call("sub", (Call("add", (p, q)), Call("mul", (_TWO, half))))
    if expand(raised(off, {}, lambda n: names.setdefault(n, Dummy()))) != 0:
        return None
    if not all(is_finite(n, known.values) for n in (p, q)):
        return None
    if p == _ZERO:  # half of q at a tie, all of it below
        return half_of(q, Call("sub", (_ONE, _order(condition))))
    apart = Call("mul", (_order(condition), Call("sub", (p, q))))
    return Call("div", (Call("add", (Call("add", (p, q)), apart)), _TWO))


def _order(condition: Call) -> Call:
    """1 where the condition holds, 0 where both sides are equal, else -1."""
    return Call("sign", (_gap(*(condition.args if condition.fn == "gt" else condition.args[::-1])),))


def _gap(above: Node, below: Node) -> Node:
    return above if below == _ZERO else Call("neg", (below,)) if above == _ZERO else Call("sub", (above, below))


def _sign(condition: Node, known: _Finite) -> Call | None:
    """What is 1 where one thing is above another, and else 0, as the sign of what is never below 0."""
    if not isinstance(condition, Call) or condition.fn not in ("gt", "lt"):
        return None
    above, below = condition.args if condition.fn == "gt" else condition.args[::-1]
    if below == _ZERO and isinstance(above, Read) and above.name in known.positive:
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


def over(name: str) -> str:
    """What stands among names of finite tensors for the reciprocal of one."""
    return f"1/{name}"


def is_finite(node: Node, names: Collection[str]) -> bool:
    """Whether a node is finite where these tensors are: they are added and multiplied, divided by numbers alone."""
    if isinstance(node, Read):
        return node.name in names
    if isinstance(node, Reduce):
        if node.kind == "sum" and (is_matrix_product(node) or is_weighted(node)):  # were the rest not, no sum would be
            return bool(reads(node.body) & set(names)) and is_finite(node.body, {*names, *reads(node.body)})
        return node.kind in ("sum", "mean") and is_finite(node.body, names)
    if isinstance(node, Call):
        parts = node.args[1:] if node.fn == "where" else node.args
        if node.fn == "div":
            by = node.args[1]
            known = isinstance(by, Read) and over(by.name) in names
            return is_finite(node.args[0], names) and (known or _never_zero(by))
        if node.fn == "pow":
            exponent = node.args[1]
            whole = isinstance(exponent, Num) and exponent.value > 0 and exponent.value == int(exponent.value)
            return whole and is_finite(node.args[0], names)
        if (ends := _ends(node)) is not None:
            return all(is_finite(n, names) for n in ends)
        return node.fn in _KEEPS | _BOUNDED and all(is_finite(a, names) for a in parts)
    return isinstance(node, Scal | SizeOf | AxisValue) or is_finite_number(node)


def _never_zero(node: Node) -> bool:
    """Whether nothing is 0 that is divided by: no element, no place, no length less another; a scalar is not."""
    if isinstance(node, Call):
        return node.fn in ("mul", "div", "neg", "pow") and all(map(_never_zero, node.args))
    return isinstance(node, Num | Scal | SizeOf)


def _ends(node: Call) -> tuple[Node, Node] | None:
    """What a clamp keeps its value between: `minimum(maximum(x, low), high)`, either way round."""
    inner = {"minimum": "maximum", "maximum": "minimum"}.get(node.fn)
    if inner is None or not isinstance(node.args[0], Call) or node.args[0].fn != inner:
        return None
    return node.args[0].args[1], node.args[1]


# --- the forward's side -----------------------------------------------------------------------------------------------


def _extrema(op: Op) -> dict[str, Extremum]:
    """The maxima and minima by name, but those over what an index puts at each place."""
    found = (e for e in op.equations if e.kind in ("amax", "amin") and e.is_plain and e.ties is None and e.scale == 1)
    return {e.name: (lowered(e.body), tuple(a.name for a in e.over), tuple(a.name for a in e.axes)) for e in found}


def polynomials(op: Op) -> frozenset[str]:
    """The tensors of the forward that are finite where the inputs are: polynomials and bounded functions of them."""
    known = {o.name for o in op.operands if o.is_tensor and o.kind != "index"}
    for e in op.equations:
        if e.kind in (None, "sum", "mean", "amax", "amin", "concat") and _is_polynomial(e.body, known):
            known.add(e.name)
    return frozenset(known)


_CLOSED = (Add, Mul, Pow, maximum, minimum, relu, sigmoid, sign, tanh, erf)


def _is_polynomial(value: Expr, known: Collection[str]) -> bool:
    if isinstance(value, At):
        return value.name in known
    if isinstance(value, Where):
        return all(_is_polynomial(a, known) for a in value.args[1:])
    if isinstance(value, Concat):
        return all(_is_polynomial(a, known) for a in value.pieces)
    if isinstance(value, Pow) and not (value.exp.is_Integer and value.exp.is_positive):
        return bool(value.exp.is_Integer) and not value.atoms(At)
    fits = isinstance(value, _CLOSED) and all(_is_polynomial(a, known) for a in value.args)
    return fits or isinstance(value, Scalar | Size | Axis) or (isinstance(value, Number) and bool(value.is_finite))
