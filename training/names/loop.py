"""Gradient descent by hand: a batch, a forward, a backward derived by machine, an update in place."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from generated import (
    names_step_backward,
    names_step_forward,
    names_step_stepwise_backward,
    names_step_stepwise_forward,
)
from training.errors import NotFinite
from training.names.examples import Examples
from training.names.network import Network

# One step in place: (network, ix, y, rate, eps) to the loss [] and the gradients in the network's order.
Step = Callable[[Network, Tensor, Tensor, float, float], tuple[Tensor, Sequence[Tensor]]]

BLOCK = 500  # steps between two looks at the progress
DRAWN = 50  # batches gathered at once


@dataclass(frozen=True)
class Method:
    """A way to take a step, and whether autograd's tape must run for it."""

    name: str
    step: Step
    tape: bool


@dataclass(frozen=True)
class Recipe:
    """How to descend: `lr` for the first `lr_drop` of the steps, then `lr_final`."""

    steps: int = 200_000
    batch: int = 32
    lr: float = 0.1
    lr_final: float = 0.01
    lr_drop: float = 0.5
    eps: float = 1e-5

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return self.lr if step < self.steps * self.lr_drop else self.lr_final


def generated_step(network: Network, ix: Tensor, y: Tensor, rate: float, eps: float) -> tuple[Tensor, Sequence[Tensor]]:
    """One step whose gradients come from the package `generated`; autograd has no part in it."""
    loss, saved = names_step_forward(*network, ix, y, eps)
    gradients = names_step_backward(torch.ones_like(loss), *saved)
    for parameter, gradient in zip(network, gradients, strict=True):
        parameter.sub_(gradient, alpha=rate)
    return loss, gradients


GENERATED = Method("generated", generated_step, tape=False)


def never() -> bool:
    """Do not stop."""
    return False


def batches(train: Examples, batch: int, count: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of examples with replacement: ix [n, t] and y [n], `count` times.

    Gathering many at once costs less, and the generator hands out the same rows as one batch at a time.
    """
    for start in range(0, count, DRAWN):
        rows = torch.randint(0, len(train), (min(DRAWN, count - start), batch), generator=generator)
        yield from zip(train.ix[rows].unbind(), train.y[rows].unbind(), strict=True)


def run_block(
    network: Network,
    train: Examples,
    recipe: Recipe,
    method: Method,
    generator: torch.Generator,
    steps: range,
    stop: Callable[[], bool] = never,
) -> list[float]:
    """Take the given steps in place and return their losses, fewer where `stop` says so.

    Raises `NotFinite` at the first loss that is not finite, naming the gradient in which that began.
    """
    losses = []
    before, state = Network(*(parameter.detach().clone() for parameter in network)), generator.get_state()
    drawn = batches(train, recipe.batch, len(steps), generator)
    # inference_mode is no_grad without the bookkeeping of views and versions
    with torch.enable_grad() if method.tape else torch.inference_mode():
        for taken, (step, (ix, y)) in enumerate(zip(steps, drawn, strict=False), start=1):
            loss, _ = method.step(network, ix, y, recipe.rate(step), recipe.eps)
            losses.append(loss.item())
            # Only here has the generator drawn the batches of the steps taken, and no others.
            if taken % DRAWN == 0 and stop():
                break
    for step, value in zip(steps, losses, strict=False):
        if not math.isfinite(value):
            generator.set_state(state)
            began = first_not_finite(before.cpu(), train, recipe, generator, steps[: len(losses)])
            raise NotFinite(f"the loss is {value} at step {step}; {began}", losses[: step - steps.start])
    return losses


@torch.inference_mode()
def first_not_finite(
    network: Network, train: Examples, recipe: Recipe, generator: torch.Generator, steps: range
) -> str:
    """Take the steps once more from where they began, looking at the gradient of every intermediate."""
    for step, (ix, y) in zip(steps, batches(train, recipe.batch, len(steps), generator), strict=True):
        loss, saved = names_step_stepwise_forward(*network, ix, y, recipe.eps)
        # In the order in which the chain rule computes them, from the loss back to the parameters.
        for name, gradient in names_step_stepwise_backward(torch.ones_like(loss), *saved)._asdict().items():
            if not gradient.isfinite().all():
                return f"the first gradient that is not finite is {name}, at step {step}"
        generated_step(network, ix, y, recipe.rate(step), recipe.eps)
    return "every gradient before it was finite"


def descend(
    network: Network,
    train: Examples,
    recipe: Recipe,
    method: Method,
    generator: torch.Generator,
    start: int = 0,
    stop: Callable[[], bool] = never,
) -> Iterator[list[float]]:
    """Train the network in place from step `start` on, handing out the losses of a block of steps at a time.

    Blocks end at multiples of `BLOCK`, whatever they start from; the last is cut short where `stop` says so.
    """
    for parameter in network:
        parameter.requires_grad_(method.tape)
    while start < recipe.steps:
        steps = range(start, min((start // BLOCK + 1) * BLOCK, recipe.steps))
        losses = run_block(network, train, recipe, method, generator, steps, stop)
        yield losses
        start += len(losses)
        if len(losses) < len(steps) or stop():
            return
