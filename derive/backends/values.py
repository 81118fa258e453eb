"""Code, the dimensions and the kind of what it computes, and who owns the memory: the currency of the torch backend."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from derive.backends.code import ALL, NEW, REST, Code, Field, Infix, Name, as_code, method, selected, together
from derive.ir.program import base

Dim = str | None  # an axis, or None for a dimension of length 1
Dims = tuple[Dim, ...]

PACK = "..."


@dataclass(frozen=True)
class Value:
    """Code, and its dimensions in order."""

    code: Code
    dims: Dims = ()
    scalar: bool = False  # a Python number, not a tensor
    boolean: bool = False
    weak: bool = False  # a tensor made of numbers and conditions alone, in torch's default dtype; its values are exact
    owned: bool = False  # a tensor of ours that nothing reads again: it may be written over
    full: Value | None = None  # of a tensor without its dimensions of length 1: the tensor

    def method(self, name: str, *args: object, dims: Dims | None = None, **options: object) -> Value:
        """`value.name(args)`, as `x.sum(0)`."""
        return Value(method(self.code, name, *args, **options), self.dims if dims is None else dims)

    def field(self, name: str, dims: Dims | None = None) -> Value:
        """`value.name`, as `x.T`."""
        return Value(Field(self.code, name), self.dims if dims is None else dims)

    def at(self, *items: object, dims: Dims | None = None) -> Value:
        """`value[items]`."""
        return Value(selected(self.code, tuple(map(as_code, items))), self.dims if dims is None else dims)


def product(left: Value, right: Value, dims: Dims) -> Value:
    """A product of matrices."""
    return Value(Infix("@", left.code, right.code), dims)


@dataclass(frozen=True)
class Line:
    """One statement of code, or the head of a block, and the equation it computes."""

    value: Code
    to: Code | None = None  # where it is put
    sign: str = "="
    note: str = ""
    part_of: frozenset[int] = frozenset()  # the statements of the program, by number, that it computes
    depth: int = 0  # blocks that it stands in

    @property
    def code(self) -> str:
        """The text."""
        put = "" if self.to is None else f"{self.to} {self.sign} "
        return f"{'    ' * self.depth}{put}{self.value}"

    @property
    def made(self) -> str:
        """The name that it is the first to give something; none of another line."""
        return self.to.id if isinstance(self.to, Name) and self.sign == "=" and not self.depth else ""


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
    return value.field("T" if len(dims) == 2 and not any(is_pack(d) for d in dims) else "mT", dims)


def permute(value: Value, dims: Dims) -> Value:
    """The dimensions in another order."""
    if value.dims == dims:
        return value
    if len(dims) > 1 and dims[:-2] == value.dims[:-2] and not any(is_pack(d) for d in dims[-2:]):
        return swap(value)
    apart = [k for k, d in enumerate(dims) if d != value.dims[k]]
    if len(apart) == 2 and not any(is_pack(dims[k]) for k in apart):
        first, second = (position(dims, k) for k in apart)
        return value.method("transpose", first, second, dims=dims)
    if not any(is_pack(d) for d in dims):
        return value.method("permute", *(value.dims.index(d) for d in dims), dims=dims)
    places = ((position(value.dims, value.dims.index(d)), position(dims, k)) for k, d in enumerate(dims))
    moved = [(a, b) for (a, b), d in zip(places, dims, strict=True) if a != b and not is_pack(d)]
    source, target = (", ".join(map(str, side)) for side in zip(*moved, strict=True))
    if len(moved) == 1:
        return value.method("movedim", source, target, dims=dims)
    return value.method("movedim", f"({source})", f"({target})", dims=dims)


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
    places = [position(value.dims, i) for i, d in enumerate(value.dims) if d is None]
    if not places:
        return value
    taken = places[0] if len(places) == 1 else together(places)
    return replace(value.method("squeeze", taken, dims=tuple(d for d in value.dims if d is not None)), full=value)


def unsqueeze(value: Value, need: Dims) -> Value:
    """Dimensions of length 1 where `need` has None."""
    missing = [i for i, d in enumerate(need) if d is None]
    if not missing or value.dims == need:
        return value
    if value.full is not None and value.full.dims == need:
        return value.full
    items = [REST if is_pack(d) else ALL if d is not None else NEW for d in need]
    if any(is_pack(d) for d in need):
        while len(items) > 1 and items[0] == REST and items[1] == ALL:
            items.pop(1)
    else:
        while items and items[-1] == ALL:
            items.pop()
    return value.at(*items, dims=need)
