"""Merged indices and their parts as views: dimensions split by `unflatten`, brought together by `flatten`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from derive.backends.code import Code, method, together
from derive.backends.torch.sizes import Sizes, fixed, length, packs
from derive.backends.values import PACK, Dim, Dims, Value, permute, position
from derive.ir.nodes.arithmetic import ZERO, multiplied
from derive.ir.nodes.walking import index_axes
from derive.ir.program import Index, Merged, Node, PartOf, Place, Read, SizeOf, Window, base


def reshaped(stored: Value, node: Read, sizes: Sizes, order: Dims = ()) -> tuple[Value, Read] | None:
    """What is read without merged indices nor parts; None where no view has it.

    Merged indices are split out of a dimension; the parts of one index are brought together and flattened. Where they
    lie apart, all dimensions are brought into the wanted order with them.
    """
    view = _View(stored.code, node.index)
    for merged in [i for i in node.index if isinstance(i, Merged) and any(isinstance(a, PartOf) for a in i.axes)]:
        view = _split(view, view.slots.index(merged), sizes)  # its parts may belong to those of other dimensions
    view = _together(view, order)
    own = dict(zip(node.index, stored.dims, strict=True))
    for k, i in enumerate(view.slots):
        view = _first_places(view, k, sizes, own.get(i)) if isinstance(i, PartOf) and i in own else view
    for k in range(len(view.slots)):
        view = _repeated(view, k, sizes) or view
    for whole in [i.whole for i in view.slots if isinstance(i, PartOf) and i.position == 0]:
        flat = _flattened(view, whole)
        if flat is None:
            return None
        view = flat
    if any(isinstance(i, PartOf) for i in view.slots):
        return None
    while any(isinstance(i, Merged) for i in view.slots):
        view = _split(view, next(k for k, i in enumerate(view.slots) if isinstance(i, Merged)), sizes)
    known = dict(zip(node.index, stored.dims, strict=True)) | {i: i for i in view.slots if isinstance(i, str)}
    dims = (known.get(i) if view.slots.count(i) == 1 else None for i in view.slots)
    return Value(view.code, tuple(d or f"?{k}" for k, d in enumerate(dims))), Read(node.name, view.slots)


@dataclass(frozen=True)
class _View:
    """A view of the tensor that is read, and for each of its dimensions the index at which it is."""

    code: Code
    slots: tuple[Index, ...]

    @property
    def value(self) -> Value:
        """The view with placeholder dimensions, `...` where the slot is one."""
        return Value(self.code, tuple(PACK if packs(i) else f"?{k}" for k, i in enumerate(self.slots)))

    def position(self, k: int) -> int:
        """The number of a dimension in code."""
        return position(self.value.dims, k)

    def changed(self, slots: tuple[Index, ...], name: str, *args: object) -> _View:
        """The view after a call, which has these dimensions."""
        return _View(method(self.code, name, *args), slots)

    def permuted(self, places: Sequence[int]) -> _View:
        """The dimensions in another order."""
        value = self.value
        return _View(permute(value, tuple(value.dims[k] for k in places)).code, tuple(self.slots[k] for k in places))


def _split(view: _View, k: int, sizes: Sizes) -> _View:
    """One merged dimension as those that it is made of."""
    merged = view.slots[k]
    assert isinstance(merged, Merged)
    parts = _innermost(merged)
    lengths = together(length(a, sizes) for a in parts)
    own = (a.index if isinstance(a, Place) else a for a in parts)
    return view.changed((*view.slots[:k], *own, *view.slots[k + 1 :]), "unflatten", view.position(k), lengths)


def _innermost(merged: Merged) -> list[Index]:
    """The parts of a merge, those of merges inside it in their place."""
    return [x for a in merged.axes for x in (_innermost(a) if isinstance(a, Merged) else [a])]


def _together(view: _View, order: Dims) -> _View:
    """Parts that lie apart next to each other, and with them all dimensions in the wanted order: one permutation."""
    parts = {k: i for k, i in enumerate(view.slots) if isinstance(i, PartOf)}
    wanted: list[int] = []  # places, since an axis may stand twice
    for dim in order:
        own = sorted((k for k, i in parts.items() if i.whole == dim), key=lambda k: parts[k].position)
        wanted += own or [k for k, i in enumerate(view.slots) if i == dim]
    later = [i for i in parts.values() if i.position]
    close = [b for a, b in pairwise(view.slots) if isinstance(b, PartOf) and b.position and _before(b) == a]
    if len(close) == len(later) or len(wanted) != len(view.slots):
        return view
    return view.permuted(wanted)


def _before(part: PartOf) -> PartOf:
    return PartOf(part.whole, part.position - 1, part.lengths)


def _first_places(view: _View, k: int, sizes: Sizes, dim: Dim) -> _View:
    """A dimension that a part of an index reads, as long as the part: of what was padded or joined it may be longer."""
    part = view.slots[k]
    assert isinstance(part, PartOf)
    first = part.lengths[part.position]
    if _has_length(dim, first, sizes) or packs(part):
        return view
    return view.changed(view.slots, "narrow", view.position(k), 0, sizes.number(first))


def _repeated(view: _View, k: int, sizes: Sizes) -> _View | None:
    """What is read by the first part of an index alone, each element as often as the others have places."""
    part = view.slots[k]
    if not isinstance(part, PartOf) or part.position or not isinstance(part.whole, str) or any(map(packs, view.slots)):
        return None
    if any(j != k and part.whole in (*index_axes(i), i) for j, i in enumerate(view.slots)):
        return None
    times = sizes.number(multiplied(list(part.lengths[1:])))
    return view.changed((*view.slots[:k], part.whole, *view.slots[k + 1 :]), "repeat_interleave", times, k)


def _has_length(dim: Dim, of: Node, sizes: Sizes) -> bool:
    """Whether a dimension is known to be as long as this says."""
    if dim is None:
        return False
    if not isinstance(of, SizeOf):
        own = {base(dim): sizes.of(dim)}
        return fixed(of, own) is not None and fixed(of, own) == fixed(SizeOf(dim), own)
    return base(dim) == base(of.axis) or sizes.ends(dim, Window(((of.axis, 1),), ZERO))


def _flattened(view: _View, whole: Index) -> _View | None:
    """The parts of one index next to each other, in their order, and as one dimension; None where some are missing."""
    found = {k: i for k, i in enumerate(view.slots) if isinstance(i, PartOf) and i.whole == whole}
    places = sorted(found, key=lambda k: found[k].position)
    lengths = next(iter(found.values())).lengths
    if [found[k] for k in places] != [PartOf(whole, k, lengths) for k in range(len(lengths))]:
        return None
    others = [k for k in range(len(view.slots)) if k not in found]
    first = sum(k < places[0] for k in others)
    view = view.permuted([*others[:first], *places, *others[first:]])
    start, end = (view.position(k) for k in (first, first + len(places) - 1))
    slots = (*view.slots[:first], whole, *view.slots[first + len(places) :])
    return view.changed(slots, "flatten", start, end)
