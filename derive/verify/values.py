"""What the tensors of a case hold, and how they lie in memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from derive.ir.equations import Operand

Change = Callable[[Tensor, Operand, bool], Tensor]
"""Of the values drawn for an operand; the last argument says whether it is the one that is meant: the first that takes
a gradient, or one that exponents read."""


def unchanged(values: Tensor, operand: Operand, first: bool) -> Tensor:
    return values


DOMAINS: dict[str, Callable[[Tensor], Tensor]] = {
    "any": lambda v: v,
    "apart": lambda v: v,  # of indices: those of one axis never meet, which one alone does not show
    "above 0": lambda v: v.abs() + 0.1,
    "above 1": lambda v: v.abs() + 1.1,
    "below 0": lambda v: -v.abs() - 0.1,
    "not below 0": torch.abs,
    "away from 0": lambda v: v + v.sign() + (v == 0),
    "0 to 1": torch.sigmoid,
}


# --- drawing ----------------------------------------------------------------------------------------------


def indices(kind: str, shape: list[int], length: int, generator: Generator) -> Tensor:
    drawn = torch.randint(0, max(length, 1), shape, generator=generator)
    if kind == "repeated":
        return drawn % min(2, max(length, 1))
    if kind == "pairs":  # every second one as the one before it
        return drawn.flatten()[torch.arange(drawn.numel()) // 2 * 2].reshape(shape)
    if kind == "last":
        return torch.full_like(drawn, length - 1)
    if kind == "distinct" and drawn.numel() <= length:
        return torch.randperm(length, generator=generator)[: drawn.numel()].reshape(shape)
    return drawn


def cotangent(layout: str, shape: list[int], generator: Generator, dtype: torch.dtype) -> Tensor:
    if layout == "stride 0":
        return (torch.rand([], generator=generator, dtype=torch.float64) + 1.3).to(dtype).expand(shape)
    if layout == "rows" and shape:
        row = torch.randn([*shape[:-1], 1], generator=generator, dtype=torch.float64)
        return row.to(dtype).expand(shape)
    values = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return laid_out(values, "contiguous" if layout == "rows" else layout)


def laid_out(values: Tensor, layout: str) -> Tensor:
    """The same values; "transposed": in memory with the axes reversed and a gap after each element."""
    if layout == "contiguous" or not values.dim():
        return values.contiguous()
    back = values.permute(tuple(reversed(range(values.dim())))).contiguous()
    return torch.stack([back, back], -1)[..., 0].permute(tuple(reversed(range(values.dim()))))


# --- changing what was drawn -------------------------------------------------------------------------------


def rounded(values: Tensor, operand: Operand, first: bool) -> Tensor:
    return values.round().clamp(-1, 1)


def often_tied(values: Tensor, operand: Operand, first: bool) -> Tensor:
    """Within -1 to 1, some of them 0; at the ends of all axes together 1, or -1, so that extrema along any axis tie."""
    out = torch.where((values.abs() * 1e6).long() % 8 == 0, 0.0, values.clamp(-1, 1))
    if out.dim():
        out[(slice(-2, None),) * out.dim()] = -1.0
        out[(slice(2),) * out.dim()] = 1.0
    return out


def tied(values: Tensor, operand: Operand, first: bool) -> Tensor:
    """Ties without a 0."""
    return 1 + (values > 0).to(values.dtype)


def zeros(values: Tensor, operand: Operand, first: bool) -> Tensor:
    return torch.zeros_like(values) if operand.kind == "tensor" else values


def first_zero(values: Tensor, operand: Operand, first: bool) -> Tensor:
    return torch.zeros_like(values) if first else values


def rest_zero(values: Tensor, operand: Operand, first: bool) -> Tensor:
    return torch.zeros_like(values) if operand.kind == "tensor" and not first else values


def some_zero(values: Tensor, operand: Operand, first: bool) -> Tensor:
    """Every second element of what is not the first input."""
    if first or operand.kind != "tensor":
        return values
    return torch.where(torch.arange(values.numel()).reshape(values.shape) % 2 == 0, 0.0, values)


def large(values: Tensor, operand: Operand, first: bool) -> Tensor:
    return 30 * values if first else values


def times(number: float) -> Change:
    """The first input that many times as large, so that what exponentials are of is."""
    return lambda values, operand, first: number * values if first else values


def extreme(values: Tensor, operand: Operand, first: bool) -> Tensor:
    return 1e4 * values if first else values


def far_apart(values: Tensor, operand: Operand, first: bool) -> Tensor:
    """800 apart: of the smaller ones exponentials are 0, and their quotients no number; the larger ones are modest."""
    return values + torch.where(values > 0, 10.0, -790.0) if first else values


def far_above(values: Tensor, operand: Operand, first: bool) -> Tensor:
    return values + 800 if first else values


def equal_below(values: Tensor, operand: Operand, first: bool) -> Tensor:
    return torch.full_like(values, -800.0) if first else values


def above_zero(values: Tensor, operand: Operand, first: bool) -> Tensor:
    return values.abs() + 0.5
