"""One loop over all places at once, cut into blocks that threads share; nothing runs inside it."""

from __future__ import annotations

from dataclasses import dataclass

from derive.backends.cpu.loops.nests import Nest
from derive.backends.cpu.names import Sizes, extent, length, times, variable


@dataclass
class Elements(Nest):
    """Vectors run along the last outer axis."""

    def print(self) -> None:
        slow, fast, n = self.split()
        out, i = self.out, variable(fast)
        loops = [s for stage in self.plan.stages for s in stage.values]
        self.notes(loops)
        blocks = f"blocks({n})"
        count = f"{extent(slow)} * {blocks}" if slow else blocks
        self.starts()
        out.line(f"#pragma omp parallel for num_threads(team(threads, {self.work})) schedule(static)")
        with out.loop("block", "0", count):
            if slow:
                out.line(f"const int64_t at = block / {blocks};")
                self.decode(slow, "at")
            out.line(f"const int64_t from = block{f' % {blocks}' if slow else ''} * STRETCH;")
            out.line(f"const int64_t to = at_most(from + STRETCH, {n});")
            totals = list(self.group.totals)
            clauses = self.accumulators(totals, "_part")
            with out.loop(i, "from", "to", f"simd{clauses}"):
                self.elements(loops, lambda s: self.reduce(s, f"{self.text.name(s.name)}_part"))
            for s in totals:
                out.line(f"{self.text.name(s.name)}_parts[block] = {self.accumulated(s, '_part')};")

    def parts(self, size: Sizes = length) -> str:
        return times(extent(self.plan.slow, size), f"blocks({extent(self.plan.run, size)})")
