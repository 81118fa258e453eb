"""The equations of an op, executed as they are written, so that autograd of them is a reference.

How one expression is evaluated is in `places.py`. Nothing of the backends is shared, and speed does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import torch
from sympy import Basic, S
from torch import Tensor

from derive.errors import DeriveError
from derive.ir.circles import circles
from derive.ir.equations import Equation, Op, Recurrence
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Concat
from derive.verify.places import World


def execute(op: Op, world: World, held: frozenset[str] = frozenset()) -> World:
    """The world with every equation's tensor in it. It holds the inputs, the numbers and the inputs' axes.

    No gradient flows back through the tensors in `held`.
    """
    world = replace(world, sizes=all_sizes(op, world.sizes))
    for circle in _in_turn(op):
        carried = [r for r in op.recurrences if r.before.name in circle or r.last.name in circle]
        equations = [e for e in op.equations if e.name in circle]
        if carried and equations:
            world = _step_by_step(equations, carried, world)
        elif carried:
            world = world.having(_carried(carried[0], world))
        for equation in equations if not carried else ():
            value = _defined(equation, world)
            if equation.target.is_integer:  # an index that a choice guards
                value = value.long()
            world = world.having({equation.name: value.detach() if equation.name in held else value})
    return world


def _in_turn(op: Op) -> list[list[str]]:
    """The names of the equations, each behind those that it reads, with those that a recurrence runs together."""
    if not op.recurrences:
        return [[e.name] for e in op.equations]
    reads: dict[str, set[str]] = {e.name: {at.name for at in e.reads} for e in op.equations}
    for r in op.recurrences:
        reads[r.before.name] = {r.state, r.start}
        reads[r.last.name] = {r.before.name}
    return circles(reads)


def _carried(r: Recurrence, world: World) -> dict[str, Tensor]:
    """A finished state one place earlier, and what its last place leaves."""
    along = r.before.axes.index(r.axis)
    start, state = world.tensors[r.start].unsqueeze(along), world.tensors[r.state]
    whole, n = torch.cat([start, state] if r.forwards else [state, start], along), state.shape[along]
    first, last = (0, n) if r.forwards else (1, 0)
    return {r.before.name: whole.narrow(along, first, n), r.last.name: whole.select(along, last)}


def _step_by_step(equations: list[Equation], carried: list[Recurrence], world: World) -> World:
    """The tensors of these equations, one place of the axis after the other."""
    axis, forwards = carried[0].axis, carried[0].forwards
    n = world.sizes[axis.base]
    before = {r: world.tensors[r.start] for r in carried}
    steps: dict[str, list[Tensor]] = {e.name: [] for e in equations}
    for k in range(n) if forwards else reversed(range(n)):
        there = world.having({r.before.name: _everywhere(v, r.before.axes, axis, n) for r, v in before.items()})
        for e in equations:
            value = _defined(e, there, {axis: k})
            steps[e.name].append(value)
            there = there.having({e.name: _everywhere(value, e.index, axis, n)})
        before = {r: steps[r.state][-1] for r in carried}
    made = {}
    for e in equations:
        along, found = e.index.index(axis), steps[e.name] if forwards else steps[e.name][::-1]
        lengths = [world.length(i) for i in e.index]
        made[e.name] = torch.stack(found, along) if found else torch.zeros(lengths, dtype=_dtype(carried, world))
    world = world.having(made)
    return world.having({name: t for r in carried for name, t in _carried(r, world).items()})


def _dtype(carried: list[Recurrence], world: World) -> torch.dtype:
    return world.tensors[carried[0].start].dtype


def _everywhere(value: Tensor, index: Sequence[Basic], axis: Axis, n: int) -> Tensor:
    """What stands at one place of an axis, at all of them."""
    along = list(index).index(axis)
    return value.unsqueeze(along).expand([*value.shape[:along], n, *value.shape[along:]])


def all_sizes(op: Op, sizes: Mapping[str, int]) -> dict[str, int]:
    """The length of every axis of the op, given those of its inputs. Raises DeriveError where one is no length."""
    out = dict(sizes)
    for rule in op.sizes:
        if rule.formula is None:
            out |= {} if rule.axis.fixed is None else {rule.axis.base: rule.axis.fixed}
            continue
        length = rule.formula.xreplace({s: S(out[s.axis.base]) for s in rule.formula.atoms(Size)})
        if not length.is_Integer or length < 0:
            raise DeriveError(f"axis {rule.axis.base} would have length {length}", op=op.name)
        out[rule.axis.base] = int(length)
    return out


def _defined(equation: Equation, world: World, at: Mapping[Axis, int] = MappingProxyType({})) -> Tensor:
    """The tensor that an equation defines, with one dimension an index on its left, but for the axes that are `at` one
    place.
    """
    if isinstance(equation.body, Concat):
        left = [i for i in equation.index if isinstance(i, Axis) and i not in at]
        along = left.index(equation.body.along)
        pieces = [
            world.tensor(piece, [*left[:along], own, *left[along + 1 :]], at)
            for piece, own in zip(equation.body.pieces, equation.over, strict=True)
        ]
        return torch.cat(pieces, along)
    value = world.tensor(equation.right, [a for a in equation.axes if a not in at], at)
    return value.reshape([world.length(i) for i in equation.index if i not in at])
