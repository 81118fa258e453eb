"""Sums of products in torch: `@` where the axes allow it, `einsum` where they do not."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from derive.backends.code import Code, Field, below, call, infix
from derive.backends.torch.products.by_vectors import is_by_one_each, times_vector
from derive.backends.torch.products.flattened import Size, flattened, from_the_left, lying
from derive.backends.values import Dims, Value, is_pack, permute, product, squeeze
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import node_axes
from derive.ir.program import Call, Node, Reduce

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

Print = Callable[[Node, Dims], Value]


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


def contraction(printer: Printer, node: Reduce, order: Dims) -> Value:
    """A matrix product's code, its dimensions in `order` where that costs nothing."""
    factors, size = _grouped(product_factors(node.body)), printer.size

    def value(n: Node, wanted: Dims) -> Value:
        v = printer.value(n, wanted)
        return printer.as_real(n, replace(squeeze(v), boolean=v.boolean, weak=v.weak))

    by_vector = times_vector(printer, node, value)
    if by_vector is not None:
        return by_vector
    if is_by_one_each(node):
        return _einsum(sorted(factors, key=lambda f: len(node_axes(f))), node.axes, order, value, size)
    if len(factors) == 2:
        a, b = factors
        r = roles(a, b, node.axes, order)
        if not r.left or (r.right and order.index(r.left[0]) > order.index(r.right[0])):
            a, b = b, a
            r = roles(a, b, node.axes, order)
        factors = [a, b]
        whole = [lying(f, value) for f in factors]
        if (whole[0] is None) != (whole[1] is None):
            beside = [_beside(f, other, node.axes, value) for f, other in zip(factors, whole[::-1], strict=True)]
            whole = [w or b for w, b in zip(whole, beside, strict=True)]
        kept = tuple(d for d in order if d is not None and d not in node.axes)
        if whole[0] is not None and whole[1] is not None:
            at_once = flattened(whole[0], whole[1], node.axes, kept, size)
            if at_once is not None:
                return at_once
        for own, other in zip(factors, whole[::-1], strict=True):
            matrix = _made_matrix(own, other, node.axes, value)
            if matrix is not None and other is not None:
                at_once = from_the_left(matrix, other, node.axes[0], kept, size)
                if at_once is not None:
                    return at_once
        made = _matmul(a, b, r, value)
        if made is not None:
            return made
    return _einsum(factors, node.axes, order, value, size)


def _beside(node: Node, other: Value | None, summed: tuple[str, ...], value: Print) -> Value | None:
    """What is computed, its axes in the order of a tensor whose rows it meets; None where it has none such."""
    own = [a for a in node_axes(node) if a not in summed]
    if other is None or not isinstance(node, Call) or len(summed) < 2 or len(own) != 1 or other.dims[0] in summed:
        return None
    order = (own[0], *other.dims[1:])
    made = value(node, order) if set(order) == set(node_axes(node)) and not any(map(is_pack, order)) else None
    return made if made is not None and made.dims == order and not made.boolean else None


def _made_matrix(node: Node, other: Value | None, summed: tuple[str, ...], value: Print) -> Value | None:
    """A matrix that is computed, the summed axis first, to stand in front of a tensor as it lies; None for another.

    It is smaller than the tensor, whose product would have its axes in another order: `(s[:, None] * w).T @ x`.
    """
    axes = [a for a in node_axes(node) if a not in summed]
    if other is None or not isinstance(node, Call) or len(summed) != 1 or len(axes) != 1 or len(other.dims) < 3:
        return None
    order = (summed[0], axes[0])
    made = value(node, order) if set(node_axes(node)) == set(order) and not any(map(is_pack, order)) else None
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


def _matmul(a: Node, b: Node, r: Roles, value: Print) -> Value | None:
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
    left = _as(_turned(a, (*r.batch, *r.left, summed), value), (*r.batch, *r.left, summed))
    right = _as(_turned(b, (*r.batch, summed, *r.right), value), (*r.batch, summed, *r.right))
    if left is None or right is None or (len(r.left) > 1 and left.dims != value(a, left.dims).dims):
        return None
    return product(left, right, (*r.batch, *r.left, *r.right))


def _turned(node: Node, dims: Dims, value: Print) -> Value:
    """What is computed, turned as a whole where all that it reads would be: `(r * s).T`, not `r.T * s.T`."""
    made = value(node, dims)
    if not isinstance(node, Call) or len(dims) != 2 or _turns(made.code) < 2:
        return made
    whole = value(node, dims[::-1])
    return whole if whole.dims == dims[::-1] and not _turns(whole.code) else made


def _turns(code: Code) -> int:
    """How many matrices are transposed."""
    return sum(isinstance(c, Field) and c.name == "T" for c in below(code))


def _as(value: Value, dims: Dims) -> Value | None:
    """The value with exactly these dimensions, or None where one is missing."""
    if set(value.dims) != set(dims) or None in value.dims:
        return None
    return permute(value, dims)


def _einsum(factors: list[Node], summed: tuple[str, ...], order: Dims, value: Print, size: Size) -> Value:
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
    made = flattened(a, b, summed, out, size)
    if made is not None:
        return made
    plain = not any(map(is_pack, (*a.dims, *b.dims)))
    matrices = len(a.dims) == len(b.dims) == len(out) == 2 and len(summed) == 1
    if plain and matrices and set(a.dims) & set(b.dims) == set(summed):
        first, second = (a, b) if out[0] in a.dims else (b, a)
        left, right = permute(first, (out[0], *summed)), permute(second, (*summed, out[1]))
        return product(left, right, out)
    if plain and set(a.dims) == set(b.dims) and tuple(d for d in a.dims if d in out) == out:
        places = [str(k) for k, d in enumerate(a.dims) if d in summed]
        where = [] if not out else places if len(places) == 1 else [f"({', '.join(places)})"]
        made = Value(infix("*", a, permute(b, a.dims)), a.dims)
        return made.method("sum", *where, dims=out) if places else made
    spec = f"{', '.join(''.join(map(letter, v.dims)) for v in (a, b))} -> {''.join(map(letter, out))}"  # type: ignore[arg-type]
    return Value(call("torch.einsum", f'"{spec}"', a, b), out)
