"""Sums of products read through windows in torch: `conv1d` to `conv3d`, and the same three calls for their adjoints.

Whichever two of a signal, a kernel and an image are multiplied, the third is one call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from derive.backends.code import ALL, NEW, Code, Slice, call, together
from derive.backends.convolution_roles import Convolution, Spatial, one_signal, roles, straightened, with_repeated
from derive.backends.torch.reads.read import read
from derive.backends.torch.reads.slices import flipped, reached, sliced, stretch
from derive.backends.turned import from_the_end
from derive.backends.values import Dims, Value, is_pack, permute, position, squeeze
from derive.ir.nodes.arithmetic import multiplied, quotient
from derive.ir.nodes.products import fraction, numbers_apart, product_factors
from derive.ir.nodes.walking import axes_along, node_axes
from derive.ir.program import Index, Node, Read, Reduce, Scatter, SizeOf, Window, base

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def convolved(printer: Printer, node: Reduce, bias: Node | None = None) -> Value | None:
    """A sum over taps is the image; a sum over places is the kernel's adjoint. None for any other sum.

    A mean is the sum, divided.
    """
    if node.kind == "mean" and bias is None:
        total = convolved(printer, replace(node, kind="sum"))
        places = multiplied([SizeOf(a) for a in node.axes])
        return None if total is None else total.method("div_", printer.number(places))
    straight, turned = straightened(node)
    if turned and isinstance(straight, Reduce):
        value = convolved(printer, straight, bias) if bias is None else None
        return None if value is None else flipped(value, turned)
    found = one_signal(node)
    if found is None:
        return None
    signal, other = found
    image = roles(signal.index, node_axes(other), node_axes(node))
    kernel = roles(signal.index, node_axes(node), node_axes(other))
    if kernel is not None and _is_kernel(printer, signal, kernel, image):
        return _Call(printer, kernel, _rows(signal.index)).kernel(signal, other) if bias is None else None
    call = None if image is None else _Call(printer, with_repeated(image), _rows(signal.index))
    return call.image(signal, other, bias) if call is not None else None


def _is_kernel(printer: Printer, signal: Read, kernel: Convolution, image: Convolution | None) -> bool:
    """Whether a sum is over the windows' places; where no length tells, whether the signal's rows are a batch then."""
    if image is not None and kernel.groups and not kernel.batch:
        return False  # a signal a group: PyTorch's own adjoint takes ten times as long as a convolution with the image
    slow = printer.sizes.slow
    later = [slow(s.tap) - slow(s.place) for s in kernel.windowed]
    if any(later) or image is None:
        return all(n > 0 for n in later)
    rows = _rows(signal.index)
    return bool(rows) and rows <= set(kernel.batch) and not rows <= set(image.batch)


def _rows(index: tuple[Index, ...]) -> set[str]:
    """The first axis of a signal that no window reads.

    In a batch torch takes no rows at all. With no channels it gives another shape, with no kernels an error.
    """
    return set(axes_along(i for i in index if not isinstance(i, Window))[:1])


def scattered(printer: Printer, s: Scatter) -> tuple[Value, list[Slice | None]] | None:
    """What a scatter through windows adds, as the signal's adjoint, and the slices that it adds it to."""
    above, below = fraction(s.value)
    (numbers, tensors), (divisors, others) = numbers_apart(above), numbers_apart(below)
    total = tensors[0] if len(tensors) == 1 and not others else None
    summed = isinstance(total, Reduce) and total.kind == "sum"
    body = total.body if isinstance(total, Reduce) and summed else s.value
    places, taps = _two_sides(printer, s.slots, product_factors(body))
    if not places or not taps or any(not isinstance(i, str | Window) for i in s.slots):
        return None
    if summed:  # what the sum is multiplied by goes into the kernel, which is small
        taps = [quotient([*numbers, *taps], divisors)]
    c = roles(s.slots, node_axes(multiplied(taps)), node_axes(multiplied(places)))
    if c is None or any(isinstance(i, Window) and len(i.steps) != 2 for i in s.slots):
        return None
    return _Call(printer, with_repeated(c), _rows(s.slots)).signal(s, multiplied(taps), multiplied(places))


def _two_sides(printer: Printer, slots: tuple[Index, ...], factors: list[Node]) -> tuple[list[Node], list[Node]]:
    """The factors over the windows' places and those over their taps; none where a factor has both."""
    windows = [i for i in slots if isinstance(i, Window) and len(i.steps) == 2]
    slow = printer.sizes.slow

    def alike(ordered: list[tuple[str, int]]) -> bool:
        (a, step), (b, other) = ordered
        return slow(a) == slow(b) and step == other

    ordered = sorted((printer.sizes.ordered(w) for w in windows), key=alike)  # those that lengths tell first
    own = _axes([f for f in factors if ordered and ordered[0][1][0] in node_axes(f)])
    ordered = [w[::-1] if alike(w) and w[0][0] in own and w[1][0] not in own else w for w in ordered]
    place, tap = {w[0][0] for w in ordered}, {w[1][0] for w in ordered}
    taps = [f for f in factors if set(node_axes(f)) & tap]
    places = [f for f in factors if f not in taps]
    if _axes(taps) & place:
        return [], []
    turned = all(map(alike, ordered)) and _rows(slots) & _axes(taps) - _axes(places)
    return (taps, places) if turned else (places, taps)


def _axes(factors: list[Node]) -> set[str]:
    return {a for f in factors for a in node_axes(f)}


@dataclass(frozen=True)
class _Part:
    """One dimension of a tensor as torch convolves it: no axis (length 1), one, or several merged."""

    axes: tuple[str, ...]
    size: Callable[[str], str]  # called only for the lengths that are written, which the function then reads

    @property
    def lengths(self) -> list[str]:
        return [f"*{self.size(a)}" if is_pack(a) else self.size(a) for a in self.axes]

    @property
    def length(self) -> str:
        """The product of the lengths."""
        codes = [f"math.prod({self.size(a)})" if is_pack(a) else self.size(a) for a in self.axes]
        return codes[0] if len(codes) == 1 else " * ".join(map(bracketed, codes)) or "1"


@dataclass(frozen=True)
class _Call:
    """Prints one of the three tensors of a convolution from the other two."""

    printer: Printer
    c: Convolution
    rows: set[str]

    def image(self, signal: Read, kernel: Node, bias: Node | None) -> Value | None:
        parts = self.image_parts()
        if self.is_filter and bias is None:
            taps = self.plain(kernel, self.tap_axes)
            return Value(call("filtered_images", self.read_plain(signal), taps), self.image_axes)
        if bias is not None and (len(parts[1].axes) != 1 or node_axes(bias) != parts[1].axes):
            return None
        alone = 0 if self.c.batch else 1  # torch convolves one image without a batch as well
        parts = parts[alone:]
        x, k = self.read(signal, alone), self.kernel_in_parts(kernel)
        added = [] if bias is None else [self.value(bias, parts)]
        return self.unshaped(Value(self.called("", x, k, *added)), parts)

    def kernel(self, signal: Read, image: Node) -> Value:
        if self.is_filter:
            places = self.plain(image, self.image_axes)
            made = call("correlated_images", self.read_plain(signal), places, len(self.tap_axes))
            return Value(made, self.tap_axes)
        x, y = self.read(signal), self.in_parts(image, self.image_parts())
        parts = self.kernel_parts()
        size = ", ".join(p.length for p in parts)
        return self.unshaped(Value(self.called("weight", x, f"({size})", y)), parts)

    def signal(self, s: Scatter, kernel: Node, image: Node) -> tuple[Value, list[Slice | None]]:
        parts = self.signal_parts(s.axes, s.slots)
        one = self.is_alone and not self.printer.exact
        value = self.of_one_channel(kernel, image, parts) if one else None
        if value is None:
            size, w = ", ".join(p.length for p in parts), self.kernel_in_parts(kernel)
            y = self.in_parts(image, self.image_parts())
            value = self.unshaped(Value(self.called("input", f"({size})", w, y)), parts)
        own = {f"@{x.slot}": s.axes[x.slot] for x in self.c.spatial}
        value = Value(value.code, tuple(own.get(str(d), d) for d in value.dims))
        cuts = {x.slot: self.cut(x, s.axes[x.slot], s.slots) for x in self.c.spatial}
        return permute(value, s.axes), [cuts.get(k) for k in range(len(s.axes))]

    def of_one_channel(self, kernel: Node, image: Node, parts: list[_Part]) -> Value | None:
        """The signal's adjoint as a convolution of the padded image with the kernel from its other end; None for steps.

        On CPUs PyTorch's own adjoint takes up to a hundred times as long where the image has one channel. In a forward
        it is taken even so: with zeros around the image, 0 times an infinite weight would be added beside it.
        """
        c = self.c
        turned = from_the_end(kernel, [s.tap for s in c.windowed])
        if turned is None or any(s.step != 1 for s in c.spatial):
            return None
        ends = ", ".join(self.beyond(s) for s in reversed(c.spatial) for _end in range(2))
        if self.is_filter:
            y = call("functional.pad", self.plain(image, self.image_axes), f"({ends})")
            return Value(call("filtered_images", y, self.plain(turned, self.tap_axes)), self.signal_axes)
        one = [self.part(c.inner), self.part(()), *self.taps()]
        w = self.kernel_in_parts(turned) if c.repeated else self.in_parts(turned, one)
        y = call("functional.pad", self.in_parts(image, self.image_parts()), f"({ends})")
        return self.unshaped(Value(self.called("", y, w)), parts)

    def beyond(self, s: Spatial) -> str:
        """How far a window that starts in the image reaches out of it."""
        if not s.tap:
            return "0"
        taps = self.printer.size(s.tap)
        last = str(int(taps) - 1) if taps.isdecimal() else f"{taps} - 1"
        return last if s.dilation == 1 else f"{s.dilation} * {bracketed(last)}"

    def called(self, adjoint_of: str, *args: object) -> Code:
        """The call of torch; by way of a function for what has no elements where the rows may be no batch of its, or
        the caller says how many channels there are.
        """
        name = f"conv{len(self.c.spatial)}d"
        name = f"torch.nn.grad.{name}_{adjoint_of}" if adjoint_of else f"functional.{name}"
        in_batch = bool(self.rows) and self.rows <= set(self.c.batch)
        channels = (*self.c.groups, *self.c.inner, *self.c.outer)
        in_batch = in_batch and not {base(a) for a in channels} & self.printer.said
        function, *first = [name] if in_batch or not channels else ["convolve", name]
        return call(function, *first, *args, **self.options())

    def options(self) -> dict[str, str]:
        """Stride, dilation and groups, where they are not 1; one number where all dimensions have the same."""
        out = {}
        for name, numbers in (
            ("stride", [s.step for s in self.c.spatial]),
            ("dilation", [s.dilation for s in self.c.spatial]),
        ):
            if set(numbers) != {1}:
                out[name] = str(numbers[0]) if len(set(numbers)) == 1 else f"({', '.join(map(str, numbers))})"
        return out | ({"groups": self.part(self.c.groups).length} if self.c.groups else {})

    # --- of one channel ------------------------------------------------------------------------------------

    @property
    def is_filter(self) -> bool:
        """Whether one kernel meets every image by itself, place by place."""
        c = self.c
        places = len(c.spatial) <= 3 and all(s.tap and s.step == s.dilation == 1 for s in c.spatial)
        return places and self.is_alone and not c.inner

    @property
    def is_alone(self) -> bool:
        """Whether images have one channel, or each of theirs is filtered by one and the same kernel."""
        return not self.c.outer and (not self.c.groups or self.c.repeated)

    @property
    def image_axes(self) -> tuple[str, ...]:
        return (*self.c.batch, *self.c.groups, *(s.place for s in self.c.spatial))

    @property
    def tap_axes(self) -> tuple[str, ...]:
        return tuple(s.tap for s in self.c.windowed)

    @property
    def signal_axes(self) -> tuple[str, ...]:
        return (*self.c.batch, *self.c.groups, *(f"@{s.slot}" for s in self.c.spatial))

    def plain(self, node: Node, axes: Dims) -> Value:
        """A factor over these axes."""
        return permute(squeeze(self.printer.as_real(node, self.printer.value(node, axes))), axes)

    def read_plain(self, signal: Read) -> Value:
        """What is reached of the signal, its images and places as dimensions."""
        return permute(squeeze(self.reached(signal)[0]), self.signal_axes)

    # --- shapes --------------------------------------------------------------------------------------------

    def part(self, axes: tuple[str, ...]) -> _Part:
        return _Part(axes, self.printer.size)

    def image_parts(self) -> list[_Part]:
        c = self.c
        return [self.part(c.batch), self.part((*c.groups, *c.outer)), *(self.part((s.place,)) for s in c.spatial)]

    def kernel_parts(self) -> list[_Part]:
        return [self.part((*self.c.groups, *self.c.outer)), self.part(self.c.inner), *self.taps()]

    def taps(self) -> list[_Part]:
        return [self.part((s.tap,) if s.tap else ()) for s in self.c.spatial]

    def signal_parts(self, dims: Dims, index: tuple[Index, ...]) -> list[_Part]:
        c = self.c
        of = {f"@{s.slot}": s for s in c.spatial}
        own = (_Part((a,), lambda a: self.extent(of[a], str(dims[of[a].slot]), index)) for a in of)
        return [self.part(c.batch), self.part((*c.groups, *c.inner)), *own]

    def value(self, node: Node, parts: list[_Part]) -> Value:
        """A factor, its axes in the order of the parts."""
        axes = node_axes(node)
        order = sorted(axes, key=[a for part in parts for a in part.axes].index)
        return self.printer.as_real(node, self.printer.value(node, tuple(order)))

    def in_parts(self, node: Node, parts: list[_Part]) -> Value:
        """A factor with one dimension for each part."""
        return self.shaped(self.value(node, parts), parts)

    def kernel_in_parts(self, kernel: Node) -> Value:
        """The kernel with one dimension for each part, once for every group that has the same."""
        if not self.c.repeated:
            return self.in_parts(kernel, self.kernel_parts())
        taps = self.taps()
        lengths = [self.part(self.c.groups).length, 1, *(-1 for _ in taps)]
        return self.shaped(self.value(kernel, taps), taps).method("expand", *lengths)

    def read(self, signal: Read, alone: int = 0) -> Value:
        """What is reached of the signal, in its parts."""
        value, dims = self.reached(signal)
        return self.shaped(value, self.signal_parts(dims, signal.index)[alone:])

    def reached(self, signal: Read) -> tuple[Value, Dims]:
        """The signal with its windowed dimensions whole, or cut to what the windows reach; and its dimensions."""
        printer = self.printer
        own = {s.slot: f"@{s.slot}" for s in self.c.spatial}
        index = tuple(own.get(k, i) for k, i in enumerate(signal.index))
        dims = tuple(d for d in printer.layouts[signal.name] if d is not None)
        stored = printer.as_real(signal, squeeze(printer.stored(signal.name)))
        for s in self.c.spatial:
            cut = self.cut(s, str(dims[s.slot]), signal.index)
            if cut:
                stored = sliced(stored, position(dims, s.slot), cut)
        return read(stored, Read(signal.name, index), printer.sizes, printer.value), dims

    def extent(self, s: Spatial, dim: str, index: tuple[Index, ...]) -> str:
        """The length that the windows run over."""
        size, start, window = self.printer.size, self.printer.number(s.offset), index[s.slot]
        if not s.tap:
            return size(s.place)
        assert isinstance(window, Window)
        if not self.printer.sizes.tight(dim, window):
            return reached(s.step, size(s.place), s.dilation, size(s.tap))
        return size(dim) if start == "0" else f"{size(dim)} - {bracketed(start)}"

    def cut(self, s: Spatial, dim: str, index: tuple[Index, ...]) -> Slice | None:
        """The slice of what the windows run over; none where that is the whole."""
        start, window = self.printer.number(s.offset), index[s.slot]
        whole = not s.tap or (isinstance(window, Window) and self.printer.sizes.tight(dim, window))
        if whole:
            return None if start == "0" else Slice(start)
        return stretch(start, self.extent(s, dim, index))

    def shaped(self, value: Value, parts: list[_Part]) -> Value:
        """The value with one dimension for each part."""
        value = permute(squeeze(value), tuple(a for part in parts for a in part.axes))
        if parts and any(is_pack(a) for a in parts[0].axes):
            return value.method("reshape", *(p.length for p in parts))
        at = 0
        for part in parts:
            if len(part.axes) > 1:
                value = value.method("flatten", at, at + len(part.axes) - 1)
            at += bool(part.axes)
        items = [ALL if part.axes else NEW for part in parts]
        while items and items[-1] == ALL:
            items.pop()
        return value.at(*items) if items else value

    def unshaped(self, value: Value, parts: list[_Part]) -> Value:
        """A result with one dimension for each part, under its axes again."""
        axes = tuple(a for part in parts for a in part.axes)
        if any(is_pack(a) for a in axes):
            return value.method("reshape", *(n for p in parts for n in p.lengths), dims=axes)
        for at, part in reversed(list(enumerate(parts))):
            if len(part.axes) > 1:
                value = value.method("unflatten", at, together(part.lengths))
        widths = [max(1, len(part.axes)) for part in parts]
        empty = [str(sum(widths[:at])) for at, part in enumerate(parts) if not part.axes]
        if empty:
            value = value.method("squeeze", empty[0] if len(empty) == 1 else together(empty))
        return replace(value, dims=axes)


def bracketed(code: str) -> str:
    return f"({code})" if " " in code else code
