"""Scatters in torch: added by row, along a dimension, on a diagonal, in windows, or by an index for every dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.backends.reads import index_tensor, pack_first, span
from derive.backends.values import ATOM, Dims, Line, is_pack, position
from derive.program import Index, Merged, Node, Read, Scatter, Window, index_axes

if TYPE_CHECKING:
    from derive.backends.torch import Printer


def scatter(printer: Printer, s: Scatter) -> None:
    name = printer.names.get(s.name, s.name)
    if s.onto is None:
        target = f"{printer.like}.new_zeros({', '.join(printer.lengths(s.axes))})"
    else:
        target = printer.names.get(s.onto, s.onto)
    order = tuple(dict.fromkeys(a for i in s.slots for a in index_axes(i)))
    moved = [k for k, i in enumerate(s.slots) if i != s.axes[k]]
    one = moved[0] if len(moved) == 1 else None
    if one is not None and isinstance(s.slots[one], Read):
        code = _gather_back(printer, s, one, target)
        if code is not None:
            _put(printer, s, name, target, code)
            return
    once = len(order) == sum(len(index_axes(i)) for i in s.slots)
    windows = once and moved and all(isinstance(s.slots[k], Window) for k in moved)
    if windows and _windows(printer, s, name, target, order):
        return
    if len(moved) == 1 and isinstance(s.slots[moved[0]], str) and s.slots.count(s.slots[moved[0]]) == 2:
        _diagonal(printer, s, name, target)
        return
    order = pack_first(a for i in s.slots for a in index_axes(i))
    items = [
        (
            f"torch.tensor({printer.number(i.offset)}, device={printer.like}.device)"
            if isinstance(i, Window) and not i.steps
            else index_tensor(i, order, printer.sizes, printer.value)
        )
        for i in s.slots
    ]
    value = printer.full(s.value, order)
    _put(printer, s, name, target, f".index_put_(({', '.join(items)},), {value.code}, accumulate=True)")


def _diagonal(printer: Printer, s: Scatter, name: str, target: str) -> None:
    """One axis at two places: added along the diagonal, which torch puts last."""
    axis = next(i for i in s.slots if s.slots.count(i) == 2)
    first, second = (k for k, i in enumerate(s.slots) if i == axis)
    rest = tuple(i for i in s.slots if i != axis and isinstance(i, str))
    pack = any(is_pack(i) for i in rest)
    count = len(s.slots)
    where = f"dim1={first - count if pack else first}, dim2={second - count if pack else second}" if rest else ""
    value = printer.value(s.value, (*rest, str(axis)))
    _start(printer, s, name, target)
    printer.lines.append(Line(f"{name}.diagonal({where}).add_({value.code})", str(s)))


def _put(printer: Printer, s: Scatter, name: str, target: str, call: str) -> None:
    if s.onto is None:
        printer.lines.append(Line(f"{name} = {target}{call}", str(s)))
    else:
        printer.lines.append(Line(f"{target}{call}", str(s)))


def _start(printer: Printer, s: Scatter, name: str, target: str) -> None:
    if s.onto is None:
        printer.lines.append(Line(f"{name} = {target}"))


def _gather_back(printer: Printer, s: Scatter, slot: int, target: str) -> str | None:
    """A scatter-add along one dimension: rows by `index_add_`, single elements by `scatter_add_`."""
    index = s.slots[slot]
    assert isinstance(index, Read)
    axes = index_axes(index)
    plain = tuple(i for k, i in enumerate(s.slots) if k != slot and isinstance(i, str))
    at = position(tuple(i if isinstance(i, str) else "" for i in s.slots), slot)
    if axes and set(axes) == set(plain):
        index_code = printer.value(index, plain).inside(ATOM)
        value = printer.value(s.value, plain)
        if not value.dims and len(plain) == 1 and not is_pack(plain[0]):
            source = f"{value.inside(ATOM)}.expand({printer.size(plain[0])}, 1)"
        else:
            source = f"{printer.full(s.value, plain).inside(ATOM)}.unsqueeze({at})"
        return f".scatter_add_({at}, {index_code}.unsqueeze({at}), {source})"
    if set(axes) & set(plain) or not axes or any(is_pack(a) for a in plain):
        return None
    order = (*s.slots[:slot], *axes, *s.slots[slot + 1 :])
    value = printer.full(s.value, order)  # type: ignore[arg-type]
    where = printer.value(index, axes)
    if len(axes) == 1 and not is_pack(axes[0]):
        return f".index_add_({slot}, {where.code}, {value.code})"
    shape = [printer.size(a) if isinstance(a, str) else "" for a in s.slots[:slot]] + ["-1"]
    shape += [printer.size(a) for a in s.slots[slot + 1 :] if isinstance(a, str)]
    whole = _whole(printer, s.value, order) or value.inside(ATOM)
    flat = f"{whole}.reshape({', '.join(shape)})"
    return f".index_add_({slot}, {where.inside(ATOM)}.reshape(-1), {flat})"


def _whole(printer: Printer, node: Node, order: tuple[Index, ...]) -> str | None:
    """The tensor itself, where reading it through merged indices changes no order of elements."""
    if not isinstance(node, Read) or None in printer.layouts[node.name]:
        return None
    in_order = tuple(a for i in node.index for a in index_axes(i)) == order
    unmoved = all(isinstance(i, str | Merged) for i in node.index)
    return printer.stored(node.name).code if in_order and unmoved else None


def _windows(printer: Printer, s: Scatter, name: str, target: str, order: Dims) -> bool:
    """Each place in the window adds a slice; slices of one place never overlap."""
    loops, slots = [], list(s.slots)
    for k, i in enumerate(s.slots):
        if not isinstance(i, Window):
            continue
        if any(step <= 0 for _, step in i.steps) or len(i.steps) > 2:
            return False
        if not i.steps:
            continue
        steps = sorted(i.steps, key=lambda st: printer.sizes.carried(st[0]))
        if len(steps) == 2:
            loops.append((k, steps[0], steps[1]))
        slots[k] = steps[0][0]
    inner = tuple(a for a in slots if isinstance(a, str))
    loop_axes = [fast for _, _, (fast, _) in loops]
    value = printer.full(s.value, (*inner, *loop_axes))
    whole = value.code
    _start(printer, s, name, target)
    if loops and not whole.isidentifier():
        printer.lines.append(Line(f"patches = {whole}", str(s)))
        whole = "patches"
    pieces = [":" if not is_pack(a) else "..." for a in s.axes]
    for k, i in enumerate(s.slots):
        if isinstance(i, Window):
            pieces[k] = _slice(printer, i, dict((j, f) for j, _, f in loops).get(k))
    indent = ""
    for fast in loop_axes:
        printer.lines.append(Line(f"{indent}for at_{fast} in range({printer.size(fast)}):"))
        indent += "    "
    at = f"[..., {', '.join(f'at_{a}' for a in loop_axes)}]" if loops else ""
    printer.lines.append(Line(f"{indent}{name}[{', '.join(pieces)}] += {whole}{at}", str(s)))
    return True


def _slice(printer: Printer, window: Window, fast: tuple[str, int] | None) -> str:
    if not window.steps:
        return printer.number(window.offset)
    if fast is None:
        ((axis, step),) = window.steps
        return span(axis, step, window.offset, printer.sizes)
    axis, dilation = fast
    ((slow, step),) = [st for st in window.steps if st[0] != axis]
    start = f"at_{axis}" if dilation == 1 else f"{dilation} * at_{axis}"
    offset = printer.number(window.offset)
    start = start if offset == "0" else f"{offset} + {start}"
    length = printer.size(slow)
    stop = f"{start} + {length}" if step == 1 else f"{start} + {step} * ({length} - 1) + 1"
    return f"{start}:{stop}" + ("" if step == 1 else f":{step}")
