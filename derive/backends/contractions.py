"""Sums of products in torch: `@` where the axes allow it, `einsum` where they do not."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, replace

from derive.backends.values import PRODUCT, Dims, Value, is_pack, permute, squeeze
from derive.cost import product_factors
from derive.program import Call, Node, Read, Reduce
from derive.walking import node_axes


@dataclass(frozen=True)
class Roles:
    """How the axes of two operands take part: both and kept, left only, right only, summed."""

    batch: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    summed: tuple[str, ...]


def roles(a: Node, b: Node, summed: tuple[str, ...], order: Dims) -> Roles:
    mine, theirs = node_axes(a), node_axes(b)
    kept = [d for d in order if d is not None]
    return Roles(
        tuple(d for d in kept if d in mine and d in theirs),
        tuple(d for d in kept if d in mine and d not in theirs),
        tuple(d for d in kept if d in theirs and d not in mine),
        summed,
    )


def matrix_and_vector(node: Reduce) -> tuple[Node, Node] | None:
    """A matrix that is summed over its last axis, or over either of two, and the vector over that axis."""
    factors = product_factors(node.body)
    if node.kind != "sum" or len(factors) != 2 or len(node.axes) != 1 or is_pack(node.axes[0]):
        return None
    for matrix, vector in (factors, factors[::-1]):
        axes = node_axes(matrix)
        if node_axes(vector) != node.axes or len(axes) < 2 or not isinstance(matrix, Read):
            continue
        if all(isinstance(i, str) for i in matrix.index) and len(set(axes)) == len(matrix.index):
            flat = len(axes) == 2 and not is_pack(axes[0]) and not is_pack(axes[1])
            return (matrix, vector) if axes[-1] == node.axes[0] or (flat and node.axes[0] in axes) else None
    return None


def contraction(
    node: Reduce, order: Dims, printed: Callable[[Node, Dims], Value], as_real: Callable[[Node, Value], Value]
) -> Value:
    """A matrix product's code, its dimensions in `order` where that costs nothing."""
    factors = _grouped(product_factors(node.body))

    def value(n: Node, wanted: Dims) -> Value:
        v = printed(n, wanted)
        return as_real(n, replace(squeeze(v), boolean=v.boolean, weak=v.weak))

    both = matrix_and_vector(node)
    if both is not None:
        matrix, vector = value(both[0], node_axes(both[0])), value(both[1], node.axes)
        first, second = (matrix, vector) if matrix.dims[-1] == node.axes[0] else (vector, matrix)
        code = f"{first.inside(PRODUCT)} @ {second.inside(PRODUCT + 1)}"
        return Value(code, tuple(d for d in matrix.dims if d != node.axes[0]), PRODUCT)
    if len(factors) == 2:
        a, b = factors
        r = roles(a, b, node.axes, order)
        if not r.left or (r.right and order.index(r.left[0]) > order.index(r.right[0])):
            a, b = b, a
            r = roles(a, b, node.axes, order)
        factors = [a, b]
        product = _matmul(a, b, r, value)
        if product is not None:
            return product
    return _einsum(factors, node.axes, order, value)


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


def _einsum(factors: list[Node], summed: tuple[str, ...], order: Dims, value: Callable[[Node, Dims], Value]) -> Value:
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
        v = value(f, tuple(sorted(node_axes(f), key=lambda a: not is_pack(a))))  # whatever rank `...` has
        operands.append(_Operand(v.code, tuple(d for d in v.dims if d is not None)))
    out = tuple(d for d in order if d is not None and d not in summed and any(d in o.axes for o in operands))
    while len(operands) > 2:
        operands = _two_as_one(operands, out, letter)
    return Value(_einsum_code(operands, out, letter), out)


@dataclass(frozen=True)
class _Operand:
    """An operand of einsum: its code and its axes in order."""

    code: str
    axes: tuple[str, ...]


def _two_as_one(operands: list[_Operand], out: tuple[str, ...], letter: Callable[[str], str]) -> list[_Operand]:
    """The two whose product is smallest contracted, in the place of the first.

    Two at a time, because given more of them `torch.einsum` may plan by their lengths, and a compiled function is then
    compiled anew for each length.
    """

    def left(a: _Operand, b: _Operand) -> tuple[str, ...]:
        others = {d for o in operands if o not in (a, b) for d in o.axes}
        return tuple(d for d in dict.fromkeys((*a.axes, *b.axes)) if d in others or d in out)

    pairs = [(a, b) for k, a in enumerate(operands) for b in operands[k + 1 :]]
    a, b = min(pairs, key=lambda p: (len({*p[0].axes, *p[1].axes}), len(left(*p))))
    made = _Operand(_einsum_code([a, b], left(a, b), letter), left(a, b))
    return [made if o is a else o for o in operands if o is not b]


def _einsum_code(operands: list[_Operand], out: tuple[str, ...], letter: Callable[[str], str]) -> str:
    spec = f"{', '.join(''.join(map(letter, o.axes)) for o in operands)} -> {''.join(map(letter, out))}"
    return f'torch.einsum("{spec}", {", ".join(o.code for o in operands)})'
