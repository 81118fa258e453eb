"""Indices in torch: a read of a tensor becomes a view where one serves, an indexing call where none does."""

from __future__ import annotations

from derive.backends.torch.reads.gathers import gathered
from derive.backends.torch.reads.index_tensors import indexed
from derive.backends.torch.reads.reshapes import reshaped
from derive.backends.torch.reads.skewed import skewed
from derive.backends.torch.reads.slices import windowed
from derive.backends.torch.sizes import Print, Sizes
from derive.backends.values import Dims, Value, is_pack, named_by, squeeze
from derive.ir.nodes.walking import axes_along
from derive.ir.program import Arithmetic, Merged, PartOf, Read


def read(stored: Value, node: Read, sizes: Sizes, value: Print, order: Dims = ()) -> Value:
    """The element `name[index]` for all axes at once, with the axes as dimensions; in this order, if that is free."""
    kinds = [type(i) for i in node.index]
    if all(k is str for k in kinds) and len(set(node.index)) == len(node.index):
        return Value(stored.code, named_by(stored.dims, axes_along(node.index)))
    stored = squeeze(stored)
    if any(isinstance(i, Arithmetic) for i in node.index):
        return indexed(stored, node, sizes, value)
    if any(isinstance(i, Merged | PartOf) for i in node.index):
        plain = reshaped(stored, node, sizes, order)
        return indexed(stored, node, sizes, value) if plain is None else read(*plain, sizes, value)
    if all(k is str for k in kinds):
        return _diagonal(stored, node)
    if any(isinstance(i, Read) for i in node.index):
        return gathered(stored, node, sizes, value, order)
    axes = axes_along(node.index)
    if len(set(axes)) < len(axes):  # one axis in a window and beside it
        return skewed(stored, node, sizes) or indexed(stored, node, sizes, value)
    return windowed(stored, node, sizes)


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
            where = (None, None) if len(names) == 2 and not pack else (a, b)
            stored = stored.method("diagonal", dim1=where[0], dim2=where[1])
            names = [*rest, axis]
    return Value(stored.code, tuple(names))  # type: ignore[arg-type]
