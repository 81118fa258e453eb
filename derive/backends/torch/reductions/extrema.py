"""The largest or smallest of what an index puts at each place, in torch: `scatter_reduce_`.

`index_reduce_` takes a CPU twice as long where rows are short, and warns that it may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.backends.code import Code, method, together
from derive.backends.values import align, is_pack, position
from derive.ir.nodes.walking import index_axes
from derive.ir.program import Read, Scatter

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def extremum(printer: Printer, s: Scatter) -> Code:
    """The largest or smallest of what stands at each place, along the one dimension whose places an index names."""
    (slot,) = (k for k, i in enumerate(s.slots) if isinstance(i, Read))
    plain = tuple(str(i) for k, i in enumerate(s.slots) if k != slot)
    index, own = s.slots[slot], tuple(a for a in index_axes(s.slots[slot]) if a not in plain)
    order = (*plain[:slot], *own, *plain[slot:])
    at = position(order, slot)
    value, flat = printer.full(s.value, order), len(own) > 1
    if flat:
        last = position(order, slot + len(own) - 1)
        value = value.method("flatten", at, last, dims=(*plain[:slot], own[0], *plain[slot:]))
    assert isinstance(index, Read)
    places = printer.value(index, own if flat else value.dims)
    if flat:
        places = align(places.method("flatten", dims=own[:1]), value.dims)
    if places.dims != value.dims:
        lengths = [f"*{printer.size(d)}" if is_pack(d) else "-1" if d in own else printer.size(d)
                   for d in value.dims if d is not None]  # fmt: skip
        # torch scatters by no other integers where they are expanded
        places = places.method("long").method("expand", *lengths, dims=value.dims)
    start = method(printer.like, "new_full", together(printer.lengths(s.axes)), printer.number(s.start))
    return method(start, "scatter_reduce_", at, places, value, f'"{s.kind}"')
