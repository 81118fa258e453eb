"""Assignments in torch: a value as the layout has its tensor, in the order, merged or expanded to what is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from derive.backends.torch.instructions import in_full
from derive.backends.torch.memory import is_whole, may_be_its_body
from derive.backends.torch.pointwise import cast
from derive.backends.torch.reductions.channels import filtered
from derive.backends.torch.reductions.reduction import reduction
from derive.backends.torch.reductions.tap_by_tap import tap_by_tap
from derive.backends.torch.reductions.windowed_sums import summed_in_turns, with_sums_in_turns
from derive.backends.values import Dims, Line, Value, align, permute, position, squeeze
from derive.ir.nodes.walking import axes_along, index_axes, reads
from derive.ir.program import Assign, Call, Join, Merged, Read, Reduce, Scan, Scatter, Shares, Statement

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def assigned(printer: Printer, s: Assign) -> list[Line]:
    """The lines of an assignment: a tensor of its own where a scatter adds to it thereafter."""
    order = printer.layouts.order(s)
    if (lines := tap_by_tap(printer, s, order) or filtered(printer, s, order)) is not None:
        return lines
    if (lines := summed_in_turns(printer, s, order)) is not None:
        return lines
    s = with_sums_in_turns(printer, s)
    if isinstance(s.value, Reduce):
        value = reduction(printer, s.value, order, keepdim=None in printer.layouts[s.name])
    else:
        value = printer.value(s.value, order)
    fresh = (isinstance(s.value, Call | Reduce | Join | Scan | Shares) and is_whole(s)) or value.scalar
    fresh = fresh and not may_be_its_body(s.value)
    if value.weak or (value.boolean and isinstance(s.value, Call) and s.value.fn == "where"):
        value = cast(value, printer.like)  # numbers, not a condition
    elif s.name in printer.outputs and not value.scalar:
        value = printer.as_real(s.value, value)
    value = _laid_out(printer, value, s, order)
    changed = any(isinstance(x, Scatter) and x.onto == s.name for x in printer.program.statements)
    if changed and not fresh and not _passed_on(printer, s):
        value = value.method("clone")
    return [Line(value.code, printer.named(s.name), note=str(replace(s, value=in_full(s.value))))]


def _passed_on(printer: Printer, s: Assign) -> bool:
    """Whether a tensor of ours is added to under another name where nothing reads it as it was any more."""
    if not (printer.fuse and isinstance(s.value, Read) and s.value.index == s.axes):
        return False
    name, statements = s.value.name, printer.program.statements
    makers = [x for x in statements if x.name == name]
    first, *later = statements[statements.index(s) + 1 :]
    in_one = isinstance(first, Scatter) and first.kind == "put"  # a call, which has read all before it writes
    after = [*(() if in_one else (first.value,)), *(i for x in later for i in (x.value, *x.slots))]
    read = {n for node in after for n in reads(node)}
    views = [x for x in statements if x is not s and isinstance(x.value, Read) and x.value.name == name]
    own = _is_new(makers[0]) and all(isinstance(x, Scatter) for x in makers[1:]) if makers else False
    return own and not views and name not in read | set(printer.program.ends)


def _is_new(s: Statement) -> bool:
    """Whether a statement makes a tensor in memory of its own; of another dtype it may be what it is made of."""
    computed = isinstance(s.value, Shares) or (isinstance(s.value, Call) and s.value.fn not in ("as_float64", "narrow"))
    return isinstance(s, Assign) and computed and is_whole(s)


def _laid_out(printer: Printer, value: Value, s: Assign, order: Dims) -> Value:
    """Dimensions as the layout wants them: permuted, merged, or expanded where the value lacks an axis."""
    layout = printer.layouts[s.name]
    wanted = tuple(d for d in order if d is not None)
    if any(isinstance(i, Merged) for i in s.axes):
        return _merged(printer, value, s)
    if value.dims == layout and not value.scalar:
        return value
    have = {d for d in value.dims if d is not None}
    if not value.scalar and have == set(wanted):
        value = value if None not in value.dims or None in layout else align(squeeze(value), wanted)
        return align(value, layout) if None in layout else permute(value, wanted)
    return printer.spread(align(value, order), wanted)


def _merged(printer: Printer, value: Value, s: Assign) -> Value:
    """The value with all axes on the left, those of every merge flattened into one dimension."""
    order = axes_along(s.axes)
    if value.scalar or set(order) - set(value.dims):
        value = printer.spread(align(value, order), order)
    value = permute(value, order)
    start = 0
    for i in s.axes:
        width = len(index_axes(i))
        if isinstance(i, Merged):
            a, b = position(value.dims, start), position(value.dims, start + width - 1)
            dims = (*value.dims[:start], str(i), *value.dims[start + width :])
            value = value.method("flatten", a, b, dims=dims)
            start += 1
        else:
            start += width
    return value
