"""Gradients of reads that overwrite one another: what `=` makes of `+=` where a place is read several times.

A read is gathered over its own axes, and its gradient scattered back, but only what is written last at each place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from derive.ir.equations import Op
from derive.ir.terms.axes import Axis, free_axes, sorted_axes
from derive.ir.terms.elements import At
from derive.verify.cases import Case, autograd, world_of
from derive.verify.leading import unflat
from derive.verify.places import Places, World, position
from derive.verify.reference import all_sizes, execute

_FEW = 3  # axes of a read, of which every order is tried


@dataclass(frozen=True)
class Overwriting:
    """Reads of one tensor: each written over the one before, or one in an order of its axes, the first slowest."""

    reads: tuple[At, ...]
    order: tuple[Axis, ...] = ()

    def __str__(self) -> str:
        if self.order:
            order = ", ".join(map(str, self.order))
            return f"what {self.reads[0]} adds at one place overwritten, in the order of {order}"
        return f"what is added through {', '.join(map(str, self.reads))} overwritten, in this order"

    def gradient(self, op: Op, operand: str, case: Case) -> Tensor | None:
        """That of an operand; None where what is read is no place of the tensor."""
        call = replace(case.call.in_dtype(torch.float64), op=op)
        leaves = {o.name: call.inputs[o.name].detach().clone().requires_grad_() for o in op.differentiable}
        world = world_of(call, {**call.inputs, **leaves})
        world = replace(world, sizes=all_sizes(op, world.sizes))
        made = [e.name for e in op.equations]
        first = made.index(self.reads[0].name) + 1 if self.reads[0].name in made else 0
        world = execute(replace(op, equations=op.equations[:first]), world)
        world = execute(replace(op, equations=op.equations[first:]), replace(world, reads=self._gathered(world)))
        outputs = [unflat(op, n, world.tensors[n], call.leading) for n in op.outputs]
        return autograd(outputs, leaves, call.cotangents)[operand]

    def _gathered(self, world: World) -> dict[At, Tensor]:
        at = [_places(read, world) for read in self.reads]
        tensor = world.tensors[self.reads[0].name]
        if self.order:
            kept = [_last(at[0], sorted_axes(free_axes(self.reads[0])), self.order)]
        else:
            kept = [~torch.isin(p, torch.cat([torch.tensor([-1]), *(q.flatten() for q in at[k + 1 :])]))
                    for k, p in enumerate(at)]  # fmt: skip
        return {r: _Gathered.apply(tensor, p, k & (p >= 0)) for r, p, k in zip(self.reads, at, kept, strict=True)}


def overwritten(op: Op, operand: str) -> Iterator[Overwriting]:
    """The ways in which what an operand's gradient is added up from, or that of a tensor behind it, is overwritten."""
    for name in (operand, *(e.name for e in op.equations)):
        reads = sorted({at for e in op.equations for at in e.reads if at.name == name}, key=str)
        for read in reads:
            axes = sorted_axes(free_axes(read))
            if len(axes) > sum(isinstance(i, Axis) for i in read.index) or read.atoms(At) != {read}:
                for order in permutations(axes) if len(axes) <= _FEW else (axes, axes[::-1]):
                    yield Overwriting((read,), tuple(order))
        for several in (reads, reads[::-1]) if len(reads) > 1 else ():
            yield Overwriting(tuple(several))


def places_read(read: At, case: Case) -> Tensor:
    """Where in an input a read finds each of its elements, over its own axes; -1: nowhere."""
    world = world_of(case.call)
    return _places(read, replace(world, sizes=all_sizes(case.op, world.sizes)))


def _places(read: At, world: World) -> Tensor:
    """Where in its tensor a read finds each of its elements, over its own axes; -1: nowhere."""
    axes = sorted_axes(free_axes(read))
    places = Places(1, {}).crossed(axes, world)
    out, inside = torch.zeros(places.count, dtype=torch.long), torch.ones(places.count, dtype=torch.bool)
    for index, length in zip(read.index, world.tensors[read.name].shape, strict=True):
        at = position(index, places, world)
        inside &= (at >= 0) & (at < length)
        out = out * length + at
    return torch.where(inside, out, -1).reshape([world.sizes[a.base] for a in axes])


def _last(at: Tensor, axes: Sequence[Axis], order: Sequence[Axis]) -> Tensor:
    """Which elements come last of those at their place."""
    turned = [axes.index(a) for a in order]
    rank = torch.arange(at.numel()).reshape([at.shape[k] for k in turned])
    rank = rank.permute([turned.index(k) for k in range(len(axes))])
    latest = torch.full([int(at.max()) + 2], -1).scatter_reduce(0, (at + 1).flatten(), rank.flatten(), "amax")
    return latest[at + 1] == rank


class _Gathered(torch.autograd.Function):
    """`x[at]`, whose gradient is added to `x` by what is kept alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, at: Tensor, kept: Tensor) -> Tensor:
        ctx.at, ctx.kept, ctx.shape = at, kept, x.shape
        return x.flatten()[at.clamp(min=0)]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        out = gradients[0].new_zeros(math.prod(ctx.shape))
        return out.index_add(0, ctx.at[ctx.kept], gradients[0][ctx.kept]).reshape(ctx.shape), None, None


