"""Whether several axes are one in memory."""

from __future__ import annotations

from collections.abc import Sequence

from derive.backends.cpu.statements.normal import Loop, Normal
from derive.nodes.walking import index_axes, walk
from derive.program import AxisValue, Read, base


def as_one(axes: tuple[str, ...], loops: Sequence[Loop], form: Normal) -> bool:
    """Whether axes lie one after another, in this order, in all that loops read and write with them."""

    def together(read: Read) -> bool:
        at = [k for k, i in enumerate(read.index) if not isinstance(i, Read) and set(index_axes(i)) & set(axes)]
        dims = form.dims[read.name]
        own = all(isinstance(dims[k], str) and base(str(dims[k])) == base(str(read.index[k])) for k in at[1:])
        return not at or (tuple(read.index[k] for k in at) == axes and at[-1] - at[0] == len(at) - 1 and own)

    nodes = [n for s in loops for n in walk(s.value)]
    nodes += [n for s in loops for i in s.slots for n in walk(i)]
    places = all(n.axis not in axes for n in nodes if isinstance(n, AxisValue))
    written = [Read(s.name, s.slots) for s in loops]
    return places and all(together(n) for n in (*nodes, *written) if isinstance(n, Read))
