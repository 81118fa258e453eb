"""Contractions as matrix products: which axes are rows, columns and summed, and where each operand has its strides.

A factor that is no tensor in memory (an expression, a gather, a window) is computed first, its axes in the order
that the product wants; for a window that is the matrix of patches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from derive.backends.cpu.statements.normal import Loop, Normal, Running
from derive.nodes.products import product_factors
from derive.nodes.walking import axes_along, index_axes, node_axes, reads, walk
from derive.program import Call, Index, Merged, Node, Read, Scan


def whole_axes(index: Index) -> tuple[str, ...]:
    """The axes of an index that is a whole axis or a merge of such, first the slowest; else none."""
    if isinstance(index, str):
        return (index,)
    parts = [whole_axes(i) for i in index.axes] if isinstance(index, Merged) else []
    return tuple(a for part in parts for a in part) if all(parts) else ()


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

    def __str__(self) -> str:
        return f"{self.name} = product of {self.a.name} and {self.b.name}"

    @property
    def reads(self) -> set[str]:
        own = {self.name} if self.adds else set()
        return own | {self.a.name, self.b.name}.union(*map(reads, self.alpha))

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


def with_products(normal: Normal) -> list[Step]:
    """The loops, with every contraction that fits a matrix product replaced by one and by what prepares it."""
    out: list[Step] = []
    for loop in normal.loops:
        if isinstance(loop.value, Scan):
            out.append(Running(loop.name, loop.slots, loop.value, loop.note))
        else:
            out += _contracted(loop, normal) if loop.is_product else [loop]
    return out


@dataclass(frozen=True)
class _Roles:
    """A sum of a product of two factors as a matrix product: which axes are what in it."""

    left: Node
    right: Node
    batch: tuple[str, ...]  # axes of the result that both factors have
    rows: tuple[str, ...]  # those of the left one alone
    columns: tuple[str, ...]  # those of the right one alone


def _contracted(loop: Loop, normal: Normal) -> list[Step]:
    """The product and what prepares it; the loop as it is, where it is no product of two matrices."""
    factors = product_factors(loop.value)
    alpha = tuple(f for f in factors if not node_axes(f))
    roles = _roles(_two([f for f in factors if node_axes(f)]), loop)
    if roles is None:
        return [loop]
    batch, rows, columns = roles.batch, roles.rows, roles.columns
    result = Matrix(loop.name, loop.slots)
    if not all(map(whole_axes, loop.slots)):
        return [loop]
    if not _fits(result, rows, columns):
        order = (*batch, *rows, *columns)
        return [loop] if order == result.dims else _transposed(loop, order, normal)
    inner = tuple(x for x in _plain(roles.left, normal) or loop.over if x in loop.over)
    left, before = _operand(roles.left, "left", batch, rows, inner, loop, normal)
    right, then = _operand(roles.right, "right", batch, columns, inner, loop, normal)
    return [*before, *then, Product(loop.name, result, left, right, batch, rows, columns, inner, alpha, loop.note)]


def _two(factors: list[Node]) -> list[Node]:
    """The factors multiplied until two are left, those first that make the smallest tensor."""
    while len(factors) > 2:
        pair = min(combinations(range(len(factors)), 2), key=lambda p: _size(factors, p))
        joined = Call("mul", tuple(factors[k] for k in pair))
        factors = [joined, *(f for k, f in enumerate(factors) if k not in pair)]
    return factors


def _roles(factors: list[Node], loop: Loop) -> _Roles | None:
    """Which factor is the left one, as the result has its rows first; None where an axis has no part in a product."""
    if len(factors) < 2:
        return None
    left, right = factors
    ours, theirs = set(node_axes(left)), set(node_axes(right))
    rows = tuple(x for x in loop.free if x in ours - theirs)
    columns = tuple(x for x in loop.free if x in theirs - ours)
    batch = tuple(x for x in loop.free if x in ours & theirs)
    if not set(loop.over) <= ours & theirs or set(loop.free) != {*rows, *columns, *batch}:
        return None
    if rows and columns and loop.free.index(rows[0]) > loop.free.index(columns[0]):
        return _Roles(right, left, batch, columns, rows)
    return _Roles(left, right, batch, rows, columns)


def _operand(
    node: Node, side: str, batch: tuple[str, ...], outer: tuple[str, ...], inner: tuple[str, ...], loop: Loop,
    normal: Normal,
) -> tuple[Matrix, list[Step]]:  # fmt: skip
    """A factor as a matrix, with the loop that computes it first where it lies in memory as none."""
    matrix = _matrix(node, normal)
    if matrix is not None and _fits(matrix, outer, inner):
        return matrix, []
    name = normal.fresh(f"{loop.name}_{side}")
    normal.dims[name] = wanted = _laid_out(node, batch, outer, inner)
    return Matrix(name, wanted), [Loop(name, wanted, node, note=f"{name}[{', '.join(wanted)}] = {node}")]


def _laid_out(node: Node, batch: tuple[str, ...], outer: tuple[str, ...], inner: tuple[str, ...]) -> tuple[str, ...]:
    """The axes of a factor that is computed first: last what is last in the memory of its largest operand."""
    found = [r for r in walk(node) if isinstance(r, Read) and r.index]
    most = max((len(node_axes(r)) for r in found), default=0)
    last = [index_axes(r.index[-1])[-1:] for r in found if len(node_axes(r)) == most]
    score = sum((axes == inner[-1:]) - (axes == outer[-1:]) for axes in last if axes)
    return (*batch, *outer, *inner) if score >= 0 or not outer else (*batch, *inner, *outer)


def _transposed(loop: Loop, order: tuple[str, ...], normal: Normal) -> list[Step]:
    """The product with its axes in a better order, and a loop that puts them where they belong."""
    name = normal.fresh(f"{loop.name}_product")
    normal.dims[name] = order
    inner = Loop(name, order, loop.value, "sum", loop.over, loop.note)
    copy = Loop(loop.name, loop.slots, Read(name, order), note=loop.note)
    return [*_contracted(inner, normal), copy]


def _size(factors: list[Node], pair: tuple[int, ...]) -> tuple[int, int]:
    """What is smallest is multiplied first: the axes of two factors' product, and of equals those that share more."""
    a, b = (set(node_axes(factors[k])) for k in pair)
    return (len(a | b), -len(a & b))


def _plain(node: Node, normal: Normal) -> tuple[str, ...] | None:
    """The axes of a read whose elements lie in memory in their order, merged axes taken apart."""
    if not isinstance(node, Read) or node.name in normal.booleans | normal.integers:
        return None
    if not all(map(whole_axes, node.index)):
        return None  # one place on a dimension, or on a part of a merge: elements lie further apart than the axes say
    dims = axes_along(node.index)
    return dims if len(set(dims)) == len(dims) else None


def _matrix(node: Node, normal: Normal) -> Matrix | None:
    return Matrix(node.name, node.index) if isinstance(node, Read) and _plain(node, normal) is not None else None


def _fits(matrix: Matrix, outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
    """Whether both sides of the matrix are one dimension each, and the last dimension is one of them."""
    return matrix.run(outer) and matrix.run(inner) and matrix.dims[-1:] in (outer[-1:], inner[-1:])
