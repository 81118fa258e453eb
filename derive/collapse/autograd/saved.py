"""What a forward keeps alive for its backward: ours, and autograd's of the same equations run op by op.

Nothing is measured. Both sides are counted by one rule: each distinct tensor once, inputs and parameters
included, at its full size, 4 bytes an element for real tensors (float32), 8 for integer ones, 1 for a mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from derive.errors import DeriveError
from derive.facts.lengths.nominal import lengths_of
from derive.ir.equations import Op
from derive.ir.nodes.products import is_matrix_product, is_tensor, product_factors
from derive.ir.nodes.walking import axes_along, node_axes
from derive.ir.program import (
    CONDITIONS,
    Arithmetic,
    Call,
    Index,
    Merged,
    Node,
    PartOf,
    Read,
    Reduce,
    Scatter,
    Statement,
    base,
)
from derive.ir.terms.axes import PACK_NAME
from derive.primitives import names
from derive.schedule.order import forward_program

DEFAULT_SIZE = 64

BYTES = {"real": 4, "integer": 8, "mask": 1}
_KEEP_NOTHING = {"add", "sub", "neg", *CONDITIONS} | names(lambda r: r.slope == "0")
_KEEP_OUTPUT = names(lambda r: r.slope_by_value)


@dataclass(frozen=True)
class Saved:
    """One tensor that stays alive: what it is, the axes that it runs over, the kind of its elements."""

    label: str
    axes: tuple[str, ...]
    element: str = "real"  # or "integer", "mask"

    def bytes(self, sizes: Mapping[str, int]) -> int:
        return BYTES[self.element] * prod(sizes[base(a)] for a in self.axes)


def saved_by_forward(op: Op, names: Iterable[str]) -> tuple[Saved, ...]:
    """The tensors that our forward hands to the backward."""
    return tuple(_operand_or_equation(op, name) for name in names)


def saved_by_autograd(op: Op) -> tuple[Saved, ...]:
    """The tensors that PyTorch's autograd keeps when it runs the equations, one operation at a time.

    The rule is that of PyTorch's `derivatives.yaml`. Only operations through which a gradient flows keep
    anything. Sums, means, additions, views and `sign` keep nothing. `exp tanh sqrt rsqrt sigmoid relu` keep
    their output. A product, elementwise or of matrices, keeps a factor where another needs a gradient. A
    quotient keeps its divisor, and its dividend where the divisor needs a gradient. A power by a tensor keeps
    both and its output. `amax amin prod` keep input and output, a gather its integers, `where` its condition,
    any other function its input. Equal subexpressions count once, as if a person had shared them, which
    favours autograd.
    """
    program = forward_program(op.cut, ())
    counter = _Counter(op.cut)
    for r in op.recurrences:  # one place earlier the state is the same tensor
        counter.tensors[r.before.name] = _operand_or_equation(op, r.state)
    for statement in program.statements:
        counter.visit(statement)
    return tuple(counter.kept)


class _Counter:
    """Walks a forward program; holds what each name stands for and what is kept so far, in order."""

    def __init__(self, op: Op):
        self.tensors = {o.name: _operand_or_equation(op, o.name) for o in op.operands if o.is_tensor}
        self.kept: dict[Saved, None] = {}
        self.needs = {o.name for o in op.differentiable}
        self.labels: dict[Node, str] = {}  # a statement's whole value and its name

    def visit(self, statement: Statement) -> None:
        name, value = statement.name, statement.value
        if isinstance(value, Read) and not _gathers(value):
            self.tensors[name] = self.tensors[value.name]  # a view shows another tensor's memory
        else:
            axes = axes_along(statement.axes)
            condition = isinstance(value, Call) and value.fn in CONDITIONS
            self.tensors[name] = Saved(name, axes, "mask" if condition else "real")
        self.labels.setdefault(value, name)
        if self.grad(value):
            self.needs.add(name)
        self.node(value)
        if isinstance(statement, Scatter) and statement.kind != "sum" and self.grad(value):
            self.keep(value)
            self.keep(Read(name, statement.axes))

    def grad(self, node: Node) -> bool:
        """Whether a gradient flows into the node: through its values, never through indices or conditions."""
        if isinstance(node, Read):
            return node.name in self.needs
        if isinstance(node, Reduce):
            return self.grad(node.body)
        if isinstance(node, Call):
            return any(self.grad(a) for a in (node.args[1:] if node.fn == "where" else node.args))
        return False

    def node(self, node: Node) -> None:
        if not self.grad(node):
            return
        if isinstance(node, Read):
            for integers in (r for i in node.index for r in _reads(i)):
                self.keep(integers)
        elif isinstance(node, Reduce):
            self.reduction(node)
        elif isinstance(node, Call):
            for a in node.args:
                self.node(a)
            self.call(node)

    def reduction(self, node: Reduce) -> None:
        if is_matrix_product(node):
            factors = product_factors(node.body)
            for k, factor in enumerate(factors):
                self.node(factor)
                if any(self.grad(other) for other in factors[:k] + factors[k + 1 :]):
                    self.keep(factor)
            return
        self.node(node.body)
        if node.kind not in ("sum", "mean"):
            self.keep(node.body)
            self.keep(node)

    def call(self, node: Call) -> None:
        args = node.args
        if node.fn in _KEEP_NOTHING:
            return
        if node.fn in _KEEP_OUTPUT:
            self.keep(node)
        elif node.fn == "mul":
            for a, other in (args, args[::-1]):
                if self.grad(other):
                    self.keep(a)
        elif node.fn == "div":
            self.keep(args[1])
            if self.grad(args[1]):
                self.keep(args[0])
        elif node.fn == "where":
            self.keep(args[0], "mask")
        else:
            for a in args:
                self.keep(a)
            if node.fn == "pow" and self.grad(args[1]):
                self.keep(node)

    def keep(self, node: Node, element: str = "real") -> None:
        """Keep a tensor; plain numbers and sizes take no memory to speak of."""
        if not is_tensor(node):
            return
        if isinstance(node, Read) and not _gathers(node):
            self.kept[self.tensors[node.name]] = None
        elif node in self.labels:
            self.kept[self.tensors[self.labels[node]]] = None
        else:
            self.kept[Saved(str(node), node_axes(node), element)] = None


def _gathers(read: Read) -> bool:
    return any(True for i in read.index for _ in _reads(i))


def _reads(index: Index) -> Iterator[Read]:
    """The integer tensors an index reads, also inside merges, parts and windows."""
    if isinstance(index, Read):
        yield index
    elif isinstance(index, Merged):
        for part in index.axes:
            yield from _reads(part)
    elif isinstance(index, PartOf):
        yield from _reads(index.whole)
    elif isinstance(index, Arithmetic):
        for part, _ in index.steps:
            yield from _reads(part)


def _operand_or_equation(op: Op, name: str) -> Saved:
    operand = op.operand(name)
    if operand is not None:
        return Saved(name, tuple(a.base for a in operand.axes), "integer" if operand.kind == "index" else "real")
    equation = op.equation(name)
    assert equation is not None, f"{name} is no tensor of {op.name}"
    return Saved(name, tuple(a.base for a in equation.axes))


# --- formulas and numbers ---------------------------------------------------------------------------------


def elements_formula(saved: Iterable[Saved]) -> str:
    """The number of elements over axes, `2*n*d + 3*d`; `|...|` is the number of leading positions."""
    counts: dict[tuple[str, ...], int] = {}
    for s in saved:
        axes = tuple(base(a) for a in s.axes)
        same = next((known for known in counts if sorted(known) == sorted(axes)), axes)
        counts[same] = counts.get(same, 0) + 1
    terms = []
    for axes, count in sorted(counts.items(), key=lambda item: (-len(item[0]), item[0])):
        factors = [str(count)] if count > 1 or not axes else []
        terms.append("*".join([*factors, *("|...|" if a == PACK_NAME else a for a in axes)]))
    return " + ".join(terms) or "0"


def total_bytes(saved: Iterable[Saved], sizes: Mapping[str, int]) -> int:
    """The bytes of all of them at the given lengths of axes."""
    return sum(s.bytes(sizes) for s in saved)


def example_sizes(op: Op, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """A length for every axis: the given ones, what merges and windows make of them, 4 for a kernel's, else 64.

    Raises DeriveError for a given axis that the op does not have.
    """
    given = given or {}
    axes = [rule.axis.base for rule in op.sizes]
    unknown = [name for name in given if name not in axes]
    if unknown:
        raise DeriveError(f"there is no axis {unknown[0]}", op=op.name, fix=f"its axes are {', '.join(axes)}")
    return {name: int(n) for name, n in lengths_of(op, DEFAULT_SIZE, given=given).items()}
