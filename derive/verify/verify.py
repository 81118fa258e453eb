"""An op's derived backward, verified: one row a gradient, each held against everything that can tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from sympy import exp
from torch import Tensor

from derive.emit import ORDERS, rendered
from derive.emit.devices import CPU
from derive.emit.live import live_of
from derive.emit.memory import modules_in_memory
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.notation.running import FailedError, Someones
from derive.orders import double_backward, forward_mode
from derive.pipeline import Derivation
from derive.verify.battery import BATTERY, LOOPS, cases
from derive.verify.cases import Call, Case, case_of, reference, scale, worst
from derive.verify.chain import chain_world, with_adjoints
from derive.verify.compare import Answer, Disagreement, Subject, disagreements, told
from derive.verify.differences import ENOUGH, Slope, slope
from derive.verify.elsewhere import placed
from derive.verify.kernels import compiled
from derive.verify.leading import unflat
from derive.verify.orders import gradient_map, of_forward_mode, of_gradients, of_tangents, of_twice, tangent_map
from derive.verify.situations import Situation
from derive.verify.subjects import of_differentiable, of_live, of_workspace, parts
from derive.verify.values import times

_ATTEMPTS = 6  # at an ordinary case with finite outputs
_LOWER = (torch.float32, torch.bfloat16)
_CLOSE = 1e-10  # relative; two float64 forms of one gradient
EXPONENTS = (30, 300)
"""How large what exponentials are of is made: rows of shares nearly, and wholly, of one element."""

FEW = 8 * torch.finfo(torch.float32).eps
"""Units in the last place of the largest element: what gradients in float32 may differ by in any case."""

_SMALL_ENOUGH = (
    "ordinary",
    "same sizes",
)  # the smaller of them is where the stepwise form is evaluated, delta by delta


@dataclass(frozen=True)
class Rounding:
    """The largest relative error against float64: of the derived backward, and of what it is compared with."""

    ours: float
    theirs: float


@dataclass(frozen=True, eq=False)
class Row:
    """One gradient. `exact`, `close` and `maxdiff` are of the ordinary case in float64; errors are relative."""

    gradient: str
    exact: bool
    close: bool
    maxdiff: float
    autograd: float  # the largest error in float64 over all situations
    differences: Slope
    stepwise: float
    float32: Rounding
    bfloat16: Rounding
    exponents: Mapping[int, Rounding]  # float32, by how large the exponents are; none where nothing is exponential
    twice: bool  # whether they are held to twice what is compared with, as they are to an op of PyTorch's own
    wrong: tuple[Disagreement, ...]

    @property
    def right(self) -> bool:
        agrees = self.differences_agree and self.stepwise_agrees and not self.lost
        return not self.wrong and self.close and agrees

    @property
    def lost(self) -> Mapping[int, Rounding]:
        """The sizes of exponents for which ours is off by more than twice what is compared with, and a few units."""
        return {k: r for k, r in self.exponents.items() if self.twice and not r.ours <= 2 * r.theirs + FEW}

    @property
    def differences_agree(self) -> bool:
        return self.differences.error <= ENOUGH

    @property
    def stepwise_agrees(self) -> bool:
        return self.stepwise <= _CLOSE

    @property
    def line(self) -> str:
        """The familiar line, less the name: whether bit for bit, whether close, the largest difference."""
        exact, close = f"{self.exact!s:5}", f"{self.close and not self.wrong!s:5}"
        return f"| exact: {exact} | approximate: {close} | maxdiff: {self.maxdiff:.3g}"


@dataclass(frozen=True, eq=False)
class Verification:
    """An op's gradients, and what was wrong of no single gradient: an exception, an output, an input written to."""

    op: Op
    rows: tuple[Row, ...]
    situations: tuple[str, ...]
    wrong: tuple[Disagreement, ...]
    against: str  # what `Rounding.theirs` is
    kernels: tuple[str, ...] = ()  # those that ran, where kernels were verified and not PyTorch's form

    @property
    def right(self) -> bool:
        return not self.wrong and all(row.right for row in self.rows)


Native = Callable[..., Any]
Wrong = Callable[[Case], tuple[Disagreement, ...]]


def verify(
    op: Op, save: str = "cost", seed: int = 0, native: Native | None = None, device: torch.device = CPU, order: int = 1
) -> Verification:
    """Hold every gradient of an op against autograd, finite differences, its stepwise form, and lower precisions.

    Of `order` 2, also what cotangents of the gradients give inputs, `grad_x`, and cotangents, and what tangents give
    outputs, `ty`.

    `native` is another differentiable forward of the same signature, whose rounding errors stand beside ours; without
    it, those of autograd over the executed equations. On a `device` it is the derived functions, and `native`, that
    run there. Raises DeriveError where the op cannot be derived or run.
    """
    live = live_of(op, save, workspace=True)
    subject = placed(of_live(live), device)
    over = {f"{op.name}_backward_out": placed(of_workspace(parts(live)), device)}

    def wrong(case: Case) -> tuple[Disagreement, ...]:
        others = (d for name, other in over.items() for d in told(disagreements(case, other), f"by {name}"))
        return (*disagreements(case, subject), *others)

    other = None if native is None else placed(of_differentiable(native), device)
    found = _verified(live.derivation, op, subject, tuple(cases(op, seed)), wrong, seed, other)
    return found if order == 1 else _with_further(found, live.derivation, seed, native, device)


def _with_further(
    first: Verification, d: Derivation, seed: int, native: Native | None, device: torch.device
) -> Verification:
    """The same, with rows for second derivatives and for tangents."""
    op, out = first.op, first
    others = (None, None) if native is None else (of_twice(op, native), of_forward_mode(op, native))
    with modules_in_memory(rendered(d, "torch", order=2).files) as modules:
        function, orders = modules[op.name][op.name], modules[f"{ORDERS}.{op.name}"]
        seconds, tangents = of_gradients(op, function, orders), of_tangents(op, function, orders)
        names = {f"d{o.name}": f"grad_{o.name}" for o in op.differentiable}
        given = [o.name for o in tangent_map(op).differentiable]
        called = {f"d{dy}": f"t{y}" for dy, y in zip(given, op.outputs, strict=True)}
        for own, made, subjects, other, rows in (
            (gradient_map(op), double_backward(d), seconds, others[0], names),
            (tangent_map(op), forward_mode(d), tangents, others[1], called),
        ):
            there = {name: placed(subject, device) for name, subject in subjects.items()}

            def wrong(case: Case, there: Mapping[str, Subject] = there) -> tuple[Disagreement, ...]:
                every = (told(disagreements(case, subject), f"by {name}") for name, subject in there.items())
                return tuple(d for found in every for d in found)

            subject, beside = next(iter(there.values())), None if other is None else placed(other, device)
            found = _verified(made, own, subject, tuple(cases(own, seed)), wrong, seed, beside)
            further = tuple(replace(row, gradient=rows.get(row.gradient, row.gradient)) for row in found.rows)
            out = replace(out, rows=(*out.rows, *further), wrong=(*out.wrong, *found.wrong))
    return out


def verify_kernels(op: Op, save: str = "cost", seed: int = 0, native: Native | None = None) -> Verification:
    """The same of the op's C kernels, compiled; also on more threads than one, and over loops that threads share.

    Raises NoKernel where the op has none, DeriveError where there is no compiler.
    """
    with compiled(op, save) as kernels:
        torch_form = of_live(live_of(op))
        long = (_as_torch_rounds(case, torch_form) for case in cases(op, seed, LOOPS))
        made = (*cases(op, seed), *long)
        other = None if native is None else of_differentiable(native)
        found = _verified(kernels.derivation, op, kernels.subject, made, kernels.wrong, seed, other)
        return replace(found, kernels=kernels.ran())


def _as_torch_rounds(case: Case, torch_form: Subject) -> Case:
    """A long loop in a lower precision may also be off by twice what PyTorch's form is; float64 says what is wrong.

    A long sum inside a deep op is rounded by the order in which it is taken, which moves what follows by more than
    rounded inputs do, and the equations' autograd has one such order alone. Where PyTorch's form raises, it says
    nothing of rounding; what it raises is told where that form itself is verified.
    """
    if case.call.dtype == torch.float64:
        return case
    try:
        with Someones():
            answer = torch_form(case.call)
    except FailedError:
        return case
    gradients = _twice_off(case.allowed, answer.gradients, case.gradients)
    return replace(
        case, allowed=gradients, outputs_allowed=_twice_off(case.outputs_allowed, answer.outputs or {}, case.outputs)
    )


def _twice_off(
    allowed: Mapping[str, float], got: Mapping[str, Tensor | None], want: Mapping[str, Tensor]
) -> dict[str, float]:
    """What is allowed already, or twice what these are off by, where that is more and finite."""
    off = {n: 2 * worst(t, want[n]) for n, t in got.items() if t is not None}
    return {n: max(a, off[n]) if math.isfinite(off.get(n, math.inf)) else a for n, a in allowed.items()}


def _verified(
    derivation: Derivation,
    op: Op,
    subject: Subject,
    made: tuple[Case, ...],
    wrong: Wrong,
    seed: int,
    native: Subject | None,
) -> Verification:
    ordinary = next((c for c in made if c.situation == BATTERY[0].name), None)
    if ordinary is None:
        raise DeriveError("found no ordinary call", op=op.name, fix="say what its inputs may be, such as .positive")
    found = [d for case in made for d in wrong(case)]
    against = "equations" if native is None else "native"
    situations = tuple(c.situation for c in made)
    small = min((c for c in made if c.situation in _SMALL_ENOUGH), key=_elements)
    if any(d.kind == "raised" and d.case in (ordinary, small) for d in found):
        return Verification(op, (), situations, tuple(found), against)  # there is nothing to measure
    answer = subject(ordinary.call).gradients
    moving = moving_case(op, ordinary, seed)
    slopes = {n: g for n, g in subject(moving.call).gradients.items() if g is not None}
    gradients = {n: g for n, g in answer.items() if g is not None and n in slopes}
    step, closed = stepwise(derivation, small), subject(small.call).gradients
    other = _plain if native is None else _native(op, native, ordinary)
    roundings = {d: rounding(op, subject, other, replace(BATTERY[0], dtype=d), seed) for d in _LOWER}
    sizes = EXPONENTS if any(e.right.has(exp) for e in op.equations) else ()
    exponents = {k: rounding(op, subject, other, with_exponents(k), seed) for k in sizes}
    worsts = _worst(made, subject, {d.case for d in found if d.kind in ("raised", "shape", "missing")})
    rows = tuple(
        Row(
            f"d{name}",
            bool(torch.equal(g, ordinary.gradients[name])),
            worst(g, ordinary.gradients[name]) <= ordinary.allowed[name],
            worst(g, ordinary.gradients[name]),
            worsts[name],
            slope(moving, name, slopes[name]),
            _relative(closed[name], step[name]),
            roundings[torch.float32][name],
            roundings[torch.bfloat16][name],
            {k: found[name] for k, found in exponents.items()},
            native is not None,
            tuple(d for d in found if d.tensor == f"d{name}"),
        )
        for name, g in gradients.items()
    )
    named = {row.gradient for row in rows}
    rest = tuple(d for d in found if d.tensor not in named)
    return Verification(op, rows, situations, rest, against)


def moving_case(op: Op, ordinary: Case, seed: int) -> Case:
    """An ordinary case whose outputs are finite, or one without cotangents of what is not: an infinity has no slope."""
    drawn = (BATTERY[0].make(op, seed + k) for k in range(_ATTEMPTS))
    found = next((c for c in (ordinary, *drawn) if c is not None and _is_finite(c)), None)
    if found is not None:
        return found
    outputs = zip(ordinary.outputs.values(), ordinary.call.cotangents, strict=True)
    cotangents = tuple(torch.where(o.isfinite(), c, 0) for o, c in outputs)
    return case_of(ordinary.situation, seed, replace(ordinary.call, cotangents=cotangents))


def _is_finite(case: Case) -> bool:
    return all(bool(o.isfinite().all()) for o in case.outputs.values())


def stepwise(derivation: Derivation, case: Case) -> dict[str, Tensor]:
    """The gradients by the chain rule's own form, every adjoint evaluated as it is written, in float64."""
    steps = derivation.steps
    tensors = (o.name for o in steps.op.operands if o.is_tensor)
    call = replace(case.call, op=steps.op, inputs=dict(zip(tensors, case.call.inputs.values(), strict=True)))
    world = with_adjoints(steps, chain_world(derivation, call))
    targets = {a.of: a.target.name for a in steps.adjoints}
    names = [o.name for o in steps.op.differentiable]
    found = (unflat(steps.op, n, world.tensors[targets[n]], case.call.leading) for n in names)
    return dict(zip((o.name for o in case.op.differentiable), found, strict=True))


def rounding(op: Op, subject: Subject, other: Subject, situation: Situation, seed: int) -> dict[str, Rounding]:
    """The largest relative errors over four calls in a lower precision, ours and the other's."""
    out: dict[str, Rounding] = {o.name: Rounding(0.0, 0.0) for o in op.differentiable}
    for k in range(4):
        case = situation.make(op, seed + k)
        if case is None:
            continue
        mine, theirs = subject(case.call).gradients, other(case.call).gradients
        for name, want in case.gradients.items():
            a, b = (_relative(g.get(name), want) for g in (mine, theirs))
            out[name] = Rounding(max(out[name].ours, a), max(out[name].theirs, b))
    return out


def with_exponents(size: int) -> Situation:
    """A call in float32 with exponents of that size."""
    why = "shares that are nearly 0 and 1, of which differences are taken"
    return Situation(f"exponents of {size}", why, lengths="many", change=times(size), dtype=torch.float32)


def _native(op: Op, subject: Subject, ordinary: Case) -> Subject:
    """Another forward, once it is seen to compute the same."""
    try:
        with Someones():
            found = subject(ordinary.call)
    except FailedError as failed:
        names = ", ".join(o.name for o in op.operands)
        raise DeriveError(f"the native forward fails: {failed.line}", op=op.name, fix=f"let it take {names}") from None
    for name, value in (found.outputs or {}).items():
        want = ordinary.outputs[name]
        if value.shape != want.shape or worst(value, want) > 1e-6 * scale(want):
            raise DeriveError(f"the native forward computes another {name}", op=op.name, fix="name the same function")
    return subject


def _plain(call: Call) -> Answer:
    """Autograd over the executed equations, in the call's own dtype."""
    return Answer(reference(call)[1])


def _elements(case: Case) -> int:
    return sum(t.numel() for t in case.call.inputs.values())


def _relative(got: Tensor | None, want: Tensor) -> float:
    return worst(torch.zeros_like(want) if got is None else got, want) / scale(want)


def _worst(made: tuple[Case, ...], subject: Subject, skip: set[Case]) -> dict[str, float]:
    """The largest relative error of each gradient over the float64 cases."""
    out: dict[str, float] = {}
    for case in made:
        if case.call.dtype == torch.float64 and case not in skip:
            for name, g in subject(case.call).gradients.items():
                out[name] = max(out.get(name, 0.0), _relative(g, case.gradients[name]))
    return out
