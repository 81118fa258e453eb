"""Copies that only look at a tensor under other axes: what reads the copy reads the tensor, what is copied is not made.

`z[t, h, p] = x[t, (h, p)]` goes: z[t, h, 0] is x[t, (h, 0)]. So do `y[t, (h, p)] = z[t, h, p]` and `y[t, d] = z[t,
part(d, 0), part(d, 1)]` where nothing else reads z: what writes z[t, h, p] writes y[t, (h, p)].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from derive.backends.cpu.statements.normal import Loop, Normal, rewritten
from derive.ir.nodes.walking import node_axes
from derive.ir.program import Index, Merged, Node, PartOf, Place, Read, SizeOf, base


def without_views(form: Normal) -> None:
    """Take such copies out of the loops."""
    while any(_taken_out(loop, form) for loop in form.loops):
        pass  # one may be a view of another: looked for again, since their loops have changed


def _taken_out(loop: Loop, form: Normal) -> bool:
    if loop.kind != "set" or not isinstance(loop.value, Read) or not _is_whole(loop.value, form):
        return False
    if _looks(loop, form):
        _read_through(loop, form)
        return True
    if _lays_out(loop, form):
        _written_through(loop, form)
        return True
    return False


def _is_whole(read: Read, form: Normal) -> bool:
    """Whether it goes over all of a tensor: a merge and its parts do, an axis by itself only where it is as long."""
    pairs = list(zip(read.index, form.dims[read.name], strict=True))
    return all(base(i) == base(d) for i, d in pairs if isinstance(i, str) and isinstance(d, str))


def _looks(loop: Loop, form: Normal) -> bool:
    """Whether every element is one of a tensor that stays as it is, at a place made of the loop's own axes."""
    assert isinstance(loop.value, Read)
    source, at = loop.value.name, form.loops.index(loop)
    used = [a for i in loop.value.index for a in (i.axes if isinstance(i, Merged) else (i,))]
    plain = all(isinstance(a, str) for a in (*loop.slots, *used)) and len({*loop.slots}) == len(loop.slots)
    alone = all(s.name != loop.name for s in form.loops if s is not loop)
    changed = any(s.name == source for s in form.loops[at:])
    own = loop.name not in form.program.returns and source not in form.integers
    return plain and sorted(map(str, used)) == sorted(map(str, loop.slots)) and alone and own and not changed


def _read_through(loop: Loop, form: Normal) -> None:
    assert isinstance(loop.value, Read)
    source = loop.value

    def seen(node: Node | Index) -> Node | Index:
        if not isinstance(node, Read) or node.name != loop.name:
            return node
        at = {str(a): i for a, i in zip(loop.slots, node.index, strict=True)}
        return Read(source.name, tuple(_put(i, at) for i in source.index))

    def changed(s: Loop) -> Loop:
        if all(r.name != loop.name for r in s.reads()):
            return s
        value, slots = rewritten(s.value, seen), tuple(rewritten(i, seen) for i in s.slots)
        return replace(s, value=value, slots=slots, note=f"{loop.note}\n{s.note}")  # type: ignore[arg-type]

    form.loops[:] = [changed(s) for s in form.loops if s is not loop]


def _put(index: Index, at: Mapping[str, Index]) -> Index:
    """An index of the tensor with places for the axes of the view."""
    if isinstance(index, Merged):
        return Merged(tuple(_part(at[str(a)], SizeOf(str(a))) for a in index.axes))
    return at[str(index)]


def _part(index: Index, length: Node) -> Index:
    """A part of a merge: an axis as long as the part is one by itself, anything else a place on so many."""
    whole = isinstance(index, str) and length == SizeOf(base(index))
    return index if whole else Place(index, length)


def _lays_out(loop: Loop, form: Normal) -> bool:
    """Whether it takes apart axes to read a tensor that only it reads, and that is written place by place."""
    assert isinstance(loop.value, Read)
    source = loop.value.name
    writers = [s for s in form.loops if s.name == source]
    readers = [s for s in form.loops if any(r.name == source for r in s.reads())]
    known = source in form.program.returns or source in dict(form.program.given)
    if known or readers != [loop] or not writers or any(s.name == loop.name for s in form.loops if s is not loop):
        return False
    simple = all(s.kind == "set" and not s.is_fold for s in writers)
    return simple and _taken_apart(loop) is not None


Parts = tuple[tuple[int, Node | None], ...]


def _taken_apart(loop: Loop) -> tuple[Parts, ...] | None:
    """By slot, of which dimensions of the tensor it is made, and how long they are in a merge; None if it is not."""
    assert isinstance(loop.value, Read)
    index = loop.value.index
    plain = {i: k for k, i in enumerate(index) if isinstance(i, str)}
    found: list[Parts] = []
    for slot in loop.slots:
        if isinstance(slot, Merged) and all(a in plain for a in slot.axes):
            found.append(tuple((plain[str(a)], SizeOf(base(str(a)))) for a in slot.axes))
        elif isinstance(slot, str) and slot in plain:
            found.append(((plain[slot], None),))
        elif isinstance(slot, str):
            own = [(k, i) for k, i in enumerate(index) if isinstance(i, PartOf) and i.whole == slot]
            if not own or [i.position for _, i in own] != list(range(len(own[0][1].lengths))):
                return None
            found.append(tuple((k, i.lengths[i.position]) for k, i in own))
        else:
            return None
    return tuple(found) if sorted(k for parts in found for k, _ in parts) == list(range(len(index))) else None


def _written_through(loop: Loop, form: Normal) -> None:
    assert isinstance(loop.value, Read)
    source, made = loop.value.name, _taken_apart(loop)
    assert made is not None
    form.dims[loop.name] = loop.slots

    def slot(parts: Parts, s: Loop) -> Index:
        (first, whole), *_ = parts
        if whole is None:
            return s.slots[first]
        return Merged(tuple(_part(s.slots[k], length) for k, length in parts if length is not None))

    def through(s: Loop) -> Loop:
        if s.name != source:
            return s
        slots = tuple(slot(parts, s) for parts in made)
        return replace(s, name=loop.name, slots=slots, note=f"{s.note}\n{loop.note}")

    form.loops[:] = [through(s) for s in form.loops if s is not loop]


def with_folds_spread(form: Normal) -> None:
    """A fold that is one value all along an axis of its tensor is taken once, and written to every place there.

    In `y[n, m, d] = sum(x[n, k] * w[k, d], over=k)` it would be taken anew for every `m`, and be no matrix product.
    """
    form.loops = [x for loop in form.loops for x in _spread(loop, form)]


def _spread(loop: Loop, form: Normal) -> Iterator[Loop]:
    own = tuple(i for i in loop.slots if i in node_axes(loop.value))
    if not loop.is_fold or len(own) == len(loop.slots) or not all(isinstance(i, str) for i in loop.slots):
        yield loop
        return
    name = form.fresh(f"{loop.name}_once")
    once = replace(loop, name=name, slots=own)
    form.dims[name] = own
    yield once
    yield Loop(loop.name, loop.slots, Read(name, own), note=loop.note)
