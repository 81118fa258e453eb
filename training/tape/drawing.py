"""A small graph as a picture: every tensor with its data and its gradient, every operation between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib

# Before pyplot is loaded: files are drawn without a screen.
matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from training.tape.tensor import Tensor, ordered

ACROSS, DOWN = 4.3, 1.0  # between two columns, between two rows
BOX, HEIGHT = 2.5, 0.62
MOST = 60


@dataclass(frozen=True)
class Place:
    """Where a tensor stands: its column, counted from the leaves, and its height."""

    column: int
    y: float


def draw(result: Tensor, file: Path) -> None:
    """Write the graph behind `result` as SVG, PNG or whatever the file's ending says.

    Raises `ValueError` for a graph of more than 60 tensors: nobody reads those.
    """
    tensors = behind(result)
    if len(tensors) > MOST:
        raise ValueError(f"the graph has {len(tensors)} tensors, more than the {MOST} that a picture can show")
    places = layout(tensors)
    wide = max(place.column for place in places.values())
    low, high = (f(place.y for place in places.values()) for f in (min, max))
    size = (0.62 * (wide * ACROSS + BOX + 1.6), 0.62 * (high - low + 2 * DOWN))
    # Text stays text, and the same graph gives the same bytes.
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tape"}):
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        for tensor in tensors:
            operation(axes, tensor, places)
        for tensor in tensors:
            box(axes, tensor, places[id(tensor)])
        axes.set(xlim=(-BOX / 2 - 0.2, wide * ACROSS + BOX / 2 + 0.2), ylim=(low - DOWN * 0.7, high + DOWN * 0.7))
        axes.set_aspect("equal")
        axes.axis("off")
        figure.savefig(file, dpi=110, metadata={"Date": None} if file.suffix == ".svg" else None)
        plt.close(figure)


def behind(result: Tensor) -> list[Tensor]:
    """Every tensor of the graph, constants included, each after all that it was made from."""
    found: dict[int, Tensor] = {}
    for tensor in ordered(result) or [result]:
        for read in tensor.node.inputs if tensor.node else ():
            found.setdefault(id(read), read)
        found.setdefault(id(tensor), tensor)
    return list(found.values())


def layout(tensors: Sequence[Tensor]) -> dict[int, Place]:
    """A column a tensor, as far left as what it is made from allows; leaves stand just before their first use."""
    column: dict[int, int] = {}
    for tensor in tensors:
        column[id(tensor)] = 1 + max((column[id(read)] for read in reads(tensor)), default=-1)
    for tensor in tensors:
        users = [column[id(other)] for other in tensors if any(read is tensor for read in reads(other))]
        if not reads(tensor) and users:
            column[id(tensor)] = min(users) - 1
    columns: dict[int, list[Tensor]] = {}
    for tensor in tensors:
        columns.setdefault(column[id(tensor)], []).append(tensor)
    height = {id(t): float(k) for stack in columns.values() for k, t in enumerate(reversed(stack))}
    # Each tensor near the middle of its neighbours, no two nearer than one row; a few rounds are enough.
    for sweep in range(12):
        for stack in (columns[c] for c in sorted(columns, reverse=bool(sweep % 2))):
            wish = {id(t): fmean([height[id(n)] for n in neighbours(t, tensors)] or [height[id(t)]]) for t in stack}
            spread(sorted(stack, key=lambda t: (wish[id(t)], height[id(t)])), wish, height)
    return {id(t): Place(column[id(t)], DOWN * height[id(t)]) for t in tensors}


def spread(stack: Sequence[Tensor], wish: dict[int, float], height: dict[int, float]) -> None:
    """Heights in the given order, near what each wishes, at least one apart, centred on the wishes' mean."""
    at: list[float] = []
    for tensor in stack:
        at.append(max(wish[id(tensor)], at[-1] + 1) if at else wish[id(tensor)])
    shift = fmean(wish[id(t)] for t in stack) - fmean(at)
    for tensor, value in zip(stack, at, strict=True):
        height[id(tensor)] = value + shift


def reads(tensor: Tensor) -> tuple[Tensor, ...]:
    """What it was made from."""
    return tensor.node.inputs if tensor.node else ()


def neighbours(tensor: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """What it was made from, and what was made from it."""
    return [*reads(tensor), *(other for other in tensors if any(read is tensor for read in reads(other)))]


def box(axes: Axes, tensor: Tensor, place: Place) -> None:
    """A tensor: its label above, its data and its gradient side by side."""
    x, y = place.column * ACROSS, place.y
    colour = "#eef3f9" if tensor.requires_grad else "#f3f3f3"
    corner = (x - BOX / 2, y - HEIGHT / 2)
    axes.add_patch(
        FancyBboxPatch(corner, BOX, HEIGHT, "round,pad=0.04", facecolor=colour, edgecolor="#1f5fa8", zorder=2)
    )
    axes.plot([x, x], [y - HEIGHT / 2, y + HEIGHT / 2], color="#1f5fa8", linewidth=0.7, zorder=3)
    grad = (
        "no gradient" if not tensor.requires_grad else "grad ?" if tensor.grad is None else f"grad {shown(tensor.grad)}"
    )
    for offset, text in ((-BOX / 4, f"data {shown(tensor.data)}"), (BOX / 4, grad)):
        axes.text(x + offset, y, text, ha="center", va="center", fontsize=7, zorder=4)
    if tensor.label:
        axes.text(x, y + HEIGHT / 2 + 0.08, tensor.label, ha="center", va="bottom", fontsize=8, weight="bold", zorder=4)


def operation(axes: Axes, tensor: Tensor, places: dict[int, Place]) -> None:
    """The operation before a tensor, and the arrows from what it read."""
    if tensor.node is None:
        return
    place = places[id(tensor)]
    x, y = place.column * ACROSS - BOX / 2 - 0.62, place.y
    for read in dict.fromkeys(map(id, tensor.node.inputs)):
        start = (places[read].column * ACROSS + BOX / 2 + 0.05, places[read].y)
        axes.add_patch(arrow(start, (x, y), shrink=9))
    axes.add_patch(arrow((x, y), (x + 0.58, y), shrink=0))
    axes.add_patch(Circle((x, y), 0.33, facecolor="#fbe9d7", edgecolor="#d9731a", zorder=3))
    size = 9 if len(tensor.node.name) < 3 else 6
    axes.text(x, y, tensor.node.name, ha="center", va="center", fontsize=size, zorder=4)


def arrow(start: tuple[float, float], end: tuple[float, float], shrink: float) -> FancyArrowPatch:
    style: dict[str, Any] = {
        "arrowstyle": "-|>",
        "mutation_scale": 8,
        "linewidth": 0.8,
        "color": "#555555",
        "zorder": 1,
    }
    return FancyArrowPatch(start, end, shrinkA=0, shrinkB=shrink, **style)


def shown(values: torch.Tensor) -> str:
    """One number, or the shape of several."""
    return f"{values.item():.4f}" if values.numel() == 1 else f"{list(values.shape)}"
