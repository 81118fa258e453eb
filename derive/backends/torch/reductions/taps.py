"""Scatters through windows in torch: a loop over the places in a window, each of which adds a slice.

Slices of one place never overlap. A window of one axis is a slice as it is, and nothing loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from derive.backends.code import ALL, REST, Code, Each, Item, Name, Slice, as_code
from derive.backends.torch.fusions import added_to
from derive.backends.torch.pointwise import cast
from derive.backends.torch.reads.slices import behind, flipped, span, subscript
from derive.backends.torch.reductions.frames import frames_added
from derive.backends.turned import forwards
from derive.backends.values import Dims, Line, Value, is_pack, permute, unsqueeze
from derive.ir.nodes.products import is_tensor
from derive.ir.nodes.walking import index_axes, node_axes, reads, walk
from derive.ir.program import (
    Arithmetic,
    Assign,
    AxisValue,
    Call,
    Index,
    Join,
    Merged,
    Node,
    Num,
    PartOf,
    Read,
    Reduce,
    Scal,
    Scan,
    Scatter,
    Window,
)

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


@dataclass(frozen=True)
class _Windows:
    """The windows of a scatter: in which dimensions a loop runs, over which axis, and what a turn of all loops adds."""

    loops: dict[int, tuple[str, int]]  # of a dimension: the axis of the places in the window, and its step
    inner: Dims  # the axes of what is added in one turn
    turned: tuple[str, ...]  # those of them that run backwards

    @staticmethod
    def of(printer: Printer, s: Scatter) -> _Windows | None:
        """None where a window runs backwards over its places, or has three axes."""
        loops: dict[int, tuple[str, int]] = {}
        slots, turned = list(s.slots), list[str]()
        for k, i in enumerate(s.slots):
            if not isinstance(i, Window):
                continue
            if len(i.steps) == 1 and forwards(i, s.axes[k])[1]:
                turned += forwards(i, s.axes[k])[1]
                slots[k] = turned[-1]
                continue
            if any(step <= 0 for _, step in i.steps) or len(i.steps) > 2:
                return None
            if not i.steps:
                continue
            steps = printer.sizes.ordered(i)
            if len(steps) == 2:
                loops[k] = steps[1]
            slots[k] = steps[0][0]
        return _Windows(loops, tuple(a for a in slots if isinstance(a, str)), tuple(turned))

    @property
    def taps(self) -> list[str]:
        return [axis for axis, _ in self.loops.values()]


def through_windows(printer: Printer, s: Scatter, name: Name, target: Code) -> bool:
    """Each place in the window adds a slice; False where that is not how this scatter can be written."""
    windows = _Windows.of(printer, s)
    if windows is None:
        return False
    if _side_by_side(printer, s, name, target):
        return True
    if frames_added(printer, s, name, windows.loops):
        return True
    place = _place(printer, s, windows)
    to = Item(name, tuple(place)) if place else name
    change = _change(printer, s, name, to, windows)
    if s.onto is None and (place or change.sign != "="):
        printer.line(name, target)
    printer.lines += loops(printer, tuple(windows.taps))
    printer.lines.append(replace(change, note=str(s), depth=len(windows.taps)))
    return True


def _side_by_side(printer: Printer, s: Scatter, name: Name, target: Code) -> bool:
    """The line that adds windows of which one begins where the other ends, as they lie; False for others.

    They are a view of what is added to; what is the same all over each is repeated along rows, which torch copies fast.
    What is computed at each place of a window is added place by place.
    """
    order: list[str] = []
    windows: dict[int, tuple[str, str]] = {}
    for k, i in enumerate(s.slots):
        steps = printer.sizes.ordered(i) if isinstance(i, Window) and len(i.steps) == 2 else []
        if steps and steps[1][1] == 1 and printer.known(steps[1][0]) == steps[0][1] > 1:
            windows[k] = steps[0][0], steps[1][0]
            order += windows[k]
        elif isinstance(i, str):
            order.append(i)
        else:
            return False
    axes, taps = set(node_axes(s.value)), {tap for _, tap in windows.values()}
    if not windows or any(map(is_pack, s.axes)) or len(set(order)) < len(order) or not axes <= set(order):
        return False
    starts = {k: printer.number(i.offset) for k, i in enumerate(s.slots) if isinstance(i, Window)}
    if (axes & taps and not isinstance(s.value, Read)) or not all(start.isdecimal() for start in starts.values()):
        return False
    pieces: list[Code] = [ALL] * len(s.axes)
    for k, (place, tap) in windows.items():
        step = printer.known(tap) or 1
        pieces[k] = Slice("" if starts[k] == "0" else starts[k], behind(starts[k], step, printer.size(place)))
    place, tap = list(windows.values())[-1]
    repeated = order[-1] == tap and tap not in axes and place in axes
    order = order[:-1] if repeated else order
    value = printer.value(s.value, tuple(order))
    value = printer.full(s.value, tuple(order)) if value.boolean or value.weak or value.scalar else value
    if repeated:
        value = value.method("repeat_interleave", printer.size(tap), len(value.dims) - 1)
    if s.onto is None:
        printer.line(name, target)
    view, onto = Value(Item(name, tuple(subscript(pieces)))), not _nothing_there(printer, s)
    for window in list(windows.values())[: -1 if repeated else None]:
        view = view.method("unflatten", order.index(window[0]), printer.shape(window))
    if isinstance(view.code, Item):
        printer.line(view.code, value, "+=" if onto else "=", str(s))
    else:
        printer.line(None, view.method("add_" if onto else "copy_", value), note=str(s))
    return True


def added(printer: Printer, to: Code, node: Node, order: Dims) -> Line:
    """The line that adds to memory, in one pass where torch has a call for it."""
    change = added_to(printer, to, node, order)
    return Line(change) if change is not None else Line(printer.value(node, order).code, to, "+=")


def _change(printer: Printer, s: Scatter, name: Name, to: Code, windows: _Windows) -> Line:
    """What each turn does to its place: `to += x`, with what it adds read at the turn's place."""
    loops, inner, turned = windows.loops, windows.inner, windows.turned
    own = [a for a in windows.taps if a in node_axes(s.value)]  # what is the same in every window is added as it is
    each = at_taps(printer, s.value, name, frozenset(own), inner, s.slots) if own and not turned else None
    if each is not None:
        printer.spent = frozenset()  # every turn reads what the first one reads
        return added(printer, to, each, inner)

    def at_turn(code: Code) -> Code:
        return Item(code, (REST, *(printer.named(turn(a)) for a in own))) if own else code

    if not loops and not turned and not _nothing_there(printer, s):
        if isinstance(s.value, Call) and s.value.fn == "neg":
            return Line(at_turn(cast(printer.value(s.value.args[0], inner), printer.like).code), to, "-=")
        if (change := added_to(printer, to, s.value, inner)) is not None:
            return Line(change)
    value = printer.full(s.value, (*inner, *own)) if own or turned else printer.value(s.value, inner)
    share = (flipped(value, turned) if turned else value).code
    if loops and not isinstance(share, Name):
        named = Name(printer.unused("patches" if own else f"{name}_share"))
        printer.line(named, share, note=str(s))
        share = named
    return Line(at_turn(share), to, "=" if not loops and _nothing_there(printer, s) else "+=")


def _place(printer: Printer, s: Scatter, windows: _Windows) -> list[Code]:
    """The subscript of what a turn adds to; none where that is the whole tensor."""
    pieces: list[Code] = [ALL if not is_pack(a) else REST for a in s.axes]
    for k, i in enumerate(s.slots):
        straight = forwards(i, s.axes[k])[0] if isinstance(i, Window) else None
        if isinstance(straight, Window):
            pieces[k] = _taps_slice(printer, straight, s.axes[k], windows.loops.get(k))
    return subscript(pieces) if any(p not in (ALL, REST) for p in pieces) else []


def _nothing_there(printer: Printer, s: Scatter) -> bool:
    """Whether what a scatter adds to is still zero there: it is the first, or all before it went to other places."""
    for before in printer.program.statements:
        if before is s:
            return True
        if before.name != s.name:
            continue
        if isinstance(before, Assign) or not any(
            a != b and all(isinstance(i, Window) and not i.steps and isinstance(i.offset, Num) for i in (a, b))
            for a, b in zip(before.slots, s.slots, strict=True)
        ):
            return False
    return False


def at_taps(
    printer: Printer, value: Node, name: Name, taps: frozenset[str], inner: Dims, slots: Iterable[Index] = ()
) -> Node | None:
    """A pointwise value at one place in the window; what is small, or the same at all, is computed before the loops.

    It may be added at `slots`.
    """
    read = [i for n in walk(value) if isinstance(n, Read) for i in n.index]
    moving = {a for i in (*slots, *read) if isinstance(i, Window) for a, _ in i.steps}
    if any(isinstance(n, Reduce | Join | Scan) for n in walk(value)) or any(
        isinstance(i, Merged | PartOf | Read | Arithmetic) and set(index_axes(i)) & taps
        for n in walk(value)
        if isinstance(n, Read)
        for i in n.index
    ):
        return None

    def at(node: Node) -> Node:
        if not set(node_axes(node)) & taps:
            return kept(node) if isinstance(node, Call) and is_tensor(node) else node
        if isinstance(node, Call):
            return at(kept(node)) if _is_small(node, taps, inner) else Call(node.fn, tuple(at(a) for a in node.args))
        if isinstance(node, Read):
            node = _laid_by_tap(printer, node, taps, inner, moving) or node
            return Read(node.name, tuple(_at_tap(i, taps) for i in node.index))
        return Scal(turn(node.axis)) if isinstance(node, AxisValue) else node

    def kept(node: Call) -> Node:
        own = printer.unused(f"{name}_share")
        own_taps = tuple(a for a in node_axes(node) if a in taps)
        plain = tuple(a for a in inner if a in node_axes(node)) if own_taps else inner
        made = printer.value(node, (*plain, *own_taps))
        axes = tuple(d for d in made.dims if d is not None)
        printer.layouts.dims[own] = made.dims
        printer.line(own, made)
        return Read(own, axes)

    return at(value)


def _is_small(node: Call, taps: frozenset[str], inner: Dims) -> bool:
    """Whether all of a value is less than a turn or two: it lacks an axis of a turn, and reads through no window."""
    axes = set(node_axes(node))
    windows = any(isinstance(i, Window) for n in walk(node) if isinstance(n, Read) for i in n.index)
    return is_tensor(node) and not windows and axes - taps < set(inner) and bool(reads(node) or axes - taps)


def _laid_by_tap(
    printer: Printer, node: Read, taps: frozenset[str], inner: Dims, moving: Collection[str]
) -> Read | None:
    """What is read at each tap, laid out with the taps first, so that what a turn reads lies together; else None.

    What lacks the last dimensions of a turn is laid out over these as well: PyTorch multiplies short rows by a number
    each in three times the time. But not along places, of which there are many.
    """
    axes = tuple(a for a in node.index if isinstance(a, str))
    own, rest = [a for a in axes if a in taps], [a for a in axes if a not in taps]
    if axes != node.index or printer.layouts[node.name] != axes or not own or not rest or rest[-1] not in inner:
        return None
    tail = [a for a in inner[inner.index(rest[-1]) + 1 :] if a is not None]
    if set(tail) & set(rest) or any(map(is_pack, tail)) or (axes[-1] in rest and not tail):
        return None
    if tail and ({*rest, *tail} & set(moving) or {*rest, *tail} >= set(inner)):
        return None
    dims = (*own, *rest, *tail)
    laid = unsqueeze(permute(printer.stored(node.name), (*own, *rest)), (*own, *rest, *[None] * len(tail)))
    spread = (printer.spread(laid, dims) if tail else laid).method("contiguous")
    made = next((x.made for x in printer.lines if x.value == spread.code and not x.part_of), None)
    name = made or printer.unused(f"{printer.named(node.name)}_by_{'_'.join(own)}".replace("'", "_"))
    if made is None:
        printer.layouts.dims[name] = dims
        printer.line(name, spread)
    return Read(name, dims)


def turn(axis: str) -> str:
    """The name in a program of a loop's place along an axis, a bound one (`d'`) too: a name that no tensor has."""
    return f"at {axis}"


def loops(printer: Printer, axes: tuple[str, ...]) -> list[Line]:
    """A loop over the places of each axis, one inside another."""
    return [Line(Each(str(printer.named(turn(axis))), printer.size(axis)), depth=k) for k, axis in enumerate(axes)]


def _at_tap(i: Index, taps: frozenset[str]) -> Index:
    """An index with each axis that is looped over as the number it has in that turn."""
    if isinstance(i, str) and i in taps:
        return Window((), Scal(turn(i)))
    if not isinstance(i, Window):
        return i
    offset: Node = i.offset
    for axis, step in i.steps:
        if axis in taps:
            place: Node = Scal(turn(axis))
            place = place if step in (1, -1) else Call("mul", (Num(Fraction(abs(step))), place))
            if step < 0:
                offset = Call("sub", (offset, place))
            else:
                offset = place if offset == Num(Fraction(0)) else Call("add", (offset, place))
    return Window(tuple(st for st in i.steps if st[0] not in taps), offset)


def _taps_slice(printer: Printer, window: Window, dim: str, fast: tuple[str, int] | None) -> Code:
    """The slice of a window along a dimension; of one that is looped over, at the loop's place."""
    if not window.steps:
        return as_code(printer.number(window.offset))
    if fast is None:
        return span(window, dim, printer.sizes)
    axis, dilation = fast
    ((slow, step),) = [st for st in window.steps if st[0] != axis]
    place = printer.named(turn(axis))
    start = str(place) if dilation == 1 else f"{dilation} * {place}"
    offset = printer.number(window.offset)
    start = start if offset == "0" else f"{offset} + {start}"
    return Slice(start, behind(start, step, printer.size(slow)), step)
