"""Which tensors are large, and which of them nothing reads again, so that they may be written over."""

from __future__ import annotations

from dataclasses import dataclass

from derive.backends.dtypes import Dtypes
from derive.backends.layout import is_product
from derive.backends.values import is_pack
from derive.program import Assign, Call, Node, Program, Read, Reduce, Scatter, base
from derive.walking import index_axes, node_axes, reads, walk


@dataclass
class Memory:
    """What is known of the tensors of one program."""

    program: Program
    dtypes: Dtypes

    def __post_init__(self) -> None:
        written = [{base(a) for i in s.axes for a in index_axes(i)} for s in self.program.statements]
        self.extents = [*({base(a) for a in axes} for _, axes in self.program.given), *written]

    def is_large(self, node: Node) -> bool:
        """Whether no tensor of the program has the node's axes and more; statistics and parameters are small."""
        axes = {base(a) for a in node_axes(node)}
        return bool(axes) and not any(axes < others for others in self.extents)

    def spent_at(self, k: int) -> frozenset[str]:
        """Large tensors of ours that this statement reads once and nothing reads afterwards."""
        here, *later = self.program.statements[k:]
        made = {s.name for s in self.program.statements[:k] if isinstance(s, Assign) and self._is_made(s)}
        viewed = {s.value.name for s in self.program.statements if isinstance(s, Assign) and isinstance(s.value, Read)}
        summed = [s.value for s in self.program.statements if isinstance(s.value, Reduce)]
        over_pack = [r for r in summed if any(is_pack(a) for a in r.axes)]  # with no axis there, the very tensor
        viewed |= {r.body.name for r in over_pack if isinstance(r.body, Read)}
        once = [n.name for n in walk(here.value) if isinstance(n, Read)]
        again = {n for s in later for n in (*reads(s.value), *(x for i in getattr(s, "slots", ()) for x in reads(i)))}
        kept = (
            again
            | viewed
            | set(self.program.returns)
            | {s.onto for s in self.program.statements if isinstance(s, Scatter)}
        )
        spent = {n for n in once if once.count(n) == 1} | _divided_by_its_sum(here.value)
        return frozenset(n for n in spent if n in made and n not in kept)

    def _is_made(self, s: Assign) -> bool:
        """Whether a statement fills a tensor of its own, of the inputs' dtype, every element in a place of its own."""
        if isinstance(s.value, Reduce):
            return is_product(s.value) and is_whole(s)
        call = isinstance(s.value, Call) and self.is_large(s.value) and self.dtypes.is_real(s.value)
        return call and is_whole(s)


def _divided_by_its_sum(value: Node) -> set[str]:
    """What a statement divides by its own sum, or the like: Python has the sum before the tensor is written over."""
    if not isinstance(value, Call) or value.fn not in ("add", "sub", "mul", "div"):
        return set()
    own, other = value.args
    if not isinstance(own, Read):
        return set()
    sums = [n for n in walk(other) if isinstance(n, Reduce) and n.body == own and not any(map(is_pack, n.axes))]
    bare = sum(isinstance(n, Read) and n.name == own.name for n in walk(other)) - len(sums)
    return {own.name} if sums and bare == 0 else set()


def is_whole(s: Assign) -> bool:
    """Whether a statement's value has every axis of its tensor, so that none is an expanded view."""
    return set(node_axes(s.value)) == {a for i in s.axes for a in index_axes(i)}
