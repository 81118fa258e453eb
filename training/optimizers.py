"""Descent written out: from parameters and gradients to new parameters, in place."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor


class Optimizer(Protocol):
    """Changes parameters in place; what it remembers between steps goes into checkpoints."""

    def step(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], rate: float) -> None:
        """One step of the given learning rate; parameters and gradients are in the same order each time."""

    def state(self) -> dict[str, Any]:
        """What it remembers: tensors and numbers."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` once returned."""


@dataclass
class SGD:
    """p -= rate * g"""

    def step(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], rate: float) -> None:
        for p, g in zip(parameters, gradients, strict=True):
            p.sub_(g, alpha=rate)

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


@dataclass
class Momentum:
    """v = momentum * v + g;  p -= rate * v  (Polyak, 1964, in PyTorch's scaling)"""

    momentum: float = 0.9
    velocity: list[Tensor] = field(default_factory=list)

    def step(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], rate: float) -> None:
        self.velocity = self.velocity or zeros_like(parameters)
        for p, g, v in zip(parameters, gradients, self.velocity, strict=True):
            v.mul_(self.momentum).add_(g)
            p.sub_(v, alpha=rate)

    def state(self) -> dict[str, Any]:
        return {"velocity": self.velocity}

    def restore(self, state: dict[str, Any]) -> None:
        self.velocity = state["velocity"]


@dataclass
class RMSprop:
    """s = smoothing * s + (1 - smoothing) * g**2;  p -= rate * g / (sqrt(s) + eps)  (Tieleman & Hinton, 2012)"""

    smoothing: float = 0.99
    eps: float = 1e-8
    squares: list[Tensor] = field(default_factory=list)

    def step(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], rate: float) -> None:
        self.squares = self.squares or zeros_like(parameters)
        for p, g, s in zip(parameters, gradients, self.squares, strict=True):
            s.mul_(self.smoothing).addcmul_(g, g, value=1 - self.smoothing)
            p.addcdiv_(g, s.sqrt().add_(self.eps), value=-rate)

    def state(self) -> dict[str, Any]:
        return {"squares": self.squares}

    def restore(self, state: dict[str, Any]) -> None:
        self.squares = state["squares"]


@dataclass
class Adam:
    """m and s: running means of g and g**2;  p -= rate * mhat / (sqrt(shat) + eps)  (Kingma & Ba, 2015).

    `decay` shrinks parameters of two or more dimensions beside that step (Loshchilov & Hutter, 2019).
    """

    first: float = 0.9
    second: float = 0.999
    eps: float = 1e-8
    decay: float = 0.0
    steps: int = 0
    means: list[Tensor] = field(default_factory=list)
    squares: list[Tensor] = field(default_factory=list)

    def step(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], rate: float) -> None:
        self.means = self.means or zeros_like(parameters)
        self.squares = self.squares or zeros_like(parameters)
        self.steps += 1
        # Running means that start at 0 are too small by these factors.
        mean_weight, square_weight = 1 - self.first**self.steps, 1 - self.second**self.steps
        for p, g, m, s in zip(parameters, gradients, self.means, self.squares, strict=True):
            if self.decay and p.dim() >= 2:
                p.mul_(1 - rate * self.decay)
            m.lerp_(g, 1 - self.first)
            s.mul_(self.second).addcmul_(g, g, value=1 - self.second)
            p.addcdiv_(m, (s.sqrt() / square_weight**0.5).add_(self.eps), value=-rate / mean_weight)

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps, "means": self.means, "squares": self.squares}

    def restore(self, state: dict[str, Any]) -> None:
        self.steps, self.means, self.squares = state["steps"], state["means"], state["squares"]


def zeros_like(parameters: Sequence[Tensor]) -> list[Tensor]:
    """A memory of zeros for each parameter; the parameters themselves may require gradients."""
    return [torch.zeros_like(p, requires_grad=False) for p in parameters]


def clip_global_norm(gradients: Sequence[Tensor], most: float) -> tuple[float, float]:
    """Scale all gradients in place so that their norm together is at most `most`; the norm before and after."""
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients])).item()
    # PyTorch's own clip adds the same 1e-6.
    factor = min(1.0, most / (norm + 1e-6))
    if factor < 1.0:
        for g in gradients:
            g.mul_(factor)
    return norm, norm * factor
