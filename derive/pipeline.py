"""The road from a spec to its programs, every stage kept and printable."""

from __future__ import annotations

from dataclasses import dataclass

from derive.adjoint import Stepwise, stepwise
from derive.collapse.search import Closed, search
from derive.collapse.vocabulary import name_sums
from derive.equations import Op
from derive.forward import forward_program
from derive.program import Program
from derive.saving import with_kept
from derive.schedule import Definition
from derive.share import share, without_copies


@dataclass(frozen=True)
class Derivation:
    """All that was derived of one op. Every field prints itself."""

    op: Op  # the equations as they were written
    named: Op  # the same, with nested sums named
    steps: Stepwise  # the chain rule's backward
    closed: Closed  # the collapsed backward and how it was reached
    forward: Program
    backward: Program
    stepwise_forward: Program | None  # where the op asks for its stepwise form as well
    stepwise_backward: Program | None

    @property
    def kept(self) -> tuple[str, ...]:
        """The tensors that the forward hands to the backward."""
        return self.closed.kept.names


def derive_op(op: Op, save: str = "cost") -> Derivation:
    """Take an op down the whole road. `save` overrides what the forward keeps: "cost", "least", "input", "output"."""
    named = name_sums(op)
    steps = stepwise(named)
    closed = search(steps, save)
    forward = forward_program(named, closed.kept.names)
    long_forward = long_backward = None
    if op.stepwise:
        long_backward, kept = stepwise_program(stepwise(named, powers_from_output=False))
        long_forward = forward_program(named, kept)
    return Derivation(
        op, named, steps, closed, forward, share(without_copies(closed.kept.program)), long_forward, long_backward
    )


def stepwise_program(steps: Stepwise) -> tuple[Program, tuple[str, ...]]:
    """The uncollapsed backward, which returns the adjoint of every tensor the user named, and what it reads."""
    definitions = [Definition(a.target.name, a.axes, a.value) for a in steps.adjoints]
    own = [a.target.name for a in steps.adjoints if _is_named(steps.op, a.of)]
    kept = with_kept(steps, definitions, tuple(own))
    return kept.program, kept.names


def _is_named(op: Op, name: str) -> bool:
    equation = op.equation(name)
    return equation is None or equation.given
