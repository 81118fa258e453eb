"""Scatters in torch: added by row, along a dimension, on a diagonal, in windows, or by an index for every dimension."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from derive.backends.code import ALL, REST, Code, Item, Listed, Name, as_code, call, method
from derive.backends.torch.pointwise import device_of
from derive.backends.torch.products.chosen import outer_products_added
from derive.backends.torch.products.convolutions import scattered
from derive.backends.torch.reads.gathers import (
    flat,
    gathers_in_a_row,
    gathers_sharing,
    is_slice,
    merged_places,
    rows_chosen,
)
from derive.backends.torch.reads.index_tensors import index_tensor, pack_first, places_end
from derive.backends.torch.reads.skewed import skew
from derive.backends.torch.reads.slices import padded, span, subscript
from derive.backends.torch.reductions.added_rows import Along, gather_back, rows_turned
from derive.backends.torch.reductions.boxes import spread_over_boxes
from derive.backends.torch.reductions.channels import adds_by_tap
from derive.backends.torch.reductions.extrema import extremum
from derive.backends.torch.reductions.taps import through_windows
from derive.backends.values import Dims, is_pack
from derive.ir.nodes.arithmetic import multiplied
from derive.ir.nodes.products import is_tensor
from derive.ir.nodes.walking import axes_along, node_axes
from derive.ir.program import (
    Call,
    Node,
    Read,
    Scatter,
    SizeOf,
    Window,
)

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def scatter(printer: Printer, s: Scatter) -> None:
    """The lines of a scatter, by the first of these ways that is for it."""
    name = printer.named(s.name)
    if s.kind in ("amax", "amin"):
        printer.line(name, extremum(printer, s), note=str(s))
        return
    if (padding := _padding(printer, s)) is not None:
        printer.line(name, padding, note=str(s))
        return
    target = printer.zeros(s.axes) if s.onto is None else printer.named(s.onto)
    run = _merged_alike(printer, s)
    if run:
        _at_merged(printer, s, run, name)
        return
    moved = [i for k, i in enumerate(s.slots) if i != s.axes[k]]
    one = moved[0] if len(moved) == 1 else None
    if (code := outer_products_added(printer, s)) is not None:
        printer.line(name if s.onto is None else target, code, "=" if s.onto is None else "+=", str(s))
        return
    if isinstance(one, Read) and (code := rows_turned(printer, s, s.slots.index(one), one)) is not None:
        printer.line(name, code, note=str(s))
        return
    if isinstance(one, Read) and (code := gather_back(printer, Along(s, s.slots.index(one), one), target)) is not None:
        _put(printer, s, name, code)
        return
    if len(run := gathers_sharing(s.slots)) == 1:
        _put(printer, s, name, _elements_at_merged(printer, s, run, target))
        return
    if _in_a_view(printer, s, name, target):
        return
    if any(isinstance(i, Window) for i in s.slots) and not adds_by_tap(printer, s) and _convolutions(printer, s, name):
        return
    if isinstance(one, Window) and _of_pairs(printer, s, one):
        _put(printer, s, name, _at_pairs(printer, s, one, target))
        return
    axes = axes_along(s.slots)
    windows = moved and all(isinstance(i, Window) for i in moved) and len(set(axes)) == len(axes)
    if windows and (spread_over_boxes(printer, s, name) or through_windows(printer, s, name, target)):
        return
    if (found := skew(s.slots)) is not None:
        dims = tuple(found.own if k == found.at else i for k, i in enumerate(s.slots))
        values = printer.full(s.value, dims)  # type: ignore[arg-type]
        arguments = (target, *found.arguments(s.axes, printer.sizes), values)
        printer.line(name, call("add_skewed_", *arguments, **found.options), note=str(s))
        return
    if isinstance(one, str) and s.slots.count(one) == 2:
        _diagonal(printer, s, name, target)
        return
    _put(printer, s, name, _by_indices(printer, s, target))


def _padding(printer: Printer, s: Scatter) -> Code | None:
    """A whole tensor with zeros around it; None where it is another scatter."""
    axes = [i.steps[0][0] if isinstance(i, Window) and len(i.steps) == 1 else i for i in s.slots]
    whole = isinstance(s.value, Read) and s.value.index == tuple(axes)
    made = isinstance(s.value, Call) and set(node_axes(s.value)) == set(axes) and len(set(axes)) == len(axes)
    if not (whole or made) or not printer.dtypes.is_real(s.value) or s.onto is not None:
        return None
    widths: list[str] = []
    for i, axis in zip(s.slots[::-1], s.axes[::-1], strict=True):
        if not isinstance(i, Window) and i != axis:
            return None
        if not isinstance(i, Window):
            widths += ["0", "0"]
            continue
        behind = printer.sizes.behind(axis, i)
        if behind is None or any(is_pack(a) for a in s.axes[s.slots.index(i) :]):
            return None
        widths += [printer.number(i.offset), behind]
    order: Dims = tuple(a for a in axes if isinstance(a, str))
    value = printer.elements(s.value, order) if isinstance(s.value, Read) else printer.value(s.value, order)
    return padded(value, widths) if value.dims == order else None


def _in_a_view(printer: Printer, s: Scatter, name: Name, target: Code) -> bool:
    """Added along one dimension of what stands at one place of others, or in a slice; False where it is not so."""
    fixed = [k for k, i in enumerate(s.slots) if isinstance(i, Window) and not i.steps and not is_tensor(i.offset)]
    cut = {k: i for k, i in enumerate(s.slots) if is_slice(i)}
    along = [k for k, i in enumerate(s.slots) if isinstance(i, Read)]
    plain = all(s.slots[k] == a and not is_pack(a) for k, a in enumerate(s.axes) if k not in (*fixed, *cut, *along))
    if not (fixed or cut) or len(along) != 1 or not plain:
        return False
    rest = [k for k in range(len(s.axes)) if k not in fixed]
    own = {k: i.steps[0][0] for k, i in cut.items()}
    axes, slots = tuple(own.get(k, s.axes[k]) for k in rest), tuple(own.get(k, s.slots[k]) for k in rest)
    if len(set(axes)) < len(axes):  # a diagonal is no slice
        return False
    part = replace(s, axes=axes, slots=slots)
    index = s.slots[along[0]]
    pieces: list[Code] = [as_code(printer.number(i.offset)) if isinstance(i, Window) else ALL for i in s.slots]
    for k, i in cut.items():
        pieces[k] = span(i, s.axes[k], printer.sizes)
    view, before = Item(name, tuple(subscript(pieces))), len(printer.lines)
    _start(printer, s, name, target)
    one = Along(part, rest.index(along[0]), index) if isinstance(index, Read) else None
    code = None if one is None else gather_back(printer, one, view)
    if code is None:
        del printer.lines[before:]
        return False
    printer.line(None, code, note=str(s))
    return True


def _of_pairs(printer: Printer, s: Scatter, window: Window) -> bool:
    """Whether it adds at sums of two places that both have lengths of their own, as a table of distances has them.

    Those of frames that follow one another in steps are added frame by frame.
    """
    axes = [a for a, step in window.steps if step == 1]
    plain = all(isinstance(i, str) and not is_pack(i) for i in s.slots if i != window)
    alone = len(axes) == len(window.steps) == 2 and not set(axes) & set(s.slots)
    return plain and alone and all(printer.sizes.slow(a) == 1 for a in axes)


def _at_pairs(printer: Printer, s: Scatter, window: Window, onto: Code) -> Code:
    """Added at the place of each pair at once: a loop over the places in a window would have as many turns as rows."""
    k, own = s.slots.index(window), tuple(a for a, _ in window.steps)
    where = index_tensor(window, own, printer.sizes, printer.value)
    value = printer.full(s.value, (*s.slots[:k], *own, *s.slots[k + 1 :]))  # type: ignore[arg-type]
    flat = (k, k + 1) if len(s.slots) > 1 else ()
    return method(onto, "index_add_", k, method(where, "flatten"), value.method("flatten", *flat))


def _by_indices(printer: Printer, s: Scatter, onto: Code) -> Code:
    """A scatter-add by an index for every dimension but the last whole ones."""
    rows = s.slots[: places_end(s.slots)]
    spread = pack_first(axes_along(rows))
    items = [
        (
            call("torch.tensor", printer.number(i.offset), device=device_of(printer.like))
            if isinstance(i, Window) and not i.steps and not is_tensor(i.offset)
            else index_tensor(i, spread, printer.sizes, printer.value)
        )
        for i in rows
    ]
    value = printer.full(s.value, (*spread, *s.slots[len(rows) :]))  # type: ignore[arg-type]
    return method(onto, "index_put_", Listed(tuple(items), is_tuple=True), value, accumulate=True)


def _merged_alike(printer: Printer, s: Scatter) -> range:
    """The dimensions next to each other along which this and all else that is added to a tensor of zeros is placed."""
    every = [x for x in printer.program.statements if isinstance(x, Scatter) and x.name == s.name]
    runs = {gathers_in_a_row(x.slots) or rows_chosen(x.slots) or gathers_sharing(x.slots) for x in every}
    fits = every[0].onto is None and len(runs) == 1 and all(x.kind == "sum" for x in every)
    packs = any(is_pack(a) for x in every for a in axes_along((*x.axes, *x.slots)))
    run = runs.pop() if fits and not packs else range(0)
    return run if len(run) > 1 else range(0)


def _at_merged(printer: Printer, s: Scatter, run: range, name: Name) -> None:
    """Added at places of several dimensions as of one: several times faster than by `index_put_`."""
    rows = gathers_in_a_row(s.slots) or rows_chosen(s.slots)
    at_merged = _rows_at_merged if rows else _elements_at_merged
    every = [x for x in printer.program.statements if isinstance(x, Scatter) and x.name == s.name]
    lengths = printer.lengths(s.axes)
    merged = printer.number(multiplied([SizeOf(s.axes[k]) for k in run]))
    zeros = method(printer.like, "new_zeros", *lengths[: run.start], merged, *lengths[run.stop :])
    if len(every) == 1:
        printer.line(name, method(at_merged(printer, s, run, zeros), "view", *lengths), note=str(s))
        return
    flat = Name(printer.unused(f"{name}_flat"))
    is_first = s is every[0]
    printer.line(flat if is_first else None, at_merged(printer, s, run, zeros if is_first else flat), note=str(s))
    if s is every[-1]:
        printer.line(name, method(flat, "view", *lengths))


def _rows_at_merged(printer: Printer, s: Scatter, run: range, onto: Code) -> Code:
    """Whole rows, by `index_add_`."""
    where, own = merged_places(s.slots, run, s.axes, printer.sizes, printer.value)
    value = printer.full(s.value, (*s.axes[: run.start], *own, *s.axes[run.stop :]))
    if len(own) > 1:
        where = method(where, "flatten")
        value = value.method("flatten", run.start, run.start + len(own) - 1)
    elif not own:  # one place
        where, value = method(where, "reshape", 1), value.method("unsqueeze", run.start)
    return method(onto, "index_add_", run.start, where, value)


def _elements_at_merged(printer: Printer, s: Scatter, run: range, onto: Code) -> Code:
    """Each element, by `scatter_add_`, where the indices share axes with other dimensions."""
    found = flat(s.slots, run, s.axes, printer.sizes, printer.value)
    value = printer.full(s.value, found.dims)
    if len(found.own) > 1:
        value = value.method("flatten", found.own[0], found.own[-1])
    return method(onto, "scatter_add_", run.start, found.where, value)


def _convolutions(printer: Printer, s: Scatter, name: Name) -> bool:
    """Each summand as the adjoint of a convolution's signal, where every one is; added to what is there."""
    found = [scattered(printer, replace(s, value=term)) for term in _summands(s.value)]
    if None in found:
        return False
    onto = s.onto is not None
    for value, cuts in (f for f in found if f is not None):
        if any(cuts) and not onto:
            printer.line(name, printer.zeros(s.axes))
        pieces = [cut or (REST if is_pack(a) else ALL) for cut, a in zip(cuts, s.axes, strict=True)]
        part = Item(name, tuple(subscript(pieces))) if any(cuts) else name
        printer.line(part, value, "+=" if onto else "=", str(s))
        onto = True
    return True


def _summands(node: Node) -> list[Node]:
    if isinstance(node, Call) and node.fn == "add":
        return [term for a in node.args for term in _summands(a)]
    return [node]


def _diagonal(printer: Printer, s: Scatter, name: Name, target: Code) -> None:
    """One axis at two places: added along the diagonal, which torch puts last."""
    axis = next(i for i in s.slots if s.slots.count(i) == 2)
    first, second = (k for k, i in enumerate(s.slots) if i == axis)
    rest = tuple(i for i in s.slots if i != axis and isinstance(i, str))
    pack = any(is_pack(i) for i in rest)
    count = len(s.slots)
    less = count if pack else 0
    where = {"dim1": first - less, "dim2": second - less} if rest else {}
    value = printer.value(s.value, (*rest, str(axis)))
    change = "add_" if s.kind == "sum" else "copy_" if value.dims else "fill_"
    _start(printer, s, name, target)
    printer.line(None, method(method(name, "diagonal", **where), change, value), note=str(s))


def _put(printer: Printer, s: Scatter, name: Name, change: Code) -> None:
    printer.line(name if s.onto is None else None, change, note=str(s))


def _start(printer: Printer, s: Scatter, name: Name, target: Code) -> None:
    if s.onto is None:
        printer.line(name, target)
