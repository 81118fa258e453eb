"""Which nodes of a program are of the inputs' dtype, and which are whole numbers or truth values."""

from __future__ import annotations

from dataclasses import dataclass

from derive.backends.torch.scalars import WHOLE, is_whole
from derive.ir.nodes.walking import children, walk
from derive.ir.program import (
    CONDITIONS,
    WIDTHS,
    AxisValue,
    Call,
    Index,
    Join,
    Node,
    Num,
    Program,
    Read,
    Reduce,
    Scal,
    Scan,
    Scatter,
    Shares,
    SizeOf,
)


@dataclass
class Dtypes:
    """What is known of one program; `integers` are the tensors given to it that hold integers or truth values."""

    program: Program
    integers: frozenset[str]
    real: frozenset[str] = frozenset()  # of the inputs' dtype whatever they count

    def __post_init__(self) -> None:
        self.reals: dict[str, bool] = {}
        for s in self.program.statements:
            made = isinstance(s, Scatter) or self.is_real(s.value) or _is_choice_of_numbers(s.value)
            self.reals[s.name] = made or s.name in self.real

    def is_real(self, node: Node | Index) -> bool:
        """Whether a node is of the inputs' dtype: neither integers nor truth values."""
        if isinstance(node, Read):
            return node.name not in self.integers and self.reals.get(node.name, True)
        if isinstance(node, Call) and node.fn in (*WIDTHS, "threshold"):  # of a mask as well
            return True
        if isinstance(node, Call):
            values = node.args[1:] if node.fn == "where" else node.args
            return node.fn not in CONDITIONS and any(self.is_real(a) for a in values)
        if isinstance(node, AxisValue) or (isinstance(node, Reduce) and node.kind == "mean"):
            return True
        return isinstance(node, Reduce | Scan | Shares | Join) and any(self.is_real(n) for n in children(node))

    def compares_counts(self, node: Call) -> bool:
        """Whether a comparison is of places, lengths and integers, each side exact: in float32 they end at 2**24."""
        return all(self.counts(a) or isinstance(a, Scal) for a in node.args)

    def counts(self, node: Node | Index) -> bool:
        """Whether a node is made of places, lengths, whole numbers and what is read of integers."""
        if isinstance(node, Read):
            return node.name in self.integers
        if isinstance(node, Call):
            square = node.fn == "pow" and str(node.args[1]) == "2"  # higher powers of places overflow
            return (square or node.fn in (*WHOLE, "floordiv", "mod")) and all(map(self.counts, node.args))
        return isinstance(node, Num | AxisValue | SizeOf) and is_whole(node)

    def leaves_integers(self, node: Call) -> bool:
        """Whether a function of counts has no whole values: torch would give it its default dtype."""
        if node.fn in CONDITIONS or node.fn in ("where", "floordiv", "mod") or self.is_real(node):
            return False
        fractions = any(not is_read(a) and not is_whole(a) for a in node.args)
        whole = node.fn in ("add", "sub", "mul", "neg", "absolute", "sign", "maximum", "minimum") and not fractions
        return not whole and any(is_read(a) for a in node.args)


def _is_choice_of_numbers(node: Node) -> bool:
    """Whether a node chooses between numbers; under a name of its own that is of the inputs' dtype."""
    return isinstance(node, Call) and node.fn == "where" and not any(is_read(a) for a in node.args[1:])


def is_read(node: Node) -> bool:
    """Whether tensors stand in a node."""
    return any(isinstance(n, Read) for n in walk(node))
