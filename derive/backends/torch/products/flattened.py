"""Products of tensors of more dimensions than a matrix has, as products of matrices over views of them.

`sum(w[h, g] * s[b, h, i, j], over=h)` is `w.T @ s.flatten(2, 3)` for every `b`, where nothing moves in memory; `einsum`
would bring `h` to the end. `sum(x[n, t, i] * y[n, t, j], over=(n, t))` is a product of two tall matrices.
"""

from __future__ import annotations

from collections.abc import Callable

from derive.backends.code import Code, Infix, Method, as_code, call, together
from derive.backends.values import Dims, Value, is_pack, permute, position, product
from derive.ir.nodes.walking import axes_along
from derive.ir.program import Merged, Node, Read

Size = Callable[[str], str]

def lying(node: Node, value: Callable[[Node, Dims], Value]) -> Value | None:
    """A tensor that is read in whole, its dimensions in the order of its memory, merged ones apart."""
    if not isinstance(node, Read) or not all(isinstance(i, str | Merged) for i in node.index):
        return None
    axes = axes_along(node.index)
    whole = value(node, axes) if len(set(axes)) == len(axes) else None
    return whole if whole is not None and whole.dims == axes and not whole.boolean else None


def flattened(a: Value, b: Value, summed: tuple[str, ...], order: Dims, size: Size) -> Value | None:
    """The product of two tensors as they lie in memory, in this order; None where that is no product of matrices."""
    shared = {d for d in a.dims if d in b.dims}
    if shared != set(summed):
        return None
    if order[:1] and order[0] in b.dims:
        a, b = b, a
    if len(summed) == 1:
        made = from_the_left(a, b, summed[0], order, size) or from_the_left(b, a, summed[0], order, size)
    else:
        made = _summed(a, b, summed)
    return made or _as_matrices(a, b, summed, order, size)


def from_the_left(matrix: Value, tensor: Value, summed: str, order: Dims, size: Size) -> Value | None:
    """`matrix @ tensor` where what is summed stands in the tensor before other axes, which stay where they are."""
    at = tensor.dims.index(summed)
    before, after = tensor.dims[:at], tensor.dims[at + 1 :]
    own = [d for d in matrix.dims if d != summed]
    if len(own) != 1 or not after or len(tensor.dims) < 3 or any(map(is_pack, (*matrix.dims, *after))):
        return None
    dims = (*before, own[0], *after)
    if tuple(d for d in order if d is not None) != dims:
        return None
    last = (-len(after), -1) if any(map(is_pack, before)) else (at + 1,)
    flat = tensor if len(after) == 1 else tensor.method("flatten", *last)
    made = product(permute(matrix, (own[0], summed)), flat, dims)
    return made if len(after) == 1 else _apart(made, -1, after, size, dims)


def _summed(a: Value, b: Value, summed: tuple[str, ...]) -> Value | None:
    """Two tensors with one axis of their own each, whose other axes are summed and stand in the same order.

    Where axes that are summed stand on both sides, a product of matrices for each place of the first is added up:
    nothing moves in memory, and float32 keeps more digits than along one axis that is as long as all of them.
    """
    places = [[k for k, d in enumerate(v.dims) if d not in summed] for v in (a, b)]
    if [len(p) for p in places] != [1, 1] or places[0] != places[1]:
        return None
    ((at,), _), rank = places, len(a.dims)
    packs = [k for k, d in enumerate(a.dims) if is_pack(d)]
    if packs and (packs != [0] or at in (0, rank - 1)):
        return None
    rest = tuple(d for d in a.dims if d in summed)
    if rest != tuple(d for d in b.dims if d in summed) or len(rest) != len(summed):
        return None
    dims = (a.dims[at], b.dims[at])
    if at == rank - 1:
        left, right = (v.method("flatten", 0, rank - 2) for v in (a, b))
        return product(left.field("T"), right, dims)
    if at == 0:
        left, right = (v.method("flatten", 1) for v in (a, b))
        return product(left, right.field("T"), dims)
    last = (position(a.dims, at + 1), *([-1] if packs else []))
    first, second = (v if at == rank - 2 else v.method("flatten", *last) for v in (a, b))
    return Value(call("sum_of_products", first, second), dims)


def _as_matrices(a: Value, b: Value, summed: tuple[str, ...], order: Dims, size: Size) -> Value | None:
    """Tensors that have what is summed at one of their ends, in one order: every block of axes is one of a matrix.

    `sum(x[b, t, h, e] * w[h, e, d], over=(h, e))` is `x.flatten(2) @ w.flatten(0, 1)`.
    """
    rows, columns = (tuple(d for d in v.dims if d not in summed) for v in (a, b))
    within = tuple(d for d in a.dims if d in summed)
    blocks = (a.dims in (rows + within, within + rows), b.dims in (columns + within, within + columns))
    if not all(blocks) or not rows or not columns or any(map(is_pack, (*a.dims, *b.dims))):
        return None
    if tuple(d for d in order if d is not None) != rows + columns or len(a.dims) == len(b.dims) == 2:
        return None
    summed_last = a.dims == rows + within
    if summed_last and len(columns) == len(within) == 1:
        return None  # rows of any number of axes meet a matrix as they are
    if not summed_last and len(rows) > 1 < len(columns):
        return None  # both would be taken apart
    left = _matrix(a, () if summed_last else within, within if summed_last else rows)
    right = _matrix(b, *((within, columns) if b.dims == within + columns else (columns, within)))
    left = left if summed_last else left.field("T")
    right = right if b.dims == within + columns else right.field("T")
    made = product(left, right, rows + columns)
    if not summed_last and len(rows) > 1:
        made = _apart(made, 0, rows, size, made.dims)
    return _apart(made, -1, columns, size, made.dims) if len(columns) > 1 else made


def _matrix(tensor: Value, first: Dims, last: Dims) -> Value:
    """The tensor with its first axes as one, and its last."""
    if len(last) > 1:
        tensor = tensor.method("flatten", len(tensor.dims) - len(last), dims=tensor.dims[: 1 - len(last)])
    if len(first) < 2:
        return tensor
    return tensor.method("flatten", 0, len(first) - 1, dims=tensor.dims[len(first) - 1 :])


def columns_apart(code: Code) -> tuple[Code, Method | None]:
    """A product, and what takes its columns apart: `h @ w` and `(h @ w).unflatten(-1, (u, k))`, or nothing."""
    apart = isinstance(code, Method) and code.name == "unflatten" and code.args[0] == as_code(-1)
    whole = isinstance(code, Method) and apart and isinstance(code.on, Infix) and code.on.sign == "@"
    return (code.on, code) if isinstance(code, Method) and whole else (code, None)


def _apart(value: Value, at: int, axes: Dims, size: Size, dims: Dims) -> Value:
    return value.method("unflatten", at, together(size(d) for d in axes if d is not None), dims=dims)
