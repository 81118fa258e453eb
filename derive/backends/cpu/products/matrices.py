"""What a matrix product is: the tensors in memory that it takes as matrices, and which of their axes are what in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import gcd

from derive.backends.cpu.names import axis_name
from derive.backends.cpu.statements.normal import Loop, Normal, Running
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import axes_along, node_axes, reads
from derive.ir.program import Call, Index, Merged, Node, Read


def whole_axes(index: Index) -> tuple[str, ...]:
    """The axes of an index that is a whole axis or a merge of such, first the slowest; else none."""
    if isinstance(index, str):
        return (index,)
    parts = [whole_axes(i) for i in index.axes] if isinstance(index, Merged) else []
    return tuple(a for part in parts for a in part) if all(parts) else ()


def plain(node: Node, normal: Normal) -> tuple[str, ...] | None:
    """The axes of a read whose elements lie in memory in their order, merged axes taken apart."""
    if not isinstance(node, Read) or node.name in normal.booleans | normal.integers:
        return None
    if not all(map(whole_axes, node.index)):
        return None  # one place on a dimension, or on a part of a merge: elements lie further apart than the axes say
    dims = axes_along(node.index)
    return dims if len(set(dims)) == len(dims) else None


def called(index: Index, names: Mapping[str, str]) -> Index:
    """A place by other names of its axes, merged ones included."""
    if isinstance(index, Merged):
        return Merged(tuple(called(i, names) for i in index.axes))
    return names.get(index, index) if isinstance(index, str) else index


@dataclass(frozen=True)
class Matrix:
    """A tensor in memory seen as a matrix for every value of the batch axes."""

    name: str
    index: tuple[Index, ...]  # whole axes and merges of such: a place on each dimension of its memory

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.index))}]"

    @property
    def dims(self) -> tuple[str, ...]:
        """The axes of its memory, slowest first, merged ones taken apart: there may be more than dimensions."""
        return axes_along(self.index)

    def run(self, axes: tuple[str, ...]) -> bool:
        """Whether the axes lie one after another in memory, so that they are one dimension."""
        if not axes:
            return True
        if any(a not in self.dims for a in axes):
            return False
        start = self.dims.index(axes[0])
        return self.dims[start : start + len(axes)] == axes

    def stride(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The axes whose lengths multiply to the distance between neighbours along the last of `axes`."""
        return self.dims[self.dims.index(axes[-1]) + 1 :] if axes else ()


@dataclass(frozen=True)
class Wide:
    """A tensor with zeros before and after it along some axes, made for one place of a product's batch at a time."""

    name: str
    of: Matrix
    edges: tuple[tuple[str, Node, Node], ...]  # an axis, and how many zeros are before and after


@dataclass(frozen=True)
class Phase:
    """Every few places of `dim`, from one of the first on, to each of which the same taps of windows add.

    Windows begin every `step` places, and their places are `dilation` apart.
    """

    dim: str
    tap: str
    step: int
    dilation: int

    @property
    def common(self) -> int:
        return gcd(self.step, self.dilation)

    @property
    def is_everywhere(self) -> bool:
        """Whether all phases together are all places: windows miss none for their steps."""
        return self.common == 1

    @property
    def places(self) -> str:
        """The axis of the places of one phase."""
        return f"{self.dim}_in_phase"

    @property
    def taps(self) -> str:
        """The axis of the taps that add to them."""
        return f"{self.tap}_in_phase"

    @property
    def first(self) -> str:
        """The variable that holds the first place of a phase."""
        return f"phase_{axis_name(self.dim)}"

    @property
    def first_tap(self) -> str:
        """The variable that holds the first tap that adds to it."""
        return f"phase_{axis_name(self.tap)}"

    @property
    def shift(self) -> str:
        """The variable that says how far from its own place the first window that adds to it begins: 0 or before."""
        return f"shift_{axis_name(self.dim)}"

    @property
    def numbers(self) -> tuple[str, str, str]:
        """The variables."""
        return self.first, self.first_tap, self.shift

    def first_taps(self) -> tuple[int, ...]:
        """The first tap of each phase that windows reach."""
        firsts = range(0, self.step, self.common)
        return tuple(next(k for k in range(self.step) if (k * self.dilation - r) % self.step == 0) for r in firsts)


@dataclass(frozen=True)
class Product:
    """`out = alpha * a @ b` for every value of the batch axes, or added; `rows`, `columns`, `inner` are merged axes."""

    name: str
    out: Matrix
    a: Matrix
    b: Matrix
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    inner: tuple[str, ...]
    alpha: tuple[Node, ...]
    note: str
    adds: bool = False
    windowed: bool = False  # an operand is read at places that are no matrix: each side is axes and steps
    taps: tuple[str, ...] = ()  # of windows that it adds to, one place after another
    wide: Wide | None = None  # what its right operand is made of first
    phases: tuple[Phase, ...] = ()  # it is taken for one after another
    start: Node | None = None  # what its result begins with, to which it adds

    def __str__(self) -> str:
        sides = {"rows": self.rows, "columns": self.columns, "summed": self.inner, "one for each of": self.batch,
                 "one tap after another": self.taps}  # fmt: skip
        said = ", ".join(f"{word} {' '.join(axes)}" for word, axes in sides.items() if axes)
        right = self.b if self.wide is None else self.wide.of
        return f"{self.out} {'+=' if self.adds else '='} {self.a} @ {right}: {said}"

    @property
    def reads(self) -> set[str]:
        own = {self.name} if self.adds and self.start is None else set()
        right = self.b if self.wide is None else self.wide.of
        start = () if self.start is None else (self.start,)
        return own | {self.a.name, right.name}.union(*map(reads, (*self.alpha, *start)))

    @property
    def is_whole(self) -> bool:
        """Whether it computes every element of its result once."""
        return not self.taps and all(p.is_everywhere for p in self.phases)

    def with_names(self, names: Mapping[str, str]) -> Product:
        """The same product with other names for axes."""

        def named(axes: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(names.get(a, a) for a in axes)

        def at(index: tuple[Index, ...]) -> tuple[Index, ...]:
            return tuple(called(i, names) for i in index)

        a, b, out = (Matrix(m.name, at(m.index)) for m in (self.a, self.b, self.out))
        batch, rows, columns, inner = map(named, (self.batch, self.rows, self.columns, self.inner))
        return replace(self, out=out, a=a, b=b, batch=batch, rows=rows, columns=columns, inner=inner)


Step = Loop | Product | Running


def numbers_and_two(value: Node) -> tuple[tuple[Node, ...], list[Node]]:
    """The factors that are numbers, and the others, of which two are left where there were more."""
    factors = product_factors(value)
    return tuple(f for f in factors if not node_axes(f)), _two([f for f in factors if node_axes(f)])


def _two(factors: list[Node]) -> list[Node]:
    """The factors multiplied until two are left, those first that make the smallest tensor."""
    while len(factors) > 2:
        pair = min(combinations(range(len(factors)), 2), key=lambda p: _size(factors, p))
        joined = Call("mul", tuple(factors[k] for k in pair))
        factors = [joined, *(f for k, f in enumerate(factors) if k not in pair)]
    return factors


def _size(factors: list[Node], pair: tuple[int, ...]) -> tuple[int, int]:
    """What is smallest is multiplied first: the axes of two factors' product, and of equals those that share more."""
    a, b = (set(node_axes(factors[k])) for k in pair)
    return (len(a | b), -len(a & b))
