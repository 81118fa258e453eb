"""Which tensors are large, and which of them nothing reads again, so that they may be written over."""

from __future__ import annotations

from dataclasses import dataclass

from derive.backends.torch.dtypes import Dtypes
from derive.backends.torch.layout import is_product
from derive.backends.values import is_pack
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import axes_along, index_axes, node_axes, reads, walk
from derive.ir.program import WIDTHS, Assign, Call, Node, Program, Read, Reduce, Scatter, Shares, base


@dataclass
class Memory:
    """What is known of the tensors of one program."""

    program: Program
    dtypes: Dtypes
    few: frozenset[str] = frozenset()  # axes of a few places

    def __post_init__(self) -> None:
        written = [{base(a) for a in axes_along(s.axes)} for s in self.program.statements]
        self.extents = [*({base(a) for a in axes} for _, axes in self.program.given), *written]

    def is_large(self, node: Node) -> bool:
        """Whether no tensor of the program has the node's axes and others of more than a few places.

        Statistics and parameters are small, a half of a tensor is not.
        """
        axes = {base(a) for a in node_axes(node)}
        return bool(axes) and not any(axes < others - (self.few - axes) for others in self.extents)

    def spent_at(self, k: int) -> frozenset[str]:
        """Large tensors of ours that this statement reads once and nothing reads afterwards."""
        once = [n.name for n in walk(self.program.statements[k].value) if isinstance(n, Read)]
        return frozenset(n for n in self._last_read_at(k) if once.count(n) == 1)

    def spent_inside(self, node: Node, k: int) -> frozenset[str]:
        """Large tensors of ours that a part of this statement alone reads, and nothing afterwards."""
        both = (node, self.program.statements[k].value)
        inside, whole = ([n.name for n in walk(v) if isinstance(n, Read)] for v in both)
        return frozenset(n for n in self._last_read_at(k) if inside.count(n) == whole.count(n))

    def first_at(self, k: int) -> str | None:
        """A large tensor of ours that this statement begins with, computes with and is the last to read.

        `u / sum(u)` and `s + y * (1 - s)`: Python has what is computed of it before it is written over.
        """
        value = self.program.statements[k].value
        if not isinstance(value, Call) or value.fn not in ("add", "sub", "mul", "div"):
            return None
        for own, other in (value.args, value.args[::-1]) if value.fn == "add" else (value.args,):
            inside = [f for f in product_factors(other) if isinstance(own, Read) and own.name in reads(f)]
            computed = all(isinstance(f, Call) or (isinstance(f, Reduce) and not _over_pack(f)) for f in inside)
            if isinstance(own, Read) and inside and computed and own.name in self._last_read_at(k):
                return own.name
        return None

    def _last_read_at(self, k: int) -> frozenset[str]:
        """Large tensors of ours that nothing reads after this statement."""
        here, *later = self.program.statements[k:]
        made = {s.name for s in self.program.statements[:k] if isinstance(s, Assign) and self._is_made(s)}
        looked_at = [s.value for s in self.program.statements if isinstance(s, Assign) and isinstance(s.value, Read)]
        viewed = {n.name for n in looked_at if not _is_gathered(n)}
        wide = (s.value.args[0] for s in self.program.statements if is_wide(s.value))  # type: ignore[union-attr]
        viewed |= {n.name for n in wide if isinstance(n, Read)}
        viewed |= {s.value.body.name for s in self.program.statements if may_be_its_body(s.value)}  # type: ignore[union-attr]
        again = {n for s in later for n in (*reads(s.value), *(x for i in s.slots for x in reads(i)))}
        added = [(j, s) for j, s in enumerate(self.program.statements) if isinstance(s, Scatter)]
        elsewhere = {s.onto for j, s in added if j >= k or s.onto != s.name}  # under another name, or not added to yet
        return frozenset((reads(here.value) & made) - again - viewed - set(self.program.ends) - elsewhere)

    def _is_made(self, s: Assign) -> bool:
        """Whether a statement fills a tensor of its own, of the inputs' dtype, every element in a place of its own."""
        if isinstance(s.value, Reduce):
            return is_product(s.value) and is_whole(s)
        if not isinstance(s.value, Call | Shares) or (isinstance(s.value, Call) and s.value.fn in WIDTHS):
            return False
        return self.is_large(s.value) and self.dtypes.is_real(s.value) and is_whole(s)


def _is_gathered(node: Read) -> bool:
    """Whether a read copies the places that an index chooses: one without dimensions chooses a view."""
    return any(isinstance(i, Read) and any(not is_pack(a) for a in index_axes(i)) for i in node.index)


def may_be_its_body(node: Node) -> bool:
    """Whether a sum is the very tensor that it is of where `...` has no axis."""
    return isinstance(node, Reduce) and isinstance(node.body, Read) and _over_pack(node)


def _over_pack(node: Reduce) -> bool:
    return any(is_pack(a) for a in node.axes)


def is_wide(node: Node) -> bool:
    """Whether a value is a tensor in another dtype: where it has that dtype already, the very tensor."""
    return isinstance(node, Call) and node.fn == "as_float64"


def is_whole(s: Assign) -> bool:
    """Whether a statement's value has every axis of its tensor, so that none is an expanded view."""
    return set(node_axes(s.value)) == set(axes_along(s.axes))
