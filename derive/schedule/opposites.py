"""What is minus another tensor is that with a minus: `dz = -dx` for `dx = 2 * dy * w` and `dz = -2 * dy * w`.

Where it is only added to others, place by place, the other is taken away there: `dx[1:] -= dz[:-1]`.
"""

from __future__ import annotations

from dataclasses import replace

from derive.ir.nodes.arithmetic import signless
from derive.ir.nodes.other_axes import with_axes
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import by_axes, reads, uses
from derive.ir.program import Assign, Call, Index, Node, Program, Read, Scatter, Statement


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
    program = replace(program, statements=tuple(out))
    for one in out:
        if isinstance(one, Assign) and _is_only_taken_away(one, program):
            program = _taken_away(one, program)
    return check(program)


def _is_only_taken_away(made: Assign, program: Program) -> bool:
    """Whether a tensor is minus another, which nothing adds to, and all that reads it adds it somewhere."""
    inner = made.value.args[0] if isinstance(made.value, Call) and made.value.fn == "neg" else None
    if not isinstance(inner, Read) or not by_axes(inner) or not all(isinstance(a, str) for a in made.axes):
        return False
    found = uses(made.name, program.statements)
    scattered = all(isinstance(s, Scatter) and s.kind == "sum" and s.value == read for s, read in found)
    at_slots = {n for s in program.statements for i in s.slots for n in reads(i)}
    elsewhere = {*program.returns, *program.added_to, *(s.onto for s in program.statements if isinstance(s, Scatter))}
    return bool(found) and scattered and made.name not in elsewhere | at_slots and inner.name not in program.added_to


def _taken_away(made: Assign, program: Program) -> Program:
    """The program without that tensor."""
    statements: list[Statement] = []
    for s in (s for s in program.statements if s is not made):
        if isinstance(s, Scatter) and isinstance(s.value, Read) and s.value.name == made.name:
            places = dict(zip(map(str, made.axes), s.value.index, strict=True))
            s = replace(s, value=with_axes(made.value, places))
        statements.append(s)
    return replace(program, statements=tuple(statements))
