"""Contractions as matrix products: which axes are rows, columns and summed, and where each operand has its strides.

A factor that is no tensor in memory (an expression, a gather, a window) is computed first, its axes in the order
that the product wants; for a window that is the matrix of patches.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from derive.backends.cpu.normal import Loop, Normal
from derive.cost import product_factors
from derive.program import Call, Index, Merged, Node, Read
from derive.walking import index_axes, node_axes, walk


@dataclass(frozen=True)
class Matrix:
    """A tensor in memory seen as a matrix for every value of the batch axes."""

    name: str
    dims: tuple[str, ...]  # the axes of its memory, slowest first

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
    """`out = alpha * a @ b` for every value of the batch axes; `rows`, `columns`, `inner` are merged axes."""

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

    def __str__(self) -> str:
        return f"{self.name} = product of {self.a.name} and {self.b.name}"

    @property
    def reads(self) -> set[str]:
        return {self.a.name, self.b.name} | {n.name for x in self.alpha for n in [x] if isinstance(n, Read)}


Step = Loop | Product


def with_products(normal: Normal) -> list[Step]:
    """The loops, with every contraction that fits a matrix product replaced by one and by what prepares it."""
    out: list[Step] = []
    for loop in normal.loops:
        out += _contracted(loop, normal) if loop.is_product else [loop]
    return out


def _contracted(loop: Loop, normal: Normal) -> list[Step]:
    factors = product_factors(loop.value)
    alpha = tuple(f for f in factors if not node_axes(f))
    tensors = [f for f in factors if node_axes(f)]
    before: list[Step] = []
    while len(tensors) > 2:
        pair = min(combinations(range(len(tensors)), 2), key=lambda p: _size(tensors, p))
        a, b = (tensors[k] for k in pair)
        joined = Call("mul", (a, b))
        tensors = [t for k, t in enumerate(tensors) if k not in pair]
        tensors.insert(0, joined)
    if len(tensors) < 2:
        return [loop]
    a_axes, b_axes = (set(node_axes(t)) for t in tensors)
    free, over = loop.free, set(loop.over)
    inner = a_axes & b_axes & over
    rows = tuple(x for x in free if x in a_axes - b_axes)
    columns = tuple(x for x in free if x in b_axes - a_axes)
    batch = tuple(x for x in free if x in a_axes & b_axes)
    if inner != over or set(free) != set(rows) | set(columns) | set(batch):
        return [loop]
    if rows and columns and free.index(rows[0]) > free.index(columns[0]):
        tensors.reverse()
        rows, columns = columns, rows
    result = Matrix(loop.name, _memory(loop.slots))
    if not (result.run(rows) and result.run(columns)) or result.dims[-1:] not in (rows[-1:], columns[-1:]):
        order = (*batch, *rows, *columns)
        if order == result.dims:
            return [loop]
        return _transposed(loop, order, normal)
    first = _plain(tensors[0], normal)
    order = tuple(x for x in (first or _order(tensors[0], loop)) if x in inner)
    operands: list[Matrix] = []
    for node, outer in ((tensors[0], rows), (tensors[1], columns)):
        matrix = _matrix(node, normal)
        if matrix is None or not _fits(matrix, outer, order):
            wanted = _laid_out(node, batch, outer, order)
            name = normal.fresh(f"{loop.name}_{'left' if node is tensors[0] else 'right'}")
            helper = Loop(name, wanted, node, note=f"{name}[{', '.join(wanted)}] = {node}")
            normal.dims[name] = wanted
            before.append(helper)
            matrix = Matrix(name, wanted)
        operands.append(matrix)
    left, right = operands
    return [*before, Product(loop.name, result, left, right, batch, rows, columns, order, alpha, loop.note)]


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


def _size(tensors: list[Node], pair: tuple[int, ...]) -> tuple[int, int]:
    a, b = (set(node_axes(tensors[k])) for k in pair)
    return (len(a | b), -len(a & b))


def _order(node: Node, loop: Loop) -> tuple[str, ...]:
    axes = node_axes(node)
    return tuple(a for a in loop.over if a in axes)


def _memory(slots: tuple[Index, ...]) -> tuple[str, ...]:
    return tuple(a for i in slots for a in index_axes(i))


def _plain(node: Node, normal: Normal) -> tuple[str, ...] | None:
    """The axes of a read whose elements lie in memory in their order, merged axes taken apart."""
    if not isinstance(node, Read) or node.name in normal.booleans | normal.integers:
        return None
    dims: list[str] = []
    for index in node.index:
        parts = index_axes(index)
        if not isinstance(index, str | Merged):
            return None
        dims += parts
    return tuple(dims) if len(set(dims)) == len(dims) else None


def _matrix(node: Node, normal: Normal) -> Matrix | None:
    dims = _plain(node, normal)
    return None if dims is None or not isinstance(node, Read) else Matrix(node.name, dims)


def _fits(matrix: Matrix, outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
    """Whether both sides of the matrix are one dimension each, and the last dimension is one of them."""
    return matrix.run(outer) and matrix.run(inner) and matrix.dims[-1:] in (outer[-1:], inner[-1:])
