"""Several operations of a program that torch has as one call."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from derive.backends.code import Code, as_code, call, infix, method
from derive.backends.torch.between import between
from derive.backends.torch.layout import is_matmul
from derive.backends.torch.multiples import factor_code, split
from derive.backends.torch.pointwise import cast, device_of, dtype_of, is_slow_at_once
from derive.backends.torch.products_added import added_up, affine, bias_first
from derive.backends.torch.quotients_added import quotient_added
from derive.backends.values import Dims, Value, align, is_pack, position
from derive.ir.lowering.raising import is_finite_number
from derive.ir.nodes.arithmetic import ONE, ZERO, multiplied
from derive.ir.nodes.other_axes import plain, with_axes
from derive.ir.nodes.products import is_tensor
from derive.ir.nodes.walking import index_axes, node_axes, reads, walk
from derive.ir.program import AxisValue, Call, Node, Num, Read

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_TRIANGLES: dict[str, tuple[tuple[object, ...], tuple[object, ...]]] = {
    "le": (("tril",), ("triu",)),
    "lt": (("tril", -1), ("triu", 1)),
    "ge": (("triu",), ("tril",)),
    "gt": (("triu", 1), ("tril", -1)),
}
"""The part of a matrix where its column stands in a relation to its row, and where its row does to its column."""

_TWO = Num(Fraction(2))


def fused(printer: Printer, node: Call, order: Dims) -> Value | None:
    """Two operations that torch does in one: a matrix product plus a vector, a product added or subtracted."""
    first = bias_first(printer, node, order)
    if first != node:
        return printer.value(first, order)
    ways = (between, affine, added_up, quotient_added, _multiplied_in)
    return next((value for way in ways if (value := way(printer, node, order)) is not None), None)


def _multiplied_in(printer: Printer, node: Call, order: Dims) -> Value | None:
    """`a + k*b*c`, `a - k*b*c` and `a - k*b` with a number `k`, in one pass over memory.

    `torch.add(a, b, alpha=k)` is left alone: where `b` is a matrix product, torch 2.13 compiles it without its `k`. A
    matrix product may be what two factors are added to, none of them.
    """
    if node.fn not in ("add", "sub") or not all(is_tensor(a) for a in node.args) or node in printer.told_by_sign:
        return None
    start, product = node.args
    if node.fn == "add" and len(_as_two(printer, split(product)[1])) != 2:
        start, product = product, start
    numbers, tensors = split(product)
    tensors = _as_two(printer, _in_two(printer, tensors, order))
    beside = tensors if len(tensors) == 2 else (start, *tensors)
    if any(is_matmul(n) for n in beside) or len(tensors) > 2 or not all(_is_plus(n) for n in tensors):
        return None
    if len(tensors) == 1 and (node.fn == "add" or not numbers):
        return None
    factor = factor_code(printer, numbers, negative=node.fn == "sub" and len(tensors) == 2)
    if len(tensors) == 1:
        return printer.issued(node, "sub", (start, *tensors), order, alpha=factor)
    return printer.issued(node, "addcmul", (start, *tensors), order, value=factor)


def added_to(printer: Printer, to: Code, node: Node, order: Dims) -> Code | None:
    """The call that adds a product to memory in one pass: `addcmul_`, or `add_` of a multiple; else nothing."""
    minus = isinstance(node, Call) and node.fn == "neg"
    numbers, tensors = split(node.args[0] if isinstance(node, Call) and minus else node)
    tensors = _as_two(printer, _in_two(printer, tensors, order))
    if not printer.fuse or any(is_matmul(n) for n in tensors) or not all(_is_plus(n) for n in tensors):
        return None
    if len(tensors) != 2 and (len(tensors) != 1 or not numbers):
        return None
    values = [cast(printer.value(n, order), printer.like) for n in tensors]
    if is_slow_at_once(values, order):
        return None
    factor = factor_code(printer, numbers, negative=minus)
    if len(tensors) == 1:
        return method(to, "add_", *values, alpha=factor)
    return method(to, "addcmul_", *values, value=factor)


def _in_two(printer: Printer, tensors: list[Node], order: Dims) -> list[Node]:
    """Three factors or more, as one that is large and the product of the others, which is small.

    Of two others of which one has the last dimension, `g[d] * r[n] * x[n, d]`, the product would be large: the other is
    multiplied with what is.
    """
    small = [n for n in tensors if not printer.memory.is_large(n)]
    product = multiplied(small) if len(small) > 1 else None
    if len(tensors) != len(small) + 1 or product is None:
        return tensors
    large = [n for n in tensors if n not in small]
    if not printer.memory.is_large(product):
        return [product, *large]
    along = [n for n in small if order and order[-1] in node_axes(n)]
    if len(small) > 2 or len(along) != 1:
        return tensors
    return [*along, multiplied([*large, *(n for n in small if n not in along)])]


def _as_two(printer: Printer, tensors: list[Node]) -> list[Node]:
    """The square of a tensor as a product of two factors; a cube's square would be a tensor more."""
    power = tensors[0] if len(tensors) == 1 else None
    if not isinstance(power, Call) or power.fn != "pow" or power.args[1] != _TWO:
        return tensors
    base = power.args[0]
    return [base, base] if isinstance(base, Read) and printer.dtypes.is_real(base) else tensors


def triangle(printer: Printer, node: Call, order: Dims) -> Value | None:
    """A choice between a matrix and 0 by its rows and columns: `tril` or `triu`, in place where the matrix is ours."""
    if node.fn != "where" or node.args[2] != ZERO or not isinstance(node.args[0], Call):
        return None
    condition = node.args[0]
    ends = [a.axis for a in condition.args if isinstance(a, AxisValue)]
    if condition.fn not in _TRIANGLES or len(ends) != 2 or not set(ends) <= set(node_axes(node.args[1])):
        return None
    value = printer.value(node.args[1], order)
    if set(value.dims[-2:]) != set(ends) or value.boolean:
        return None
    below, above = _TRIANGLES[condition.fn]
    name, *by = above if value.dims[-2] == ends[0] else below
    in_place = "_" if value.owned and printer.fuse else ""
    return printer.owned(node, value.method(f"{name}{in_place}", *by))


def off_diagonal(printer: Printer, node: Call, order: Dims) -> Value | None:
    """A choice between a matrix and something else by whether row and column are the same: the diagonal is filled.

    So is, with a number, that of each matrix in a tensor of more dimensions.
    """
    condition = node.args[0] if node.fn == "where" and printer.fuse else None
    if not isinstance(condition, Call) or condition.fn not in ("ne", "eq"):
        return None
    matrix, there = node.args[1:] if condition.fn == "ne" else node.args[:0:-1]
    ends = [a.axis for a in condition.args if isinstance(a, AxisValue)]
    if len(ends) != 2 or not set(ends) <= set(order) or set(node_axes(matrix)) != set(order):
        return None
    if len(order) != len(set(order)) or (len(order) > len(ends) and is_tensor(there)):
        return None
    number = None if is_tensor(there) else as_code(printer.number(there))
    put = number or _on_diagonal(printer, there, str(order[0]), str(order[1]))
    before = printer.spent
    printer.spent = before - reads(there)  # what is read on the diagonal is not written over before
    value = printer.value(matrix, order)
    printer.spent = before
    if put is None or value.dims != order or value.boolean or value.weak or not printer.dtypes.is_real(matrix):
        return None
    if is_tensor(there):
        return printer.owned(node, value.method("diagonal_scatter", put))
    mine = value if value.owned or is_matmul(matrix) else value.method("clone")
    # Not the method of that name, which is compiled anew for every length: PyTorch reads these there as plain numbers.
    at = [position(order, k) for k, d in enumerate(order) if d in ends] if len(order) > len(ends) else []
    return printer.owned(node, Value(call("fill_diagonal_", mine, put, *at), mine.dims))


def identity(printer: Printer, node: Call, order: Dims) -> Value | None:
    """A finite number where row and column are the same, and 0 elsewhere: `eye`, or a multiple of it."""
    condition = node.args[0] if node.fn == "where" and not printer.counts else None
    if not isinstance(condition, Call) or condition.fn != "eq" or node.args[2] != ZERO:
        return None
    if not is_finite_number(node.args[1]):  # 0 times an infinite one would be no number
        return None
    ends = [a.axis for a in condition.args if isinstance(a, AxisValue) and not is_pack(a.axis)]
    if len(ends) != 2 or not set(ends) <= set(order):
        return None
    dims = tuple(d for d in order if d in ends)
    lengths = dict.fromkeys(printer.size(str(d)) for d in dims)
    like = {"dtype": dtype_of(printer.like), "device": device_of(printer.like)}
    matrix = Value(call("torch.eye", *lengths, **like), dims)
    if node.args[1] != ONE:
        matrix = Value(infix("*", printer.value(node.args[1], ()), matrix), dims)
    return align(matrix, order)


def _on_diagonal(printer: Printer, there: Node, row: str, column: str) -> Code | None:
    """What stands on the diagonal, computed there alone; None where that asks for places, or reads no matrices by both.

    The diagonal is as long as the shorter side.
    """
    both = {row, column}
    read = [n for n in walk(there) if isinstance(n, Read)]
    whole = all(both <= set(n.index) for n in read)
    others = {a for n in read for i in n.index if i not in both for a in index_axes(i)}  # of sides of other lengths
    if not plain(there) or not whole or both & others:
        return None
    value = printer.value(with_axes(there, {column: row}), (row,))
    return value.code if value.dims == (row,) and not value.boolean and not value.weak else None


def _is_plus(node: Node) -> bool:
    """Whether a factor is itself no sign change, which would hide in the call."""
    return not (isinstance(node, Call) and node.fn in ("neg", "where"))
