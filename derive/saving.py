"""Policy: what the forward keeps for the backward, and what the backward computes again.

Every tensor of the forward that the closed form reads is either kept or, where it is pointwise in what is kept
anyway, computed again. Keeping an element costs `PRICE` element operations, so a cheap pointwise tensor is computed
again when that frees memory, and never a reduction or a matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.adjoint import Stepwise
from derive.cost import Carriers, Cost, elements, work
from derive.equations import Equation, Op
from derive.program import Program, base
from derive.schedule import Definition, schedule
from derive.terms import Axis, Scalar, tensor_names

PRICE = 12.0
"""Element operations that one kept element is worth."""

OUTPUT_PRICE = 0.5
"""The same for an output, which the caller holds in any case."""


@dataclass(frozen=True)
class Kept:
    """The saved tensors (in the forward's order), the backward's program, and what the choice costs."""

    names: tuple[str, ...]
    program: Program
    cost: Cost

    @property
    def total(self) -> float:
        return self.cost.work + PRICE * self.cost.kept


def recompute(
    steps: Stepwise, definitions: list[Definition], candidates: frozenset[str], held: frozenset[str], save: str = "cost"
) -> list[Definition]:
    """The tensors among `candidates` that are better computed again, decided one at a time, latest first."""
    op = steps.op
    returns = tuple(d.name for d in definitions)
    best = with_kept(steps, definitions, returns, held)
    again: list[Definition] = []
    for equation in reversed(op.equations):
        if equation.name not in best.names or equation.name not in candidates or not _recomputable(equation, op):
            continue
        trial = [Definition(equation.name, equation.axes, equation.body), *again]
        candidate = with_kept(steps, [*trial, *definitions], returns, held)
        if candidate.total < best.total or (save == "least" and candidate.cost.kept < best.cost.kept):
            best, again = candidate, trial
    return again


def _recomputable(equation: Equation, op: Op) -> bool:
    return equation.kind is None and equation.is_plain and equation.name not in op.outputs


def _needed(definitions: list[Definition]) -> set[str]:
    return {name for d in definitions for name in tensor_names(d.value)}


def with_kept(
    steps: Stepwise,
    definitions: list[Definition],
    returns: tuple[str, ...] | None = None,
    held: frozenset[str] = frozenset(),
) -> Kept:
    """The program of these definitions and what it reads of the forward; what is `held` anyway costs nothing more.

    `returns` are the definitions wanted (default: the gradients). Adjoints defined elsewhere are given.
    """
    op = steps.op
    own = {d.name for d in definitions}
    cotangents = {c.target.name: c.axes for c in steps.cotangents}
    adjoints = {a.target.name: a.axes for a in steps.adjoints}
    needed = _needed(definitions) - own
    names = tuple(n for n in forward_names(op) if n in needed)
    outside = {n: a for n, a in (cotangents | adjoints).items() if n in cotangents or (n in needed and n not in own)}
    given = tuple((n, tuple(a.name for a in axes)) for n, axes in outside.items())
    given += tuple((n, dims(op, n)) for n in names)
    used = {s.name for d in definitions for s in d.value.atoms(Scalar)}
    scalars = tuple(o.name for o in op.operands if not o.is_tensor and o.name in used)
    gradients = {a.of: a.target.name for a in steps.adjoints}
    if returns is None:
        returns = tuple(gradients[o.name] for o in op.differentiable)
    program = schedule(op.name, definitions, given, scalars, returns)
    kept = sum(elements(dims(op, n)) * _share(op, n) for n in names if n not in held)
    return Kept(names, program, Cost(work(program, carriers(op)), kept))


def _share(op: Op, name: str) -> float:
    return OUTPUT_PRICE / PRICE if name in op.outputs else 1.0


def carriers(op: Op) -> Carriers:
    """The axes of every operand and output, those of one operand under their windows' and merges' names too."""
    names = [o.name for o in op.operands if o.is_tensor] + list(op.outputs)
    return tuple(frozenset(base(a) for a in dims(op, n)) for n in names)


def forward_names(op: Op) -> list[str]:
    """Equations first, then operands: the order of a saved tuple."""
    return [e.name for e in op.equations] + [o.name for o in op.operands if o.is_tensor]


def dims(op: Op, name: str) -> tuple[str, ...]:
    """The dimensions of a forward tensor, a merged one under the name of its parts."""
    operand = op.operand(name)
    if operand is not None:
        return tuple(a.name for a in operand.axes)
    equation = op.equation(name)
    assert equation is not None
    return tuple(i.name if isinstance(i, Axis) else "_".join(a.name for a in i.args) for i in equation.index)
