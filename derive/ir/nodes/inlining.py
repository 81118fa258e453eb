"""Inlining: a tensor's value where it is read, under the axes that it has there."""

from __future__ import annotations

from dataclasses import replace

from derive.ir.nodes.other_axes import plain, value_at
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import uses, walk
from derive.ir.program import Assign, Program, Read, Reduce, Scatter


def inline(made: Assign, program: Program) -> Program | None:
    """The program without a tensor that is read once, outside of sums and scatters; None where it is read otherwise."""
    found = uses(made.name, program.statements)
    alone = all(s == made for s in program.statements if s.name == made.name)
    if len(found) != 1 or made.name in program.ends or not alone:
        return None
    ((reader, read),) = found
    if any(read in walk(n) for n in walk(reader.value) if isinstance(n, Reduce)) or isinstance(reader, Scatter):
        return None
    if made.axes != read.index and not _may_stand_elsewhere(made):
        return None
    value = put(reader.value, read, made.value if made.axes == read.index else value_at(made, read.index))
    statements = (replace(s, value=value) if s == reader else s for s in program.statements if s != made)
    return replace(program, statements=tuple(statements))


def _may_stand_elsewhere(made: Assign) -> bool:
    """Whether a value may be had at other indices: it asks no axis for its places, nor has a merged one."""
    axes = [*made.axes, *(i for n in walk(made.value) if isinstance(n, Read) for i in n.index)]
    return plain(made.value) and all(isinstance(i, str) for i in axes)
