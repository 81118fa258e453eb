"""Several operations of a program that torch has as one call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

from derive.backends.convolution_roles import is_convolution
from derive.backends.torch.between import between
from derive.backends.torch.layout import is_product
from derive.backends.torch.pointwise import broadcast, cast
from derive.backends.torch.products.convolutions import convolved
from derive.backends.torch.quotients_added import quotient_added
from derive.backends.torch.reductions.reduction import reduction
from derive.backends.values import LONGEST_ARGUMENT, PRODUCT, Dims, Value, align, is_pack
from derive.lowering.raising import is_finite_number
from derive.nodes.arithmetic import ONE, ZERO, multiplied
from derive.nodes.other_axes import plain, with_axes
from derive.nodes.products import is_matrix_product, is_tensor, product_factors
from derive.nodes.walking import node_axes, reads, walk
from derive.passes.signs import plain as with_one_sign
from derive.program import AxisValue, Call, Node, Num, Read, Reduce

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_TRIANGLES = {
    "le": (".tril()", ".triu()"),
    "lt": (".tril(-1)", ".triu(1)"),
    "ge": (".triu()", ".tril()"),
    "gt": (".triu(1)", ".tril(-1)"),
}
"""The part of a matrix where its column stands in a relation to its row, and where its row does to its column."""

_TWO = Num(Fraction(2))


def fused(printer: Printer, node: Call, order: Dims) -> Value | None:
    """Two operations that torch does in one: a matrix product plus a vector, a product added or subtracted."""
    first = _bias_first(printer, node, order)
    if first != node:
        return printer.value(first, order)
    ways = (between, _affine, _added_up, quotient_added, _multiplied_in)
    return next((value for way in ways if (value := way(printer, node, order)) is not None), None)


def _added_up(printer: Printer, node: Call, order: Dims) -> Value | None:
    """A matrix product, or a multiple of it, added to a matrix of ours as it is computed: `h.addmm_(x, w, alpha=k)`.

    A pass over memory less, or two. Rows of several axes are those of a matrix, which looks at the same memory.
    """
    if node.fn != "add" or len(order) < 2 or any(d is None or is_pack(d) for d in order):
        return None
    for start, addend in (node.args, node.args[::-1]):
        numbers, tensors = _split(addend)
        product = tensors[0] if len(tensors) == 1 else None
        if not isinstance(product, Reduce) or not is_product(product) or not is_matrix_product(product):
            continue
        value, added = printer.value(start, order), printer.value(product, order)
        factors = added.code.split(" @ ")
        whole = value.owned and value.dims == added.dims == order and len(factors) == 2
        if whole and all(map(_is_argument, factors)) and (len(order) == 2 or _is_by_matrix(product, order)):
            factor = _factor(printer, numbers, negative=False)
            return _addmm(printer, value, factors, [f"alpha={factor}"] if factor != "1" else [])
    return None


def _addmm(printer: Printer, value: Value, factors: list[str], alpha: list[str]) -> Value:
    """What is ours with a product added; of more dimensions than a matrix has, the leading ones as one."""
    if len(value.dims) == 2:
        return replace(value.method(f".addmm_({', '.join([*factors, *alpha])})"), owned=True)
    *leading, _ = value.dims
    rows = f".flatten(0, {len(leading) - 1})"
    arguments = ", ".join([f"{factors[0]}{rows}", factors[1], *alpha])
    back = f".unflatten(0, ({', '.join(printer.size(str(d)) for d in leading)}))"
    start = replace(value, code=value.code.removesuffix(back))  # of several products, each is added to the same rows
    start = start.method(rows) if start == value else start
    return replace(start.method(f".addmm_({arguments}){back}"), owned=True)


def _is_by_matrix(product: Reduce, order: Dims) -> bool:
    """Whether rows of several axes meet one matrix: `sum(x[n, t, d] * w[d, e], over=d)`."""
    factors = [set(node_axes(f)) for f in product_factors(product.body)]
    return len(product.axes) == 1 and {*product.axes, order[-1]} in factors and len(factors) == 2


def _bias_first(printer: Printer, node: Call, order: Dims) -> Call:
    """`x @ w + h @ u + b` as `x @ w + b + h @ u`: with the first product the vector takes no pass of its own."""
    terms = list(_terms(node))
    product = next((t for t in terms if _is_matmul(t) and is_matrix_product(t)), None)  # type: ignore[arg-type]
    vectors = (t for t in terms if isinstance(t, Read) and t.index == order[-1:])
    vector = next((t for t in vectors if printer.dtypes.is_real(t)), None)
    if product is None or vector is None or len(terms) < 3:
        return node
    rest = [t for t in terms if t is not product and t is not vector]
    return reduce(lambda a, b: Call("add", (a, b)), rest, Call("add", (product, vector)))


def _terms(node: Node) -> Iterator[Node]:
    if isinstance(node, Call) and node.fn == "add":
        yield from (t for a in node.args for t in _terms(a))
    else:
        yield node


def _is_argument(code: str) -> bool:
    """Whether a factor of a printed product is whole, and reads well as an argument."""
    return len(code) <= LONGEST_ARGUMENT and code.count("(") == code.count(")")


def _multiplied_in(printer: Printer, node: Call, order: Dims) -> Value | None:
    """`a + k*b*c`, `a - k*b*c` and `a - k*b` with a number `k`, in one pass over memory.

    `torch.add(a, b, alpha=k)` is left alone: where `b` is a matrix product, torch 2.13 compiles it without its `k`. A
    matrix product may be what two factors are added to, none of them.
    """
    if node.fn not in ("add", "sub") or not all(is_tensor(a) for a in node.args) or node in printer.told_by_sign:
        return None
    start, product = node.args
    if node.fn == "add" and len(_as_two(printer, _split(product)[1])) != 2:
        start, product = product, start
    numbers, tensors = _split(product)
    tensors = _as_two(printer, _small_as_one(printer, tensors))
    beside = tensors if len(tensors) == 2 else (start, *tensors)
    if any(_is_matmul(n) for n in beside) or len(tensors) > 2 or not all(_is_plus(n) for n in tensors):
        return None
    if len(tensors) == 1 and (node.fn == "add" or not numbers):
        return None
    factor = _factor(printer, numbers, negative=node.fn == "sub" and len(tensors) == 2)
    values = [cast(printer.value(n, order), printer.like) for n in (start, *tensors)]
    if node == printer.top and not any(n == start for n in tensors):
        values[0] = printer.own(start, values[0], order)
    function = "sub" if len(tensors) == 1 else "addcmul"
    number = f", alpha={factor}" if len(tensors) == 1 else f", value={factor}" if factor != "1" else ""
    dims = broadcast(values)
    if values[0].owned and values[0].dims == dims:
        others = ", ".join(v.code for v in values[1:])
        return replace(values[0].method(f".{function}_({others}{number})"), owned=True)
    if any(len(v.code) > LONGEST_ARGUMENT for v in values[1:]):
        return None
    code = ", ".join(v.code for v in values)
    return printer.owned(node, Value(f"torch.{function}({code}{number})", dims))


def added_to(printer: Printer, node: Node, order: Dims) -> str | None:
    """The method that adds a product to memory in one pass: `addcmul_`, or `add_` of a multiple; else nothing."""
    numbers, tensors = _split(node)
    tensors = _as_two(printer, _small_as_one(printer, tensors))
    if not printer.fuse or any(_is_matmul(n) for n in tensors) or not all(_is_plus(n) for n in tensors):
        return None
    if len(tensors) != 2 and (len(tensors) != 1 or not numbers):
        return None
    values = [cast(printer.value(n, order), printer.like) for n in tensors]
    if any(len(v.code) > LONGEST_ARGUMENT for v in values):
        return None
    factor = _factor(printer, numbers, negative=False)
    number = f", {'alpha' if len(tensors) == 1 else 'value'}={factor}" if factor != "1" else ""
    return f".{'add_' if len(tensors) == 1 else 'addcmul_'}({', '.join(v.code for v in values)}{number})"


def _small_as_one(printer: Printer, tensors: list[Node]) -> list[Node]:
    """Three factors or more, as one that is large and the product of the others, which is small."""
    small = [n for n in tensors if not printer.memory.is_large(n)]
    product = multiplied(small) if len(small) > 1 else None
    if len(tensors) != len(small) + 1 or product is None or printer.memory.is_large(product):
        return tensors
    return [product, *(n for n in tensors if n not in small)]


def _as_two(printer: Printer, tensors: list[Node]) -> list[Node]:
    """The square of a tensor as a product of two factors; a cube's square would be a tensor more."""
    power = tensors[0] if len(tensors) == 1 else None
    if not isinstance(power, Call) or power.fn != "pow" or power.args[1] != _TWO:
        return tensors
    base = power.args[0]
    return [base, base] if isinstance(base, Read) and printer.dtypes.is_real(base) else tensors


def _factor(printer: Printer, numbers: list[tuple[Node, bool]], negative: bool) -> str:
    """The product of Python numbers, each multiplied or divided by, as code."""
    out: Node = Num(Fraction(-1 if negative else 1))
    for n, divides in numbers:
        if isinstance(n, Num) and isinstance(out, Num):
            out = Num(out.value / n.value if divides else out.value * n.value)
        else:
            out = Call("div" if divides else "mul", (out, n))
    return printer.value(with_one_sign(out), ()).code


def _affine(printer: Printer, node: Call, order: Dims) -> Value | None:
    """A matrix product plus a vector over its columns, a convolution plus one over its channels."""
    if node.fn == "add" and is_convolution(node.args[0]):
        assert isinstance(node.args[0], Reduce)
        image = convolved(printer, node.args[0], node.args[1])
        return None if image is None else align(image, order)
    if node.fn != "add" or not isinstance(node.args[0], Reduce) or not is_matrix_product(node.args[0]):
        return None
    if not printer.dtypes.is_real(node.args[1]):  # torch adds no whole numbers there
        return None
    product = reduction(printer, node.args[0], order, keepdim=False)
    bias = printer.value(node.args[1], order)
    left, _, right = product.code.partition(" @ ")
    if not right or " @ " in right or bias.dims != product.dims[-1:] or len(order) < 2 or product.dims != order:
        return None
    many = len(order) > 2
    if many and not _is_by_matrix(node.args[0], order):
        return None
    if many or is_pack(product.dims[0]):
        transposed = right.removesuffix(".T") if right.endswith(".T") else f"{right}.T"
        return printer.owned(node, Value(f"functional.linear({left}, {transposed}, {bias.code})", product.dims))
    return printer.owned(node, Value(f"torch.addmm({bias.code}, {left}, {right})", product.dims))


def triangle(printer: Printer, node: Call, order: Dims) -> Value | None:
    """A choice between a matrix and 0 by its rows and columns: `tril` or `triu`."""
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
    return value.method(above if value.dims[-2] == ends[0] else below)


def off_diagonal(printer: Printer, node: Call, order: Dims) -> Value | None:
    """A choice between a matrix and something else by whether row and column are the same: the diagonal is filled."""
    condition = node.args[0] if node.fn == "where" and printer.fuse else None
    if not isinstance(condition, Call) or condition.fn not in ("ne", "eq"):
        return None
    matrix, there = node.args[1:] if condition.fn == "ne" else node.args[:0:-1]
    ends = [a.axis for a in condition.args if isinstance(a, AxisValue)]
    if len(ends) != 2 or set(order) != set(ends) or len(order) != 2 or set(node_axes(matrix)) != set(ends):
        return None
    put = _on_diagonal(printer, there, str(order[0]), str(order[1])) if is_tensor(there) else printer.number(there)
    before = printer.spent
    printer.spent = before - reads(there)  # what is read on the diagonal is not written over before
    value = printer.value(matrix, order)
    printer.spent = before
    if put is None or value.dims != order or value.boolean or value.weak or not printer.dtypes.is_real(matrix):
        return None
    if is_tensor(there):
        return printer.owned(node, value.method(f".diagonal_scatter({put})"))
    mine = value if value.owned or _is_matmul(matrix) else value.method(".clone()")
    # Not the method of that name, which is compiled anew for every length: PyTorch reads these there as plain numbers.
    return printer.owned(node, Value(f"fill_diagonal_({mine.code}, {put})", mine.dims))


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
    like = f"dtype={printer.like}.dtype, device={printer.like}.device"
    matrix = Value(f"torch.eye({', '.join(lengths)}, {like})", dims)
    if node.args[1] != ONE:
        matrix = Value(f"{printer.value(node.args[1], ()).inside(PRODUCT)} * {matrix.code}", dims, PRODUCT)
    return align(matrix, order)


def _on_diagonal(printer: Printer, there: Node, row: str, column: str) -> str | None:
    """What stands on the diagonal, computed there alone; None where that asks for places, or reads no matrices alone.

    The diagonal is as long as the shorter side.
    """
    whole = all({row, column} <= set(n.index) for n in walk(there) if isinstance(n, Read))
    if not plain(there) or not whole:
        return None
    value = printer.value(with_axes(there, {column: row}), (row,))
    return value.code if value.dims == (row,) and not value.boolean and not value.weak else None


def _split(node: Node) -> tuple[list[tuple[Node, bool]], list[Node]]:
    """The Python numbers (True: divided by) and the tensors of a chain of products and quotients."""
    if isinstance(node, Call) and node.fn == "mul":
        (n1, t1), (n2, t2) = _split(node.args[0]), _split(node.args[1])
        return n1 + n2, t1 + t2
    if isinstance(node, Call) and node.fn == "div" and not is_tensor(node.args[1]):
        n1, t1 = _split(node.args[0])
        return [*n1, (node.args[1], True)], t1
    if not is_tensor(node):
        return [(node, False)], []
    return [], [node]


def _is_plus(node: Node) -> bool:
    """Whether a factor is itself no sign change, which would hide in the call."""
    return not (isinstance(node, Call) and node.fn in ("neg", "where"))


def _is_matmul(node: Node) -> bool:
    return isinstance(node, Reduce) and is_product(node)
