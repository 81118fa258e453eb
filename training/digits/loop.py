"""Descent by hand: a batch, a forward, a backward derived by machine, clipping, an optimizer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import torch
from torch import Tensor

from generated import softmax_cross_entropy_backward, softmax_cross_entropy_forward
from training.digits.data import Digits
from training.digits.layers import Chain
from training.optimizers import SGD, Adam, Momentum, Optimizer, RMSprop, clip_global_norm
from training.session import Step


class Descent(StrEnum):
    """The optimizers by name."""

    sgd = "sgd"
    momentum = "momentum"
    rmsprop = "rmsprop"
    adam = "adam"


OPTIMIZERS: dict[Descent, tuple[Callable[[], Optimizer], float]] = {
    # each with a learning rate that suits it
    Descent.sgd: (SGD, 0.2),
    Descent.momentum: (Momentum, 0.02),
    Descent.rmsprop: (RMSprop, 1e-3),
    Descent.adam: (Adam, 2e-3),
}


@dataclass(frozen=True)
class Recipe:
    """How to descend: `lr` (None: what suits the optimizer) for 60% of the steps, then a tenth of it."""

    steps: int = 3000
    batch: int = 32
    optimizer: Descent = Descent.adam
    lr: float | None = None
    clip: float = 1.0

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        lr = OPTIMIZERS[self.optimizer][1] if self.lr is None else self.lr
        return lr if step < 0.6 * self.steps else lr / 10


class Learner(Protocol):
    """Something that takes a step in place; the twin is another one."""

    def step(self, batch: Digits, rate: float) -> Step:
        """One step of the given learning rate."""


class ByHand:
    """The learner whose gradients come from the package `generated`; autograd has no part in it."""

    def __init__(self, network: Chain, recipe: Recipe) -> None:
        self.network, self.clip = network, recipe.clip
        self.optimizer = OPTIMIZERS[recipe.optimizer][0]()

    @torch.inference_mode()
    def step(self, batch: Digits, rate: float) -> Step:
        logits, saved = self.network.forward(batch.x)
        loss, loss_saved = softmax_cross_entropy_forward(logits, batch.y)
        dlogits = softmax_cross_entropy_backward(torch.ones_like(loss), *loss_saved)
        _, gradients = self.network.backward(dlogits, saved)
        norm, clipped = clip_global_norm(gradients, self.clip)
        self.optimizer.step(self.network.parameters, gradients, rate)
        return Step(loss.item(), norm, clipped, gradients)


def batches(train: Digits, batch: int, steps: range, seed: int) -> Iterator[Digits]:
    """A batch for each step; every epoch takes the pictures in an order of its own, known from its number alone."""
    batch = min(batch, len(train))
    an_epoch = len(train) // batch
    order, ordered = torch.empty(0, dtype=torch.int64), -1
    for step in steps:
        epoch, place = divmod(step, an_epoch)
        if epoch != ordered:
            generator = torch.Generator().manual_seed((seed + 1_000_003 * (epoch + 1)) % 2**63)
            order, ordered = torch.randperm(len(train), generator=generator), epoch
        yield train.rows(order[place * batch : (place + 1) * batch])


def descend(learner: Learner, train: Digits, recipe: Recipe, seed: int, start: int = 0) -> Iterator[Step]:
    """Take the steps from `start` on, handing out each."""
    steps = range(start, recipe.steps)
    for step, batch in zip(steps, batches(train, recipe.batch, steps, seed), strict=True):
        yield learner.step(batch, recipe.rate(step))


@torch.inference_mode()
def accuracy(network: Chain, part: Digits) -> float:
    """The share of pictures whose highest score is at their label."""
    right = sum(
        int((scores(network, x).argmax(1) == y).sum())
        for x, y in zip(part.x.split(4096), part.y.split(4096), strict=True)
    )
    return right / len(part)


def scores(network: Chain, x: Tensor) -> Tensor:
    """Scores [n, 10] of pictures [n, i]."""
    logits, _ = network.forward(x)
    return logits
