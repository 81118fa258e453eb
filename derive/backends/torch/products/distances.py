"""Distances of all pairs: `sum((x[i, d] - y[j, d])**2, over=d)` and `sum(abs(x[i, d] - y[j, d]), over=d)`, also where
something scales the coordinates or weighs them, and such squares weighed pair by pair and summed over points.

A call makes them for some points at a time, so that no tensor of all differences leaves the cache. `torch.cdist` gives
a root, whose square is no longer exact; and of points that are scaled before they are subtracted, those that lie close
together have lost their digits, as have products that are subtracted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.backends.code import call
from derive.backends.values import Dims, Value, align, is_pack, permute, position, squeeze
from derive.ir.nodes.distances import Apart, coordinates, summed_apart, weighed_apart
from derive.ir.program import Node, Reduce

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def is_of_distances(node: Reduce) -> bool:
    """Whether a sum is such a call."""
    return _pairs(node) is not None or _weighed(node) is not None


def _pairs(node: Reduce) -> Apart | None:
    return _by_plain_axes(summed_apart(node), node.axes)


def _weighed(node: Reduce) -> Apart | None:
    found = weighed_apart(node)
    return found and _by_plain_axes(found, (*node.axes, *coordinates(found)))


def _by_plain_axes(found: Apart | None, axes: tuple[str, ...]) -> Apart | None:
    """The same, where points and coordinates have one axis each, and so have all that a sum is over."""
    return None if found is None or any(map(is_pack, (found.of_left, found.of_right, *axes))) else found


def distances(printer: Printer, node: Reduce, order: Dims) -> Value | None:
    """The call for a sum of distances, its dimensions in this order where either set of points may be the first."""
    if not printer.fuse:
        return None
    if (found := _pairs(node)) is not None:
        either = found.scale is found.weight is None and {found.of_left, found.of_right} <= set(order)
        turned = either and order.index(found.of_right) < order.index(found.of_left)
        return _summed(printer, node, found.turned if turned else found)
    return None if (found := _weighed(node)) is None else _weighed_sum(printer, node, found)


def _summed(printer: Printer, node: Reduce, found: Apart) -> Value:
    (axis,) = node.axes
    batch = tuple(a for a in found.both if a != axis)
    points, options = _sides(printer, found, batch, axis)
    if found.weight is not None:
        options["weight"] = _spread(printer, found.weight, (*batch, found.of_right, axis))
    made = Value(call("pair_distances", *points, **options), (*batch, found.of_left, found.of_right))
    return made.method("div_", printer.size(axis)) if node.kind == "mean" else made


def _weighed_sum(printer: Printer, node: Reduce, found: Apart) -> Value:
    (axis,) = coordinates(found)
    batch = tuple(a for a in found.both if a != axis)
    assert found.weight is not None
    weights = _points(printer, found.weight, (*batch, found.of_left, found.of_right))
    points, options = _sides(printer, found, batch, axis)
    value = Value(call("weighed_distances", weights, *points, **options), (*batch, found.of_right, axis))
    places = [str(position(value.dims, k)) for k, a in enumerate(value.dims) if a in node.axes]
    if not places:
        return value
    where = places[0] if len(places) == 1 else f"({', '.join(places)})"
    return value.method("sum", where, dims=tuple(a for a in value.dims if a not in node.axes))


def _sides(printer: Printer, found: Apart, batch: tuple[str, ...], axis: str) -> tuple[list[Value], dict[str, object]]:
    """Both sets of points, and as options what power their differences are raised to, and what scales these."""
    left = _points(printer, found.left, (*batch, found.of_left, axis))
    right = _points(printer, found.right, (*batch, found.of_right, axis))
    scale = found.scale and _spread(printer, found.scale, (*batch, found.of_right, axis))
    return [left, right], {"p": found.power, "scale": scale}


def _points(printer: Printer, node: Node, order: Dims) -> Value:
    return printer.as_real(node, permute(squeeze(printer.value(node, order)), order))


def _spread(printer: Printer, node: Node, order: Dims) -> Value:
    return printer.as_real(node, align(printer.value(node, order), order))
