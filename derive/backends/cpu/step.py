"""A whole training step as one program: forward, backward, and the gradient times a rate taken from every input.

The updates are additions in place, after everything that reads the inputs as they were.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from derive.pipeline import Derivation
from derive.program import Assign, Call, Index, Node, Num, Program, Read, Scal, Scatter, Statement
from derive.share import renamed
from derive.soundness import check

RATE = "lr"


def descent(d: Derivation) -> Program | None:
    """One step of gradient descent, or None where the op's output is not one number or an input has the rate's name."""
    op = d.op
    names = {o.name for o in op.operands} | {s.name for p in (d.forward, d.backward) for s in p.statements}
    dims = next((s.axes for s in d.forward.statements if s.name == op.outputs[0]), None)
    if len(op.outputs) != 1 or dims != () or RATE in names or not set(d.backward.scalars) <= set(d.forward.scalars):
        return None
    cotangent = d.steps.cotangents[0].target.name
    taken = names | {cotangent}
    again: dict[str, str] = {}
    defined = {s.name for s in d.forward.statements}
    for s in d.backward.statements:
        if s.name in defined and s.name not in again:
            again[s.name] = _fresh(f"{s.name}_again", taken)
    backward = [_again(s, again) for s in d.backward.statements]
    start = Assign(cotangent, (), Num(Fraction(1)))
    updates: list[Statement] = []
    for o, gradient in zip(op.differentiable, d.backward.returns, strict=True):
        axes = tuple(a.name for a in o.axes)
        slots: tuple[Index, ...] = axes
        value: Node = Call("neg", (Call("mul", (Scal(RATE), Read(again.get(gradient, gradient), slots))),))
        updates.append(Scatter(o.name, axes, slots, value, onto=o.name, note=""))
    statements = (*d.forward.statements, start, *backward, *updates)
    return check(
        Program(f"{op.name}_sgd", d.forward.given, (*d.forward.scalars, RATE), statements, (op.outputs[0],))
    )


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"{name}_"
    taken.add(name)
    return name


def _again(s: Statement, names: dict[str, str]) -> Statement:
    """A statement of the backward, its names apart from those of the forward."""
    s = replace(renamed(s, names), name=names.get(s.name, s.name))
    return replace(s, onto=names.get(s.onto, s.onto)) if isinstance(s, Scatter) and s.onto else s
