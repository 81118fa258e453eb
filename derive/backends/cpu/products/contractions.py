"""Contractions as matrix products: which axes are rows, columns and summed, and where each operand has its strides.

A factor that is no tensor in memory (an expression, a gather, a window) is computed first, its axes in the order
that the product wants; for a window that is the matrix of patches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from derive.backends.cpu.products.matrices import Matrix, Product, Step, numbers_and_two, plain, whole_axes
from derive.backends.cpu.products.windowed import added_in_windows, lying, windowed
from derive.backends.cpu.statements.normal import Loop, Normal, Running
from derive.ir.nodes.walking import index_axes, node_axes, walk
from derive.ir.program import Node, Read, Scan


def with_products(normal: Normal) -> list[Step]:
    """The loops, with every contraction that fits a matrix product replaced by one and by what prepares it."""
    out: list[Step] = []
    for loop in added_in_windows(normal):
        if isinstance(loop, Product):
            out.append(loop)
        elif isinstance(loop.value, Scan):
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
    alpha, two = numbers_and_two(loop.value)
    found = windowed(two, alpha, loop, normal)
    if found is not None:
        return [*found]
    roles = _roles(two, loop)
    if roles is None:
        return [loop]
    batch, rows, columns = roles.batch, roles.rows, roles.columns
    result = Matrix(loop.name, loop.slots)
    if not all(map(whole_axes, loop.slots)):
        return [loop]
    if not _fits(result, rows, columns) and (apart := _one_by_one(roles, result)) is not None:
        batch, rows, columns = apart.batch, apart.rows, apart.columns
    elif not _fits(result, rows, columns):
        order = (*batch, *rows, *columns)
        return [loop] if order == result.dims else _transposed(loop, order, normal)
    inner = tuple(x for x in plain(roles.left, normal) or loop.over if x in loop.over)
    if not _lie_well(replace(roles, rows=rows, columns=columns), inner, normal):
        found = lying(two, alpha, loop, normal)
        written = found is None or isinstance(found[-1], Product)  # as it is wanted, and not copied there
        apart = None if written else _one_by_one(roles, result, lambda r: _lie_well(r, inner, normal))
        if found is not None and apart is None:
            return [*found]
        batch, rows, columns = (apart.batch, apart.rows, apart.columns) if apart is not None else (batch, rows, columns)
    left, before = _operand(roles.left, "left", batch, rows, inner, loop, normal)
    right, then = _operand(roles.right, "right", batch, columns, inner, loop, normal)
    return [*before, *then, Product(loop.name, result, left, right, batch, rows, columns, inner, alpha, loop.note)]


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


def _one_by_one(roles: _Roles, result: Matrix, fits: Callable[[_Roles], bool] = lambda _: True) -> _Roles | None:
    """A product for each place of the first axes of one side, `y[n, o, t] = sum(w[o, c] * x[n, c, t], over=c)`.

    None where the result is no matrix then either, or what else is asked is not so.
    """
    first, second = roles.columns, roles.rows
    found = [replace(roles, batch=roles.batch + first[:k], columns=first[k:]) for k in range(1, len(first))]
    found += [replace(roles, batch=roles.batch + second[:k], rows=second[k:]) for k in range(1, len(second))]
    return next((r for r in found if _fits(result, r.rows, r.columns) and fits(r)), None)


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


def _matrix(node: Node, normal: Normal) -> Matrix | None:
    return Matrix(node.name, node.index) if isinstance(node, Read) and plain(node, normal) is not None else None


def _lie_well(roles: _Roles, inner: tuple[str, ...], normal: Normal) -> bool:
    """Whether each factor is a matrix in memory, or nothing in memory yet."""
    sides = ((_matrix(roles.left, normal), roles.rows), (_matrix(roles.right, normal), roles.columns))
    return all(matrix is None or _fits(matrix, outer, inner) for matrix, outer in sides)


def _fits(matrix: Matrix, outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
    """Whether both sides of the matrix are one dimension each, and the last dimension is one of them."""
    return matrix.run(outer) and matrix.run(inner) and matrix.dims[-1:] in (outer[-1:], inner[-1:])
