"""Axes of a few places, as many as is known when a kernel is printed: the compiler writes these out.

A point has three coordinates. A vector along them would be one of empty lanes, so that vectors run along another axis,
in steps of rows; what is folded over the few is folded in each lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from derive.backends.cpu.loops.planes import InPlanes
from derive.backends.cpu.loops.stages import Sweep
from derive.backends.cpu.names import length, variable
from derive.backends.cpu.statements.normal import Loop


@dataclass
class InFew(InPlanes):
    """Sweeps over such axes, and others."""

    def few_first(self, order: tuple[str, ...], sweep: Sweep, folds: Sequence[Loop]) -> tuple[str, ...]:
        """The axes of a sweep, one of many places last where that may be: no sums, and no places that may meet."""
        computed = self.computed(sweep.loops)
        if folds or sweep.ordered or any(s.changes for s in computed) or not self.are_few(order[-1:]):
            return order
        many = [a for a in order if not self.are_few((a,))]
        return (*(a for a in order if a not in many[-1:]), *many[-1:])

    def folds_few(self, sweep: Sweep, partial: Sequence[Loop], whole: Sequence[Loop]) -> bool:
        """Whether all that a sweep folds are sums over few places: lanes are what it is for."""
        others = whole or sweep.ordered or any(s.changes or self.group.is_total(s) for s in sweep.loops)
        sums = all(s.kind == "sum" for s in partial)
        return sums and not others and self.are_few(sweep.axes[sweep.first :])

    def in_each_lane(self, sweep: Sweep, folds: Sequence[Loop]) -> None:
        """Vectors along the last axis that sums have, each lane its own sums."""
        *slow, lane = sweep.axes[: sweep.first]
        with self.plain(tuple(slow)), self.out.loop(variable(lane), "0", length(lane), "simd"):
            for s in folds:
                self.out.line(f"real {self.text.name(s.name)}_block = 0;")
            with self.plain(sweep.axes[sweep.first :]):
                self.elements(sweep.loops)
            for s in folds:
                self.out.line(f"{self.stored(s)} = {self.text.name(s.name)}_block;")
