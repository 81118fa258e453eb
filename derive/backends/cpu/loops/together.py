"""Loops over a few rows at a time: one stage of all of them before the next.

What a row folds, its next stage waits for: additions one after another, a division, a root. The processor works on
other rows meanwhile where these come between, and, of wide rows, on four sums of a row. What one stage computes of a
row and a later one reads stands in an array over the rows; a row that is kept has room for all of them. Wide rows that
come from memory come faster one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from derive.backends.cpu.loops.contiguous import as_one
from derive.backends.cpu.loops.nests import extent
from derive.backends.cpu.loops.rows import FOUR, Rows
from derive.backends.cpu.loops.stages import Plan, Sweep
from derive.backends.cpu.names import variable
from derive.backends.cpu.statements.normal import Loop, Normal
from derive.backends.cpu.work import calls, is_heavy
from derive.ir.nodes.walking import axes_along
from derive.ir.program import Read


@dataclass
class Part:
    """What is done of one row before it is the next row's turn: values, sweeps, and the values that these end in."""

    before: list[Loop]
    sweeps: list[Sweep]
    after: list[Loop] = field(default_factory=list)

    @property
    def folds(self) -> Iterator[Loop]:
        return (s for sweep in self.sweeps for s in sweep.loops if s.is_fold)


def together(plan: Plan, form: Normal) -> bool:
    """Whether rows are folded before a later stage goes through them, and lie one after another."""
    group, parts = plan.group, _parts(plan)
    if not group.outer or (len(group.outer) > 1 and not as_one(group.outer, group.loops, form)):
        return False
    folded = any(not group.is_total(s) for part in parts[:-1] for s in part.folds)
    return folded and not any(sweep.nested or sweep.first for part in parts for sweep in part.sweeps)


def _parts(plan: Plan) -> list[Part]:
    """The stages, each with the values that the next would begin with: they too wait for what the row has folded."""
    parts: list[Part] = []
    for stage in plan.stages:
        sweeps = [x for x in stage.sweeps if any(plan.place[s.name] != "element" for s in x.loops)]
        if parts and parts[-1].sweeps:
            parts[-1].after += stage.values
            parts += [Part([], sweeps)] if sweeps else []
        elif parts:
            parts[-1].before += stage.values
            parts[-1].sweeps += sweeps
        else:
            parts.append(Part(list(stage.values), sweeps))
    return [x for part in parts for x in _costly_apart(part)]


def _costly_apart(part: Part) -> list[Part]:
    """The part, and from the first costly function of a row's value on what it ends in: vectors run along the rows."""
    costly = [k for k, s in enumerate(part.after) if any(map(is_heavy, calls(s.value)))]
    if not costly or any(s.changes for s in part.after[costly[0] :]):
        return [part]
    first = costly[0]
    return [replace(part, after=part.after[:first]), Part(part.after[first:], [])]


@dataclass
class RowsTogether(Rows):
    """Wide rows that lie in the cache are summed in four vectors. From memory they come one by one and place by place:
    to compute faster was slower there, by a quarter.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.in_order = _parts(self.plan)
        self.at = f"{variable(self.group.outer[-1])} - first"  # which of the rows it is

    # --- which rows ----------------------------------------------------------------------------------------

    @property
    def test(self) -> str:
        """The condition under which this form is better: of wide rows, that no other sum has less than a vector."""
        if self.width != FOUR:
            return f"{self.run} < WIDE"
        sums = [x for part in self.in_order for x in part.sweeps if self.sums_rows(x)]
        runs = {self.side_by_side(x)[-1:] for x in sums if self.side_by_side(x) != self.side_by_side(self.longest)}
        whole = "".join(f" && {extent(run)} >= LANES" for run in sorted(runs))
        return f"{self.run} >= WIDE{whole} && {self.how_many()} > 1"

    @property
    def longest(self) -> Sweep:
        """The sweep over the most axes."""
        return max((x for part in self.in_order for x in part.sweeps), key=lambda x: len(x.axes))

    @property
    def run(self) -> str:
        """How many elements of a row lie side by side."""
        return extent(self.side_by_side(self.longest))

    def side_by_side(self, sweep: Sweep) -> tuple[str, ...]:
        """The axes of a sweep that one loop counts through."""
        order = sweep.axes
        return order if as_one(order, self.computed(sweep.loops), self.normal) else order[-1:]

    def sums_rows(self, sweep: Sweep) -> bool:
        return any(s.is_fold and not self.group.is_total(s) for s in sweep.loops)

    def how_many(self, rows: str = "") -> str:
        """The rows that are taken together: as many as stay in the cache with all that is read and written of them."""
        axes = self.longest.axes
        loops = [s for part in self.in_order for x in part.sweeps for s in self.computed(x.loops)]
        written = [Read(s.name, s.slots) for s in loops if self.plan.place[s.name] in ("memory", "buffer")]
        inside = {name for name, place in self.plan.place.items() if place == "element"}
        whole = [r for r in (*(r for s in loops for r in s.reads()), *written) if r.name not in inside]
        along = {r.name for r in whole if {*self.outer, *axes} <= set(axes_along(r.index))}
        size = f"{max(1, len(along))} * {extent(axes)}"
        return f"rows_together({size}, {self.run}, {rows or extent(self.group.outer)}, {self.most})"

    @property
    def most(self) -> str:
        """How many rows are taken together at most: as many as fill a vector, where vectors run along them."""
        return "ABREAST" if any(not part.sweeps for part in self.in_order[1:]) else "TOGETHER"

    def shared_out(self, pragma: str) -> None:
        out, n = self.out, extent(self.group.outer)
        out.line(f"const int64_t few = {self.how_many()};")
        out.line(f"{pragma} schedule(static)")
        with out.loop("block", "0", f"({n} + few - 1) / few"):
            out.line(f"const int64_t first = block * few, last = at_most(first + few, {n});")
            self.few()

    def rows(self, start: str, stop: str) -> None:
        self.out.line(f"const int64_t few = {self.how_many()};")
        with self.out.block(f"for (int64_t first = {start}; first < {stop}; first += few)"):
            self.out.line(f"const int64_t last = at_most(first + few, {stop});")
            self.few()

    # --- their stages --------------------------------------------------------------------------------------

    def few(self) -> None:
        """The stages, each of all the rows."""
        self.starts()
        known: dict[str, str] = {}  # what an earlier stage has of a row, and where it stands
        for k, part in enumerate(self.in_order):
            later = {n for p in self.in_order[k + 1 :] for n in self.read(p)}
            made = [n for n in self.made(part) if n in later]
            arrays = {n: f"{self.local(n)}_few" for n in made if self.plan.place[n] == "value"}
            for name, array in arrays.items():
                self.out.line(f"{self.type(name)} {array}[{self.most}];")
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

    def recall(self, part: Part, known: dict[str, str]) -> None:
        """Where a stage's row is kept, and variables that hold what earlier stages have of the row."""
        used = self.read(part)
        touched = used | {s.name for s in (*part.before, *part.after, *(s for x in part.sweeps for s in x.loops))}
        for name in (n for n, place in self.plan.place.items() if place == "buffer" and n in touched):
            c = self.text.name(name)
            self.out.line(f"real *const {c} = {self.buffer(c)} + ({self.at}) * ({Rows.row(self, name)});")
        for name in (n for n in known if n in used):
            self.out.line(f"const {self.type(name)} {self.local(name)} = {known[name]};")
            self.here |= {name} if self.plan.place[name] == "memory" else set()

    def made(self, part: Part) -> list[str]:
        """The values, one a row, that a stage computes."""
        loops = (*part.before, *part.after, *part.folds)
        own = (s for s in loops if not s.changes and not self.in_parts(s) and not self.group.is_total(s))
        return [n for n in dict.fromkeys(s.name for s in own) if self.plan.place[n] in ("value", "memory")]

    def read(self, part: Part) -> set[str]:
        """The tensors that a stage reads."""
        loops = (*part.before, *part.after, *(s for x in part.sweeps for s in self.computed(x.loops)))
        return {r.name for s in loops for r in s.reads()}

    # --- memory and sums -------------------------------------------------------------------------------------

    def row(self, name: str) -> str:
        return f"{self.how_many('0')} * {super().row(name)}"  # the most there can be: tiles have fewer rows

    def buffer(self, name: str) -> str:
        return f"{name}_few"
