"""Reductions: a product, a convolution or a pool where one is one call, else a method over dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.backends.torch.dtypes import is_read
from derive.backends.torch.layout import body_order, is_product, plain_dims
from derive.backends.torch.pointwise import cast
from derive.backends.torch.powers import polynomial
from derive.backends.torch.products.by_vectors import is_by_vector
from derive.backends.torch.products.chosen import chosen_product
from derive.backends.torch.products.contractions import contraction
from derive.backends.torch.products.convolutions import convolved
from derive.backends.torch.products.distances import distances
from derive.backends.torch.reads.gathers import gathered_column
from derive.backends.torch.reductions.bands import in_band
from derive.backends.torch.reductions.few_places import place_by_place, sum_of_few
from derive.backends.torch.reductions.pools import pooled
from derive.backends.values import Dims, Value, is_pack, permute, position, product, squeeze, swap, unsqueeze
from derive.ir.nodes.arithmetic import multiplied
from derive.ir.nodes.products import is_matrix_product, numbers_apart, product_factors
from derive.ir.nodes.walking import by_axes_once, children, index_axes, node_axes
from derive.ir.program import Call, Index, Node, Read, Reduce

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def reduction(printer: Printer, node: Reduce, order: Dims, keepdim: bool) -> Value:
    """A reduction, as one call of PyTorch that is all of it where there is one, else of its body."""
    if (scaled := _numbers_in_front(node)) is not None:
        return printer.value(scaled, order)
    made = convolved(printer, node) or pooled(printer, node) or distances(printer, node, order)
    made = made or chosen_product(printer, node) or (None if keepdim else polynomial(printer, node, order))
    if made is not None:
        return made
    if not keepdim and (near := in_band(printer, node, order)) is not None:
        return near
    if is_matrix_product(node) or is_by_vector(node):
        return contraction(printer, node, order)
    if not keepdim and (each := place_by_place(printer, node)) is not None:
        return printer.value(each, order)
    columns = () if keepdim else _as_columns(printer, node)
    inner = columns or body_order(node, printer.layouts)
    if (row := _row_by_matrix(printer, node)) is not None and (not keepdim or inner == row.dims):
        return _row_product(printer, row, node.axes[0], keepdim)
    body = _body(printer, node, inner)
    if any(is_pack(d) for d in body.dims if d in node.axes):
        return _over_pack(printer, node, body)
    if (few := sum_of_few(printer, node, body, keepdim)) is not None:
        return few
    return _over_dims(node, body, keepdim)


def _numbers_in_front(node: Reduce) -> Node | None:
    """A sum with its numbers in front, where what is left is a matrix product; else None."""
    numbers, tensors = numbers_apart(product_factors(node.body) if node.kind == "sum" else [])
    if not numbers or len(tensors) < 2:
        return None
    rest = Reduce("sum", node.axes, multiplied(tensors))
    return Call("mul", (multiplied(numbers), rest)) if is_product(rest) else None


def _body(printer: Printer, node: Reduce, inner: Dims) -> Value:
    """What is reduced, as real numbers with all axes that are: its own in the order of its largest operand."""
    lacking = [a for a in node.axes if a not in inner]
    inner = (*filter(is_pack, lacking), *inner, *(a for a in lacking if not is_pack(a)))
    body = printer.value(node.body, inner)
    if body.weak or (body.boolean and node.kind != "sum"):
        body = cast(body, printer.like)
    elif node.kind == "mean" and is_read(node.body):
        body = printer.as_real(node.body, body)
    dims = [d for d in inner if d in node_axes(node.body) or d in node.axes]
    if len(body.dims) < len(dims) or body.scalar or set(node.axes) - set(body.dims):
        body = printer.spread(body, tuple(dims))
    return body


def _as_columns(printer: Printer, node: Reduce) -> Dims:
    """How all that is read lies, where all of it is reduced and lies alike, with dimensions of one place: `[n, 1]`."""
    dims = {gathered_column(n) or printer.layouts[n.name] for n in _whole_reads(node.body)}
    only = dims.pop() if len(dims) == 1 else ()
    if any(map(is_pack, node.axes)):
        return ()
    return only if None in only and set(only) - {None} == set(node.axes) == set(node_axes(node.body)) else ()


def _whole_reads(node: Node | Index) -> Iterator[Read]:
    """What is read of tensors, without what says where."""
    if isinstance(node, Read):
        yield node
        return
    for child in children(node):
        yield from _whole_reads(child)


def _over_dims(node: Reduce, body: Value, keepdim: bool) -> Value:
    """The call by the positions of the dimensions; without them where all are reduced."""
    places = [i for i, d in enumerate(body.dims) if d in node.axes]
    where = [str(position(body.dims, i)) for i in places]
    text = where[0] if len(where) == 1 else f"({', '.join(where)})"
    if not keepdim and len(places) == sum(d is not None for d in body.dims):
        return body.method(node.kind, dims=())
    if keepdim:
        kept: Dims = tuple(None if d in node.axes else d for d in body.dims)
        return body.method(node.kind, text, keepdim=True, dims=kept)
    return body.method(node.kind, text, dims=tuple(d for d in body.dims if d not in node.axes))


@dataclass(frozen=True)
class _Row:
    """A vector and the matrix that it is multiplied with at each place of other axes, and how the matrix lies."""

    vector: Node
    matrix: Read
    dims: Dims


def _row_by_matrix(printer: Printer, node: Reduce) -> _Row | None:
    """What a sum multiplies, where that is one vector and one matrix at each place of other axes, else None."""
    factors = product_factors(node.body) if node.kind == "sum" and len(node.axes) == 1 else []
    axes = set(node_axes(node.body))
    matrix = next((f for f in factors if isinstance(f, Read) and _is_matrix(f) and set(node_axes(f)) == axes), None)
    rest = [f for f in factors if f is not matrix]
    if matrix is None or not rest:
        return None
    dims = plain_dims(printer.layouts, matrix) if by_axes_once(matrix) else node_axes(matrix)
    vector = multiplied(rest)
    if dims is None or None in dims or len(dims) < 3 or node.axes[0] not in dims[-2:] or any(map(is_pack, dims[-2:])):
        return None
    return _Row(vector, matrix, dims) if set(node_axes(vector)) == {*dims[:-2], *node.axes} else None


def _is_matrix(node: Read) -> bool:
    """Whether a tensor is read at each place once, or row by row at the places of an index: `w[pick[n], d, o]`."""
    own = [a for i in node.index for a in index_axes(i)]
    return all(isinstance(i, str | Read) for i in node.index) and len(set(own)) == len(own)


def _row_product(printer: Printer, found: _Row, summed: str, keepdim: bool) -> Value:
    """A row times a matrix, whichever axis is summed: a matrix times a column is five times slower on a CPU."""
    dims = found.dims
    batch, free = dims[:-2], next(d for d in dims[-2:] if d != summed)
    right = printer.as_real(found.matrix, printer.value(found.matrix, dims))
    row = printer.as_real(found.vector, squeeze(printer.value(found.vector, (*batch, summed))))
    row = permute(row, (*batch, summed))
    is_column = row.full is not None and row.full.dims == (*batch, summed, None)
    row = swap(row.full) if is_column and row.full else unsqueeze(row, (*batch, None, summed))
    if dims[-1] == summed:
        right = right.field("mT")
    made = product(row, right, (*batch, None, free))
    if not keepdim:
        return squeeze(made)
    return made if dims[-1] == free else made.field("mT", (*batch, free, None))


def _over_pack(printer: Printer, node: Reduce, body: Value) -> Value:
    """`...` is any number of axes: flatten what is summed into one dimension in front."""
    rest = tuple(d for d in body.dims if d not in node.axes)
    if not rest:
        return body.method(node.kind, dims=())
    front = permute(body, (*(d for d in body.dims if d in node.axes), *rest))
    lengths = [printer.size(d) for d in rest if d is not None]
    if node.kind == "sum":
        return front.method("sum_to_size", *lengths, dims=rest)
    return front.method("reshape", -1, *lengths).method(node.kind, 0, dims=rest)
