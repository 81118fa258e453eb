"""A fold that is one value all along an axis of its tensor is taken once, and written to every place there.

In `y[n, m, d] = sum(x[n, k] * w[k, d], over=k)` the sum would be taken anew for every `m`, and be no matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.nodes.walking import node_axes
from derive.ir.program import Read


def with_folds_spread(form: Normal) -> None:
    """Replace such folds by one over the axes that their value has, and a copy of it."""
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
