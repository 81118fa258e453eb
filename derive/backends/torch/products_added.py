"""A matrix product and what is added to it, in one call: a vector over its columns, another product, a matrix.

Columns may be several axes of the weights, as the gates of a cell are: they are one until the last product is added,
`torch.addmm(o.flatten(), s, r.flatten(1)).addmm_(x, w.flatten(1)).unflatten(-1, (u, k))`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from derive.backends.code import Code, Field, Infix, Method, call, has_product, method
from derive.backends.convolution_roles import is_convolution
from derive.backends.torch.layout import is_matmul
from derive.backends.torch.multiples import factor_code, split
from derive.backends.torch.products.convolutions import convolved
from derive.backends.torch.products.flattened import columns_apart
from derive.backends.torch.reductions.reduction import reduction
from derive.backends.values import Dims, Value, align, is_pack
from derive.ir.nodes.arithmetic import signed_terms, summed
from derive.ir.nodes.products import is_matrix_product, product_factors
from derive.ir.nodes.walking import node_axes
from derive.ir.program import Call, Read, Reduce

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


Factors = tuple[Code, Code]


def bias_first(printer: Printer, node: Call, order: Dims) -> Call:
    """`x @ w + h @ u + b` as `x @ w + b + h @ u`: with the first product the vector takes no pass of its own."""
    terms = signed_terms(node)
    added = [t for t, minus in terms if not minus]
    products = (t for t in added if isinstance(t, Reduce) and is_matmul(t))
    product = next((t for t in products if is_matrix_product(t)), None)
    ends = [order[-k:] for k in range(1, len(order)) if k == 1 or (product and _is_by_matrix(product, order, k))]
    vectors = (t for t in added if isinstance(t, Read) and t.index in ends)
    vector = next((t for t in vectors if printer.dtypes.is_real(t)), None)
    if product is None or vector is None or len(terms) < 3:
        return node
    rest = [(t, minus) for t, minus in terms if t is not product and t is not vector]
    first = summed([(product, False), (vector, False), *rest])
    assert isinstance(first, Call)
    return first


def affine(printer: Printer, node: Call, order: Dims) -> Value | None:
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
    code, apart = columns_apart(product.code)
    factors, columns = _factors(code), _columns(apart)
    if factors is None or len(order) < 2:
        return None
    left, right = factors
    if product.dims != order or bias.dims != product.dims[-columns:]:
        return None
    many = len(order) > 1 + columns
    if many and not _is_by_matrix(node.args[0], order, columns):
        return None
    added = bias.method("flatten") if apart else bias
    if many or is_pack(product.dims[0]):
        made: Code = call("functional.linear", left, transposed(right), added)
    else:
        made = call("torch.addmm", added, left, right)
    return printer.owned(node, Value(replace(apart, on=made) if apart else made, product.dims))


def transposed(matrix: Code) -> Code:
    return matrix.on if isinstance(matrix, Field) and matrix.name == "T" else Field(matrix, "T")


def added_up(printer: Printer, node: Call, order: Dims) -> Value | None:
    """A matrix product, or a multiple of it, added to a matrix of ours as it is computed: `h.addmm_(x, w, alpha=k)`.

    A pass over memory less, or two; so for what is subtracted, and for one product each of a batch. Rows of several
    axes are those of a matrix, which looks at the same memory.
    """
    if node.fn not in ("add", "sub") or len(order) < 2 or any(d is None or is_pack(d) for d in order):
        return None
    either = (node.args, node.args[::-1]) if node.fn == "add" else (node.args,)
    for start, addend in sorted(either, key=lambda pair: not split(pair[1])[0]):  # a multiple as it is added
        numbers, tensors = split(addend)
        product = tensors[0] if len(tensors) == 1 else None
        if not isinstance(product, Reduce) or not is_matmul(product) or not is_matrix_product(product):
            continue
        value, added = printer.value(start, order), printer.value(product, order)
        code, apart = columns_apart(added.code)
        factors = _factors(code)
        if factors is None or not value.owned or not value.dims == added.dims == order:
            continue
        factor = factor_code(printer, numbers, negative=node.fn == "sub")
        made = _with_product(printer, value, product, factors, apart, factor)
        if made is not None:
            return made
    return None


def _with_product(
    printer: Printer, value: Value, product: Reduce, factors: Factors, apart: Method | None, alpha: Code | None
) -> Value | None:
    """What is ours with a product added to its matrix, or each of a batch to its own; None where it has no matrix."""
    order = value.dims
    if len(order) == 1 + _columns(apart):
        return _addmm_apart(value, factors, alpha, apart) if apart else _addmm(printer, value, factors, alpha)
    if apart:
        return None
    if len(order) == 3 and all(order[0] in node_axes(f) for f in product_factors(product.body)):
        return replace(value.method("baddbmm_", *factors, alpha=alpha), owned=True)
    return _addmm(printer, value, factors, alpha) if _is_by_matrix(product, order) else None


def _addmm(printer: Printer, value: Value, factors: Factors, alpha: Code | None) -> Value:
    """What is ours with a product added; of more dimensions than a matrix has, the leading ones as one."""
    if len(value.dims) == 2:
        return replace(value.method("addmm_", *factors, alpha=alpha), owned=True)
    *leading, _ = value.dims
    rows = ("flatten", 0, len(leading) - 1)
    left, right = factors
    back = method(value.code, "unflatten", 0, printer.shape(tuple(leading)))
    added = method(_before(value.code, back, rows), "addmm_", method(left, *rows), right, alpha=alpha)
    return replace(value, code=replace(back, on=added), owned=True)


def _addmm_apart(value: Value, factors: Factors, alpha: Code | None, apart: Method) -> Value:
    """What is ours with a product added whose columns are several axes; of several products, they are apart once."""
    added = method(_before(value.code, apart, ("flatten", 1)), "addmm_", *factors, alpha=alpha)
    return replace(value, code=replace(apart, on=added), owned=True)


def _before(code: Code, back: Method, flat: tuple[str, *tuple[int, ...]]) -> Code:
    """The matrix that a tensor was taken apart of as `back` does it; else the tensor as one."""
    is_apart = isinstance(code, Method) and replace(back, on=code.on) == code
    return code.on if isinstance(code, Method) and is_apart else method(code, *flat)


def _columns(apart: Method | None) -> int:
    """How many axes the columns of a product are: 2 of `.unflatten(-1, (u, k))`."""
    return 1 if apart is None else sum(1 for _ in apart.args[1].parts)


def _is_by_matrix(product: Reduce, order: Dims, columns: int = 1) -> bool:
    """Whether rows of several axes meet one matrix: `sum(x[n, t, d] * w[d, e], over=d)`; its columns may be several."""
    factors = [set(node_axes(f)) for f in product_factors(product.body)]
    return {*product.axes, *order[-columns:]} in factors and len(factors) == 2


def _factors(code: Code) -> Factors | None:
    """The two factors of a product of matrices; None for `(a @ b).sum(0)`, `a @ b * c` and `a @ b @ c`."""
    if not isinstance(code, Infix) or code.sign != "@" or has_product(code.left) or has_product(code.right):
        return None
    return code.left, code.right
