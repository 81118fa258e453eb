"""Which tensor has which axes, where the forward broadcasts and reduces, and so where the backward sums and spreads.

Read off the equations alone. Rows are tensors, columns are axes.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.ir.equations import Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.words import listed
from derive.pipeline import Derivation

HAS, SUMMED, SPREAD, PLACED = "has", "summed", "spread", "placed"
"""What an axis is to a tensor: its own; one that the backward sums over; one that it spreads over; one of a place."""

_SAYS = {
    HAS: ("has {}", ""),
    SUMMED: ("is broadcast along {}", "so the backward sums over {}"),
    SPREAD: ("is what a reduction over {} leaves", "so the backward spreads its gradient over {}"),
    PLACED: ("is read at places that depend on {}", "so the backward adds up at those places"),
}
"""Of a tensor and some axes: what the forward does, and what follows from it where a gradient reaches the tensor."""


def says(mark: str, axes: str, it: str, has_gradient: bool = True) -> str:
    """A mark in words: `axes` name the axes, `it` stands for them the second time."""
    fact, hence = _SAYS[mark]
    return fact.format(axes) + (f", {hence.format(it)}" if hence and has_gradient else "")


LEGEND = {mark: says(mark, "the axis", "it") for mark in _SAYS}
"""The kinds of cells, in words."""


@dataclass(frozen=True)
class Cell:
    """What an axis is to a tensor; empty where it is nothing."""

    axis: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One tensor: an input, something on the way, or an output; and whether a gradient reaches it."""

    name: str
    role: str
    has_gradient: bool
    cells: tuple[Cell, ...]

    @property
    def sentence(self) -> str:
        """The row in words."""
        parts = []
        for mark in LEGEND:
            axes = [c.axis for c in self.cells if mark in c.marks]
            if axes:
                many = len(axes) > 1
                named = f"the {'axes' if many else 'axis'} {listed(axes)}"
                parts.append(says(mark, named, "them" if many else "it", self.has_gradient or mark == SPREAD))
        return f"{'; '.join(parts) or 'has no axes'}."


@dataclass(frozen=True)
class Drawing:
    """The whole figure."""

    axes: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        """The kinds of cells that occur, for the legend."""
        met = {m for r in self.rows for c in r.cells for m in c.marks}
        return tuple(m for m in LEGEND if m in met)


def drawing(d: Derivation) -> Drawing:
    """The figure of a derivation's equations, small sums that were split off included."""
    op = d.named
    reached = {a.of for a in d.steps.adjoints} | {c.of for c in d.steps.cotangents}
    carried = {o.name: _bases(o.axes) for o in op.operands if o.is_tensor}
    carried |= {e.name: _bases(e.axes) for e in op.equations}
    met = [a for axes in carried.values() for a in axes] + [a.base for e in op.equations for a in e.over]
    axes = tuple(dict.fromkeys(met))
    met_marks = _marks(op, carried)
    rows = []
    for name, own in carried.items():
        role = "input" if op.operand(name) else "output" if name in op.outputs else "on the way"
        cells = []
        for axis in axes:
            marks = [HAS] if axis in own else []
            marks += [m for m in (SUMMED, SPREAD, PLACED) if axis in met_marks.get((name, m), ()) and not marks]
            cells.append(Cell(axis, tuple(marks)))
        rows.append(Row(name, role, name in reached, tuple(cells)))
    return Drawing(axes, tuple(rows))


def _marks(op: Op, carried: dict[str, tuple[str, ...]]) -> dict[tuple[str, str], set[str]]:
    """For each tensor, the axes that it is broadcast along, that it was reduced over, and that its places depend on."""
    found: dict[tuple[str, str], set[str]] = {}
    for equation in op.equations:
        over = _bases(equation.over)
        if over:
            found.setdefault((equation.name, SPREAD), set()).update(over)
        runs = {*_bases(equation.axes), *over}
        for at in equation.reads:
            index = {a.base for i in at.index for a in free_axes(i)}
            found.setdefault((at.name, SUMMED), set()).update(runs - index)
            found.setdefault((at.name, PLACED), set()).update(index - set(carried.get(at.name, ())))
    return found


def _bases(axes: tuple[Axis, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(a.base for a in axes))
