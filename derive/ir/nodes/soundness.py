"""What holds of a program after every pass: names are defined before use, indices match dimensions, no axis is free on
the right alone, no divisor is the number 0.
"""

from __future__ import annotations

from derive.errors import OUR_FAULT, DeriveError
from derive.ir.nodes.arithmetic import divisor_of, folds_to_0
from derive.ir.nodes.walking import axes_along, node_axes, walk
from derive.ir.program import Index, Node, Program, Read, Scal, Scatter, Statement


def check(program: Program) -> Program:
    """The program itself, or a DeriveError that names the first statement that does not hold together."""
    rank = {name: len(axes) for name, axes in program.given}
    for statement in program.statements:
        nodes: list[Node | Index] = [statement.value]
        if isinstance(statement, Scatter):
            nodes += list(statement.slots)
        for node in (n for top in nodes for n in walk(top)):
            if isinstance(node, Read):
                if node.name not in rank:
                    raise _unsound(program, statement, f" reads {node.name} before it is defined")
                if rank[node.name] != len(node.index):
                    raise _unsound(program, statement, f" gives {node.name} {len(node.index)} indices")
            if isinstance(node, Scal) and node.name not in program.scalars:
                raise _unsound(program, statement, f" reads the unknown number {node.name}")
            if (divisor := divisor_of(node)) is not None and folds_to_0(divisor):
                raise _unsound(program, statement, " divides by 0")
        left = set(axes_along((*statement.axes, *statement.slots)))
        stray = [a for a in node_axes(statement.value) if a not in left]
        if stray:
            raise _unsound(program, statement, f": axis {stray[0]} is free on the right alone")
        rank[statement.name] = len(statement.axes)
    missing = [name for name in program.ends if name not in rank]
    if missing:
        cause = f"returns {missing[0]}, which no statement defines"
        raise DeriveError(cause, op=program.name, equation=missing[0], fix=OUR_FAULT)
    return program


def _unsound(program: Program, statement: Statement, what: str) -> DeriveError:
    return DeriveError(f"{statement}{what}", op=program.name, equation=statement.name, fix=OUR_FAULT)
