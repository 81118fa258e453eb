"""A problem tried and counted: what is derived, and what is by hand, against autograd of a person's PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.memory import distinct_bytes, saved_by_tape
from benchmarks.outside.problem import Problem
from benchmarks.rows import Row, row
from derive.emit.live import Live
from derive.ir.equations import Op
from derive.notation.running import FailedError, Someones
from derive.output.live import build
from derive.show.report import compare
from derive.verify.cases import Call, Case, autograd, scale, world_of, worst
from derive.verify.leading import unflat
from derive.verify.reference import execute
from derive.verify.situations import Situation

CLOSE = 1e-9
"""What an output or a gradient may be off by in float64, relative to its largest element."""

SEEDS = 4
ODD = Situation("odd lengths", "no whole vector, no axis for another", lengths="odd")
LONG = Situation("a long row", "loops that are cut, and sums of much", lengths="one long row", numbers="other")


@dataclass(frozen=True)
class Tried:
    """How far off the derived functions were at most in so many calls, and what is wrong; "" where nothing is."""

    calls: int
    worst: float
    wrong: str
    by_hand_wrong: str


@dataclass(frozen=True)
class Counted:
    """Statements of the backward, and bytes kept for it at the lengths that are timed."""

    statements: int
    by_hand: int
    saved: int
    saved_by_autograd: int


def op_of(problem: Problem) -> Op:
    """The op of a problem that the notation has the words for."""
    assert problem.op is not None, f"{problem.title} has no op"
    return problem.op.op


def forward_of(problem: Problem) -> Callable[..., tuple[Tensor, ...]]:
    """What a person writes, as a function of all inputs in order, with a tuple of outputs."""
    assert problem.forward is not None, f"{problem.title} has no forward"
    forward = problem.forward

    def outputs(*args: Any) -> tuple[Tensor, ...]:
        found = forward(*args)
        return tuple(found) if isinstance(found, tuple | list) else (found,)

    return outputs


def tried(problem: Problem) -> Tried:
    """Hold what is derived, and what stands there by hand, against autograd of the forward.

    Raises DeriveError where the op cannot be derived, ValueError where the forward has other outputs.
    """
    live = build(op_of(problem), proven=False)
    furthest, calls = 0.0, 0
    wrong = by_hand_wrong = ""
    for case in cases(problem):
        calls += 1
        outputs, gradients = expected(problem, case.call)
        for name, subject in (("derived", _by_pair), ("autograd", _by_function)):
            off, why = _told(partial(subject, live, case.call), {**outputs, **gradients})
            furthest = max(furthest, off)
            wrong = wrong or (why and f"{name}: {why} ({case})")
        if problem.by_hand and not by_hand_wrong:
            _, by_hand_wrong = _told(partial(by_hand, problem, case.call), gradients)
    if not calls:
        wrong = "no lengths were found at which it could be tried"
    return Tried(calls, furthest, wrong, by_hand_wrong)


def cases(problem: Problem) -> Iterator[Case]:
    """Every call that a problem is tried with: odd lengths and a long row, four seeds each."""
    op = op_of(problem)
    for situation, lengths in ((ODD, problem.odd), (LONG, problem.long)):
        for seed in range(SEEDS):
            case = situation.make(op, seed, lengths)
            if case is not None:
                yield case


def expected(problem: Problem, call: Call) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Outputs and gradients of a person's forward by autograd, the latter by `d` and the input.

    Raises ValueError where its outputs have other shapes than the op's.
    """
    op, forward = call.op, forward_of(problem)
    leaves = {o.name: call.inputs[o.name].detach().clone().requires_grad_() for o in op.differentiable}
    outputs = forward(*in_order(op, {**call.inputs, **leaves}, call.numbers))
    if [o.shape for o in outputs] != [c.shape for c in call.cotangents]:
        shapes = " and ".join(str([list(t.shape) for t in tensors]) for tensors in (outputs, call.cotangents))
        raise ValueError(f"the shapes of outputs, by the forward and by the spec, are {shapes}")
    gradients = autograd(outputs, leaves, call.cotangents)
    named = {n: o.detach() for n, o in zip(op.outputs, outputs, strict=True)}
    return named, {f"d{n}": g for n, g in gradients.items()}


def by_hand(problem: Problem, call: Call) -> dict[str, Tensor]:
    """The gradients that the statements by hand come to, by `d` and the input."""
    op, scope = call.op, dict[str, Any]()
    with torch.no_grad():
        world = execute(op, world_of(call))
        made = {e.name: unflat(op, e.name, world.tensors[e.name], call.leading) for e in op.equations}
        given = {f"d{n}": c for n, c in zip(op.outputs, call.cotangents, strict=True)}
        scope |= {"torch": torch, "F": F, "math": math, **made, **call.inputs, **call.numbers, **given}
        exec(problem.by_hand, scope)
    return {f"d{o.name}": scope[f"d{o.name}"] for o in op.differentiable}


def in_order(op: Op, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> list[Any]:
    """All arguments of the op in its order; a number that is not given is its default."""
    return [tensors[o.name] if o.is_tensor else numbers.get(o.name, o.default) for o in op.operands]


def _by_pair(live: Live, call: Call) -> dict[str, Tensor]:
    *outputs, saved = live.forward(*call.arguments())
    found = live.backward(*call.cotangents, *saved)
    gradients: Sequence[Tensor] = found if isinstance(found, tuple) else (found,)
    return _named(call.op, outputs, gradients)


def _by_function(live: Live, call: Call) -> dict[str, Tensor]:
    leaves = {o.name: call.inputs[o.name].detach().clone().requires_grad_() for o in call.op.differentiable}
    found = live.function(*in_order(call.op, {**call.inputs, **leaves}, call.numbers))
    outputs: Sequence[Tensor] = found if isinstance(found, tuple) else (found,)
    return _named(call.op, outputs, list(autograd(outputs, leaves, call.cotangents).values()))


def _named(op: Op, outputs: Sequence[Tensor], gradients: Sequence[Tensor]) -> dict[str, Tensor]:
    names = [*op.outputs, *(f"d{o.name}" for o in op.differentiable)]
    return dict(zip(names, [*outputs, *gradients], strict=True))


def _told(answer: Callable[[], Mapping[str, Tensor]], want: Mapping[str, Tensor]) -> tuple[float, str]:
    """The largest relative error of an answer, and what is wrong with it."""
    try:
        with Someones():
            got = answer()
    except FailedError as failed:
        return math.inf, failed.line
    furthest = 0.0
    for name, right in want.items():
        found = got[name]
        if found.shape != right.shape:
            return math.inf, f"{name} has shape {list(found.shape)}, expected {list(right.shape)}"
        off = worst(found, right) / scale(right)
        if off > CLOSE:
            return off, f"{name} is off by {off:.1e}"
        furthest = max(furthest, off)
    return furthest, ""


# --- counting ---------------------------------------------------------------------------------------------


def counted(problem: Problem) -> Counted:
    """Statements and saved bytes. Raises DeriveError where the op cannot be derived."""
    live, at = build(op_of(problem), proven=False), row_of(problem)
    args = arguments(at)
    with torch.no_grad():
        *_, saved = live.forward(*args)
    leaves = [a.clone().requires_grad_() if w else a for a, w in zip(args, wanted(at.op), strict=True)]
    kept = saved_by_tape(forward_of(problem), leaves)
    return Counted(compare(live.derivation).closed.statements, problem.statements_by_hand, distinct_bytes(saved), kept)


def row_of(problem: Problem) -> Row:
    """A problem's inputs at the lengths that are timed, in float32."""
    return row(op_of(problem), "medium", given=problem.lengths)


def arguments(at: Row) -> list[Any]:
    """All arguments of a row, in the op's order."""
    names = [o.name for o in at.op.operands if o.is_tensor]
    return in_order(at.op, dict(zip(names, at.args, strict=True)), at.numbers)


def wanted(op: Op) -> list[bool]:
    """Which arguments take a gradient."""
    return [o.differentiable for o in op.operands]
