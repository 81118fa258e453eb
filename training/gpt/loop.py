"""Descent by hand: a batch of names, a forward, a backward derived by machine, clipping, Adam."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from rich.console import Console
from rich.progress import track

from training.gpt.examples import Sequences
from training.gpt.network import GPT, logits_forward, loss_backward, loss_forward
from training.names.examples import ALPHABET
from training.optimizers import Adam, clip_global_norm
from training.session import Step

EVALUATION_ROWS = 512


@dataclass(frozen=True)
class Recipe:
    """How to descend: `lr` after a linear warm-up, then along a cosine to a twentieth of it."""

    steps: int = 12_000
    batch: int = 32
    lr: float = 3e-3
    warmup: int = 200
    clip: float = 1.0
    decay: float = 0.1

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        part = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * (0.05 + 0.95 * (1 + math.cos(math.pi * part)) / 2)


class Learner(Protocol):
    """Something that takes a step in place; the twin is another one."""

    def step(self, batch: Sequences, rate: float) -> Step:
        """One step of the given learning rate."""


class ByHand:
    """The learner whose gradients come from the package `generated`; autograd has no part in it."""

    def __init__(self, gpt: GPT, recipe: Recipe) -> None:
        self.gpt, self.clip = gpt, recipe.clip
        self.optimizer = Adam(second=0.99, decay=recipe.decay)

    @torch.inference_mode()
    def step(self, batch: Sequences, rate: float) -> Step:
        loss, saved = loss_forward(self.gpt, batch.ix, batch.y, batch.weight)
        gradients = loss_backward(torch.ones_like(loss), saved).parameters
        norm, clipped = clip_global_norm(gradients, self.clip)
        self.optimizer.step(self.gpt.parameters, gradients, rate)
        return Step(loss.item(), norm, clipped, gradients)


def batches(train: Sequences, batch: int, steps: range, generator: torch.Generator) -> Iterator[Sequences]:
    """One batch of names for each step, drawn with replacement."""
    for _ in steps:
        yield train.rows(torch.randint(0, len(train), (batch,), generator=generator))


def descend(
    learner: Learner, train: Sequences, recipe: Recipe, generator: torch.Generator, start: int = 0
) -> Iterator[Step]:
    """Take the steps from `start` on, handing out each."""
    steps = range(start, recipe.steps)
    for step, batch in zip(steps, batches(train, recipe.batch, steps, generator), strict=True):
        yield learner.step(batch, recipe.rate(step))


@torch.inference_mode()
def mean_loss(gpt: GPT, part: Sequences, label: str = "") -> float:
    """The mean cross-entropy of a letter over a split, every letter and every end counted once.

    Under a bar where it has a label.
    """
    total, count = 0.0, 0.0
    pieces = torch.arange(len(part)).split(EVALUATION_ROWS)
    shown = track(pieces, label, console=Console(stderr=True), disable=not label, transient=True)
    for rows in shown:
        piece = part.rows(rows)
        loss, _ = loss_forward(gpt, piece.ix, piece.y, piece.weight)
        letters = piece.weight.sum().item()
        total, count = total + loss.item() * letters, count + letters
    return total / count


@torch.inference_mode()
def sample(gpt: GPT, generator: torch.Generator) -> str:
    """One new name, a letter at a time until "." or as far as the positions reach."""
    letters = [0]
    while len(letters) <= gpt.longest:
        logits, _ = logits_forward(gpt, torch.tensor([letters]))
        probabilities = torch.softmax(logits[0, -1], 0)
        letter = int(torch.multinomial(probabilities, 1, generator=generator).item())
        if letter == 0:
            break
        letters.append(letter)
    return "".join(ALPHABET[letter] for letter in letters[1:])
