"""A printed expression and the dimensions it has: the currency of the torch backend."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from derive.backends.subscripts import subscripted
from derive.ir.program import base

Dim = str | None  # an axis, or None for a dimension of length 1
Dims = tuple[Dim, ...]

PACK = "..."

ATOM, POWER, UNARY, PRODUCT, SUM, COMPARISON, CHOICE = 6, 5, 4, 3, 2, 1, 0


@dataclass(frozen=True)
class Value:
    """Source text, its binding strength, and its dimensions in order."""

    code: str
    dims: Dims = ()
    strength: int = ATOM
    scalar: bool = False  # a Python number, not a tensor
    boolean: bool = False
    weak: bool = False  # a tensor made of numbers and conditions alone, in torch's default dtype; its values are exact
    owned: bool = False  # a tensor of ours that nothing reads again: it may be written over
    full: Value | None = None  # of a tensor without its dimensions of length 1: the tensor

    def inside(self, strength: int) -> str:
        """The text, in parentheses if it binds less strongly than its surroundings."""
        return f"({self.code})" if self.strength < strength else self.code

    def method(self, call: str, dims: Dims | None = None) -> Value:
        """`value.call`, as `x.sum(0)`."""
        return Value(subscripted(self.inside(ATOM), call), self.dims if dims is None else dims)


@dataclass(frozen=True)
class Line:
    """One statement of code and the equation it computes."""

    code: str
    note: str = ""
    part_of: frozenset[int] = frozenset()  # the statements of the program, by number, that it computes


def is_pack(dim: Dim) -> bool:
    return dim is not None and base(dim) == PACK


def named_by(dims: Dims, index: Iterable[Dim]) -> Dims:
    """The dimensions of a tensor under the axes that it is read at, one after another; those of length 1 stay."""
    names = iter(index)
    return tuple(None if d is None else next(names) for d in dims)


def position(dims: Dims, at: int) -> int:
    """The number of a dimension in code: counted from the end behind `...`."""
    return at - len(dims) if any(is_pack(d) for d in dims[:at]) else at


def swap(value: Value) -> Value:
    """The last two dimensions exchanged."""
    dims = (*value.dims[:-2], value.dims[-1], value.dims[-2])
    return value.method(".T" if len(dims) == 2 and not any(is_pack(d) for d in dims) else ".mT", dims)


def permute(value: Value, dims: Dims) -> Value:
    """The dimensions in another order."""
    if value.dims == dims:
        return value
    if len(dims) > 1 and dims[:-2] == value.dims[:-2] and not any(is_pack(d) for d in dims[-2:]):
        return swap(value)
    apart = [k for k, d in enumerate(dims) if d != value.dims[k]]
    if len(apart) == 2 and not any(is_pack(dims[k]) for k in apart):
        first, second = (position(dims, k) for k in apart)
        return value.method(f".transpose({first}, {second})", dims)
    if not any(is_pack(d) for d in dims):
        order = ", ".join(str(value.dims.index(d)) for d in dims)
        return value.method(f".permute({order})", dims)
    places = ((position(value.dims, value.dims.index(d)), position(dims, k)) for k, d in enumerate(dims))
    moved = [(a, b) for (a, b), d in zip(places, dims, strict=True) if a != b and not is_pack(d)]
    source, target = (", ".join(map(str, side)) for side in zip(*moved, strict=True))
    if len(moved) == 1:
        return value.method(f".movedim({source}, {target})", dims)
    return value.method(f".movedim(({source}), ({target}))", dims)


def align(value: Value, order: Dims) -> Value:
    """The value so that it broadcasts against `order`: its dimensions in that order, ones where it lacks an axis."""
    if value.scalar or not value.dims:
        return value
    extra = [i for i, d in enumerate(value.dims) if d is None]
    wanted = tuple(d for d in order if d is not None and d in value.dims)
    if extra and _keepdim_fits(value.dims, order):
        return value
    if extra:
        value = squeeze(value)
    value = permute(value, wanted)
    first = next(i for i, d in enumerate(order) if d in wanted and d is not None)
    need: Dims = tuple(d if d in wanted else None for d in order[first:])
    return unsqueeze(value, need)


def _keepdim_fits(dims: Dims, order: Dims) -> bool:
    """Whether dimensions of length 1 already stand where `order` has an axis that the value lacks."""
    if len(dims) > len(order):
        return False
    tail = order[len(order) - len(dims) :]
    if any(is_pack(d) for d in order[: len(order) - len(dims)]) and any(d is None for d in dims[:1]):
        return False
    return all(
        d == o or (d is None and o is not None and not is_pack(o)) or (d is None and o is None)
        for d, o in zip(dims, tail, strict=True)
    )


def squeeze(value: Value) -> Value:
    """Without its dimensions of length 1."""
    places = [str(position(value.dims, i)) for i, d in enumerate(value.dims) if d is None]
    if not places:
        return value
    taken = places[0] if len(places) == 1 else f"({', '.join(places)})"
    return replace(value.method(f".squeeze({taken})", tuple(d for d in value.dims if d is not None)), full=value)


def unsqueeze(value: Value, need: Dims) -> Value:
    """Dimensions of length 1 where `need` has None."""
    missing = [i for i, d in enumerate(need) if d is None]
    if not missing or value.dims == need:
        return value
    if value.full is not None and value.full.dims == need:
        return value.full
    if any(is_pack(d) for d in need):
        items = ["..." if is_pack(d) else ":" if d is not None else "None" for d in need]
        while len(items) > 1 and items[0] == "..." and items[1] == ":":
            items.pop(1)
    else:
        items = [":" if d is not None else "None" for d in need]
        while items and items[-1] == ":":
            items.pop()
    return value.method(f"[{', '.join(items)}]", need)
