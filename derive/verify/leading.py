"""`...` of a tensor as one dimension, and taken apart into its leading axes again."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sympy import Expr
from torch import Tensor

from derive.ir.equations import Op
from derive.ir.terms.axes import PACK_NAME, Axis


def named_dims(op: Op, name: str) -> tuple[Expr, ...]:
    """What each dimension of an input or an equation's tensor runs over."""
    operand = op.operand(name)
    if operand is not None:
        return operand.declared or operand.axes
    equation = op.equation(name)
    assert equation is not None, f"{name} is no tensor of {op.name}"
    return equation.index


def flat(op: Op, name: str, tensor: Tensor, leading: tuple[int, ...]) -> Tensor:
    """The tensor with its leading axes as the one dimension `...`."""
    where = _pack_at(op, name)
    if where is None:
        return tensor
    rest = tensor.shape[where + len(leading) :]
    return tensor.reshape([*tensor.shape[:where], math.prod(leading), *rest])


def unflat(op: Op, name: str, tensor: Tensor, leading: tuple[int, ...]) -> Tensor:
    """The tensor with `...` taken apart into its leading axes again."""
    where = _pack_at(op, name)
    return tensor if where is None else tensor.reshape([*tensor.shape[:where], *leading, *tensor.shape[where + 1 :]])


def leading_of(op: Op, inputs: Mapping[str, Tensor]) -> tuple[int, ...]:
    """The lengths that `...` stands for, as the first input that has it tells."""
    for name, t in inputs.items():
        where = _pack_at(op, name)
        if where is not None:
            return tuple(t.shape[where : where + t.dim() - len(named_dims(op, name)) + 1])
    return ()


def _pack_at(op: Op, name: str) -> int | None:
    dims = named_dims(op, name)
    return next((k for k, d in enumerate(dims) if isinstance(d, Axis) and d.base == PACK_NAME), None)
