"""The equations of an op, executed as they are written, so that autograd of them is a reference.

How one expression is evaluated is in `places.py`. Nothing of the backends is shared, and speed does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from sympy import S
from torch import Tensor

from derive.errors import DeriveError
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Concat
from derive.verify.places import World


def execute(op: Op, world: World, held: frozenset[str] = frozenset()) -> World:
    """The world with every equation's tensor in it. It holds the inputs, the numbers and the inputs' axes.

    No gradient flows back through the tensors in `held`.
    """
    world = replace(world, sizes=all_sizes(op, world.sizes))
    for equation in op.equations:
        value = _defined(equation, world)
        if equation.target.is_integer:  # an index that a choice guards
            value = value.long()
        world = world.having({equation.name: value.detach() if equation.name in held else value})
    return world


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


def _defined(equation: Equation, world: World) -> Tensor:
    """The tensor that an equation defines, with one dimension an index on its left."""
    if isinstance(equation.body, Concat):
        left = [i for i in equation.index if isinstance(i, Axis)]
        along = left.index(equation.body.along)
        pieces = [
            world.tensor(piece, [*left[:along], own, *left[along + 1 :]])
            for piece, own in zip(equation.body.pieces, equation.over, strict=True)
        ]
        return torch.cat(pieces, along)
    value = world.tensor(equation.right, equation.axes)
    return value.reshape([world.length(i) for i in equation.index])
