"""Programs of a loss that are more than its forward or its backward: both at once, and a whole training step.

What is computed from the same places of the inputs is then one pass: the backward needs nothing from memory that the
forward has at hand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from derive.ir.nodes.arithmetic import ONE
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import put, renamed, under_names
from derive.ir.program import Assign, Call, Index, Node, Program, Read, Scal, Scatter, Statement
from derive.pipeline import Derivation
from derive.schedule.share import share


@dataclass(frozen=True)
class Joined:
    """The statements of a forward and its backward, and what the gradients are called, one for each real input."""

    statements: tuple[Statement, ...]
    gradients: tuple[str, ...]


def with_gradients(d: Derivation) -> Program | None:
    """The loss and its gradients, from its inputs and its cotangent as a number; None where the output is not one."""
    cotangent = _cotangent(d)
    if cotangent is None:
        return None
    joined = _joined(d, Scal(cotangent))
    scalars = (*d.forward.scalars, cotangent)
    returns = (d.op.outputs[0], *joined.gradients)
    return check(Program(f"{d.op.name}_with_gradients", d.forward.given, scalars, joined.statements, returns))


def descent(d: Derivation) -> Program | None:
    """One step of gradient descent, or None where the op's output is not one number.

    The updates are additions in place, after everything that reads the inputs as they were.
    """
    op = d.op
    if _cotangent(d) is None:
        return None
    joined, step = _joined(d, ONE), Scal(rate(d))
    updates: list[Statement] = []
    for o, gradient in zip(op.differentiable, joined.gradients, strict=True):
        axes = tuple(a.name for a in o.axes)
        slots: tuple[Index, ...] = axes
        value: Node = Call("neg", (Call("mul", (step, Read(gradient, slots))),))
        updates.append(Scatter(o.name, axes, slots, value, onto=o.name, note=""))
    statements = (*joined.statements, *updates)
    scalars = (*d.forward.scalars, step.name)
    return check(Program(f"{op.name}_sgd", d.forward.given, scalars, statements, (op.outputs[0],)))


def rate(d: Derivation) -> str:
    """What the step's last parameter is called, the number that gradients are multiplied by."""
    return _fresh("lr", _names(d))


def _cotangent(d: Derivation) -> str | None:
    """The name of the loss's cotangent; None where the op's output is not one number."""
    op = d.op
    dims = next((s.axes for s in d.forward.statements if s.name == op.outputs[0]), None)
    if len(op.outputs) != 1 or dims != () or not set(d.backward.scalars) <= set(d.forward.scalars):
        return None
    return d.steps.cotangents[0].target.name


def _names(d: Derivation) -> set[str]:
    return {o.name for o in d.op.operands} | {s.name for p in (d.forward, d.backward) for s in p.statements}


def _joined(d: Derivation, cotangent: Node) -> Joined:
    """The forward, then the backward from this cotangent, its names apart from those of the forward."""
    read = Read(d.steps.cotangents[0].target.name, ())
    taken = _names(d) | {read.name}
    again: dict[str, str] = {}
    defined = {s.name: s for s in d.forward.statements}
    statements = list(d.forward.statements)
    for s in d.backward.statements:
        if s.name not in defined or s.name in again:
            statements.append(_from(under_names(s, again), read, cotangent))
        elif renamed(s, again) != defined[s.name]:  # what the backward computes as the forward did is at hand
            again[s.name] = _fresh(f"{s.name}_again", taken)
            statements.append(_from(under_names(s, again), read, cotangent))
    if read.name in d.backward.returns:  # the gradient is the cotangent as it came
        again[read.name] = _fresh(f"{read.name}_returned", taken)
        statements.append(Assign(again[read.name], (), cotangent))
    gradients = tuple(again.get(g, g) for g in d.backward.returns)
    scalars = d.forward.scalars + ((cotangent.name,) if isinstance(cotangent, Scal) else ())
    returns = (d.op.outputs[0], *gradients)
    program = check(Program(d.op.name, d.forward.given, scalars, tuple(statements), returns))
    return Joined(share(program).statements, gradients)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"{name}_"
    taken.add(name)
    return name


def _from(s: Statement, read: Read, value: Node) -> Statement:
    """The statement with the cotangent's value in place of its name."""
    return replace(s, value=put(s.value, read, value))
