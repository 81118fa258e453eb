"""Loops over a few rows at a time: one stage of all of them before the next.

What a row folds, its next stage waits for: additions one after another, a division, a root. The processor works on
other rows meanwhile where these come between, and, of wide rows, on four sums of a row. What one stage computes of a
row and a later one reads stands in an array over the rows; a row that is kept has room for all of them. Wide rows that
come from memory come faster one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.backends.cpu.loops.rows import FOUR, ONE, Rows
from derive.backends.cpu.names import Sizes, extent, length, variable
from derive.backends.cpu.schedule import ways


@dataclass
class RowsTogether(Rows):
    way: ways.RowsTogether

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_once = self.way.at_once
        self.width = FOUR if self.way.vectors > 1 else ONE
        self.at = f"{variable(self.group.outer[-1])} - first"  # which of the rows it is

    # --- which rows ----------------------------------------------------------------------------------------

    def shared_out(self, pragma: str) -> None:
        out, n = self.out, extent(self.group.outer)
        out.line(f"const int64_t few = {self.at_once.said(length)};")
        out.line(f"{pragma} schedule(static)")
        with out.loop("block", "0", f"({n} + few - 1) / few"):
            out.line(f"const int64_t first = block * few, last = at_most(first + few, {n});")
            self.few()

    def rows(self, start: str, stop: str) -> None:
        self.out.line(f"const int64_t few = {self.at_once.said(length)};")
        with self.out.block(f"for (int64_t first = {start}; first < {stop}; first += few)"):
            self.out.line(f"const int64_t last = at_most(first + few, {stop});")
            self.few()

    # --- their stages --------------------------------------------------------------------------------------

    def few(self) -> None:
        """The stages, each of all the rows."""
        self.starts()
        known: dict[str, str] = {}  # what an earlier stage has of a row, and where it stands
        for k, part in enumerate(self.way.parts):
            later = {n for p in self.way.parts[k + 1 :] for n in self.read(p)}
            made = [n for n in self.made(part) if n in later]
            arrays = {n: f"{self.local(n)}_few" for n in made if self.plan.place[n] == "value"}
            for name, array in arrays.items():
                self.out.line(f"{self.type(name)} {array}[{self.at_once.most}];")
            sums = [f" reduction(+ : {self.stored(s)})" for s in part.before if self.is_number(s)]
            pragma = f"simd{''.join(sums)}" if k and not part.sweeps else ""
            with self.out.loop(variable(self.group.outer[-1]), "first", "last", pragma):
                self.recall(part, known)
                for s in part.before:
                    self.value(s)
                self.sweeps(part.sweeps)
                for s in part.after:
                    self.value(s)
                for name, array in arrays.items():
                    self.out.line(f"{array}[{self.at}] = {self.local(name)};")
            known |= {n: f"{array}[{self.at}]" for n, array in arrays.items()}
            known |= {n: self.stored(self.plan.written[n]) for n in made if n in self.here}
            self.here.clear()

    def recall(self, part: ways.Part, known: dict[str, str]) -> None:
        """Where a stage's row is kept, and variables that hold what earlier stages have of the row."""
        used = self.read(part)
        touched = used | {s.name for s in (*part.before, *part.after, *(s for x in part.sweeps for s in x.loops))}
        for name in (n for n, place in self.plan.place.items() if place == "buffer" and n in touched):
            c = self.text.name(name)
            self.out.line(f"real *const {c} = {self.buffer(c)} + ({self.at}) * ({Rows.row(self, name)});")
        for name in (n for n in known if n in used):
            self.out.line(f"const {self.type(name)} {self.local(name)} = {known[name]};")
            self.here |= {name} if self.plan.place[name] == "memory" else set()

    def made(self, part: ways.Part) -> list[str]:
        """The values, one a row, that a stage computes."""
        loops = (*part.before, *part.after, *(s for x in part.sweeps for s in x.loops if s.is_fold))
        own = (s for s in loops if not s.changes and not self.in_parts(s) and not self.group.is_total(s))
        return [n for n in dict.fromkeys(s.name for s in own) if self.plan.place[n] in ("value", "memory")]

    def read(self, part: ways.Part) -> set[str]:
        """The tensors that a stage reads."""
        loops = (*part.before, *part.after, *(s for x in part.sweeps for s in self.plan.computed(x.loops)))
        return {r.name for s in loops for r in s.reads()}

    # --- memory and sums -------------------------------------------------------------------------------------

    def row(self, name: str, size: Sizes = length) -> str:
        most = self.at_once.said(size, "0")  # there can be: tiles have fewer rows
        return f"{most} * {super().row(name, size)}"

    def buffer(self, name: str) -> str:
        return f"{name}_few"
