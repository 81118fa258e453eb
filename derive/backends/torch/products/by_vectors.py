"""Sums that are a matrix by a vector in torch: some dimensions of a tensor are one, in views that copy nothing where
it lies as its dimensions say.

What is summed are a tensor's last axes, its first one, the one before the last, or all but the last; the vector has
these axes and no others.
Several such vectors are multiplied first: `sum(k[i, j] * a[j] * b[j], over=j)` is `k @ (a * b)`, and nothing is made
that is as large as `k`. Or there is a vector for each place of the tensor's first axes,
`sum(h[n, i, k, s] * c[n, s], over=s)`: `einsum` finds products of matrices there, of which the vectors have to be
the left ones: a matrix times a column is slow on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from derive.backends.code import below, call, together
from derive.backends.values import Dims, Value, is_pack, permute, product
from derive.ir.nodes.arithmetic import multiplied
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import by_axes_once, node_axes, reads
from derive.ir.program import Node, Read, Reduce

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

FEW_ROWS = 64
"""So many may be added one after another, as `sum_of_rows` does as well (`templates/functions.py.j2`)."""

Both = tuple[Node, Node]
"""The tensor, and the vector."""


def is_by_vector(node: Reduce) -> bool:
    """Whether a sum is one product of a matrix, or of a tensor as one, and a vector."""
    return any(found(node) is not None for found in (_matrix, _rows, _blocks, _of_matrices)) or is_by_one_each(node)


def is_by_one_each(node: Reduce) -> bool:
    """Whether it is a tensor with its first axes, two others and more, and a vector for each place of the first."""
    factors, axes = product_factors(node.body), set(node_axes(node.body))
    whole = [f for f in factors if set(node_axes(f)) == axes]
    others = {a for f in factors if f not in whole for a in node_axes(f)}
    if node.kind != "sum" or len(whole) != 1 or any(map(is_pack, axes)):
        return False
    if not all(isinstance(f, Read) and by_axes_once(f) for f in factors):
        return False
    first = others - set(node.axes)
    leading = bool(first) and set(node_axes(whole[0])[: len(first)]) == first
    return leading and set(node.axes) < others < axes and len(axes) > len(first) + 2


def times_vector(printer: Printer, node: Reduce, value: Callable[[Node, Dims], Value]) -> Value | None:
    """The code of such a sum, None for any other; `value` prints without dimensions of length 1."""
    if (both := _matrix(node)) is not None:
        matrix, vector = value(both[0], node_axes(both[0])), value(both[1], node.axes)
        rest = tuple(d for d in matrix.dims if d != node.axes[0])
        if matrix.dims[-1] == node.axes[0]:
            return product(matrix, vector, rest)
        return _sum_of_rows(printer, vector, matrix, rest)
    if (both := _rows(node)) is not None:
        tensor = value(both[0], node_axes(both[0]))
        ways = (printer.value(both[1], dims) for dims in (node_axes(both[1]), tensor.dims))
        weight = min((printer.as_real(both[1], v) for v in ways), key=lambda v: len(list(below(v.code))))
        return Value(call("sum_of_rows", weight, tensor), tensor.dims[-1:])
    if (both := _of_matrices(node)) is not None:
        matrices, vector = value(both[0], node_axes(both[0])), value(both[1], node.axes)
        return _sum_of_rows(printer, vector, matrices, tuple(d for d in matrices.dims if d != node.axes[0]))
    if (both := _blocks(node)) is not None:
        axes, own = map(node_axes, both)
        return _blocks_code(printer, permute(value(both[0], axes), axes), permute(value(both[1], own), own))
    return None


def _both(node: Reduce) -> Both | None:
    """The one factor of a sum that has all its axes, and the product of the others, where these have the same ones."""
    factors, axes = product_factors(node.body), set(node_axes(node.body))
    whole = [f for f in factors if set(node_axes(f)) == axes]
    others = [f for f in factors if set(node_axes(f)) != axes]
    alike = len({frozenset(node_axes(f)) for f in others}) == 1
    return (whole[0], multiplied(others)) if node.kind == "sum" and len(whole) == 1 and alike else None


def _along_one(node: Reduce) -> Both | None:
    """A tensor that is summed over one axis, as it is read, and the vector over that axis."""
    if (both := _both(node)) is None or len(node.axes) != 1 or is_pack(node.axes[0]):
        return None
    tensor, vector = both
    return both if node_axes(vector) == node.axes and isinstance(tensor, Read) and by_axes_once(tensor) else None


def _matrix(node: Reduce) -> Both | None:
    """A matrix that is summed over its last axis, or over either of two, and the vector over that axis."""
    if (both := _along_one(node)) is None:
        return None
    axes = node_axes(both[0])
    flat = len(axes) == 2 and not is_pack(axes[0]) and not is_pack(axes[1])
    return both if axes[-1] == node.axes[0] or flat else None


def _rows(node: Reduce) -> Both | None:
    """A tensor and what weighs its rows, that is all places of its last axis, by one number each."""
    if (both := _both(node)) is None or (len(node.axes) == 1 and not is_pack(node.axes[0])):
        return None
    tensor, weight = both
    axes = node_axes(tensor)
    if not isinstance(tensor, Read) or not by_axes_once(tensor) or len(axes) != len(node.axes) + 1:
        return None
    rows = reads(weight) and node_axes(weight) == axes[:-1] and set(node.axes) == set(axes[:-1])
    return both if rows and not is_pack(axes[-1]) else None


def _of_matrices(node: Reduce) -> Both | None:
    """Matrices whose rows are weighed alike in each of them, and summed: the axis before the last."""
    if (both := _along_one(node)) is None:
        return None
    axes = node_axes(both[0])
    within = len(axes) > 2 and axes[-2] == node.axes[0] and not any(map(is_pack, axes[1:]))
    return both if within else None


def _blocks(node: Reduce) -> Both | None:
    """A tensor of three dimensions or more, and what its last ones, or its first, are weighed with and summed."""
    if (both := _both(node)) is None or any(map(is_pack, node_axes(node.body))):
        return None
    if not all(isinstance(n, Read) and by_axes_once(n) for n in (both[0], *product_factors(both[1]))):
        return None
    axes, own = map(node_axes, both)
    first, last = (own == axes[:1]), (len(own) > 1 and own == axes[-len(own) :])
    return both if len(axes) > 2 and set(own) == set(node.axes) and (first or last) else None


def _sum_of_rows(printer: Printer, vector: Value, matrix: Value, rest: Dims) -> Value:
    """A vector times a matrix; what adds a few rows, as many as is known, is a product as it is."""
    axis = vector.dims[0]
    assert axis is not None
    if (printer.known(axis) or FEW_ROWS + 1) <= FEW_ROWS:
        return product(vector, matrix, rest)
    return Value(call("sum_of_rows", vector, matrix), rest)


def _blocks_code(printer: Printer, tensor: Value, vector: Value) -> Value:
    """Each place of a tensor's other axes summed, as a matrix times a vector or the other way round."""
    axes = [d for d in tensor.dims if d is not None]
    if vector.dims == tensor.dims[:1]:
        flat = _sum_of_rows(printer, vector, tensor.method("flatten", 1), tuple(axes[1:]))
        return flat.method("unflatten", 0, together(map(printer.size, axes[1:])))
    count = len(axes) - len(vector.dims)
    return product(tensor.method("flatten", count), vector.method("flatten"), tuple(axes[:count]))
