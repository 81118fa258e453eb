"""The innermost loop of a row: whole vectors, of which the last overlaps the one before.

Rows are seldom a whole number of vectors. What is left over took longer, place by place, than all vectors together
where something is folded, or a costly function taken. What overlaps is computed twice, and summed once. Sums stand in
the lanes of a vector, which are put together when the row ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from derive.backends.cpu.loops.nests import START, Nest, fold
from derive.backends.cpu.loops.stages import Sweep
from derive.backends.cpu.names import variable
from derive.backends.cpu.statements.normal import Loop
from derive.backends.cpu.work import calls, is_heavy

LEAST = 8  # places that are worth a vector
_SLOW = ("div", "sqrt", "rsqrt")  # an element at a time
OF = {"sum": "sum", "amax": "largest", "amin": "smallest"}  # what puts lanes together


@dataclass(frozen=True)
class Width:
    """How many lanes fold at once, and how many elements before what they sum is added to a total."""

    macro: str
    block: str
    lanes: str
    together: str  # how functions end that put the lanes together


ONE = Width("IN_VECTORS", "BLOCK", "LANES", "of_lanes")
FOUR = Width("IN_FOURS", "LONG", "FOUR", "of_four")


@dataclass
class InVectors(Nest):
    """Sweeps in vectors: their folds from the first line to the last."""

    width: ClassVar[Width] = ONE
    in_lanes: bool = False  # whether the line that is printed stands in a loop over lanes
    in_steps: bool = False  # whether the places of the innermost loop lie apart in memory: GCC takes those as they come

    def start(self, folds: Sequence[Loop]) -> None:
        for s in folds:
            kind = "double" if s.kind == "sum" else "real"
            self.out.line(f"{kind} {self.text.name(s.name)}_total = {START[s.kind]};")

    def vectors(self, fast: str, n: str, folds: Sequence[Loop], sweep: Sweep) -> None:
        """The innermost loop over so many places, in blocks where it sums."""
        i, out, width = variable(fast), self.out, self.width if folds else ONE
        self.in_lanes = self.overlaps(sweep, folds) and not (self.in_steps or self.is_written_out(fast, sweep))
        with ExitStack() as stack:
            stack.enter_context(self.indices_first(fast, sweep.loops))
            start, stop = "0", n
            if any(s.kind == "sum" for s in folds):
                size = width.block if self.in_lanes else ONE.block
                stack.enter_context(out.block(f"for (int64_t {i}_block = 0; {i}_block < {n}; {i}_block += {size})"))
                out.line(f"const int64_t {i}_end = at_most({i}_block + {size}, {n});")
                start, stop = f"{i}_block", f"{i}_end"
            elif folds:
                stack.enter_context(out.block(""))
            if self.in_lanes:
                self._in_lanes(i, (start, stop), width, sweep, folds)
            else:
                self._by_places(i, (start, stop), sweep, folds)
        self.in_lanes = self.in_steps = False

    def overlaps(self, sweep: Sweep, folds: Sequence[Loop]) -> bool:
        """Whether places may be computed twice, and what is left over would be dear."""
        loops = self.computed(sweep.loops)
        if sweep.ordered or any(s.changes or s.name in {r.name for r in s.reads()} for s in loops):
            return False
        return bool(folds) or any(is_heavy(call) or call.fn in _SLOW for s in loops for call in calls(s.value))

    def is_written_out(self, fast: str, sweep: Sweep) -> bool:
        """Whether a compiler writes out places, fewer than half a vector: most lanes would be computed for nothing."""
        heavy = any(is_heavy(call) for s in self.computed(sweep.loops) for call in calls(s.value))
        return self.are_few((fast,)) and not heavy

    def are_few(self, axes: tuple[str, ...]) -> bool:
        """Whether the places of all these axes, as many as is known, are fewer than are worth a vector."""
        return bool(axes) and prod(self.normal.fixed.get(a, LEAST) for a in axes) < LEAST

    def _in_lanes(self, i: str, ends: tuple[str, str], width: Width, sweep: Sweep, folds: Sequence[Loop]) -> None:
        names = {s.name: self.text.name(s.name) for s in folds}
        for s in folds:
            self.out.line(f"real {names[s.name]}_lanes[{width.lanes}];")
            self.out.line(f"fill({names[s.name]}_lanes, {START[s.kind]}, {width.lanes});")
        with self.out.call(f"{width.macro}({i}, {', '.join(ends)}"):
            self.elements(sweep.loops)
        for s in folds:
            lanes = f"{OF[s.kind]}_{width.together}({names[s.name]}_lanes)"
            self.out.line(fold(s.kind, f"{names[s.name]}_total", lanes))

    def _by_places(self, i: str, ends: tuple[str, str], sweep: Sweep, folds: Sequence[Loop]) -> None:
        clauses = self.accumulators(folds, "_block")
        with self.out.loop(i, *ends, "" if sweep.ordered else f"simd{clauses}"):
            self.elements(sweep.loops)
        for s in folds:
            self.out.line(fold(s.kind, f"{self.text.name(s.name)}_total", self.accumulated(s, "_block")))

    def accumulate(self, s: Loop) -> None:
        name, total = self.text.name(s.name), self.group.is_total(s)
        if not self.in_lanes and total:
            super().accumulate(s)
        elif not self.in_lanes:
            self.reduce(s, f"{name}_block")
        else:
            into, new = self.stored(s) if total else f"{name}_lanes[lane]", f"{name}_new"
            self.out.line(f"const real {new} = {self.text.real(s.value)};")
            self.out.line(fold(s.kind, into, f"lane >= done ? {new} : 0" if s.kind == "sum" else new))

    def finish(self, s: Loop) -> None:
        """A fold is complete: its value, in memory too where that is wanted."""
        total = f"{self.text.name(s.name)}_total"
        value = f"(real){total}" if s.kind == "sum" else total
        self.out.line(f"const real {self.local(s.name)} = {value};")
        if self.plan.place[s.name] != "value":
            self.out.line(f"{self.stored(s)} = {self.local(s.name)};")
            self.here.add(s.name)
