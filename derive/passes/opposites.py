"""What is minus another tensor is that with a minus: `dz = -dx` for `dx = 2 * dy * w` and `dz = -2 * dy * w`."""

from __future__ import annotations

from dataclasses import replace

from derive.nodes.arithmetic import signless
from derive.nodes.soundness import check
from derive.program import Assign, Call, Index, Node, Program, Read, Statement


def opposites(program: Program) -> Program:
    """The same program with each product of tensors, whatever its sign, computed once; numbers are written twice."""
    made: dict[tuple[tuple[Index, ...], Node], tuple[Assign, bool]] = {}
    out: list[Statement] = []
    for s in program.statements:
        if isinstance(s, Assign) and s.axes and s.name not in program.added_to:
            value, minus = signless(s.value)
            first, sign = made.setdefault((s.axes, value), (s, minus))
            if sign != minus and isinstance(value, Call) and value.fn in ("mul", "div"):
                s = replace(s, value=Call("neg", (Read(first.name, s.axes),)))
        out.append(s)
    return check(replace(program, statements=tuple(out)))
