"""PyTorch's instructions as rows: a call, what it computes in the notation, and which set it belongs to.

A meaning is a formula of the call's arguments: elements of tensors, numbers (`number`), and an axis (`sum(u, d)` is
the sum along it). `selection.py` puts a call where a program computes its meaning, in whatever form. To add an
instruction is to add a row: `tests/derive/backends/test_instructions.py` holds each call to its meaning.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from derive.backends.code import Code, Field, Text, call
from derive.facts.instances import is_evaluated, of_numbers
from derive.ir.nodes.arithmetic import ONE, multiplied
from derive.ir.nodes.walking import bottom_up, node_axes, walk
from derive.ir.program import AxisValue, Call, Node, Num, Reduce, Scal
from derive.rules.engine import fold

PLAIN, LINE, ALL = "plain", "line", "all"
OTHERS = "others"
"""In a meaning, all axes of its first tensor but the one along which it has reductions."""

SETS = (PLAIN, LINE, ALL)
"""Formulas alone; also what stands for one line of the derivation; also what stands for several."""


@dataclass(frozen=True)
class Instruction:
    """One call of PyTorch."""

    name: str  # what it is called in a program
    call: str
    meaning: str
    numbers: str = ""  # the variables that are numbers of the caller's, or of the spec
    above_0: str = ""  # those that the call refuses unless they are
    vectors: str = ""  # tensors over the axes of its reductions alone, which are the last
    statistics: str = ""  # tensors over all other axes, which keep dimensions of length 1
    among: str = LINE
    differs: str = ""  # where it is not what it means, so that it is not taken

    def __post_init__(self) -> None:
        for n in (n for m in self.meant for n in walk(m) if isinstance(n, Call)):
            if not is_evaluated(n.fn):
                raise ValueError(f"{self.name}: {n.fn} in its meaning is no function of the notation")
        said = {n.id for n in ast.walk(self.code) if isinstance(n, ast.Name)}
        if lost := {*self.tensors, *self.scalars} - said:
            raise ValueError(f"{self.name}: its call does not have {', '.join(sorted(lost))}, which it is said to mean")

    @cached_property
    def code(self) -> ast.Call:
        """The call, parsed."""
        found = ast.parse(self.call, mode="eval").body
        assert isinstance(found, ast.Call)
        return found

    @cached_property
    def meant(self) -> tuple[Node, ...]:
        """What each result means, variables as numbers of the caller's; a reduction along an axis has its name."""

        def word(name: str, args: list[Node]) -> Node:
            if name in ("sum", "mean", "amax"):
                body, axis = args
                assert isinstance(axis, Scal)
                return Reduce(name, (axis.name,), body)
            return Call(name, tuple(args))

        parsed = (ast.parse(m.strip(), mode="eval").body for m in self.meaning.split(";"))
        return tuple(fold(m, word, Scal, Num) for m in parsed)

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The variables that are axes."""
        reduced = (n for m in self.meant for n in walk(m) if isinstance(n, Reduce))
        return tuple(dict.fromkeys(a for n in reduced for a in n.axes if a != OTHERS))

    @cached_property
    def scalars(self) -> tuple[str, ...]:
        """The variables that are numbers."""
        return tuple(self.numbers.split())

    @cached_property
    def of_numbers(self) -> Callable[..., float | None]:
        """What its first result is of numbers for its tensors and scalars, and of all of them along each axis."""
        return of_numbers(self.meaning.split(";")[0], (*self.tensors, *self.scalars), self.axes)

    @property
    def of_a_backward(self) -> bool:
        """Whether it takes a cotangent, by the name of g."""
        return "g" in self.tensors

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The variables that are tensors."""
        names = dict.fromkeys(n.name for m in self.meant for n in walk(m) if isinstance(n, Scal))
        return tuple(n for n in names if n not in self.scalars)

    @property
    def results(self) -> tuple[str, ...]:
        """What each result is called in a program."""
        return (self.name, *(f"{self.name}.{k}" for k in range(1, len(self.meant))))

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, in the order in which a program's call has them."""
        return (*self.tensors, *self.scalars, *self.axes)


_GELU = "(1 + erf(x / sqrt(2))) / 2"
_GELU_TANH = "tanh(sqrt(2 / pi()) * (x + 8943 / 200000 * x**3))"
_GELU_TANH_INSIDE = "sqrt(2 / pi()) * (1 + 26829 / 200000 * x**2)"
_CENTRED = "(x - mean(x, d))"
_DEVIATION = f"rsqrt(mean({_CENTRED}**2, d) + e)"
_MISH = "tanh(softplus(x))"
_APART = "(x - t)"

ROWS = (
    Instruction("gelu", "functional.gelu(x)", f"x * {_GELU}"),
    Instruction("gelu_backward", "torch.ops.aten.gelu_backward(g, x)",
                f"g * ({_GELU} + x * exp(-x**2 / 2) / sqrt(2 * pi()))"),
    Instruction("gelu_tanh", "functional.gelu(x, approximate='tanh')", f"x / 2 * (1 + {_GELU_TANH})"),
    Instruction("gelu_tanh_backward", "torch.ops.aten.gelu_backward(g, x, approximate='tanh')",
                f"g / 2 * (1 + {_GELU_TANH} + x * (1 - {_GELU_TANH}**2) * {_GELU_TANH_INSIDE})"),
    Instruction("silu", "functional.silu(x)", "x * sigmoid(x)"),
    Instruction("silu_backward", "torch.ops.aten.silu_backward(g, x)",
                "g * sigmoid(x) * (1 + x * (1 - sigmoid(x)))"),
    Instruction("mish", "functional.mish(x)", f"x * {_MISH}"),
    Instruction("mish_backward", "torch.ops.aten.mish_backward(g, x)",
                f"g * ({_MISH} + x * sigmoid(x) * (1 - {_MISH}**2))"),
    Instruction("sigmoid_backward", "torch.ops.aten.sigmoid_backward(g, y)", "g * y * (1 - y)"),
    Instruction("tanh_backward", "torch.ops.aten.tanh_backward(g, y)", "g * (1 - y**2)"),
    Instruction("softplus_backward", "torch.ops.aten.softplus_backward(g, x, 1, 40)", "g * sigmoid(x)"),
    Instruction("elu", "torch.ops.aten.elu(x, a, k)", "k * where(x > 0, x, a * expm1(x))", "a k"),
    Instruction("elu_backward", "torch.ops.aten.elu_backward(g, a, k, 1, False, x)",
                "g * k * where(x > 0, 1, a * exp(x))", "a k"),
    Instruction("leaky_relu", "functional.leaky_relu(x, k)", "where(x > 0, x, k * x)", "k"),
    Instruction("leaky_relu_backward", "torch.ops.aten.leaky_relu_backward(g, x, k, False)",
                "where(x > 0, g, k * g)", "k"),
    Instruction("hardtanh_backward", "torch.ops.aten.hardtanh_backward(g, x, low, high)",
                "where(x <= low, 0, where(x >= high, 0, g))", "low high"),
    Instruction("hardsigmoid", "functional.hardsigmoid(x)", "where(x <= -3, 0, where(x >= 3, 1, x / 6 + 1 / 2))"),
    Instruction("hardsigmoid_backward", "torch.ops.aten.hardsigmoid_backward(g, x)",
                "where(x <= -3, 0, where(x >= 3, 0, g / 6))",
                differs="in float64 it multiplies with a sixth that is rounded to float32"),
    Instruction("hardswish", "functional.hardswish(x)", "where(x <= -3, 0, where(x >= 3, x, x * (x + 3) / 6))"),
    Instruction("hardswish_backward", "torch.ops.aten.hardswish_backward(g, x)",
                "where(x <= -3, 0, where(x < 3, g * (x / 3 + 1 / 2), g))"),
    Instruction("hardshrink", "functional.hardshrink(x, k)", "where(abs(x) <= k, 0, x)", "k"),
    Instruction("hardshrink_backward", "torch.ops.aten.hardshrink_backward(g, x, k)", "where(abs(x) <= k, 0, g)", "k"),
    Instruction("huber", "functional.huber_loss(x, t, 'none', k)",
                f"where(abs({_APART}) <= k, {_APART}**2 / 2, k * (abs({_APART}) - k / 2))", "k", above_0="k"),
    Instruction("huber_backward", "torch.ops.aten.huber_loss_backward(g, x, t, 0, k)",
                f"g * where({_APART} <= -k, -k, where({_APART} >= k, k, {_APART}))", "k"),
    Instruction("smooth_l1", "functional.smooth_l1_loss(x, t, reduction='none', beta=k)",
                f"where(abs({_APART}) < k, {_APART}**2 / (2 * k), abs({_APART}) - k / 2)", "k", above_0="k"),
    Instruction("smooth_l1_backward", "torch.ops.aten.smooth_l1_loss_backward(g, x, t, 0, k)",
                f"g * where({_APART} <= -k, -1, where({_APART} >= k, 1, {_APART} / k))", "k"),
    Instruction("softmax_backward", "torch._softmax_backward_data(g, p, d, p.dtype)", "p * (g - sum(g * p, d))"),
    Instruction("layer_norm", "torch.native_layer_norm(x, w.shape, w, b, e)",
                f"{_CENTRED} * {_DEVIATION} * w + b; mean(x, d); {_DEVIATION}", "e", vectors="w b", among=ALL),
    Instruction("layer_norm_backward",
                "torch.ops.aten.native_layer_norm_backward(g, x, w.shape, m, r, w, w, [True, True, True])",
                "r * (g * w - mean(g * w, d) - (x - m) * r * mean(g * w * (x - m) * r, d));"
                "sum(g * (x - m) * r, others); sum(g, others)", vectors="w", statistics="m r", among=ALL),
    Instruction("log_softmax_backward", "torch._log_softmax_backward_data(g, y, d, y.dtype)",
                "g - exp(y) * sum(g, d)"),
)

BY_NAME = {name: (row, k) for row in ROWS for k, name in enumerate(row.results)}
"""The row of each name that a program may call, and which of its results that is."""


def printed(row: Instruction, by: Mapping[str, Code]) -> Code:
    """The call with code for its variables."""

    def code(part: ast.expr) -> Code:
        match part:
            case ast.Name(name) if name in by:
                return by[name]
            case ast.Attribute(ast.Name(name), attribute) if name in by:
                return Field(by[name], attribute)
        return Text(ast.unparse(part))

    options = {str(k.arg): code(k.value) for k in row.code.keywords}
    return call(ast.unparse(row.code.func), *map(code, row.code.args), **options)


def of_sets(chosen: str) -> tuple[Instruction, ...]:
    """The instructions of a set and of those before it."""
    allowed = SETS[: SETS.index(chosen) + 1]
    return tuple(row for row in ROWS if row.among in allowed and not row.differs)


def bound(row: Instruction, args: tuple[Node, ...], k: int = 0) -> Node:
    """What a result of a row means with these for its variables; no factor is 1."""
    by = dict(zip(row.variables, args, strict=False))  # an axis may be several
    along = [a.axis for a in args if isinstance(a, AxisValue)]
    others = tuple(a for a in node_axes(args[0]) if a not in along)

    def of(n: Node) -> Node:
        if isinstance(n, Scal):
            return by[n.name]
        if isinstance(n, Reduce):
            return Reduce(n.kind, others if n.axes == (OTHERS,) else tuple(along), of(n.body))
        if isinstance(n, Call):
            args = tuple(map(of, n.args))
            return multiplied([a for a in args if a != ONE] or [ONE]) if n.fn == "mul" else Call(n.fn, args)
        return n

    return of(row.meant[k])


def in_full(node: Node) -> Node:
    """A node with what its calls mean in their place."""

    def meant(n: Node) -> Node:
        if not isinstance(n, Call) or n.fn not in BY_NAME:
            return n
        row, k = BY_NAME[n.fn]
        return bound(row, n.args, k)

    return bottom_up(node, meant)


def result(row: Instruction, args: tuple[Node, ...], k: int) -> Node:
    """A result of a call as a value: one that lacks axes of its arguments is the mean of itself along them."""
    made, axes = Call(row.results[k], args), node_axes(bound(row, args, k))
    left = tuple(a for a in node_axes(made) if a not in axes)
    return Reduce("mean", left, made) if left else made


def is_statistic(node: Node) -> bool:
    """Whether a result lacks the axes that its call reduces along."""
    made = of_several(node)
    along = {a.axis for a in made.args if isinstance(a, AxisValue)} if made is not None else set()
    return isinstance(node, Reduce) and set(node.axes) == along


def of_several(node: Node) -> Call | None:
    """The call of several results that a value is one of."""
    made = node.body if isinstance(node, Reduce) else node
    several = isinstance(made, Call) and made.fn in BY_NAME and len(BY_NAME[made.fn][0].results) > 1
    return made if several else None  # type: ignore[return-value]
