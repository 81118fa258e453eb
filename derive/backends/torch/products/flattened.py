"""Products of tensors of more dimensions than a matrix has, as products of matrices over views of them.

`sum(w[h, g] * s[b, h, i, j], over=h)` is `w.T @ s.flatten(2, 3)` for every `b`, where nothing moves in memory; `einsum`
would bring `h` to the end. `sum(x[n, t, i] * y[n, t, j], over=(n, t))` is a product of two tall matrices.
"""

from __future__ import annotations

from collections.abc import Callable

from derive.backends.values import ATOM, PRODUCT, Dims, Value, is_pack, permute
from derive.nodes.walking import axes_along
from derive.program import Merged, Node, Read

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
    if len(summed) == 1:
        return _from_the_left(a, b, summed[0], order, size) or _from_the_left(b, a, summed[0], order, size)
    return _summed(b, a, summed) if order[:1] and order[0] in b.dims else _summed(a, b, summed)


def _from_the_left(matrix: Value, tensor: Value, summed: str, order: Dims, size: Size) -> Value | None:
    """`matrix @ tensor` where what is summed stands in the tensor before other axes, which stay where they are."""
    at = tensor.dims.index(summed)
    before, after = tensor.dims[:at], tensor.dims[at + 1 :]
    own = [d for d in matrix.dims if d != summed]
    if len(own) != 1 or not after or len(tensor.dims) < 3 or any(map(is_pack, (*matrix.dims, *after))):
        return None
    dims = (*before, own[0], *after)
    if tuple(d for d in order if d is not None) != dims:
        return None
    last = f".flatten({at + 1})" if not any(map(is_pack, before)) else f".flatten({-len(after)}, -1)"
    flat = tensor if len(after) == 1 else tensor.method(last)
    code = f"{permute(matrix, (own[0], summed)).inside(PRODUCT)} @ {flat.inside(PRODUCT + 1)}"
    if len(after) == 1:
        return Value(code, dims, PRODUCT)
    return Value(f"({code}).unflatten(-1, ({', '.join(size(d) for d in after if d is not None)}))", dims, ATOM)


def _summed(a: Value, b: Value, summed: tuple[str, ...]) -> Value | None:
    """Two tensors with one axis of their own each, whose other axes are summed and stand in the same order."""
    places = [[k for k, d in enumerate(v.dims) if d not in summed] for v in (a, b)]
    if any(map(is_pack, (*a.dims, *b.dims))) or [len(p) for p in places] != [1, 1] or places[0] != places[1]:
        return None
    ((at,), _), rank = places, len(a.dims)
    rest = tuple(d for d in a.dims if d in summed)
    if rest != tuple(d for d in b.dims if d in summed) or len(rest) != len(summed):
        return None
    dims = (a.dims[at], b.dims[at])
    if at == rank - 1:
        left, right = (v.method(f".flatten(0, {rank - 2})", (None, dims[k])) for k, v in enumerate((a, b)))
        return Value(f"{left.code}.T @ {right.code}", dims, PRODUCT)
    if at == 0:
        left, right = (v.method(".flatten(1)", (dims[k], None)) for k, v in enumerate((a, b)))
        return Value(f"{left.code} @ {right.code}.T", dims, PRODUCT)
    if at == rank - 2:  # what is made before it is summed may be as large as what it is made of
        return None
    left, right = (v.method(f".flatten({at + 1})") for v in (a, b))
    where = "0" if at == 1 else f"({', '.join(map(str, range(at)))})"
    return Value(f"({left.code} @ {right.code}.mT).sum({where})", dims, ATOM)
