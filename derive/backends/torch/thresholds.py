"""Choices at a threshold, without choosing: `where(x > 0, x, a*x)` is `relu(x) + a*minimum(x, 0)`.

PyTorch chooses element by element, which takes a CPU twenty times as long as a product where the mask has no pattern.
Two branches of one tensor that meet at the threshold are taken each on its own side, where the other stands still:
`A(max(x, t)) - A(t) + B(min(x, t))`, with `A(t) = B(t)`. One must be a polynomial, which is written as one of
`relu(x - t)`, so that nothing is lost on either side. Where one branch is a number, or a multiple of the other, both
are weighed by the mask and one less the mask: what is not chosen is finite and adds 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sympy import Dummy, Expr, exp, expand, tanh

from derive.backends.torch.dtypes import Dtypes
from derive.backends.torch.or_nothing import in_full, or_nothing
from derive.lowering.lower import node as lowered
from derive.lowering.raising import is_finite_number, raised
from derive.nodes.arithmetic import ONE, ZERO
from derive.nodes.soundness import check
from derive.nodes.substituting import put
from derive.nodes.walking import by_axes_once, node_axes, reads, rebuilt
from derive.passes.leftovers import without_unread
from derive.passes.share import share
from derive.program import Assign, Call, Node, Num, Program, Read, Scal, Scatter, Statement
from derive.terms.elements import At, Scalar, Tensor
from derive.terms.functions import expm1, minimum, relu, sigmoid, sign
from derive.terms.functions import maximum as larger
from derive.terms.names import free_name

_ABOVE = {"gt": True, "ge": True, "lt": False, "le": False}
_FUNCTIONS = {"exp": exp, "expm1": expm1, "tanh": tanh, "sigmoid": sigmoid, "sign": sign}
_HOLD = At(Tensor("what_is_compared"))
"""Stands for what is compared while an expression is lowered."""
_LARGE = 2**15
"""What half precision still holds."""

Known = Mapping[str, Assign]


def without_choices(
    program: Program, integers: frozenset[str] = frozenset(), computed: frozenset[str] = frozenset()
) -> Program:
    """The same program with sums and products in place of such choices.

    `integers` are no real tensors; `computed` are no inputs of the op, though they may be given to the program.
    """
    added_to = {n for s in program.statements if isinstance(s, Scatter) for n in (s.name, s.onto)}
    known = {s.name: s for s in program.statements if isinstance(s, Assign) and s.name not in added_to}
    masks, is_real = _Masks(program, computed), Dtypes(program, integers).is_real
    statements = tuple(
        s if s.name in integers else replace(s, value=or_nothing(_within(s.value, known, masks), known, is_real))
        for s in program.statements
    )
    if statements == program.statements:
        return program
    out: list[Statement] = []
    for s in statements:
        out += [m for m in masks.numbers if m.name in reads(s.value) and m not in out]
        out.append(s)
    return share(check(without_unread(replace(program, statements=tuple(out)))))


class _Masks:
    """The masks that a program is given, beside the inputs, and what they are as numbers: 1 where they hold, else 0."""

    def __init__(self, program: Program, computed: frozenset[str]) -> None:
        self.given = {n for n, _ in program.given}
        self.inputs = self.given - computed - {s.name for s in program.statements}
        self._taken = program.names
        self.numbers: list[Assign] = []

    def number(self, mask: Read) -> Read:
        """The mask as numbers, by name."""
        value = Call("where", (mask, ONE, ZERO))
        found = next((m for m in self.numbers if m.value == value), None)
        if found is None:
            found = Assign(free_name(f"{mask.name}_mask", self._taken), mask.index, value)
            self._taken.add(found.name)
            self.numbers.append(found)
        return Read(found.name, found.axes)


def _within(node: Node, known: Known, masks: _Masks) -> Node:
    node = rebuilt(node, lambda n: _within(n, known, masks))
    if not isinstance(node, Call):
        return node
    if node.fn != "where" or node.args[2] == ZERO or not reads(node.args[0]):
        return node
    asked = _asked(node.args[0], known)
    if asked is not None and (plain := _met(asked, node, known)) is not None:
        return plain
    if asked is not None and (step := _step(asked, node, known)) is not None:
        return step
    if asked is None and (step := _step_between(node, known, masks.inputs)) is not None:
        return step
    if asked is not None:
        asked, turned = _strict(asked, node)
        return _jump(asked, turned, known) or _weighed(turned, asked.mask) or node
    condition = node.args[0]
    if isinstance(condition, Read) and condition.name in masks.given and by_axes_once(condition):
        return _weighed(node, masks.number(condition)) or node
    return node


@dataclass(frozen=True)
class _Asked:
    """A comparison of a tensor with a number: whether the first branch is that above it, and equality is not asked."""

    x: Node
    threshold: Node
    above_first: bool
    strict: bool

    @property
    def mask(self) -> Node:
        """1 where it holds, else 0, as a number."""
        return Call("sign", (Call("relu", (self.gap,)),))

    @property
    def gap(self) -> Node:
        """What is above 0 on the side of the first branch."""
        above = self.x if self.threshold == ZERO else Call("sub", (self.x, self.threshold))
        return above if self.above_first else Call("neg", (above,))


def _asked(condition: Node, known: Known) -> _Asked | None:
    condition = in_full(condition, known)
    if not isinstance(condition, Call) or condition.fn not in _ABOVE:
        return None
    x, threshold = condition.args
    plain = isinstance(x, Read) or (isinstance(x, Call) and x.fn == "absolute" and isinstance(x.args[0], Read))
    if not plain or not (isinstance(threshold, Scal) or is_finite_number(threshold)):
        return None
    return _Asked(x, threshold, _ABOVE[condition.fn], condition.fn in ("gt", "lt"))


def _strict(asked: _Asked, node: Call) -> tuple[_Asked, Call]:
    """The same choice, asked without equality: `where(x >= t, a, b)` is `where(x < t, b, a)`."""
    if asked.strict:
        return asked, node
    condition, a, b = node.args
    return replace(asked, above_first=not asked.above_first, strict=True), replace(node, args=(condition, b, a))


# --- branches that meet -------------------------------------------------------------------------------------------


def _met(asked: _Asked, node: Call, known: Known) -> Node | None:
    """The sum of what each branch adds on its own side; None where they do not meet, or are of more than one tensor."""
    z, t = Dummy(real=True), _raised(asked.threshold, {}, known)
    first, second = (_of(z, asked, branch, k == 0, known) for k, branch in enumerate(node.args[1:]))
    above, below = (first, second) if asked.above_first else (second, first)
    if above is None or below is None or expand((above.subs(z, t) - below.subs(z, t)).rewrite(exp)) != 0:
        return None
    gap = _HOLD - t
    for moving, step, other, side in (
        (above, relu(gap), below, minimum(_HOLD, t)),
        (below, minimum(gap, 0), above, larger(_HOLD, t)),
    ):
        if moving.is_polynomial(z):
            taken = expand(moving.subs(z, z + t) - moving.subs(z, t)).subs(z, step) + other.subs(z, side)
            return put(lowered(taken), Read(_HOLD.name, ()), asked.x)
    return None


def _of(z: Dummy, asked: _Asked, branch: Node, first: bool, known: Known) -> Expr | None:
    """A branch as a function of what is compared; of `|u|`, where it has but even powers of `u`."""
    x, branch = asked.x, _on_side(branch, asked, asked.above_first == first, known)
    size = known[x.name].value if isinstance(x, Read) and x.name in known else x
    inner = size.args[0] if isinstance(size, Call) and size.fn == "absolute" else None
    value = _raised(branch, {x: z} | ({inner: z} if inner is not None else {}), known)
    if value is None or inner is None or _raised(branch, {x: z}, known) is not None:
        return value
    odd = _raised(branch, {x: z, inner: -z}, known)
    return value if odd is not None and expand(odd - value) == 0 else None


def _on_side(node: Node, asked: _Asked, above: bool, known: Known) -> Node:
    """A branch on its side: above the threshold, what is compared is the larger of both; below it, the smaller."""
    if isinstance(node, Read) and node != asked.x and node.name in known and known[node.name].axes == node.index:
        value = _on_side(known[node.name].value, asked, above, known)
        return node if value == known[node.name].value else value
    if not isinstance(node, Call):
        return node
    if (node.fn == "relu" and asked.threshold == ZERO and node.args == (asked.x,)) or (
        node.fn in ("maximum", "minimum") and set(node.args) == {asked.x, asked.threshold}
    ):
        return asked.x if above == (node.fn != "minimum") else asked.threshold
    return replace(node, args=tuple(_on_side(a, asked, above, known) for a in node.args))


def _raised(node: Node, names: Mapping[Node, Expr], known: Known) -> Expr | None:
    """A node in SymPy, tensors by these names or as they are computed; None where it reads anything else."""

    def other(n: Node) -> Expr | None:
        if isinstance(n, Scal):
            return Scalar(n.name)
        if isinstance(n, Read) and n.name in known and known[n.name].axes == n.index:
            return _raised(known[n.name].value, names, known)
        argument = raised(n.args[0], names, other) if isinstance(n, Call) and n.fn in _FUNCTIONS else None
        return None if argument is None else _FUNCTIONS[n.fn](argument)  # type: ignore[union-attr]

    return raised(node, names, other)


# --- branches that jump -------------------------------------------------------------------------------------------


def _jump(asked: _Asked, node: Call, known: Known) -> Node | None:
    """`a*m + B(min(x, t))*(1 - m)` for `where(x > t, a, B(x))` with a number `a`; None for another choice."""
    z, t = Dummy(real=True), _raised(asked.threshold, {}, known)
    for k, (number, branch) in enumerate((node.args[1:], node.args[:0:-1])):
        chosen = is_finite_number(number) and reads(branch)
        value = _of(z, asked, branch, k == 1, known) if chosen else None
        if value is None or not _stays_small(value, z, t):
            continue
        clamp = minimum if asked.above_first == (k == 0) else larger
        taken = put(lowered(value.subs(z, clamp(_HOLD, t))), Read(_HOLD.name, ()), asked.x)
        mask, left = asked.mask, Call("sub", (ONE, asked.mask))
        weights = (mask, left) if k == 0 else (left, mask)
        return Call("add", (_times(number, weights[0]), Call("mul", (taken, weights[1]))))
    return None


def _stays_small(value: Expr, z: Dummy, threshold: Expr) -> bool:
    """Whether a branch is finite at the threshold in any precision, so that a mask of 0 makes it 0."""
    if not threshold.is_number:
        return bool(value.is_polynomial(z))
    there = value.subs(z, threshold)
    size = abs(there.subs(dict.fromkeys(there.free_symbols, 1)))
    return bool(size.is_finite and size < _LARGE)


def _step(asked: _Asked, node: Call, known: Known) -> Node | None:
    """`(1 + sign(t - x))/2` for `where(x < t, 1, where(x == t, 1/2, 0))`; None for another choice."""
    _, first, rest = node.args
    half = Call("where", (Call("eq", (asked.x, asked.threshold)), Num(Fraction(1, 2)), ZERO))
    if first != ONE or not isinstance(rest, Call) or rest.fn != "where" or not asked.strict:
        return None
    if replace(rest, args=(in_full(rest.args[0], known), *rest.args[1:])) != half:
        return None
    return Call("div", (Call("add", (Call("sign", (asked.gap,)), ONE)), Num(Fraction(2))))


def _step_between(node: Call, known: Known, inputs: Collection[str]) -> Node | None:
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


def _weighed(node: Call, mask: Node) -> Node | None:
    """`v * (m + c*(1 - m))` for `where(m, v, c*v)` with a number `c`; None for another choice."""
    _, first, second = node.args
    left = Call("sub", (ONE, mask))
    if (number := _multiple(second, first)) is not None:
        return _times(first, mask if number == ZERO else Call("add", (mask, _times(number, left))))
    if (number := _multiple(first, second)) is not None:
        return _times(second, left if number == ZERO else Call("add", (_times(number, mask), left)))
    return None


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
