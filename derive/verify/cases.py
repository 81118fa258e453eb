"""One call of an op with everything to hold it against: inputs, cotangents, and autograd of the executed equations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from derive.errors import DeriveError
from derive.ir.equations import Op, Operand
from derive.ir.terms.axes import PACK_NAME
from derive.rules.order import DIGITS
from derive.verify.leading import flat, unflat
from derive.verify.opaque import Opaque
from derive.verify.places import World
from derive.verify.reference import execute

EXACT = 1e-10
"""What two float64 computations of one gradient may differ by, relative to its largest element."""

_UNITS = 8  # in the last place, of the largest element: what gradients in low precisions may differ by in any case
_OUTPUT_UNITS = 16  # and outputs
_UNEVEN = 1.1  # times as large, in floats, is no shift of the point: sums are rounded elsewhere
_MODEST = 300  # values up to which the square of an exponential is a number
_SMALL = 1e-3  # gradients smaller than this are compared absolutely


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of one call: tensors and numbers by the operand's name, a cotangent an output."""

    op: Op
    leading: tuple[int, ...]  # the lengths that `...` stands for
    inputs: Mapping[str, Tensor]  # every tensor operand, in order
    numbers: Mapping[str, float]  # every scalar and length
    cotangents: tuple[Tensor, ...] = ()

    @property
    def dtype(self) -> torch.dtype:
        return next((t.dtype for t in self.inputs.values() if t.is_floating_point()), torch.float64)

    @property
    def lengths(self) -> dict[str, int]:
        """The length of every axis that an input carries or a number gives, `...` as one."""
        out: dict[str, int] = {}
        for operand in self.op.operands:
            if operand.kind == "length" and operand.ranges_over is not None:
                out[operand.ranges_over.base] = int(self.numbers[operand.name])
            if operand.is_tensor:
                shape = flat(self.op, operand.name, self.inputs[operand.name], self.leading).shape
                out |= {a.base: n for a, n in zip(operand.axes, shape, strict=True)}
        return out

    def arguments(self, inputs: Mapping[str, Tensor] | None = None) -> list[Tensor | float]:
        """Every argument of the forward, in the order of the op's operands, tensors of other `inputs` if given."""
        inputs = self.inputs if inputs is None else inputs
        return [inputs[o.name] if o.is_tensor else self.numbers[o.name] for o in self.op.operands]

    def in_dtype(self, dtype: torch.dtype) -> Call:
        """The same call with real tensors of another dtype. What was one tensor stays one tensor."""
        made = {id(t): t.to(dtype) if t.is_floating_point() else t for t in (*self.inputs.values(), *self.cotangents)}
        inputs = {name: made[id(t)] for name, t in self.inputs.items()}
        return replace(self, inputs=inputs, cotangents=tuple(made[id(t)] for t in self.cotangents))


@dataclass(frozen=True, eq=False)
class Case:
    """A call in a named situation, with the outputs and gradients that are right and how far off others may be.

    `outputs` are by the output's name and `gradients` by the operand's, all float64; `allowed` holds an absolute error
    for each gradient and `outputs_allowed` one for each output. Where a right value is not finite, nothing is asked of
    the other.
    """

    situation: str
    seed: int
    call: Call
    outputs: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor]
    allowed: Mapping[str, float]
    outputs_allowed: Mapping[str, float]

    @property
    def op(self) -> Op:
        return self.call.op

    @cached_property
    def unavoidable(self) -> Mapping[str, float]:
        """How far each output, and each gradient as `d` and its operand, moves where inputs are rounded once more.

        No way to compute it is closer than a few of these: `sin(30*x)` loses what `30*x` is rounded by. 0 where
        it jumps, as a maximum's gradient does beside a tie: there it would excuse anything.
        """
        found = self._moved(by_place(self.seed))
        return {n: moved if moved <= self._jump * size else 0.0 for n, (moved, size) in found.items()}

    @cached_property
    def is_steady(self) -> bool:
        """Whether nothing jumps where inputs are rounded once more and equal ones stay equal, whole ones whole.

        Else a choice is made by what rounding leaves of a difference, as where a variance of 0 is clamped.
        """
        return all(moved <= self._jump * size for moved, size in self._moved(_by_value).values())

    @property
    def _jump(self) -> float:
        """How far, in its own size, a value moves that does not move by rounding alone."""
        return torch.finfo(self.call.dtype).eps ** 0.4  # a mask of 1e9 loses nine digits of sixteen

    def _moved(self, sign: Callable[[Tensor], Tensor]) -> dict[str, tuple[float, float]]:
        """How far each output and each gradient moves where inputs are rounded once more, and its size.

        Cotangents are not as large, so that what they cancel in is rounded otherwise as well: `(a + b) - b` has the
        same error for every `a` beside a large `b`.
        """
        call = nudged(self.call.in_dtype(torch.float64), torch.finfo(self.call.dtype).eps, sign)
        outputs, gradients = reference(replace(call, cotangents=tuple(c * _UNEVEN for c in call.cotangents)))
        found = {n: (worst(o, self.outputs[n]), scale(o)) for n, o in outputs.items()}
        return found | {f"d{n}": (worst(g / _UNEVEN, self.gradients[n]), scale(g)) for n, g in gradients.items()}

    def __str__(self) -> str:
        shapes = ", ".join(f"{name} {list(t.shape)}" for name, t in self.call.inputs.items())
        return f"{self.situation}: {shapes}, seed {self.seed}"


def executed(call: Call, inputs: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The outputs of the op, by executing its equations in the dtype of the inputs, other `inputs` if given.

    As they are written; where they overflow, as they are with the largest exponent taken off. Of an op without
    equations, as its forward computes them.
    """
    inputs = call.inputs if inputs is None else inputs
    if isinstance(call.op, Opaque):
        return call.op.outputs_of(call.arguments(inputs))
    found = _outputs_of(call.op, call, inputs)
    if all(bool(t.isfinite().all()) for t in found.values()):
        return found
    stable = _stable(call.op)
    other = found if stable == call.op else _outputs_of(stable, call, inputs)
    return other if all(bool(t.isfinite().all()) for t in other.values()) else found


def _outputs_of(op: Op, call: Call, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    world = execute(op, world_of(call, inputs))
    return {name: unflat(op, name, world.tensors[name], call.leading) for name in op.outputs}


@lru_cache(maxsize=64)
def _stable(op: Op) -> Op:
    for rewriting in DIGITS:
        op = rewriting(op)
    return op


def world_of(call: Call, inputs: Mapping[str, Tensor] | None = None) -> World:
    """The call's inputs, numbers and lengths, as the reference wants them."""
    inputs = call.inputs if inputs is None else inputs
    tensors = {name: flat(call.op, name, t, call.leading) for name, t in inputs.items()}
    sizes = call.lengths | {PACK_NAME: math.prod(call.leading)}
    return World(sizes, tensors, {name: float(v) for name, v in call.numbers.items()})


def reference(call: Call) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Outputs and gradients of the executed equations by autograd, in the call's own dtype.

    Of an op without equations that autograd knows nothing of, finite differences in the widest dtype that it takes.
    """
    if isinstance(call.op, Opaque) and call.op.by_differences:
        return executed(call), call.op.differences(call.arguments(), call.cotangents)
    leaves = {o.name: call.inputs[o.name].detach().clone().requires_grad_() for o in call.op.differentiable}
    outputs = executed(call, {**call.inputs, **leaves})
    gradients = autograd(list(outputs.values()), leaves, call.cotangents)
    return {n: t.detach() for n, t in outputs.items()}, gradients


def autograd(
    outputs: Sequence[Tensor], leaves: Mapping[str, Tensor], cotangents: Sequence[Tensor], again: bool = False
) -> dict[str, Tensor]:
    """Autograd's gradient for each leaf, zeros where none of the outputs depends on it; differentiable if `again`."""
    flows = [(o, c.to(o.dtype)) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
    if not flows:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    found = torch.autograd.grad(
        [o for o, _ in flows], list(leaves.values()), [c for _, c in flows],
        allow_unused=True, retain_graph=True, create_graph=again,
    )  # fmt: skip
    return {n: torch.zeros_like(leaf) if g is None else g for (n, leaf), g in zip(leaves.items(), found, strict=True)}


def case_of(situation: str, seed: int, call: Call) -> Case:
    """The call with what is right of it, in float64, and what may be missed by."""
    outputs, gradients = reference(call.in_dtype(torch.float64))
    close = EXACT if call.dtype == torch.float64 else _OUTPUT_UNITS * torch.finfo(call.dtype).eps
    close += call.op.granted if isinstance(call.op, Opaque) else 0.0
    outputs_allowed = {name: close * scale(o) for name, o in outputs.items()}
    return Case(situation, seed, call, outputs, gradients, _allowed(call, gradients), outputs_allowed)


def _allowed(call: Call, gradients: Mapping[str, Tensor]) -> dict[str, float]:
    """1e-10 in float64; below it twice the error of autograd over the equations and a few units in the last place."""
    granted = call.op.granted if isinstance(call.op, Opaque) else 0.0
    if call.dtype == torch.float64:
        return {name: (EXACT + granted) * scale(g) for name, g in gradients.items()}
    few = _UNITS * torch.finfo(call.dtype).eps + granted
    try:
        plain = reference(call)[1]
    except DeriveError:  # a forward that is no equations may refuse the dtype
        plain = dict(gradients)
    return {n: few * scale(g) + 2 * worst(plain[n], g) for n, g in gradients.items()}


def nudged(call: Call, step: float, sign: Callable[[Tensor], Tensor]) -> Call:
    """The call with real inputs a relative step up or down. What was one tensor stays one tensor."""
    inputs = call.inputs.values()
    made = {id(t): (t * (1 + step * sign(t))).to(t.dtype) for t in inputs if t.is_floating_point()}
    return replace(call, inputs={n: made.get(id(t), t) for n, t in call.inputs.items()})


def by_place(seed: int) -> Callable[[Tensor], Tensor]:
    """Up or down by chance."""
    generator = torch.Generator().manual_seed(seed)
    return lambda t: torch.randint(0, 2, t.shape, generator=generator).double() * 2 - 1


def _by_value(t: Tensor) -> Tensor:
    """Up or down by what it is, whole numbers neither."""
    return torch.where(t == t.round(), 0.0, (t.abs() * 997).floor() % 2 * 2 - 1)


def scale(want: Tensor) -> float:
    """The largest finite element, by which errors are measured; 1 where that is next to nothing."""
    finite = want[want.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    return largest if largest > _SMALL else 1.0


def worst(got: Tensor, want: Tensor) -> float:
    """The largest difference where `want` is finite; infinite where `got` is not a number there."""
    off = difference(got, want)
    return float(off.max()) if off.numel() else 0.0


def difference(got: Tensor, want: Tensor) -> Tensor:
    """Element by element, in float64; 0 where `want` is not finite, or more than the dtype of `got` holds."""
    off = (got.detach().double() - want.double()).abs().nan_to_num(nan=math.inf, posinf=math.inf)
    return torch.where(want.abs() <= torch.finfo(got.dtype).max, off, 0.0)


def shape_of(operand: Operand, lengths: Mapping[str, int], leading: tuple[int, ...]) -> list[int]:
    """The shape of an operand, `...` taken apart."""
    return [n for a in operand.axes for n in (leading if a.is_pack else (lengths[a.base],))]
