"""Descent by hand: points, the residual's forward and its derived backward, an optimizer."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch

from derive import build
from training.optimizers import Adam, clip_global_norm
from training.pinn.network import Network, values
from training.pinn.problem import Points, batches, solution
from training.pinn.spec import burgers
from training.session import Step

TIMES = (0.0, 0.25, 0.5, 0.75, 1.0)  # at which the network is held against the solution
PLACES = 201


@dataclass(frozen=True)
class Recipe:
    """How to descend: the rate falls along half a cosine."""

    steps: int = 20_000
    batch: int = 256
    known: int = 64
    lr: float = 3e-3
    clip: float = 1.0
    viscosity: float = 0.01 / math.pi

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return self.lr * (1 + math.cos(math.pi * step / self.steps)) / 2


class Learner(Protocol):
    """Something that takes a step in place; the twin is another one."""

    def step(self, points: Points, rate: float) -> Step:
        """One step of the given learning rate."""


@lru_cache(maxsize=1)
def derived() -> Any:
    """The live functions of the spec, derived once: some seconds, in which they are proved."""
    return build(burgers)


class ByHand:
    """The learner whose gradients are derived; autograd has no part in it."""

    def __init__(self, network: Network, recipe: Recipe) -> None:
        self.network, self.recipe, self.optimizer = network, recipe, Adam()
        self.functions = derived()

    @torch.inference_mode()
    def step(self, points: Points, rate: float) -> Step:
        loss, saved = self.functions.forward(*points, *self.network, self.recipe.viscosity)
        gradients = self.functions.backward(torch.ones_like(loss), *saved)
        norm, clipped = clip_global_norm(gradients, self.recipe.clip)
        self.optimizer.step(self.network, gradients, rate)
        return Step(loss.item(), norm, clipped, gradients)


def descend(learner: Learner, recipe: Recipe, seed: int, dtype: torch.dtype, start: int = 0) -> Iterator[Step]:
    """Take the steps from `start` on, handing out each."""
    steps = range(start, recipe.steps)
    for step, points in zip(steps, batches(recipe.batch, recipe.known, steps, seed, dtype), strict=True):
        yield learner.step(points, recipe.rate(step))


@torch.inference_mode()
def compared(network: Network, viscosity: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places [k], the solution and the network [t, k] at each of the times."""
    x = np.linspace(-1, 1, PLACES)
    right = np.stack([solution(x, t, viscosity) for t in TIMES])
    dtype = network.w1.dtype
    grid = [torch.tensor(np.stack([x, np.full_like(x, t)], 1), dtype=dtype) for t in TIMES]
    return x, right, np.stack([values(network, points).double().numpy() for points in grid])


def error(network: Network, viscosity: float) -> float:
    """The norm of what the network is off, beside that of the solution."""
    _, right, found = compared(network, viscosity)
    return float(np.linalg.norm(found - right) / np.linalg.norm(right))
