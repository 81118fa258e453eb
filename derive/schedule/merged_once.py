"""What is read by the parts of one axis alone is merged where it is made: `dz[n, (p, j)] = …`, read as `dz[n, c]`.

`sum(w[c, i] * dz[n, c // size(j), c % size(j)], over=c)` beside others would merge at every read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import reads, uses, walk
from derive.ir.program import Assign, Call, Index, Join, Merged, PartOf, Program, Read, Scatter, Statement


@dataclass(frozen=True)
class _Parts:
    """Which indices of a read are the parts of one axis, all of them in order."""

    start: int
    count: int

    def merged(self, index: tuple[Index, ...], whole: Index) -> tuple[Index, ...]:
        """The indices with one for them."""
        return (*index[: self.start], whole, *index[self.start + self.count :])


def merged_once(program: Program) -> Program:
    """The same program, with such tensors merged as they are made, where they are read more than once."""
    read = (n for s in program.statements for n in walk(s.value) if isinstance(n, Read))
    parted = {n.name for n in read if any(isinstance(i, PartOf) for i in n.index)}
    for name in [n for n in program.assigned if n in parted]:
        made = program.assigned[name]  # which may read what was merged before it
        if isinstance(made.value, Call | Join) and (parts := _parts_read(made, program)) is not None:
            program = _merged(made, parts, program)
    return check(program)


def _parts_read(made: Assign, program: Program) -> _Parts | None:
    """The parts that all reads of a tensor take it by."""
    found = [read for _, read in uses(made.name, program.statements)]
    placed = {n for s in program.statements for i in s.slots for n in reads(i)}
    placed |= {n for s in program.statements if isinstance(s, Scatter) for n in (s.name, s.onto or "")}
    if len(found) < 2 or made.name in {*program.returns, *placed} or not all(isinstance(a, str) for a in made.axes):
        return None
    parts = {_of_one_axis(read) for read in found}
    return parts.pop() if len(parts) == 1 else None


def _of_one_axis(read: Read) -> _Parts | None:
    slots = [(k, i) for k, i in enumerate(read.index) if isinstance(i, PartOf)]
    if not slots or not all(isinstance(i, str | PartOf) for i in read.index):
        return None
    start, first = slots[0]
    whole = [(start + k, replace(first, position=k)) for k in range(len(first.lengths))]
    return _Parts(start, len(whole)) if slots == whole and isinstance(first.whole, str) else None


def _merged(made: Assign, parts: _Parts, program: Program) -> Program:
    """The program with the tensor merged, and read as it is then."""
    own = made.axes[parts.start : parts.start + parts.count]
    statements: list[Statement] = []
    for s in program.statements:
        if s is made:
            statements.append(replace(made, axes=parts.merged(made.axes, Merged(own))))
            continue
        for _, read in uses(made.name, [s]):
            first = read.index[parts.start]
            assert isinstance(first, PartOf)
            s = replace(s, value=put(s.value, read, Read(made.name, parts.merged(read.index, first.whole))))
        statements.append(s)
    return replace(program, statements=tuple(statements))
