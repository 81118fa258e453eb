"""Indices in torch: a read of a tensor becomes a view where one serves, an indexing call where none does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from derive.backends.values import ATOM, PACK, Dim, Dims, Value, align, is_pack, permute, position, squeeze
from derive.program import Arithmetic, Call, Index, Merged, Node, Num, PartOf, Place, Read, SizeOf, Window, base
from derive.walking import index_axes


@dataclass(frozen=True)
class Sizes:
    """How code says the length of an axis, a number, and a range over an axis."""

    of: Callable[[str], str]
    number: Callable[[Node], str]
    device: Callable[[], str]
    checked: set[str]  # integer tensors whose range torch itself checks as it reads by them
    slow: Callable[[str], int]  # of the two axes of a window, the one with less is its place, the other its tap
    tight: Callable[[str, Window], bool]  # whether a window over a dimension is what gives one of its axes its length

    def ordered(self, window: Window) -> list[tuple[str, int]]:
        """The axis that says where a window is with its step, then the axis inside the window with its dilation."""
        return sorted(window.steps, key=lambda s: self.slow(s[0]))

    def arange(self, axis: str, dtype: str = "") -> str:
        return f"torch.arange({self.of(axis)}, device={self.device()}{f', dtype={dtype}' if dtype else ''})"


def read(stored: Value, node: Read, sizes: Sizes, value: Callable[[Node, Dims], Value]) -> Value:
    """The element `name[index]` for all its axes at once, with the axes as dimensions."""
    kinds = [type(i) for i in node.index]
    if all(k is str for k in kinds) and len(set(node.index)) == len(node.index):
        return Value(stored.code, _renamed(stored.dims, node.index))
    stored = squeeze(stored)
    if any(isinstance(i, Arithmetic) for i in node.index):
        return indexed(stored, node, sizes, value)
    if any(isinstance(i, Merged | PartOf) for i in node.index):
        return _reshaped(stored, node, sizes, value)
    if all(k is str for k in kinds):
        return _diagonal(stored, node)
    if any(isinstance(i, Read) for i in node.index):
        return _gathered(stored, node, sizes, value)
    axes = [a for i in node.index for a in index_axes(i)]
    if len(set(axes)) < len(axes):  # one axis in a window and beside it: no view reads that
        return indexed(stored, node, sizes, value)
    return _windowed(stored, node, sizes)


def _renamed(dims: Dims, index: tuple[Index, ...]) -> Dims:
    """Stored dimensions under the names they are read by; dimensions of length 1 stay."""
    names = iter(index)
    return tuple(None if d is None else next(names) for d in dims)  # type: ignore[misc]


def _reshaped(stored: Value, node: Read, sizes: Sizes, value: Callable[[Node, Dims], Value]) -> Value:
    """Merged indices are split out of a dimension; the parts of one index are brought together and flattened."""
    slots, code = list(node.index), Value(stored.code, tuple(f"?{k}" for k in range(len(node.index))))
    for merged in [i for i in slots if isinstance(i, Merged) and any(isinstance(a, PartOf) for a in i.axes)]:
        code = _unflattened(code, slots, slots.index(merged), sizes)
    for whole in [i.whole for i in slots if isinstance(i, PartOf) and i.position == 0]:
        parts = [k for k, i in enumerate(slots) if isinstance(i, PartOf) and i.whole == whole]
        first = slots[parts[0]]
        assert isinstance(first, PartOf)
        wanted = [PartOf(whole, k, first.lengths) for k in range(len(first.lengths))]
        if sorted((slots[k] for k in parts), key=lambda i: i.position) != wanted:  # type: ignore[union-attr]
            return indexed(stored, node, sizes, value)
        places = [slots.index(w) for w in wanted]
        rest = [k for k in range(len(slots)) if k not in places]
        at = len([k for k in rest if k < places[0]])
        order = [*rest[:at], *places, *rest[at:]]
        code = permute(_packed(code, slots), tuple(_packed(code, slots).dims[k] for k in order))
        slots = [slots[k] for k in order]
        code = code.method(f".flatten({_at(slots, at)}, {_at(slots, at + len(places) - 1)})")
        slots[at : at + len(places)] = [whole]
        code = Value(code.code, tuple(f"?{k}" for k in range(len(slots))))
    if any(isinstance(i, PartOf) for i in slots):
        return indexed(stored, node, sizes, value)
    while any(isinstance(i, Merged) for i in slots):
        code = _unflattened(code, slots, next(k for k, i in enumerate(slots) if isinstance(i, Merged)), sizes)
    return read(
        Value(code.code, tuple(f"?{k}" for k in range(len(slots)))), Read(node.name, tuple(slots)), sizes, value
    )


def _unflattened(code: Value, slots: list[Index], k: int, sizes: Sizes) -> Value:
    """The value with one merged dimension split; its parts take their places in `slots`."""
    merged = slots[k]
    assert isinstance(merged, Merged)
    lengths = ", ".join(_length(a, sizes) for a in merged.axes)
    code = code.method(f".unflatten({_at(slots, k)}, ({lengths}))")
    slots[k : k + 1] = [a.index if isinstance(a, Place) else a for a in merged.axes]
    return Value(code.code, tuple(f"?{n}" for n in range(len(slots))))


def _length(i: Index, sizes: Sizes) -> str:
    """The length of an index inside a merge, as an argument."""
    if isinstance(i, Place):
        return sizes.number(i.length)
    if isinstance(i, PartOf):
        return sizes.number(i.lengths[i.position])
    return ", ".join(f"*{sizes.of(a)}" if is_pack(a) else sizes.of(a) for a in index_axes(i))


def _at(slots: list[Index], k: int) -> int:
    """A slot's dimension in code, counted from the end behind `...`."""
    return k - len(slots) if any(_packs(i) for i in slots[:k]) else k


def _packs(i: Index) -> bool:
    """Whether an index stands for any number of dimensions: `...`, or what of a merge is `...`."""
    return is_pack(i) if isinstance(i, str) else isinstance(i, PartOf) and i.lengths[i.position] == SizeOf(PACK)


def _packed(code: Value, slots: list[Index]) -> Value:
    """Placeholder dimensions, with `...` where the slot is one."""
    dims = tuple(PACK if _packs(i) else f"?{k}" for k, i in enumerate(slots))
    return Value(code.code, dims)


def _diagonal(stored: Value, node: Read) -> Value:
    """One axis in two places: the diagonal, which torch puts last."""
    names = list(node.index)
    for axis in dict.fromkeys(names):
        while names.count(axis) > 1:
            first = names.index(axis)
            second = names.index(axis, first + 1)
            rest = [n for k, n in enumerate(names) if k not in (first, second)]
            pack = any(is_pack(n) for n in rest)  # type: ignore[arg-type]
            a, b = (first - len(names), second - len(names)) if pack else (first, second)
            where = "" if (len(names) == 2 and not pack) else f"dim1={a}, dim2={b}"
            stored = stored.method(f".diagonal({where})")
            names = [*rest, axis]
    return Value(stored.code, tuple(names), stored.strength)  # type: ignore[arg-type]


def _gathered(stored: Value, node: Read, sizes: Sizes, value: Callable[[Node, Dims], Value]) -> Value:
    gathers = [k for k, i in enumerate(node.index) if isinstance(i, Read)]
    plain = [i for i in node.index if isinstance(i, str)]
    if len(gathers) == 1 and len(plain) == len(node.index) - 1 and len(set(plain)) == len(plain):
        slot = gathers[0]
        inner = node.index[slot]
        axes = index_axes(inner)
        if axes and set(axes) == set(plain):
            sizes.checked.add(inner.name)  # type: ignore[union-attr]
            return _batched_gather(stored, node, slot, value)
        if not set(axes) & set(plain):
            return _row_gather(stored, node, slot, sizes, value)
        if len(along(node.index, slot)) == len(node.index):
            sizes.checked.add(inner.name)  # type: ignore[union-attr]
            at = position(along(node.index, slot), slot)
            chosen = whole_index(node.index, slot, sizes, value)
            return Value(f"{stored.inside(ATOM)}.gather({at}, {chosen})", along(node.index, slot))
    return indexed(stored, node, sizes, value)


def _batched_gather(stored: Value, node: Read, slot: int, value: Callable[[Node, Dims], Value]) -> Value:
    """`logp[n, y[n]]`: along one dimension, an index for each element of the others."""
    plain = tuple(i for i in node.index if isinstance(i, str))
    index = value(node.index[slot], plain)  # type: ignore[arg-type]
    dims = tuple(i if isinstance(i, str) else "?" for i in node.index)
    at = position(dims, slot)
    code = f"{stored.inside(ATOM)}.gather({at}, {index.inside(ATOM)}.unsqueeze({at})).squeeze({at})"
    return Value(code, plain)


def along(index: tuple[Index, ...], slot: int) -> Dims:
    """The dimensions of `x[n, ix[n, r], e]` with `r` for the index; none where it has several axes of its own."""
    own = [a for a in index_axes(index[slot]) if a not in index]
    plain = [i for k, i in enumerate(index) if k != slot]
    if len(own) != 1 or is_pack(own[0]) or not all(isinstance(i, str) for i in plain) or len(set(plain)) != len(plain):
        return ()
    return tuple(own[0] if k == slot else str(i) for k, i in enumerate(index))


def whole_index(index: tuple[Index, ...], slot: int, sizes: Sizes, value: Callable[[Node, Dims], Value]) -> str:
    """The integer tensor of a gather along one dimension, expanded over the dimensions that it lacks."""
    dims, inner = along(index, slot), index[slot]
    assert isinstance(inner, Read)
    code = value(inner, dims)
    if set(index_axes(inner)) == set(dims):
        return permute(squeeze(code), dims).code
    lengths = ", ".join(f"*{sizes.of(d)}" if is_pack(d) else sizes.of(d) for d in dims if d is not None)
    return f"{code.inside(ATOM)}.expand({lengths})"


def _row_gather(stored: Value, node: Read, slot: int, sizes: Sizes, value: Callable[[Node, Dims], Value]) -> Value:
    """`C[ix[n, t], e]`: whole slices, by an index of its own axes."""
    inner = node.index[slot]
    axes = index_axes(inner)
    index = value(inner, axes)  # type: ignore[arg-type]
    if slot == 0 and len(node.index) == 2:
        sizes.checked.add(inner.name)  # type: ignore[union-attr]
        return Value(f"functional.embedding({index.code}, {stored.code})", (*axes, *node.index[1:]))  # type: ignore[arg-type]
    before = [":" if not is_pack(i) else "..." for i in node.index[:slot]]  # type: ignore[arg-type]
    after = [":" for _ in node.index[slot + 1 :]] if "..." in before else []
    code = f"{stored.inside(ATOM)}[{', '.join([*before, index.code, *after])}]"
    dims = (*node.index[:slot], *axes, *node.index[slot + 1 :])
    return Value(code, dims)  # type: ignore[arg-type]


def indexed(stored: Value, node: Read, sizes: Sizes, value: Callable[[Node, Dims], Value]) -> Value:
    """The general case: an index tensor for every dimension, broadcast over all axes of the read."""
    order = pack_first(a for i in node.index for a in index_axes(i))
    if any(isinstance(i, PartOf) and _packs(i) for i in node.index[:1]):  # the leading dimensions as one
        rest = f", *{stored.code}.shape[{1 - len(node.index)}:]" if len(node.index) > 1 else ""
        stored = stored.method(f".reshape({sizes.number(SizeOf(PACK))}{rest})")
    items = [index_tensor(i, order, sizes, value) for i in node.index]
    return Value(f"{stored.inside(ATOM)}[{', '.join(items)}]", order)


def pack_first(axes: Iterable[str]) -> Dims:
    """Each axis once, `...` in front, so that what lacks it broadcasts whatever its rank."""
    return tuple(sorted(dict.fromkeys(axes), key=lambda a: not is_pack(a)))


def index_tensor(i: Index, order: Dims, sizes: Sizes, value: Callable[[Node, Dims], Value]) -> str:
    """An index as an integer tensor that broadcasts over `order`."""
    if isinstance(i, str) and is_pack(i):  # one index for each of the axes that `...` stands for
        return f"*places({sizes.of(i)}, {len(order) - order.index(i) - 1}, {sizes.device()})"
    if isinstance(i, str):
        return align(Value(sizes.arange(i), (i,)), order).code
    if isinstance(i, Place):
        return index_tensor(i.index, order, sizes, value)
    if isinstance(i, Window):
        parts = []
        for axis, step in i.steps:
            ramp = align(Value(sizes.arange(axis), (axis,)), order).code
            parts.append(ramp if step == 1 else f"{step} * {ramp}")
        offset = sizes.number(i.offset)
        return " + ".join([*parts, *([] if offset == "0" and parts else [offset])])
    if isinstance(i, Arithmetic):
        steps = [(index_tensor(inner, order, sizes, value), step) for inner, step in i.steps]
        summands = [f"({code})" if step == 1 else f"{step} * ({code})" for code, step in steps]
        offset = sizes.number(i.offset)
        return " + ".join([*summands, *([] if offset == "0" else [offset])])
    if isinstance(i, Merged):
        code = ""
        for a in i.axes:
            part = index_tensor(a, order, sizes, value)
            length = _length(a, sizes)
            code = f"({code}) * {length} + {part}" if code else part
        return code
    if isinstance(i, PartOf):
        whole = index_tensor(i.whole, order, sizes, value)
        tail = " * ".join(sizes.number(n) for n in i.lengths[i.position + 1 :])
        divided = f"({whole}) // ({tail})" if tail else f"({whole})"
        return divided if i.position == 0 else f"{divided} % {sizes.number(i.lengths[i.position])}"
    return align(value(i, index_axes(i)), order).inside(ATOM)


def _windowed(stored: Value, node: Read, sizes: Sizes) -> Value:
    """Axis arithmetic: places and slices in one subscript, then sliding windows; all of it views."""
    windows = [i for i in node.index if isinstance(i, Window)]
    if any(len(i.steps) > 2 or any(step <= 0 for _, step in i.steps) for i in windows if not is_turned(i)):
        return indexed(stored, node, sizes, _no_value)
    turned = [k for k, i in enumerate(node.index) if is_turned(i)]
    if turned:
        index = tuple(unturned(i) if k in turned else i for k, i in enumerate(node.index))
        straight = read(stored, Read(node.name, index), sizes, _no_value)
        at = [position(straight.dims, straight.dims.index(node.index[k].steps[0][0])) for k in turned]  # type: ignore[union-attr]
        return straight.method(f".flip({', '.join(map(str, at))})")
    parts = [_part(i, d, sizes) for i, d in zip(node.index, stored.dims, strict=True)]
    code = stored
    if any(part != ":" for part in parts if part != "..."):
        code = code.method(subscript(parts))
    kept = [(i, d) for i, d in zip(node.index, stored.dims, strict=True) if not (isinstance(i, Window) and not i.steps)]
    dims: list[str] = []
    tail: list[str] = []
    for k, (i, dim) in enumerate(kept):
        if isinstance(i, Window) and len(i.steps) == 2:
            count = len(kept) + len(tail)
            code, slow, fast = _slide(code, k - count if any(map(is_pack, dims)) else k, count, str(dim), i, sizes)
            dims.append(slow)
            tail.append(fast)
        else:
            dims.append(i.steps[0][0] if isinstance(i, Window) else str(i))
    return Value(code.code, (*dims, *tail))


def is_turned(i: Index) -> bool:
    """Whether an index runs backwards along one axis: `size(t) - 1 - t`."""
    return isinstance(i, Window) and len(i.steps) == 1 and i.steps[0][1] < 0


def unturned(i: Index) -> Index:
    """The index that reads the same places forwards."""
    assert isinstance(i, Window)
    ((axis, step),) = i.steps
    last = Call("sub", (SizeOf(base(axis)), Num(Fraction(1))))
    if step == -1 and i.offset == last:
        return axis
    first = Call("sub", (i.offset, last if step == -1 else Call("mul", (Num(Fraction(-step)), last))))
    return Window(((axis, -step),), first)


def _part(i: Index, dim: Dim, sizes: Sizes) -> str:
    """What stands for an index in a subscript; windows of two axes are slid later."""
    if isinstance(i, Window) and not i.steps:
        return sizes.number(i.offset)
    if isinstance(i, Window) and len(i.steps) == 1:
        return span(i, str(dim), sizes)
    return "..." if isinstance(i, str) and is_pack(i) else ":"


def subscript(parts: list[str]) -> str:
    """`[…]` without the whole dimensions at its end, nor those between `...` and what is cut."""
    parts = list(parts)
    while len(parts) > 1 and parts[-1] == ":" and "..." not in parts:
        parts.pop()
    while parts[:2] == ["...", ":"] or (len(parts) > 2 and parts[0] == ":" and parts[1] == "..."):
        parts.pop(1 if parts[0] == "..." else 0)
    plain = next((k for k, part in enumerate(parts) if part != ":"), 0)
    if plain > 2 and "..." not in parts and all(p.isidentifier() or p.isdigit() for p in parts[plain:]):
        parts[:plain] = ["..."]
    return f"[{', '.join(parts)}]"


def span(window: Window, dim: str, sizes: Sizes) -> str:
    """The slice `offset + step * axis` for every value of the one axis of a window over a dimension."""
    ((axis, step),) = window.steps
    start = sizes.number(window.offset)
    if sizes.tight(dim, window):
        return f"{'' if start == '0' else start}:" + ("" if step == 1 else f":{step}")
    length = sizes.of(axis)
    last = length if step == 1 else f"{step} * ({length} - 1) + 1"
    stop = last if start == "0" else f"{start} + {last}"
    return f"{'' if start == '0' else start}:{stop}" + ("" if step == 1 else f":{step}")


def sliced(at: int, rank: int, part: str) -> str:
    """Subscript code that slices one dimension (negative positions count from the end)."""
    if at >= 0:
        return f"[{', '.join([':'] * at + [part])}]"
    return f"[{', '.join(['...', part] + [':'] * (-at - 1))}]"


def reached(step: int, places: str, dilation: int, taps: str) -> str:
    """The length from the first element that windows read to the last."""
    if step == dilation == 1:
        return f"{places} + {taps} - 1"
    if dilation == 1:
        return f"{step} * ({places} - 1) + {taps}"
    if step == 1:
        return f"{places} + {dilation} * ({taps} - 1)"
    return f"{step} * ({places} - 1) + {dilation} * ({taps} - 1) + 1"


def _slide(code: Value, at: int, rank: int, dim: str, window: Window, sizes: Sizes) -> tuple[Value, str, str]:
    """One dimension as (place of the window, place in the window), a view."""
    (slow, step), (fast, dilation) = sizes.ordered(window)
    start = sizes.number(window.offset)
    reach = sizes.of(fast) if dilation == 1 else f"{dilation} * ({sizes.of(fast)} - 1) + 1"
    if not sizes.tight(dim, window):
        code = code.method(f".narrow({at}, {start}, {reached(step, sizes.of(slow), dilation, sizes.of(fast))})")
    elif start != "0":
        code = code.method(sliced(at, rank, f"{start}:"))
    code = code.method(f".unfold({at}, {reach}, {step})")
    return (code.method(f"[..., ::{dilation}]") if dilation != 1 else code), slow, fast


def _no_value(node: Node, order: Dims) -> Value:
    raise AssertionError(f"no gather stands in {node} over {order}")
