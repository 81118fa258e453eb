"""Burgers' equation: where it is asked, what is known of its solution, and the solution itself."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

NODES = 120  # of Gauss and Hermite's rule, with which both integrals have all digits but at the shock


class Points(NamedTuple):
    """A batch: collocation points, and points where the solution is known."""

    x: Tensor  # [n, p]: place, time
    z: Tensor  # [m, p]
    known: Tensor  # [m]


def draw(inside: int, outside: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Points:
    """Points of the strip -1 < x < 1, 0 < t < 1; half of those outside are of its start, -sin(pi*x), half of its walls.

    They are drawn in float64, so that both precisions have the same.
    """
    low, span = torch.tensor([-1.0, 0.0], dtype=torch.float64), torch.tensor([2.0, 1.0], dtype=torch.float64)
    x = low + span * torch.rand(inside, 2, generator=generator, dtype=torch.float64)
    z = low + span * torch.rand(outside, 2, generator=generator, dtype=torch.float64)
    start = outside // 2
    z[:start, 1] = 0.0
    z[start:, 0] = z[start:, 0].sign()
    known = torch.where(z[:, 1] == 0, -(math.pi * z[:, 0]).sin(), 0.0)
    return Points(x.to(dtype), z.to(dtype), known.to(dtype))


def batches(inside: int, outside: int, steps: range, seed: int, dtype: torch.dtype) -> Iterator[Points]:
    """The points of each step, known from its number alone."""
    for step in steps:
        generator = torch.Generator().manual_seed((seed + 1_000_003 * (step + 1)) % 2**63)
        yield draw(inside, outside, generator, dtype)


def solution(x: np.ndarray, t: float, viscosity: float) -> np.ndarray:
    """The solution [n] at places [n] and a time, by the transformation of Cole and Hopf (Basdevant et al., 1986).

    It is a quotient of two integrals over the heat kernel, of which the largest exponent is taken off.
    """
    if t == 0:
        return -np.sin(np.pi * x)
    nodes, weights = np.polynomial.hermite.hermgauss(NODES)
    y = x[:, None] - math.sqrt(4 * viscosity * t) * nodes
    exponent = -np.cos(np.pi * y) / (2 * np.pi * viscosity)
    share = weights * np.exp(exponent - exponent.max(1, keepdims=True))
    return -(share * np.sin(np.pi * y)).sum(1) / share.sum(1)
