"""Finite differences: the slope of `sum(cotangent * output)` along a random direction, beside what a gradient says it
is.

The step is chosen per precision. A central difference misses by about `h**2` (what the straight line cuts off) plus
`eps / h` (what rounding leaves of the difference), a curve in the shape of a U whose lowest point is near `h =
eps**(1/3)`: 6e-6 in float64, 5e-3 in float32. Where a function bends sharply the lowest point lies elsewhere, so the
neighbouring decades are tried too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from derive.verify.cases import Call, Case, executed

ENOUGH = 1e-6
"""A relative difference that finite differences in float64 reach wherever a gradient is right."""

_DECADES = (1.0, 0.1, 10.0, 0.01, 100.0, 0.001)
_DIRECTIONS = 2
_COARSE = 0.05  # of a slope: what rounding may leave of a difference that still tells something
_PROBED = 3  # elements that are tried one by one
_ALIKE = 1e-2  # of slopes to either side
_SMALL = 1e-3  # a gradient of about 0 is compared absolutely


@dataclass(frozen=True)
class Slope:
    """A gradient beside finite differences: the largest relative error over the directions, at the best step."""

    error: float
    step: float


@dataclass(frozen=True)
class Curve:
    """The error of finite differences at many steps, for one gradient in one precision."""

    gradient: str
    dtype: torch.dtype
    chosen: float
    steps: tuple[float, ...]
    errors: tuple[float, ...]


def step_for(dtype: torch.dtype) -> float:
    """The step near the bottom of the U: the cube root of the machine's epsilon."""
    return float(torch.finfo(dtype).eps ** (1 / 3))


def slope(case: Case, operand: str, gradient: Tensor) -> Slope:
    """How far a gradient is from finite differences of the executed equations, in float64, at the best step nearby.

    What has no slope (a distance of a point from itself) is left where it is, and so is what rounding hides at every
    step: there autograd's word is all there is. Where a gradient is no number and the equations have a slope, the error
    is infinite, whatever autograd says: its chain rule multiplies the 0 of a choice by infinity.
    """
    has_slope = gradient.isfinite()
    if any(_slopes(case.call, operand, index) for index in _some_of(has_slope.logical_not())):
        return Slope(float("inf"), step_for(torch.float64))
    directions = [torch.where(has_slope, v, 0) for v in _directions(case, operand)]
    gradient = torch.where(has_slope, gradient, 0)
    best, told = Slope(float("inf"), step_for(torch.float64)), False
    for decade in _DECADES:
        step = decade * step_for(torch.float64)
        found = [_missed(case.call, operand, gradient, v, step) for v in directions]
        if any(rounding > _COARSE for _, rounding in found):
            continue  # nothing can be told from this step
        told = True
        error = max((error - min(error, rounding) for error, rounding in found), default=0.0)
        if not error >= best.error:
            best = Slope(error, step)
        if best.error <= ENOUGH:
            break
    return best if told else Slope(0.0, best.step)


def _some_of(chosen: Tensor) -> list[tuple[int, ...]]:
    """A few of the places where this holds, the first and the last among them."""
    found = [tuple(index) for index in chosen.nonzero().tolist()]
    return found if len(found) <= _PROBED else [found[k * (len(found) - 1) // (_PROBED - 1)] for k in range(_PROBED)]


def _slopes(call: Call, operand: str, index: tuple[int, ...]) -> bool:
    """Whether the loss has one slope along one element, the same to either side and over steps of two sizes."""
    here = call.inputs[operand].double()
    found = []
    for step in (10 * step_for(torch.float64), step_for(torch.float64)):
        unit = torch.zeros_like(here)
        unit[index] = step * max(1.0, abs(float(here[index])))
        middle, up, down = (_loss(call, operand, here + sign * unit)[0] for sign in (0, 1, -1))
        found += [(up - middle) / float(unit[index]), (middle - down) / float(unit[index])]
    return max(found) - min(found) <= _ALIKE * max(1.0, *map(abs, found))  # false of what is no number


def curves(case: Case, gradients: Mapping[str, Tensor], dtypes: Iterable[torch.dtype]) -> tuple[Curve, ...]:
    """The U of every gradient, in each precision."""
    steps = tuple(10.0 ** (k / 2) for k in range(-26, 1))
    out = []
    for dtype in dtypes:
        call = case.call.in_dtype(dtype)
        for operand, gradient in gradients.items():
            directions = _directions(case, operand)[:1]
            errors = [max((_missed(call, operand, gradient, v, h)[0] for v in directions), default=0.0) for h in steps]
            out.append(Curve(f"d{operand}", dtype, step_for(dtype), steps, tuple(errors)))
    return tuple(out)


def _directions(case: Case, operand: str) -> list[Tensor]:
    shape = case.call.inputs[operand].shape
    generator = Generator().manual_seed(case.seed)
    if not shape.numel():
        return []
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(_DIRECTIONS)]


def _missed(call: Call, operand: str, gradient: Tensor, direction: Tensor, step: float) -> tuple[float, float]:
    """The slope along a direction less what the gradient says, over the size that such a slope usually has.

    And how much of it rounding may be: outputs near 1e9 have no digits for a slope of 1.
    """
    here = call.inputs[operand].double()
    unit = step * max(1.0, float(here.abs().max()))
    (up, size), (down, _) = (_loss(call, operand, here + sign * unit * direction) for sign in (1, -1))
    said = float((gradient.double() * direction).sum())
    usual = max(float(gradient.double().norm()), _SMALL)
    rounding = torch.finfo(call.dtype).eps * size / unit
    return abs((up - down) / (2 * unit) - said) / usual, rounding / usual


def _loss(call: Call, operand: str, value: Tensor) -> tuple[float, float]:
    """The loss, and the size of what it is the sum of; an infinity does not move."""
    moved = replace(call, inputs={**call.inputs, operand: value.to(call.dtype)})
    outputs = executed(moved)
    terms = [torch.where(o.isfinite(), o * c, 0) for o, c in zip(outputs.values(), call.cotangents, strict=True)]
    return float(sum(t.sum() for t in terms)), float(sum(t.abs().sum() for t in terms))
