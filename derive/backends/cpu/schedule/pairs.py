"""A sum down the columns of a table counts places as the loop does that writes the table: a total over its rows.

`b[n, d] = sum(t[i, n] * x[i, d], over=i)` goes through t[n, m] at a stride, and needs all of it. Under the names
`b_of_rows[d, m] = sum(t[n, m] * x[n, d], over=n)` it is a total of the pass that makes t row by row. The axis of the
row is last there: vectors run along it, however short the others are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from derive.backends.cpu.products.matrices import Step
from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.nodes.other_axes import plain_by_axes, with_axes
from derive.ir.nodes.walking import by_axes, by_axes_once
from derive.ir.program import Read

Tables = Mapping[str, tuple[str, ...]]
"""What loops write, each with its axes."""


def tables(steps: Sequence[Step], outer: tuple[str, ...]) -> Tables:
    """What loops write row by row: the outer axes come first, and others after them."""
    loops = [s for s in steps if isinstance(s, Loop)]
    changed = {s.name for s in loops if s.changes}
    once = (s for s in loops if s.name not in changed and by_axes_once(Read(s.name, s.slots)))
    found = {s.name: tuple(map(str, s.slots)) for s in once}
    return {name: axes for name, axes in found.items() if axes[: len(outer)] == outer and len(axes) > len(outer)}


def by_rows(loop: Loop, outer: tuple[str, ...], rows: Tables, form: Normal) -> tuple[Loop, ...]:
    """A sum over all rows of one of these tables as a total over the outer axes, and that as the sum was called."""
    across = [r for r in loop.reads() if r.name in rows and _is_across(r, loop, len(outer))]
    plain = plain_by_axes(loop.value) and by_axes(Read(loop.name, loop.slots))
    if loop.kind != "sum" or not outer or not across or not plain or set(outer) <= set(loop.over):
        return (loop,)
    read = across[0]
    names = {str(a): b for a, b in zip(read.index, rows[read.name], strict=True)}
    over = tuple(names.get(a, a) for a in loop.over)
    if set(over) != set(outer) or len({names.get(a, a) for a in loop.domain}) < len(loop.domain):
        return (loop,)
    inner = rows[read.name][len(outer) :]
    own = sorted(map(str, loop.slots), key=lambda a: names.get(a, a) in inner)  # the row's axes last
    name = form.unused(f"{loop.name}_of_rows")
    total = replace(loop, name=name, slots=tuple(names.get(a, a) for a in own), over=over)
    copy = Loop(loop.name, loop.slots, Read(name, tuple(own)))
    return replace(total, value=with_axes(loop.value, names)), copy


def _is_across(read: Read, loop: Loop, rows: int) -> bool:
    """Whether it goes down the columns of a table: over all its rows, for an element of a row."""
    own = by_axes_once(read) and {*read.index} <= {*loop.domain}
    return own and {*read.index[:rows]} <= {*loop.over} and read.index[-1] in loop.free
