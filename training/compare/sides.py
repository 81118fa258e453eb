"""Both sides of every comparison: the loop of derived gradients, and its twin."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from training.data import load_names
from training.digits import loop as digits_loop
from training.digits import twin as digits_twin
from training.digits.data import CLASSES, Digits, bundled
from training.digits.layers import names_of, perceptron
from training.gpt import loop as gpt_loop
from training.gpt import twin as gpt_twin
from training.gpt.examples import build_sequences
from training.gpt.network import initialise as initialise_gpt
from training.names import loop as names_loop
from training.names.examples import ALPHABET, Examples, split_examples, split_words
from training.names.network import Network, initialise
from training.names.settings import Dtype, Settings
from training.names.twin import AUTOGRAD
from training.pinn import loop as pinn_loop
from training.pinn import twin as pinn_twin
from training.pinn.network import Network as Solver
from training.pinn.network import initialise as initialise_solver
from training.session import Step
from training.tape.perceptron import ByTape

Taken = tuple[float, Sequence[Tensor]]  # a loss, and gradients in the order of the parameters' names


class Model(StrEnum):
    """The loops that have a twin."""

    names = "names"
    digits = "digits"
    tape = "tape"
    gpt = "gpt"
    pinn = "pinn"


class Side(Protocol):
    """One of the two: its own copy of the network, its own generator in the same state."""

    def trajectory(self, steps: int) -> Iterator[Taken]:
        """So many steps, taken in place: each one's loss and gradients."""

    def block(self, steps: int) -> None:
        """So many steps as the loop itself takes them."""


@dataclass(frozen=True)
class Contest:
    """A comparison: what it is called, the parameters' names, a block to time.

    Either side begins a run of a given number of steps, over which its learning rate falls.
    """

    title: str
    parameters: Sequence[str]
    ours: Callable[[int], Side]
    twin: Callable[[int], Side]
    block: int
    note: str = ""


@dataclass(frozen=True)
class Ask:
    """What is compared: in which precision, batches of which length (None: the loop's own), of which names."""

    dtype: Dtype = Dtype.float32
    batch: int | None = None
    names: Path | None = None


@dataclass(frozen=True)
class NamesSide:
    """The loop of names by either method."""

    method: names_loop.Method
    network: Network
    generator: torch.Generator
    train: Examples
    recipe: names_loop.Recipe

    @classmethod
    def start(cls, method: names_loop.Method, settings: Settings, train: Examples) -> "NamesSide":
        """The network and the generator that `settings` start from."""
        generator = torch.Generator().manual_seed(settings.seed)
        sizes = (settings.context, settings.embedding, settings.hidden)
        network = initialise(*sizes, generator, settings.dtype.torch)
        for parameter in network:
            parameter.requires_grad_(method.tape)
        return cls(method, network, generator, train, settings.recipe)

    def trajectory(self, steps: int) -> Iterator[Taken]:
        drawn = names_loop.batches(self.train, self.recipe.batch, steps, self.generator)
        for step, (ix, y) in enumerate(drawn):
            with torch.set_grad_enabled(self.method.tape):
                loss, gradients = self.method.step(self.network, ix, y, self.recipe.rate(step), self.recipe.eps)
            yield loss.item(), gradients

    def block(self, steps: int) -> None:
        names_loop.run_block(self.network, self.train, self.recipe, self.method, self.generator, range(steps))


class StepsSide:
    """Any loop that hands out its steps one by one."""

    def __init__(self, steps: Iterator[Step]) -> None:
        self.steps = steps

    def trajectory(self, steps: int) -> Iterator[Taken]:
        for taken in islice(self.steps, steps):
            yield taken.loss, taken.gradients

    def block(self, steps: int) -> None:
        for _ in islice(self.steps, steps):
            pass


def contest(model: Model, ask: Ask) -> Contest:
    """Both sides of a model, ready to begin."""
    sides = {
        Model.names: of_names,
        Model.digits: of_digits,
        Model.tape: of_tape,
        Model.gpt: of_gpt,
        Model.pinn: of_pinn,
    }
    return sides[model](ask)


def of_names(ask: Ask) -> Contest:
    """The two-layer network on names."""
    batch = ask.batch or names_loop.Recipe.batch
    settings = Settings(names_loop.Recipe(batch=batch), ask.names, dtype=ask.dtype)
    return contest_of_names(settings, split_examples(load_names(ask.names).words).train)


def contest_of_names(settings: Settings, train: Examples) -> Contest:
    """The two-layer network of given settings on given examples."""

    def side(method: names_loop.Method) -> Callable[[int], Side]:
        def begin(steps: int) -> Side:
            return NamesSide.start(method, replace(settings, recipe=replace(settings.recipe, steps=steps)), train)

        return begin

    note = "b1's gradient is 0 but for rounding: batchnorm subtracts the mean that b1 shifts"
    title = f"names, batch {settings.recipe.batch}, {settings.dtype}"
    return Contest(title, Network._fields, side(names_loop.GENERATED), side(AUTOGRAD), 200, note)


def of_digits(ask: Ask) -> Contest:
    """The perceptron, its backward spelled out."""
    return perceptron_contest(ask, "digits", digits_loop.ByHand, 100)


def of_tape(ask: Ask) -> Contest:
    """The perceptron, its backward found by the tape."""
    return perceptron_contest(ask, "digits on the tape", ByTape, 20)


def perceptron_contest(ask: Ask, title: str, learner: type[digits_loop.ByHand] | type[ByTape], block: int) -> Contest:
    """The perceptron by either of its learners beside autograd."""
    train = bundled(0).train
    train = Digits(train.x.to(ask.dtype.torch), train.y)
    recipe = digits_loop.Recipe(batch=ask.batch or digits_loop.Recipe.batch)
    sizes = (train.x.shape[1], 128, 128, 128, CLASSES)

    def side(kind: type[digits_loop.ByHand] | type[ByTape] | type[digits_twin.ByAutograd]) -> Callable[[int], Side]:
        def begin(steps: int) -> Side:
            run = replace(recipe, steps=steps)
            network = perceptron(sizes, torch.Generator().manual_seed(0), ask.dtype.torch)
            return StepsSide(digits_loop.descend(kind(network, run), train, run, 0))

        return begin

    names = names_of(perceptron(sizes, torch.Generator()))
    shown = f"{title}, {recipe.optimizer}, batch {recipe.batch}, {ask.dtype}"
    return Contest(shown, names, side(learner), side(digits_twin.ByAutograd), block)


def of_gpt(ask: Ask) -> Contest:
    """The decoder on names."""
    words = load_names(ask.names).words
    longest = max(map(len, words)) + 1
    train = build_sequences(split_words(words)[0], longest, ask.dtype.torch)
    recipe = gpt_loop.Recipe(batch=ask.batch or gpt_loop.Recipe.batch)
    sizes = (len(ALPHABET), longest, 64, 4, 3, False)

    def side(kind: type[gpt_loop.ByHand] | type[gpt_twin.ByAutograd]) -> Callable[[int], Side]:
        def begin(steps: int) -> Side:
            run = replace(recipe, steps=steps)
            generator = torch.Generator().manual_seed(Settings.seed)
            gpt = initialise_gpt(*sizes, generator, ask.dtype.torch)
            return StepsSide(gpt_loop.descend(kind(gpt, run), train, run, generator))

        return begin

    names = [name for name, _ in initialise_gpt(*sizes, torch.Generator()).named()]
    note = "a shift of all keys moves no weight of the attention, so the gradient of bk is 0 but for rounding"
    title = f"decoder, batch {recipe.batch}, {ask.dtype}"
    return Contest(title, names, side(gpt_loop.ByHand), side(gpt_twin.ByAutograd), 10, note)


def of_pinn(ask: Ask) -> Contest:
    """The perceptron that solves Burgers' equation."""
    recipe = pinn_loop.Recipe(batch=ask.batch or pinn_loop.Recipe.batch)

    def side(kind: type[pinn_loop.ByHand] | type[pinn_twin.ByAutograd]) -> Callable[[int], Side]:
        def begin(steps: int) -> Side:
            run = replace(recipe, steps=steps)
            network = initialise_solver(32, torch.Generator().manual_seed(0), ask.dtype.torch)
            return StepsSide(pinn_loop.descend(kind(network, run), run, 0, ask.dtype.torch))

        return begin

    title = f"Burgers' equation, batch {recipe.batch}, {ask.dtype}"
    return Contest(title, Solver._fields, side(pinn_loop.ByHand), side(pinn_twin.ByAutograd), 100)
