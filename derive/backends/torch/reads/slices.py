"""Axis arithmetic in an index as views: places, slices and sliding windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from derive.backends.code import ALL, REST, Code, Name, Slice, as_code, call, is_place
from derive.backends.torch.reads.index_tensors import indexed
from derive.backends.torch.sizes import Sizes
from derive.backends.turned import forwards
from derive.backends.values import Dim, Dims, Value, is_pack, position
from derive.ir.program import Index, Node, Read, Window


def windowed(stored: Value, node: Read, sizes: Sizes) -> Value:
    """Axis arithmetic: places and slices in one subscript, then sliding windows; all of it views."""
    over = zip(node.index, stored.dims, strict=True)
    ways = [forwards(i, d) if isinstance(i, Window) else (i, ()) for i, d in over]
    straight = Read(node.name, tuple(i for i, _ in ways))
    windows = [i for i in straight.index if isinstance(i, Window)]
    if any(len(i.steps) > 2 or any(step <= 0 for _, step in i.steps) for i in windows):
        return indexed(stored, node, sizes, _no_value)
    turned = [a for _, axes in ways for a in axes]
    if turned:
        return flipped(windowed(stored, straight, sizes), turned)
    parts = [_part(i, d, sizes) for i, d in zip(node.index, stored.dims, strict=True)]
    code = stored
    if any(part != ALL for part in parts if part != REST):
        code = code.at(*subscript(parts))
    kept = [(i, d) for i, d in zip(node.index, stored.dims, strict=True) if not (isinstance(i, Window) and not i.steps)]
    dims: list[str] = []
    tail: list[str] = []
    for k, (i, dim) in enumerate(kept):
        if isinstance(i, Window) and len(i.steps) == 2:
            count = len(kept) + len(tail)
            code, slow, fast = _slide(code, k - count if any(map(is_pack, dims)) else k, str(dim), i, sizes)
            dims.append(slow)
            tail.append(fast)
        else:
            dims.append(i.steps[0][0] if isinstance(i, Window) else str(i))
    return Value(code.code, (*dims, *tail))


def flipped(value: Value, axes: Iterable[str]) -> Value:
    """The value with these dimensions from their other ends."""
    at = [position(value.dims, value.dims.index(a)) for a in axes]
    return value.method("flip", *at)


def _part(i: Index, dim: Dim, sizes: Sizes) -> Code:
    """What stands for an index in a subscript; windows of two axes are slid later."""
    if isinstance(i, Window) and not i.steps:
        return as_code(sizes.number(i.offset))
    if isinstance(i, Window) and len(i.steps) == 1:
        return span(i, str(dim), sizes)
    return REST if isinstance(i, str) and is_pack(i) else ALL


def subscript(parts: Sequence[Code]) -> list[Code]:
    """The items without the whole dimensions at the end, nor those between `...` and what is cut."""
    parts = list(parts)
    last = parts[-1]
    while len(parts) > 1 and parts[-1] == ALL and REST not in parts:
        parts.pop()
    while parts[:2] == [REST, ALL] or (len(parts) > 2 and parts[0] == ALL and parts[1] == REST):
        parts.pop(1 if parts[0] == REST else 0)
    plain = next((k for k, part in enumerate(parts) if part != ALL), 0)
    places = all(isinstance(p, Name) or is_place(p) for p in parts[plain:])
    if plain > 2 and last != ALL and REST not in parts and places:
        parts[:plain] = [REST]
    return parts


def span(window: Window, dim: str, sizes: Sizes) -> Slice:
    """The slice `offset + step * axis` for every value of the one axis of a window over a dimension."""
    ((axis, step),) = window.steps
    start = sizes.number(window.offset)
    whole = sizes.tight(dim, window) or sizes.ends(dim, window)
    return Slice("" if start == "0" else start, "" if whole else behind(start, step, sizes.of(axis)), step)


def behind(start: str, step: int, places: str) -> str:
    """Where a slice of so many places ends; past the end of the dimension is as good, for a slice stops there."""
    length = _sum(0, (step, places))
    if start in ("0", length):
        return length if start == "0" else f"2 * {length}"
    return str(int(start) + int(length)) if start.isdecimal() and length.isdecimal() else f"{start} + {length}"


def sliced(value: Value, at: int, part: Code) -> Value:
    """One dimension sliced (negative positions count from the end)."""
    return value.at(*[ALL] * at, part) if at >= 0 else value.at(REST, part, *[ALL] * (-at - 1))


def stretch(start: str, reach: str) -> Slice:
    """So many places from one on."""
    return Slice("", reach) if start == "0" else Slice(start, f"{start} + {reach}")


def padded(value: Value, widths: Sequence[str], number: str | None = None) -> Code:
    """A tensor between zeros, or between others of one number; the widths of its last dimension come first."""
    while widths[-2:] == ["0", "0"]:
        widths = widths[:-2]
    return call("functional.pad", value, f"({', '.join(widths)})", value=number)


def reached(step: int, places: str, dilation: int, taps: str) -> str:
    """The length from the first element that windows read to the last."""
    return _sum(1 - step - dilation, (step, places), (dilation, taps))


def _sum(constant: int, *multiples: tuple[int, str]) -> str:
    """Code of a sum of multiples of lengths; those that are numbers are counted."""
    constant += sum(k * int(length) for k, length in multiples if length.isdecimal())
    terms = [length if k == 1 else f"{k} * {length}" for k, length in multiples if not length.isdecimal()]
    if not terms:
        return str(constant)
    return " + ".join(terms) + (f" + {constant}" if constant > 0 else f" - {-constant}" if constant else "")


def _slide(code: Value, at: int, dim: str, window: Window, sizes: Sizes) -> tuple[Value, str, str]:
    """One dimension as (place of the window, place in the window), a view."""
    (slow, step), (fast, dilation) = sizes.ordered(window)
    start = sizes.number(window.offset)
    reach = _sum(1 - dilation, (dilation, sizes.of(fast)))
    if not sizes.tight(dim, window):
        code = code.method("narrow", at, start, reached(step, sizes.of(slow), dilation, sizes.of(fast)))
    elif start != "0":
        code = sliced(code, at, Slice(start))
    code = code.method("unfold", at, reach, step)
    return (code.at(REST, Slice(step=dilation)) if dilation != 1 else code), slow, fast


def _no_value(node: Node, order: Dims) -> Value:
    raise AssertionError(f"no gather stands in {node} over {order}")
