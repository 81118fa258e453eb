"""A case as a world in which adjoints and definitions can be evaluated as they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from derive.adjoint.chain_rule import Stepwise
from derive.adjoint.recurrences import reversed_steps
from derive.ir.equations import Equation, Op
from derive.ir.terms.elements import tensor_names
from derive.pipeline import Derivation
from derive.schedule.definitions import Definition
from derive.verify.cases import Call, world_of
from derive.verify.leading import flat
from derive.verify.places import World
from derive.verify.reference import execute


def chain_world(
    derivation: Derivation, call: Call, functions: Mapping[str, Callable[..., Tensor]] | None = None
) -> World:
    """The forward executed in float64, the cotangents by their names, and the lengths of all axes of all adjoints.

    `functions` stand in the forward for those of their name.
    """
    steps: Stepwise = derivation.steps
    call = replace(call.in_dtype(torch.float64), op=steps.op)
    world = execute(steps.op, replace(world_of(call), functions=functions or {}))
    given = zip(steps.cotangents, call.cotangents, strict=True)
    world = world.having({c.target.name: flat(steps.op, c.of, t, call.leading) for c, t in given})
    sizes: dict[str, int] = {}
    for of, axes in [(c.of, c.axes) for c in steps.cotangents] + [(a.of, a.axes) for a in steps.adjoints]:
        sizes |= dict(zip((a.base for a in axes), world.tensors[of].shape, strict=True))
    return replace(world, sizes={**sizes, **world.sizes})


def with_adjoints(steps: Stepwise, world: World) -> World:
    """The world with every adjoint in it, evaluated as the chain rule has it."""
    back = reversed_steps(steps)
    equations = tuple(Equation(a.target, a.axes, a.value) for a in back.adjoints)
    return execute(Op(steps.op.name, "", (), equations, (), (), recurrences=back.recurrences), world)


def in_order(target: str, definitions: Mapping[str, Definition]) -> list[str]:
    """A definition after those it is computed from."""
    out: list[str] = []

    def visit(name: str) -> None:
        if name in definitions and name not in out:
            for read in sorted(tensor_names(definitions[name].value)):
                visit(read)
            out.append(name)

    visit(target)
    return out
