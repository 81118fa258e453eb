"""Scatters along one dimension at places that an index tells: `index_add_` of rows, `scatter_add_` of elements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from derive.backends.code import Code, method
from derive.backends.torch.reads.gathers import along, column, whole_index
from derive.backends.torch.scalars import number_code
from derive.backends.values import Value, is_pack, permute, position
from derive.ir.nodes.products import is_tensor
from derive.ir.nodes.walking import axes_along, index_axes, walk
from derive.ir.program import Call, Index, Merged, Node, Num, Read, Reduce, Scatter

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


@dataclass(frozen=True)
class Along:
    """A scatter whose places along one dimension an index tells; the other slots are axes, or no call is for it."""

    scatter: Scatter
    slot: int
    index: Read

    @property
    def axes(self) -> tuple[str, ...]:
        """What the index runs over."""
        return index_axes(self.index)

    @property
    def plain(self) -> tuple[str, ...]:
        """The axes that are the other dimensions."""
        return tuple(i for k, i in enumerate(self.scatter.slots) if k != self.slot and isinstance(i, str))

    @property
    def at(self) -> int:
        """The dimension in code."""
        return position(tuple(i if isinstance(i, str) else "" for i in self.scatter.slots), self.slot)


def gather_back(printer: Printer, one: Along, onto: Code) -> Code | None:
    """A scatter-add along one dimension: rows by `index_add_`, single elements by `scatter_add_`; None for others."""
    shared = set(one.axes) & set(one.plain)
    return _elements_added(printer, one, onto) if shared else _rows_added(printer, one, onto)


def _elements_added(printer: Printer, one: Along, onto: Code) -> Code | None:
    """Every element to a place of its own: the index runs over other dimensions of the tensor as well."""
    s, at, plain = one.scatter, one.at, one.plain
    if not set(one.axes) <= set(plain):
        dims = along(s.slots, one.slot)
        if len(dims) != len(s.slots):
            return None
        chosen = whole_index(s.slots, one.slot, printer.sizes, printer.value)
        return method(onto, "scatter_add_", at, chosen, printer.full(s.value, dims))
    index = column(s.slots, one.slot, at, printer.sizes, printer.value)
    value = printer.value(s.value, plain)
    if not value.dims and len(plain) == 1 and not is_pack(plain[0]):
        size = printer.size(plain[0])
        shape = f"{size}, 1" if at else f"1, {size}"
        number = method(printer.like, "new_full", f"({shape})", value)
        source = Value(number) if value.scalar else value.method("expand", shape)
    else:
        source = printer.full(s.value, plain).method("unsqueeze", at)
    return method(onto, "scatter_" if s.kind == "put" else "scatter_add_", at, index, source)


def _rows_added(printer: Printer, one: Along, onto: Code) -> Code | None:
    """Whole rows, the axes of the index as one dimension of the source."""
    s, slot, axes = one.scatter, one.slot, one.axes
    # a multiple of rows PyTorch adds one row at a time, which takes a CPU four times as long
    single = printer.fuse and len(s.axes) == 1 and not is_pack(s.axes[0])
    number, term = _numbered(s.value) if single else (Fraction(1), s.value)
    times = None if number == 1 else number_code(Num(number))
    if not axes:
        place = printer.value(one.index, ()).method("reshape", 1)
        source = printer.full(term, one.plain).method("unsqueeze", one.at)
        return method(onto, "index_add_", one.at, place, source, alpha=times)
    if any(is_pack(a) for a in one.plain):
        return None
    order = (*s.slots[:slot], *axes, *s.slots[slot + 1 :])
    value = printer.full(term, order)  # type: ignore[arg-type]
    where = printer.value(one.index, axes)
    if len(axes) == 1 and not is_pack(axes[0]):
        return method(onto, "index_add_", slot, where, value, alpha=times)
    whole = _whole(printer, term, order)
    if whole is None and not any(is_pack(a) for a in axes):
        flat = value.method("flatten", slot, slot + len(axes) - 1)
    else:
        sides = (s.slots[:slot], s.slots[slot + 1 :])
        before, after = ([printer.size(a) for a in side if isinstance(a, str)] for side in sides)
        beside = bool(before or after)  # an empty axis, perhaps: then -1 could be any number
        flat = (whole or value).method("reshape", *before, where.method("numel") if beside else -1, *after)
    return method(onto, "index_add_", slot, where.method("reshape", -1), flat, alpha=times)


def rows_turned(printer: Printer, s: Scatter, slot: int, index: Read) -> Code | None:
    """Columns that are at hand as rows, added as such to what is turned then; None for others.

    `new_zeros(o, j).index_add_(0, ix, x).T` takes a quarter of `new_zeros(j, o).index_add_(1, ix, x.T)`.
    """
    plain = tuple(i for k, i in enumerate(s.slots) if k != slot and isinstance(i, str))
    axes, own = index_axes(index), (str(s.axes[slot]), *plain)
    order = (*axes, *plain)
    alone = s.onto is None and sum(x.name == s.name for x in printer.program.statements) == 1
    apart = len(set(order)) == len(order) and len(set(own)) == len(own) == len(s.axes)
    if not slot or not axes or not alone or not apart or any(map(is_pack, order)) or not _is_at_hand(printer, s, order):
        return None
    rows = replace(s, axes=own, slots=(index, *plain))
    made = _rows_added(printer, Along(rows, 0, index), printer.zeros(own))
    return None if made is None else permute(Value(made, own), tuple(map(str, s.axes))).code


def _is_at_hand(printer: Printer, s: Scatter, order: tuple[str, ...]) -> bool:
    """Whether what is added is computed from tensors with all its axes in this order; a product is made either way."""
    below = list(walk(s.value))
    whole = [n for n in below if isinstance(n, Read) and set(axes_along(n.index)) == set(order)]
    in_order = all(n.index == order and None not in printer.layouts[n.name] for n in whole)
    return bool(whole) and in_order and not any(isinstance(n, Reduce) for n in below)


def _numbered(node: Node) -> tuple[Fraction, Node]:
    """The number that a product of tensors begins with, or its sign, and the rest."""
    if isinstance(node, Call) and node.fn == "neg":
        number, rest = _numbered(node.args[0])
        return -number, rest
    if isinstance(node, Call) and node.fn in ("mul", "div"):
        first, second = node.args
        if node.fn == "mul" and isinstance(first, Num) and isinstance(first.value, Fraction) and is_tensor(second):
            return first.value, second
        number, rest = _numbered(first)
        return number, replace(node, args=(rest, second))
    return Fraction(1), node


def _whole(printer: Printer, node: Node, order: tuple[Index, ...]) -> Value | None:
    """The tensor itself, where reading it through merged indices changes no order of elements."""
    if not isinstance(node, Read) or None in printer.layouts[node.name]:
        return None
    in_order = axes_along(node.index) == order
    unmoved = all(isinstance(i, str | Merged) for i in node.index)
    return printer.stored(node.name) if in_order and unmoved else None
