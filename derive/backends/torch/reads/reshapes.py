"""Merged indices and their parts as views: dimensions split by `unflatten`, brought together by `flatten`."""

from __future__ import annotations

from itertools import pairwise

from derive.backends.torch.sizes import Sizes, length, packs
from derive.backends.values import PACK, Dims, Value, permute, position
from derive.nodes.arithmetic import multiplied
from derive.nodes.walking import index_axes
from derive.program import Index, Merged, PartOf, Place, Read


def reshaped(stored: Value, node: Read, sizes: Sizes, order: Dims = ()) -> tuple[Value, Read] | None:
    """What is read without merged indices nor parts; None where no view has it.

    Merged indices are split out of a dimension; the parts of one index are brought together and flattened. Where they
    lie apart, all dimensions are brought into the wanted order with them.
    """
    slots, code = list(node.index), Value(stored.code, tuple(f"?{k}" for k in range(len(node.index))))
    for merged in [i for i in slots if isinstance(i, Merged) and any(isinstance(a, PartOf) for a in i.axes)]:
        code = _unflattened(code, slots, slots.index(merged), sizes)
    code, slots = _together(code, slots, order)
    for k, i in enumerate(slots):
        repeated = _repeated(code, slots, k, i, sizes) if isinstance(i, PartOf) else None
        if repeated is not None and isinstance(i, PartOf):
            code, slots[k] = repeated, i.whole
    for whole in [i.whole for i in slots if isinstance(i, PartOf) and i.position == 0]:
        parts = [k for k, i in enumerate(slots) if isinstance(i, PartOf) and i.whole == whole]
        first = slots[parts[0]]
        assert isinstance(first, PartOf)
        wanted = [PartOf(whole, k, first.lengths) for k in range(len(first.lengths))]
        if sorted((slots[k] for k in parts), key=lambda i: i.position) != wanted:  # type: ignore[union-attr]
            return None
        places = [slots.index(w) for w in wanted]
        rest = [k for k in range(len(slots)) if k not in places]
        at = len([k for k in rest if k < places[0]])
        moved = [*rest[:at], *places, *rest[at:]]
        code = permute(_packed(code, slots), tuple(_packed(code, slots).dims[k] for k in moved))
        slots = [slots[k] for k in moved]
        start, end = (position(_dims(slots), k) for k in (at, at + len(places) - 1))
        code = code.method(f".flatten({start}, {end})")
        slots[at : at + len(places)] = [whole]
        code = Value(code.code, tuple(f"?{k}" for k in range(len(slots))))
    if any(isinstance(i, PartOf) for i in slots):
        return None
    while any(isinstance(i, Merged) for i in slots):
        code = _unflattened(code, slots, next(k for k, i in enumerate(slots) if isinstance(i, Merged)), sizes)
    return Value(code.code, tuple(f"?{k}" for k in range(len(slots)))), Read(node.name, tuple(slots))


def _repeated(code: Value, slots: list[Index], k: int, part: PartOf, sizes: Sizes) -> Value | None:
    """What is read by the first part of an index alone, each element as often as the others have places."""
    alone = all(j == k or part.whole not in (*index_axes(i), i) for j, i in enumerate(slots))
    if part.position or not alone or not isinstance(part.whole, str) or any(map(packs, slots)):
        return None
    times = sizes.number(multiplied(list(part.lengths[1:])))
    return Value(code.method(f".repeat_interleave({times}, {k})").code, code.dims)


def _together(code: Value, slots: list[Index], order: Dims) -> tuple[Value, list[Index]]:
    """Parts that lie apart next to each other, and with them all dimensions in the wanted order: one permutation."""
    parts = [i for i in slots if isinstance(i, PartOf)]
    wanted: list[Index] = []
    for dim in order:
        own = sorted((i for i in parts if i.whole == dim), key=lambda i: i.position)
        wanted += own or [i for i in slots if i == dim]
    close = [b for a, b in pairwise(slots) if a in parts and isinstance(b, PartOf) and b.position and _before(b) == a]
    if len(close) == len([i for i in parts if i.position]) or len(wanted) != len(slots):
        return code, slots
    code = _packed(code, slots)
    code = permute(code, tuple(code.dims[slots.index(i)] for i in wanted))
    return Value(code.code, tuple(f"?{k}" for k in range(len(slots)))), wanted


def _before(part: PartOf) -> PartOf:
    return PartOf(part.whole, part.position - 1, part.lengths)


def _unflattened(code: Value, slots: list[Index], k: int, sizes: Sizes) -> Value:
    """The value with one merged dimension split; its parts take their places in `slots`."""
    merged = slots[k]
    assert isinstance(merged, Merged)
    parts = _innermost(merged)
    lengths = ", ".join(length(a, sizes) for a in parts)
    code = code.method(f".unflatten({position(_dims(slots), k)}, ({lengths}))")
    slots[k : k + 1] = [a.index if isinstance(a, Place) else a for a in parts]
    return Value(code.code, tuple(f"?{n}" for n in range(len(slots))))


def _innermost(merged: Merged) -> list[Index]:
    """The parts of a merge, those of merges inside it in their place."""
    return [x for a in merged.axes for x in (_innermost(a) if isinstance(a, Merged) else [a])]


def _packed(code: Value, slots: list[Index]) -> Value:
    return Value(code.code, _dims(slots))


def _dims(slots: list[Index]) -> Dims:
    """Placeholder dimensions, with `...` where the slot is one."""
    return tuple(PACK if packs(i) else f"?{k}" for k, i in enumerate(slots))
