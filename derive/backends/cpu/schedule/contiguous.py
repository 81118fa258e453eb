"""The order of axes in memory, and whether several are one there."""

from __future__ import annotations

from collections.abc import Sequence

from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.nodes.walking import axes_along, index_axes, walk
from derive.ir.program import AxisValue, Merged, Read, base


def as_one(axes: tuple[str, ...], loops: Sequence[Loop], form: Normal) -> bool:
    """Whether axes lie one after another, in this order, in all that loops read and write with them.

    The first may be the last of a merge, and all of them a merge's last.
    """

    def together(read: Read) -> bool:
        at = [k for k, i in enumerate(read.index) if not isinstance(i, Read) and set(index_axes(i)) & set(axes)]
        if not at:
            return True
        first, *others = (read.index[k] for k in at)
        dims = [form.dims[read.name][k] for k in at[1:]]
        own = all(isinstance(d, str) and base(d) == base(str(i)) for d, i in zip(dims, others, strict=True))
        found = (*(first.axes if isinstance(first, Merged) else (first,)), *others)
        before = set(axes_along(found[: -len(axes)]))
        return found[-len(axes) :] == axes and not before & set(axes) and at[-1] - at[0] == len(at) - 1 and own

    nodes = [n for s in loops for n in walk(s.value)]
    nodes += [n for s in loops for i in s.slots for n in walk(i)]
    places = all(n.axis not in axes for n in nodes if isinstance(n, AxisValue))
    written = [Read(s.name, s.slots) for s in loops]
    return places and all(together(n) for n in (*nodes, *written) if isinstance(n, Read))


def in_memory_order(axes: tuple[str, ...], loops: Sequence[Loop]) -> tuple[str, ...]:
    """The axes as the operand with most of them has them in memory."""
    best: tuple[str, ...] = ()
    for loop in loops:
        reads = (n for n in walk(loop.value) if isinstance(n, Read))
        for m in (axes_along(loop.slots), *(axes_along(r.index) for r in reads)):
            here = tuple(dict.fromkeys(a for a in m if a in axes))
            best = here if len(here) > len(best) else best
    return (*best, *(a for a in axes if a not in best))
