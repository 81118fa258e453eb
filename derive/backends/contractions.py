"""Sums of products in torch: `@` where the axes allow it, `einsum` where they do not."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, replace

from derive.backends.flattened import Size, flattened, lying
from derive.backends.values import ATOM, PRODUCT, Dims, Value, is_pack, permute, squeeze
from derive.cost import product_factors
from derive.program import Call, Node, Read, Reduce
from derive.walking import by_axes_once, node_axes, reads


@dataclass(frozen=True)
class Roles:
    """How the axes of two operands take part: both and kept, left only, right only, summed."""

    batch: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    summed: tuple[str, ...]


def roles(a: Node, b: Node, summed: tuple[str, ...], order: Dims) -> Roles:
    """What each axis is in the product of two matrices: of both, of one alone, or summed."""
    mine, theirs = node_axes(a), node_axes(b)
    kept = [d for d in order if d is not None]
    return Roles(
        tuple(d for d in kept if d in mine and d in theirs),
        tuple(d for d in kept if d in mine and d not in theirs),
        tuple(d for d in kept if d in theirs and d not in mine),
        summed,
    )


def matrix_and_vector(node: Reduce) -> tuple[Node, Node] | None:
    """A matrix that is summed over its last axis, or over either of two, and the vector over that axis.

    Several axes before the last are one: what weighs each row of a tensor is a vector, too.
    """
    factors = product_factors(node.body)
    if node.kind != "sum" or len(factors) != 2:
        return None
    if len(node.axes) > 1 or is_pack(node.axes[0]):
        return _weighed_rows(factors, node.axes)
    for matrix, vector in (factors, factors[::-1]):
        axes = node_axes(matrix)
        if node_axes(vector) != node.axes or len(axes) < 2 or not isinstance(matrix, Read):
            continue
        if by_axes_once(matrix):
            flat = len(axes) == 2 and not is_pack(axes[0]) and not is_pack(axes[1])
            return (matrix, vector) if axes[-1] == node.axes[0] or (flat and node.axes[0] in axes) else None
    return None


def tensor_and_vector(node: Reduce) -> tuple[Read, Read] | None:
    """A tensor of three dimensions or more, and what its last ones, or its first, are weighed with and summed."""
    factors = product_factors(node.body)
    if node.kind != "sum" or len(factors) != 2 or any(map(is_pack, node_axes(node.body))):
        return None
    for tensor, vector in (factors, factors[::-1]):
        if not all(isinstance(n, Read) and by_axes_once(n) for n in (tensor, vector)):
            continue
        axes, own = node_axes(tensor), node_axes(vector)
        first, last = (own == axes[:1]), (len(own) > 1 and own == axes[-len(own) :])
        if 2 < len(axes) > len(own) and set(own) == set(node.axes) and (first or last):
            return tensor, vector  # type: ignore[return-value]
    return None


def is_by_vector(node: Reduce) -> bool:
    """Whether a sum is one product of a matrix, or of a tensor as one, and a vector."""
    return matrix_and_vector(node) is not None or tensor_and_vector(node) is not None


def _weighed_rows(factors: list[Node], summed: tuple[str, ...]) -> tuple[Node, Node] | None:
    """A tensor and what weighs its rows, that is all places of its last axis, by one number each."""
    for tensor, weight in (factors, factors[::-1]):
        axes = node_axes(tensor)
        if isinstance(tensor, Read) and by_axes_once(tensor) and len(axes) == len(summed) + 1:
            rows = reads(weight) and node_axes(weight) == axes[:-1] and set(summed) == set(axes[:-1])
            if rows and not is_pack(axes[-1]):
                return tensor, weight
    return None


def contraction(
    node: Reduce,
    order: Dims,
    printed: Callable[[Node, Dims], Value],
    as_real: Callable[[Node, Value], Value],
    size: Size,
) -> Value:
    """A matrix product's code, its dimensions in `order` where that costs nothing."""
    factors = _grouped(product_factors(node.body))

    def value(n: Node, wanted: Dims) -> Value:
        v = printed(n, wanted)
        return as_real(n, replace(squeeze(v), boolean=v.boolean, weak=v.weak))

    both = matrix_and_vector(node)
    if both is not None:
        matrix = value(both[0], node_axes(both[0]))
        if len(node.axes) > 1 or is_pack(node.axes[0]):
            ways = (as_real(both[1], printed(both[1], dims)) for dims in (node_axes(both[1]), matrix.dims))
            return _by_rows(matrix, min(ways, key=lambda v: len(v.code)), size)  # kept dimensions are as good
        vector = value(both[1], node.axes)
        first, second = (matrix, vector) if matrix.dims[-1] == node.axes[0] else (vector, matrix)
        code = f"{first.inside(PRODUCT)} @ {second.inside(PRODUCT + 1)}"
        return Value(code, tuple(d for d in matrix.dims if d != node.axes[0]), PRODUCT)
    weighed = tensor_and_vector(node)
    if weighed is not None:
        tensor, weights = (value(n, node_axes(n)) for n in weighed)
        return _by_vector(tensor, weights, weighed, size)
    if len(factors) == 2:
        a, b = factors
        r = roles(a, b, node.axes, order)
        if not r.left or (r.right and order.index(r.left[0]) > order.index(r.right[0])):
            a, b = b, a
            r = roles(a, b, node.axes, order)
        factors = [a, b]
        whole = [lying(f, value) for f in factors]
        if (whole[0] is None) != (whole[1] is None):
            made = [_beside(f, other, node.axes, value) for f, other in zip(factors, whole[::-1], strict=True)]
            whole = [w or m for w, m in zip(whole, made, strict=True)]
        kept = tuple(d for d in order if d is not None and d not in node.axes)
        if whole[0] is not None and whole[1] is not None:
            at_once = flattened(whole[0], whole[1], node.axes, kept, size)
            if at_once is not None:
                return at_once
        product = _matmul(a, b, r, value)
        if product is not None:
            return product
    return _einsum(factors, node.axes, order, value, size)


def _by_vector(tensor: Value, weights: Value, nodes: tuple[Read, Read], size: Size) -> Value:
    """A matrix by a vector, each a view of a tensor with some of its dimensions as one."""
    axes, own = (node_axes(n) for n in nodes)
    tensor, weights = permute(tensor, axes), permute(weights, own)
    if own == axes[:1]:
        code = f"{weights.inside(PRODUCT)} @ {tensor.method('.flatten(1)').code}"
        return Value(f"({code}).unflatten(0, ({', '.join(map(size, axes[1:]))}))", axes[1:], ATOM)
    kept = axes[: -len(own)]
    code = f"{tensor.method(f'.flatten({len(kept)})').code} @ {weights.method('.flatten()').code}"
    return Value(code, kept, PRODUCT)


def _by_rows(tensor: Value, weight: Value, size: Size) -> Value:
    """The sum of the rows of a tensor, each times its weight, as a vector times a matrix."""
    last = tensor.dims[-1]
    assert last is not None
    if any(map(is_pack, tensor.dims)):
        count = f"{weight.code}.numel()" if weight.code.isidentifier() else _count(tensor.dims[:-1], size)
        flat, rows = weight.method(".reshape(-1)"), tensor.method(f".reshape({count}, {size(last)})")
    else:
        flat, rows = weight.method(".flatten()"), tensor.method(f".flatten(0, {len(tensor.dims) - 2})")
    return Value(f"{flat.inside(PRODUCT)} @ {rows.inside(PRODUCT + 1)}", (last,), PRODUCT)


def _count(dims: Dims, size: Size) -> str:
    """How many elements some dimensions have; -1 for it would be any number beside an empty one."""
    return " * ".join(f"math.prod({size(d)})" if is_pack(d) else size(d) for d in dims if d is not None)


def _beside(
    node: Node, other: Value | None, summed: tuple[str, ...], value: Callable[[Node, Dims], Value]
) -> Value | None:
    """What is computed, its axes in the order of a tensor whose rows it meets; None where it has none such."""
    own = [a for a in node_axes(node) if a not in summed]
    if other is None or not isinstance(node, Call) or len(summed) < 2 or len(own) != 1 or other.dims[0] in summed:
        return None
    order = (own[0], *other.dims[1:])
    made = value(node, order) if set(order) == set(node_axes(node)) and not any(map(is_pack, order)) else None
    return made if made is not None and made.dims == order and not made.boolean else None


def _grouped(factors: list[Node]) -> list[Node]:
    """The factors, each of three or more multiplied into the smallest that has all its axes: `(a * b) @ w`."""
    out = list(factors)
    while len(out) > 2:
        pairs = [
            (len(node_axes(big)), -k, k, j)
            for k, small in enumerate(out)
            for j, big in enumerate(out)
            if j != k and set(node_axes(small)) <= set(node_axes(big))
        ]
        if not pairs:
            break
        _, _, k, j = min(pairs)
        smaller = k < j or len(node_axes(out[k])) < len(node_axes(out[j]))
        out[j] = Call("mul", (out[k], out[j]) if smaller else (out[j], out[k]))
        del out[k]
    return out


def _matmul(a: Node, b: Node, r: Roles, value: Callable[[Node, Dims], Value]) -> Value | None:
    """`left @ right` for one summed axis and at most one free axis a side, or rows of any number of axes on the left;
    None where that does not fit.
    """
    if len(r.right) > 1 or len(r.summed) != 1 or (len(r.left) > 1 and (r.batch or not r.right)):
        return None
    summed = r.summed[0]
    if set(node_axes(a)) != {*r.batch, *r.left, summed} or set(node_axes(b)) != {*r.batch, *r.right, summed}:
        return None
    if r.batch and (not (r.left and r.right) or any(map(is_pack, r.left))):
        return None  # `...` on one side of a batch has no counterpart on the other
    if any(is_pack(d) for d in (*r.right, *r.batch[1:])):
        return None
    if is_pack(summed):
        return None  # einsum sums over any number of axes
    left = _as(value(a, (*r.batch, *r.left, summed)), (*r.batch, *r.left, summed))
    right = _as(value(b, (*r.batch, summed, *r.right)), (*r.batch, summed, *r.right))
    if left is None or right is None or (len(r.left) > 1 and left.dims != value(a, left.dims).dims):
        return None
    return Value(f"{left.inside(PRODUCT)} @ {right.inside(PRODUCT + 1)}", (*r.batch, *r.left, *r.right), PRODUCT)


def _as(value: Value, dims: Dims) -> Value | None:
    """The value with exactly these dimensions, or None where one is missing."""
    if set(value.dims) != set(dims) or None in value.dims:
        return None
    return permute(value, dims)


def _einsum(
    factors: list[Node], summed: tuple[str, ...], order: Dims, value: Callable[[Node, Dims], Value], size: Size
) -> Value:
    letters: dict[str, str] = {}
    pool = iter(c for c in string.ascii_letters)

    def letter(axis: str) -> str:
        if is_pack(axis):
            return "..."
        if axis not in letters:
            own = axis[0] if len(axis) == 1 and axis not in letters.values() else None
            letters[axis] = own or next(c for c in pool if c not in letters.values() and c not in names)
        return letters[axis]

    names = {a for f in factors for a in node_axes(f) if len(a) == 1}
    operands = []
    for f in factors:
        packs_first = tuple(sorted(node_axes(f), key=lambda a: not is_pack(a)))  # whatever rank `...` has
        operands.append(lying(f, value) or squeeze(value(f, packs_first)))
    out = tuple(d for d in order if d is not None and d not in summed and any(d in o.dims for o in operands))
    while len(operands) > 2:
        operands = _two_as_one(operands, out, letter, size)
    return _two(operands[0], operands[1], out, letter, size)


def _in_place(a: Dims, b: Dims, kept: Dims) -> Dims:
    """The axes of a product: those of the larger operand, where the other's one stands in place of the one summed."""
    small, large = sorted((a, b), key=len)
    new, gone = [d for d in small if d not in large], [d for d in large if d not in kept]
    if len(new) == len(gone) == 1 and new[0] in kept:
        return tuple(new[0] if d == gone[0] else d for d in large)
    return kept


def _two_as_one(operands: list[Value], out: Dims, letter: Callable[[str], str], size: Size) -> list[Value]:
    """The two whose product is smallest contracted, in the place of the first.

    Two at a time, because given more of them `torch.einsum` may plan by their lengths, and a compiled function is then
    compiled anew for each length.
    """

    def left(a: Value, b: Value) -> Dims:
        others = [o for o in operands if o is not a and o is not b]
        axes = tuple(d for d in dict.fromkeys((*a.dims, *b.dims)) if d in out or any(d in o.dims for o in others))
        alike = next((o for o in others if set(axes) <= set(o.dims)), None)  # what it is multiplied with next
        if any(map(is_pack, axes)):
            return axes
        return _in_place(a.dims, b.dims, axes) if alike is None else tuple(d for d in alike.dims if d in axes)

    pairs = [(a, b) for k, a in enumerate(operands) for b in operands[k + 1 :]]
    a, b = min(pairs, key=lambda p: (len({*p[0].dims, *p[1].dims}), len(left(*p))))
    made = _two(a, b, left(a, b), letter, size)
    return [made if o is a else o for o in operands if o is not b]


def _two(a: Value, b: Value, out: Dims, letter: Callable[[str], str], size: Size) -> Value:
    """Two tensors contracted to these axes: as matrices, place by place, or as `einsum` has it."""
    summed = tuple(d for d in dict.fromkeys((*a.dims, *b.dims)) if d is not None and d not in out)
    product = flattened(a, b, summed, out, size)
    if product is not None:
        return product
    plain = not any(map(is_pack, (*a.dims, *b.dims)))
    matrices = len(a.dims) == len(b.dims) == len(out) == 2 and len(summed) == 1
    if plain and matrices and set(a.dims) & set(b.dims) == set(summed):
        first, second = (a, b) if out[0] in a.dims else (b, a)
        left, right = permute(first, (out[0], *summed)), permute(second, (*summed, out[1]))
        return Value(f"{left.inside(PRODUCT)} @ {right.inside(PRODUCT + 1)}", out, PRODUCT)
    if plain and set(a.dims) == set(b.dims) and tuple(d for d in a.dims if d in out) == out:
        places = [str(k) for k, d in enumerate(a.dims) if d in summed]
        where = "" if not out else places[0] if len(places) == 1 else f"({', '.join(places)})"
        product = Value(f"{a.inside(PRODUCT)} * {permute(b, a.dims).inside(PRODUCT + 1)}", a.dims, PRODUCT)
        return product.method(f".sum({where})", out) if places else product
    spec = f"{', '.join(''.join(map(letter, v.dims)) for v in (a, b))} -> {''.join(map(letter, out))}"  # type: ignore[arg-type]
    return Value(f'torch.einsum("{spec}", {a.code}, {b.code})', out)
