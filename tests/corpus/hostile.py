"""Hostile inputs: values at which a formula that is right on paper overflows, cancels or divides 0 by 0 in float32.

Each is a situation of `derive.verify`, in float32: the values are drawn, changed and then rounded, and what is right is
computed in float64 from the rounded ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from derive.ir.equations import Operand
from derive.verify import values
from derive.verify.situations import Situation

ORDINARY = Situation("ordinary", "distinct sizes, normal numbers", dtype=torch.float32)


def _times(factor: float) -> values.Change:
    """The first input times a number."""
    return lambda drawn, operand, first: factor * drawn if first else drawn


def _far_apart(drawn: Tensor, operand: Operand, first: bool) -> Tensor:
    """Rows of the first input in three groups, 100 apart; elements, where it has one axis."""
    rows = _places(drawn) if drawn.dim() < 2 else _places(drawn[..., :1])
    return drawn + 100.0 * (rows % 3) if first else drawn


def _nearly_equal(drawn: Tensor, operand: Operand, first: bool) -> Tensor:
    return 1 + 1e-3 * drawn if first else drawn


def _far_from_zero(drawn: Tensor, operand: Operand, first: bool) -> Tensor:
    """The first input and all tables beside it, so that points stay as near to one another."""
    is_table = operand.kind == "tensor" and drawn.dim() > 1
    return drawn + 1e3 if first or is_table else drawn


def _masked(drawn: Tensor, operand: Operand, first: bool) -> Tensor:
    """Every third element of the first input is -oo."""
    return torch.where(_places(drawn) % 3 == 1, -math.inf, drawn) if first else drawn


def _masked_rows(drawn: Tensor, operand: Operand, first: bool) -> Tensor:
    """Every second row of the first input is -oo."""
    rows = torch.arange(drawn.shape[-2] if drawn.dim() > 1 else drawn.numel()) % 2 == 1
    return torch.where(rows[:, None] if drawn.dim() > 1 else rows, -math.inf, drawn) if first else drawn


def _mask(drawn: Tensor, operand: Operand, first: bool) -> Tensor:
    """Inputs without a gradient are 0 or 1, and 1 at the first place of each row."""
    if operand.kind != "constant":
        return drawn
    return ((drawn > 0) | (_places(drawn) % (drawn.shape[-1] if drawn.dim() else 1) == 0)).to(drawn.dtype)


def _places(drawn: Tensor) -> Tensor:
    return torch.arange(drawn.numel()).reshape(drawn.shape)


HOSTILE: dict[str, Situation] = {
    name: Situation(name, why, change=change, dtype=torch.float32)
    for name, why, change in (
        ("scale 30", "scores that saturate an exponential", values.large),
        ("scale 100", "scores whose exponentials overflow in float32 alone", _times(100)),
        ("scale 300", "scores whose exponentials overflow in any precision", _times(300)),
        ("scale 1e4", "squares of which float32 keeps few digits", values.extreme),
        ("scale 1e-4", "expm1 and log1p near 0", _times(1e-4)),
        ("far apart", "groups of values whose differences overflow an exponential", _far_apart),
        ("nearly equal", "a variance that is small beside the mean", _nearly_equal),
        ("far from zero", "a mean that is large beside the spread", _far_from_zero),
        ("masked", "scores of -oo beside finite ones", _masked),
        ("masked rows", "rows that are -oo throughout", _masked_rows),
        ("mask", "weights that are exactly 0 or 1", _mask),
        ("ties", "equal values, singular points met exactly", values.rounded),
        ("zeros", "every input exactly 0", values.zeros),
    )
}
"""By name, in the order in which they are recorded."""


def situations(names: str) -> tuple[Situation, ...]:
    """The situations of these names, which commas separate. Raises KeyError for another."""
    return tuple(HOSTILE[name] for name in names.split(", ") if name)
