"""Reads by an integer tensor along one dimension: `gather`, `embedding`, `index_select` of whole slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeGuard

from derive.backends.code import ALL, REST, Code, as_code, call, together
from derive.backends.torch.reads.index_tensors import index_tensor, indexed
from derive.backends.torch.reads.slices import span, subscript
from derive.backends.torch.sizes import Print, Sizes
from derive.backends.values import Dims, Value, is_pack, permute, position, squeeze, unsqueeze
from derive.ir.nodes.products import is_tensor
from derive.ir.nodes.walking import axes_along, index_axes
from derive.ir.program import Index, Merged, Place, Read, SizeOf, Window


def gathered(stored: Value, node: Read, sizes: Sizes, value: Print, order: Dims = ()) -> Value:
    gathers = [k for k, i in enumerate(node.index) if isinstance(i, Read)]
    cut = {k: i for k, i in enumerate(node.index) if is_slice(i)}
    if cut:  # a slice is a view
        pieces: list[Code] = [
            span(cut[k], str(d), sizes) if k in cut else REST if is_pack(d) else ALL for k, d in enumerate(stored.dims)
        ]
        whole = tuple(cut[k].steps[0][0] if k in cut else i for k, i in enumerate(node.index))
        dims = tuple(cut[k].steps[0][0] if k in cut else d for k, d in enumerate(stored.dims))
        return gathered(stored.at(*subscript(pieces), dims=dims), replace(node, index=whole), sizes, value, order)
    plain = [i for i in node.index if isinstance(i, str)]
    fixed = [k for k, i in enumerate(node.index) if isinstance(i, Window) and not i.steps and not is_tensor(i.offset)]
    if plain and fixed and not any(map(is_pack, plain)):  # at one place of a dimension is a view
        pieces = [as_code(sizes.number(i.offset)) if k in fixed else ALL for k, i in enumerate(node.index)]  # type: ignore[union-attr]
        rest = replace(node, index=tuple(i for k, i in enumerate(node.index) if k not in fixed))
        dims = tuple(d for k, d in enumerate(stored.dims) if k not in fixed)
        return gathered(stored.at(*subscript(pieces), dims=dims), rest, sizes, value, order)
    run = rows_chosen(node.index)
    if run and run.start == 0 and len(node.index) - len(run) == 1:
        return _merged_rows(stored, node, run, sizes, value)
    if len(gathers) == 1 and len(plain) == len(node.index) - 1 and len(set(plain)) == len(plain):
        slot = gathers[0]
        inner = node.index[slot]
        axes = index_axes(inner)
        behind = node.index[slot + 1 :]  # rows that are read in whole are read by row
        if gathered_column(node) or (axes and set(behind) <= set(axes) < set(plain)):
            sizes.checked.add(inner.name)  # type: ignore[union-attr]
            return _batched_gather(stored, node, slot, sizes, value)
        if not set(axes) & set(plain):
            return _row_gather(stored, node, slot, sizes, value, order)
        if len(along(node.index, slot)) == len(node.index):
            sizes.checked.add(inner.name)  # type: ignore[union-attr]
            at = position(along(node.index, slot), slot)
            chosen = whole_index(node.index, slot, sizes, value)
            return stored.method("gather", at, chosen, dims=along(node.index, slot))
    run = gathers_in_a_row(node.index)
    if run and not any(map(is_pack, axes_along(node.index))):
        return _places_gather(stored, node, run, sizes, value)
    if run := gathers_sharing(node.index):
        return _flat_gather(stored, node, run, sizes, value)
    return indexed(stored, node, sizes, value)


def is_slice(i: Index) -> TypeGuard[Window]:
    """Whether an index is every place of an axis, or every other, from some place on."""
    return isinstance(i, Window) and len(i.steps) == 1 and i.steps[0][1] > 0 and not is_tensor(i.offset)


def gathered_column(node: Read) -> Dims:
    """The dimensions of `logp[n, y[n]]` as `gather` makes it, `[n, 1]`; none for another read."""
    slots = [i for i in node.index if isinstance(i, Read)]
    plain = [i for i in node.index if isinstance(i, str)]
    one = len(slots) == 1 and len(plain) == len(node.index) - 1 and len(set(plain)) == len(plain) > 0
    whole = one and set(index_axes(slots[0])) == set(plain)
    return tuple(i if isinstance(i, str) else None for i in node.index) if whole else ()


def rows_gathered(node: Read) -> Dims:
    """The dimensions of `w[d, y[n]]` read row by row, `[n, d]`, in whatever order; none for another read."""
    slots = [i for i in node.index if isinstance(i, Read)]
    plain = [i for i in node.index if isinstance(i, str)]
    if len(slots) != 1 or len(plain) != len(node.index) - 1 or len(set(plain)) < len(plain):
        return ()
    axes = index_axes(slots[0])
    return () if set(axes) & set(plain) or any(map(is_pack, (*axes, *plain))) else (*axes, *plain)


def gathers_in_a_row(index: tuple[Index, ...]) -> range:
    """Where two or more gathers stand next to each other, and everywhere else an axis that none of them has."""
    gathers = [k for k, i in enumerate(index) if isinstance(i, Read)]
    plain = [i for i in index if isinstance(i, str)]
    run = range(gathers[0], gathers[-1] + 1) if gathers else range(0)
    apart = not set(plain) & {a for k in gathers for a in index_axes(index[k])} and len(set(plain)) == len(plain)
    whole = len(run) == len(gathers) > 1 and len(plain) + len(gathers) == len(index)
    return run if whole and apart else range(0)


def rows_chosen(index: tuple[Index, ...]) -> range:
    """Where gathers stand next to axes that they have, and behind them whole rows: `y[n, pick[n, k], c]`."""
    plain = [i for i in index if isinstance(i, str)]
    gathers = [i for i in index if isinstance(i, Read)]
    axes = {a for i in gathers for a in index_axes(i)}
    places = [k for k, i in enumerate(index) if i in gathers or i in axes]
    run = range(places[0], places[-1] + 1) if gathers else range(0)
    whole = len(plain) + len(gathers) == len(index) > run.stop and len(set(plain)) == len(plain)
    apart = len(places) == len(run) > len(gathers)
    return run if whole and apart and not any(map(is_pack, (*axes, *plain))) else range(0)


def gathers_sharing(index: tuple[Index, ...]) -> range:
    """Where gathers stand next to each other, of which some have an axis that is a dimension elsewhere.

    One alone with several axes beside it, `x[n, ix[n, h, w]]`: `gather` takes these as one.
    """
    gathers = [k for k, i in enumerate(index) if isinstance(i, Read)]
    plain = [i for i in index if isinstance(i, str)]
    run = range(gathers[0], gathers[-1] + 1) if gathers else range(0)
    axes = {a for k in gathers for a in index_axes(index[k])}
    whole = len(run) == len(gathers) and len(plain) + len(gathers) == len(index) and len(set(plain)) == len(plain)
    shared, packs = set(plain) & axes, any(map(is_pack, (*axes, *plain)))
    beside = len(axes - shared) > (len(run) < 2)
    return run if whole and shared and beside and not packs else range(0)


def merged_places(
    index: tuple[Index, ...], run: range, dims: Dims, sizes: Sizes, value: Print
) -> tuple[Code, tuple[str, ...]]:
    """The place along these dimensions as one that indices next to each other name, and the axes of that tensor."""
    axes = tuple(dict.fromkeys(a for k in run for a in index_axes(index[k])))
    if len(run) == 1:
        return index_tensor(index[run.start], axes, sizes, value), axes
    merged = Merged(tuple(Place(index[k], SizeOf(str(dims[k]))) for k in run))
    return index_tensor(merged, axes, sizes, value), axes


def _merged_rows(stored: Value, node: Read, run: range, sizes: Sizes, value: Print) -> Value:
    """`y[n, pick[n, k], c]`: rows of a table that has those of every `n` one after another."""
    where, axes = merged_places(node.index, run, stored.dims, sizes, value)
    rows = stored.method("flatten", 0, len(run) - 1)
    return Value(call("functional.embedding", where, rows), (*axes, *node.index[run.stop :]))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Flat:
    """What is read, or added to, where several dimensions are one, at places that an index tells beside other axes."""

    dims: Dims  # as the read has them
    own: range  # those among them that the index alone has
    where: Code  # the index, its own axes as one, expanded over the others


def flat(index: tuple[Index, ...], run: range, lengths: Dims, sizes: Sizes, value: Print) -> Flat:
    """How `gather` and `scatter_add_` take indices of a run of dimensions that share axes with the others."""
    where, axes = merged_places(index, run, lengths, sizes, value)
    own = tuple(a for a in axes if a not in index)
    dims = tuple(str(i) for i in (*index[: run.start], *own, *index[run.stop :]))
    code = permute(Value(where, axes), tuple(d for d in dims if d in axes))
    if len(own) > 1:
        at = code.dims.index(own[0])
        code = code.method("flatten", at, at + len(own) - 1, dims=tuple(d for d in code.dims if d not in own[1:]))
    kept = tuple(d for d in dims if d not in own[1:])
    code = unsqueeze(code, tuple(d if d in axes else None for d in kept))
    if None in code.dims:
        code = code.method("expand", *(-1 if d in axes else sizes.of(d) for d in kept))
    return Flat(dims, range(run.start, run.start + len(own)), code.code)


def _flat_gather(stored: Value, node: Read, run: range, sizes: Sizes, value: Print) -> Value:
    """`img[n, c, y[n, t], x[n, t]]`: along several dimensions as one, which is ten times as fast as by four indices."""
    found = flat(node.index, run, stored.dims, sizes, value)
    merged = stored.method("flatten", run.start, run.stop - 1) if len(run) > 1 else stored
    taken = merged.method("gather", run.start, found.where, dims=found.dims)
    if len(found.own) < 2:
        return taken
    return taken.method("unflatten", run.start, together(sizes.of(str(found.dims[k])) for k in found.own))


def _places_gather(stored: Value, node: Read, run: range, sizes: Sizes, value: Print) -> Value:
    """`img[c, y[n], x[n]]`: one place of several dimensions at a time, of the others all."""
    axes = tuple(dict.fromkeys(a for k in run for a in index_axes(node.index[k])))
    items = [index_tensor(node.index[k], axes, sizes, value) for k in run]
    dims = (*node.index[: run.start], *axes, *node.index[run.stop :])
    if axes:
        return Value(call("at_places", stored, run.start, *items), dims)  # type: ignore[arg-type]
    return stored.at(*[ALL] * run.start, *items, dims=dims)  # type: ignore[arg-type]


def _batched_gather(stored: Value, node: Read, slot: int, sizes: Sizes, value: Print) -> Value:
    """`logp[n, y[n]]`: along one dimension, an index for each element of the others, or one for several of these."""
    dims = tuple(i if isinstance(i, str) else "?" for i in node.index)
    at = position(dims, slot)
    kept = tuple(i if isinstance(i, str) else None for i in node.index)
    return stored.method("gather", at, column(node.index, slot, at, sizes, value), dims=kept)


def column(index: tuple[Index, ...], slot: int, at: int, sizes: Sizes, value: Print) -> Value:
    """The integer tensor of a gather of one element along a dimension, expanded over the dimensions that it lacks."""
    plain = tuple(i for i in index if isinstance(i, str))
    own = tuple(i for i in plain if i in index_axes(index[slot]))
    code = value(index[slot], own)  # type: ignore[arg-type]
    if own == plain:
        return code.method("unsqueeze", at)
    dims = tuple(i if isinstance(i, str) and i in own else None for i in index)
    code = unsqueeze(permute(squeeze(code), own), dims[next(k for k, d in enumerate(dims) if d) :])
    lengths = ((f"*{sizes.of(i)}" if is_pack(i) else sizes.of(i)) if isinstance(i, str) else "1" for i in index)
    return code.method("expand", *lengths)


def along(index: tuple[Index, ...], slot: int) -> Dims:
    """The dimensions of `x[n, ix[n, r], e]` with `r` for the index; none where it has several axes of its own."""
    own = [a for a in index_axes(index[slot]) if a not in index]
    plain = [i for k, i in enumerate(index) if k != slot]
    if len(own) != 1 or is_pack(own[0]) or not all(isinstance(i, str) for i in plain) or len(set(plain)) != len(plain):
        return ()
    return tuple(own[0] if k == slot else str(i) for k, i in enumerate(index))


def whole_index(index: tuple[Index, ...], slot: int, sizes: Sizes, value: Print) -> Value:
    """The integer tensor of a gather along one dimension, expanded over the dimensions that it lacks."""
    dims, inner = along(index, slot), index[slot]
    assert isinstance(inner, Read)
    code = value(inner, dims)
    if set(index_axes(inner)) == set(dims):
        return permute(squeeze(code), dims)
    return code.method("expand", *(f"*{sizes.of(d)}" if is_pack(d) else sizes.of(d) for d in dims if d is not None))


def _row_gather(stored: Value, node: Read, slot: int, sizes: Sizes, value: Print, order: Dims) -> Value:
    """`C[ix[n, t], e]`: whole slices, by an index of its own axes.

    Single numbers that are read row by row are gathered so: of `B[j, ix[n]]` as `[n, j]`, `B.T[ix]` takes a fifth of
    `B[:, ix].T`. One place alone is a view as it stands: `B[:, ix]`.
    """
    inner = node.index[slot]
    axes = index_axes(inner)
    first = tuple(d for d in order if d in axes_along(node.index))[: len(axes)] == axes
    last = 0 < slot == len(node.index) - 1
    if last and axes and first and not any(is_pack(a) for a in axes_along(node.index)):
        rest = tuple(map(str, node.index[:slot]))
        turned = permute(Value(stored.code, (*rest, "")), ("", *rest))
        return turned.at(value(inner, axes), dims=(*axes, *rest))  # type: ignore[arg-type]
    index = value(inner, axes)  # type: ignore[arg-type]
    dims = (*node.index[:slot], *axes, *node.index[slot + 1 :])
    if slot == 0 and len(node.index) == 2:
        sizes.checked.add(inner.name)  # type: ignore[union-attr]
        return Value(call("functional.embedding", index, stored), dims)  # type: ignore[arg-type]
    if axes and not any(map(is_pack, axes)):
        sizes.checked.update({inner.name} & sizes.given)  # type: ignore[union-attr]  # of another, a condition's
        return _selected(stored, dims, range(slot, slot + len(axes)), index, sizes)  # type: ignore[arg-type]
    before = [ALL if not is_pack(i) else REST for i in node.index[:slot]]  # type: ignore[arg-type]
    after = [ALL for _ in node.index[slot + 1 :]] if REST in before else []
    return stored.at(*before, index, *after, dims=dims)  # type: ignore[arg-type]


def _selected(stored: Value, dims: Dims, own: range, index: Value, sizes: Sizes) -> Value:
    """Slices by `index_select`, which takes an index of one dimension: on a CPU a fifth of the time of `x[index]`."""
    at = position(stored.dims, own.start)
    if len(own) == 1:
        return stored.method("index_select", at, index, dims=dims)
    taken = stored.method("index_select", at, index.method("flatten"))
    return taken.method("unflatten", at, together(sizes.of(str(dims[k])) for k in own), dims=dims)
