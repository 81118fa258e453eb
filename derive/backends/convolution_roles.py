"""What is a convolution: it is known by its indices alone.

It relates three tensors: a signal read at `offset + step*place + dilation*tap`, a kernel over the taps and an image
over the places. An axis of the signal that the kernel and the image share is a group, one that only the image has is a
batch, one that only the kernel has is a channel; an axis that the image and the kernel share is an output channel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from derive.backends.turned import backwards, from_the_end
from derive.backends.values import is_pack
from derive.ir.nodes.arithmetic import ZERO, multiplied
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import axes_along, node_axes
from derive.ir.program import Index, Node, Read, Reduce, Window

_MOST = 3  # dimensions of an image that torch convolves over


@dataclass(frozen=True)
class Spatial:
    """One dimension of the image; without a tap (empty) the kernel is 1 wide there."""

    slot: int  # where the signal has it
    place: str
    tap: str = ""
    step: int = 1
    dilation: int = 1
    offset: Node = ZERO


@dataclass(frozen=True)
class Convolution:
    """How the axes of signal, kernel and image take part."""

    batch: tuple[str, ...]
    groups: tuple[str, ...]
    inner: tuple[str, ...]
    outer: tuple[str, ...]
    spatial: tuple[Spatial, ...]
    repeated: bool = False  # whether every group has the same kernel, which lacks their axis

    @property
    def windowed(self) -> tuple[Spatial, ...]:
        return tuple(s for s in self.spatial if s.tap)


def is_convolution(node: Node) -> bool:
    """Whether a sum of a product is the image, or the kernel, of a convolution."""
    node = straightened(node)[0]
    found = one_signal(node)
    if found is None:
        return False
    signal, other = found
    ways = ((node_axes(other), node_axes(node)), (node_axes(node), node_axes(other)))
    return any(roles(signal.index, *way) is not None for way in ways)


def roles(index: tuple[Index, ...], over: tuple[str, ...], into: tuple[str, ...]) -> Convolution | None:
    """The convolution of a signal read at `index` with a kernel of axes `over` and an image of axes `into`.

    None where an axis has no role, or more than one, or torch convolves over fewer dimensions.
    """
    kernel, image = set(over), set(into)
    windows = [k for k, i in enumerate(index) if isinstance(i, Window) and len(i.steps) == 2]
    found = [_spatial(k, index[k], kernel, image) for k in windows]  # type: ignore[arg-type]
    windowed = [s for s in found if s is not None]
    if not windowed or len(windowed) < len(found) or len(windowed) > _MOST:
        return None
    plain = axes_along(i for k, i in enumerate(index) if k not in windows)
    batch = tuple(a for a in plain if a in image - kernel)
    inner = tuple(a for a in plain if a in kernel - image)
    groups = tuple(a for a in plain if a in kernel & image)
    outer = tuple(a for a in over if a in image and a not in groups)
    of_signal = [*plain, *(a for s in windowed for a in (s.place, s.tap))]
    if len(set(of_signal)) < len(of_signal) or {*of_signal, *outer} != kernel | image:
        return None
    if any(map(is_pack, (*inner, *groups, *outer))):
        return None
    spatial = sorted([*windowed, *_one_wide(index, batch, windowed)], key=lambda s: s.slot)
    batch = tuple(a for a in batch if a not in {s.place for s in spatial})
    return Convolution(batch, groups, inner, outer, tuple(spatial))


def _one_wide(index: tuple[Index, ...], batch: tuple[str, ...], windowed: list[Spatial]) -> list[Spatial]:
    """Batches behind the first window as dimensions of the image, over which the kernel is 1 wide: nothing is moved.

    None of them where torch would convolve over fewer dimensions.
    """
    behind = (k for k in range(windowed[0].slot + 1, len(index)))
    found = [Spatial(k, i) for k in behind if isinstance(i := index[k], str) and i in batch and not is_pack(i)]
    return found if len(found) + len(windowed) <= _MOST else []


def with_repeated(c: Convolution) -> Convolution:
    """The same with the last batch axis as groups, where the kernel has no channels and another batch is left.

    An image of many channels that one kernel blurs: as many images of one channel take torch 2 to 60 times as long.
    """
    *others, last = c.batch or ("",)
    if not others or is_pack(last) or c.groups or c.inner or c.outer:
        return c
    return replace(c, batch=tuple(others), groups=(last,), repeated=True)


def _spatial(slot: int, window: Window, kernel: set[str], image: set[str]) -> Spatial | None:
    """A window's axes by their roles: its place is the image's alone, its tap the kernel's, and both run forwards."""
    for (place, step), (tap, dilation) in (window.steps, window.steps[::-1]):
        if place in image - kernel and tap in kernel - image and step > 0 and dilation > 0:
            return Spatial(slot, place, tap, step, dilation, window.offset)
    return None


def _windowed(node: Node) -> bool:
    return isinstance(node, Read) and any(isinstance(i, Window) and len(i.steps) == 2 for i in node.index)


def one_signal(node: Node) -> tuple[Read, Node] | None:
    """The one factor of a sum that is read through windows, and the product of the others."""
    if not isinstance(node, Reduce) or node.kind != "sum":
        return None
    factors = product_factors(node.body)
    signals = [f for f in factors if _windowed(f)]
    if len(factors) < 2 or len(signals) != 1 or not isinstance(signals[0], Read):
        return None
    return signals[0], multiplied([f for f in factors if f is not signals[0]])


def straightened(node: Node) -> tuple[Node, tuple[str, ...]]:
    """A sum whose windows all run forwards, and the axes of the result that are to be flipped for it."""
    axes = backwards(node)
    turned = from_the_end(node, axes) if isinstance(node, Reduce) else None
    return (node, ()) if turned is None else (turned, tuple(a for a in node_axes(node) if a in axes))
