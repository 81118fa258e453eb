"""What a choice compares with a threshold, and what is known of a branch on its side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sympy import Expr

from derive.backends.torch.or_nothing import ABOVE, in_full
from derive.ir.lowering.lower import node as lowered
from derive.ir.lowering.raising import is_finite_number, raised
from derive.ir.nodes.arithmetic import ZERO
from derive.ir.nodes.between import by_size
from derive.ir.nodes.substituting import put
from derive.ir.program import Assign, Call, Node, Read, Scal
from derive.ir.terms.elements import At, Scalar, Tensor
from derive.ir.terms.functions import CLASSES

HOLD = At(Tensor("what_is_compared"))
"""Stands for what is compared while an expression is lowered."""

Known = Mapping[str, Assign]


@dataclass(frozen=True)
class Comparison:
    """A comparison of a tensor with a number: whether the first branch is that above it, and equality is not asked."""

    x: Node
    threshold: Node
    above_first: bool
    strict: bool
    negative: frozenset[str] = frozenset()  # the caller's numbers that are usually below 0

    @property
    def mask(self) -> Node:
        """1 where it holds, else 0, as a number."""
        return Call("sign", (Call("relu", (self.gap,)),))

    @property
    def gap(self) -> Node:
        """What is above 0 on the side of the first branch."""
        above = self.x if self.threshold == ZERO else Call("sub", (self.x, self.threshold))
        return above if self.above_first else Call("neg", (above,))

    def strictly(self, choice: Call) -> tuple[Comparison, Call]:
        """The same choice, asked without equality: `where(x >= t, a, b)` is `where(x < t, b, a)`."""
        if self.strict:
            return self, choice
        condition, a, b = choice.args
        return replace(self, above_first=not self.above_first, strict=True), replace(choice, args=(condition, b, a))

    def lowered(self, value: Expr) -> Node:
        """An expression of `HOLD` as a node of what is compared."""
        return put(lowered(value), Read(HOLD.name, ()), self.x)


def comparison(condition: Node, known: Known) -> Comparison | None:
    """What a condition compares, where that is a tensor, or its magnitude, with a number; else None."""
    condition = by_size(in_full(condition, known))
    if not isinstance(condition, Call) or condition.fn not in ABOVE:
        return None
    x, threshold = condition.args
    plain = isinstance(x, Read) or (isinstance(x, Call) and x.fn == "absolute" and isinstance(x.args[0], Read))
    if not plain or not (_is_callers(threshold) or is_finite_number(threshold)):
        return None
    return Comparison(x, threshold, ABOVE[condition.fn], condition.fn in ("gt", "lt"))


def _is_callers(node: Node) -> bool:
    """Whether a node is a number of the caller's, or more or less than one: `1 - eps`."""
    if isinstance(node, Call):
        return node.fn in ("add", "sub", "neg") and all(_is_callers(a) or is_finite_number(a) for a in node.args)
    return isinstance(node, Scal)


def on_its_side(node: Node, asked: Comparison, above: bool, known: Known) -> Node:
    """A branch on its side: above the threshold, what is compared is the larger of both; below it, the smaller."""
    if isinstance(node, Read) and node != asked.x and (whole := opened(node, known)) is not None:
        value = on_its_side(whole, asked, above, known)
        return node if value == whole else value
    if not isinstance(node, Call):
        return node
    if (node.fn == "relu" and asked.threshold == ZERO and node.args == (asked.x,)) or (
        node.fn in ("maximum", "minimum") and set(node.args) == {asked.x, asked.threshold}
    ):
        return asked.x if above == (node.fn != "minimum") else asked.threshold
    return replace(node, args=tuple(on_its_side(a, asked, above, known) for a in node.args))


def opened(node: Read, known: Known) -> Node | None:
    """What a tensor is computed as, under its own axes; None where that is not known."""
    return known[node.name].value if node.name in known and known[node.name].axes == node.index else None


def raised_by_names(node: Node, names: Mapping[Node, Expr], known: Known) -> Expr | None:
    """A node in SymPy, tensors by these names or as they are computed; None where it reads anything else."""

    def other(n: Node) -> Expr | None:
        if isinstance(n, Scal):
            return Scalar(n.name)
        if isinstance(n, Read) and (whole := opened(n, known)) is not None:
            return raised_by_names(whole, names, known)
        if not isinstance(n, Call) or n.fn not in CLASSES:
            return None
        arguments = [raised(a, names, other) for a in n.args]
        return None if None in arguments else CLASSES[n.fn](*arguments)

    return raised(node, names, other)
