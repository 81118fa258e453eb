"""`python -m training.compare`: the loop beside its plain-PyTorch twin, same seed, same batches."""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from typer import Option

from training.data import load_names
from training.errors import reported
from training.names.examples import Examples, split_examples
from training.names.loop import GENERATED, Method, Recipe, batches, run_block
from training.names.network import Network, initialise
from training.names.settings import Dtype, Settings, within
from training.names.twin import AUTOGRAD

# Runs that round differently drift apart slowly; a wrong gradient leaves these bounds within a few steps.
TOLERANCE = {Dtype.float32: 1e-4, Dtype.float64: 1e-10}
SPEED_BLOCK = 200


@dataclass(frozen=True)
class Agreement:
    """The largest differences over a run: of the loss, and of each gradient beside its own size."""

    loss: float
    gradients: dict[str, float]
    sizes: dict[str, float]


@dataclass(frozen=True)
class Speed:
    """Steps a second, block by block; block k of both was measured one right after the other."""

    generated: tuple[float, ...]
    autograd: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median over pairs of blocks, so that a machine that slows down for a while does not decide."""
        return statistics.median(g / a for g, a in zip(self.generated, self.autograd, strict=True))


@dataclass(frozen=True)
class Runner:
    """One of the two: a method, its own copy of the network, its own generator in the same state."""

    method: Method
    network: Network
    generator: torch.Generator

    @classmethod
    def start(cls, method: Method, settings: Settings) -> "Runner":
        """The network and the generator that `settings` start from."""
        generator = torch.Generator().manual_seed(settings.seed)
        sizes = (settings.context, settings.embedding, settings.hidden)
        network = initialise(*sizes, generator, settings.dtype.torch)
        for parameter in network:
            parameter.requires_grad_(method.tape)
        return cls(method, network, generator)

    def trajectory(self, train: Examples, recipe: Recipe) -> Iterator[tuple[float, Sequence[Tensor]]]:
        """Each step, taken in place: its loss and its gradients."""
        for step, (ix, y) in enumerate(batches(train, recipe.batch, recipe.steps, self.generator)):
            with torch.set_grad_enabled(self.method.tape):
                loss, gradients = self.method.step(self.network, ix, y, recipe.rate(step), recipe.eps)
            yield loss.item(), gradients


def differences(train: Examples, settings: Settings) -> Iterator[list[float]]:
    """A row a step of both runs: the loss difference, each gradient's largest, then each gradient's size."""
    ours, twin = (Runner.start(method, settings).trajectory(train, settings.recipe) for method in (GENERATED, AUTOGRAD))
    for (loss, gradients), (twin_loss, twin_gradients) in zip(ours, twin, strict=True):
        pairs = zip(gradients, twin_gradients, strict=True)
        apart = [(mine - theirs).abs().max().item() for mine, theirs in pairs]
        yield [abs(loss - twin_loss), *apart, *(gradient.abs().max().item() for gradient in twin_gradients)]


def agree(train: Examples, settings: Settings, quiet: bool = True) -> Agreement:
    """Run both over all steps and keep the largest differences; a NaN anywhere is kept too."""
    total, console = settings.recipe.steps, Console(stderr=True)
    rows = track(differences(train, settings), "comparing", total=total, console=console, disable=quiet, transient=True)
    # Python's own max would lose a NaN.
    loss, *rest = torch.tensor(list(rows), dtype=torch.float64).amax(0).tolist()
    parameters = Network._fields
    gradients, sizes = rest[: len(parameters)], rest[len(parameters) :]
    return Agreement(loss, dict(zip(parameters, gradients, strict=True)), dict(zip(parameters, sizes, strict=True)))


def race(train: Examples, settings: Settings, blocks: int, quiet: bool = True) -> Speed:
    """Time blocks of both loops in turn, after one untimed block each; who goes first alternates."""
    runners = (Runner.start(GENERATED, settings), Runner.start(AUTOGRAD, settings))
    speeds: tuple[list[float], list[float]] = ([], [])
    steps = range(SPEED_BLOCK)
    # No refresh thread: it would compete with the loops for the interpreter.
    shown = track(
        range(blocks + 1),
        "timing",
        auto_refresh=False,
        console=Console(stderr=True),
        disable=quiet,
        transient=True,
    )
    for block in shown:
        pairs = list(zip(runners, speeds, strict=True))
        for runner, measured in pairs if block % 2 else reversed(pairs):
            started = time.perf_counter()
            run_block(runner.network, train, settings.recipe, runner.method, runner.generator, steps)
            if block > 0:
                measured.append(SPEED_BLOCK / (time.perf_counter() - started))
    return Speed(tuple(speeds[0]), tuple(speeds[1]))


def agreement_table(agreement: Agreement, settings: Settings) -> Table:
    """How far apart the two runs were."""
    recipe = settings.recipe
    table = Table(
        "tensor",
        title=f"{recipe.steps:,} steps, batch {recipe.batch}, {settings.dtype}: generated against autograd",
        caption="b1's gradient is 0 but for rounding: batchnorm subtracts the mean that b1 shifts",
    )
    for heading in ("largest difference", "largest value", "relative"):
        table.add_column(heading, justify="right")
    table.add_row("loss", f"{agreement.loss:.1e}", "", "")
    for name, difference in agreement.gradients.items():
        size = agreement.sizes[name]
        relative = f"{difference / size:.1e}" if size else ""
        table.add_row(f"d{name}", f"{difference:.1e}", f"{size:.1e}", relative)
    return table


def speed_table(speed: Speed, settings: Settings) -> Table:
    """How fast the two loops were."""
    title = f"{settings.threads} thread(s), interleaved blocks of {SPEED_BLOCK} steps"
    table = Table("steps a second", title=title)
    for heading in ("median", "slowest", "fastest"):
        table.add_column(heading, justify="right")
    for name, values in (("generated", speed.generated), ("autograd", speed.autograd)):
        figures = (statistics.median(values), min(values), max(values))
        table.add_row(name, *(f"{figure:,.0f}" for figure in figures))
    table.add_row("ratio (median of pairs)", f"{speed.ratio:.2f}", "", "")
    return table


def main(
    steps: Annotated[int, Option(help="Steps to compare.")] = 1000,
    dtype: Annotated[Dtype, Option(help="Precision.")] = Dtype.float32,
    batch: Annotated[int, Option(help="Examples a step.")] = Recipe().batch,
    names: Annotated[Path | None, Option(help="One name a line; the default is that of training.names.")] = None,
    blocks: Annotated[int, Option(help="Timed blocks of each loop.")] = 15,
    threads: Annotated[int, Option(help="PyTorch's threads.")] = 1,
    quiet: Annotated[bool, Option("--quiet", help="No progress bars.")] = False,
) -> None:
    """Losses, gradients and speed of the hand-written loop beside its autograd twin.

    Exit status 1 when the losses differ by more than 1e-4 (float32) or 1e-10 (float64).
    """
    with reported():
        within("--steps", steps, 1)
        within("--blocks", blocks, 1)
        settings = Settings(Recipe(steps, batch), names, dtype=dtype, threads=threads)
        torch.set_num_threads(threads)
        source = load_names(names)
        if source.note:
            typer.echo(source.note, err=True)
        train = split_examples(source.words, settings.context, settings.split_seed).train
        console = Console()
        agreement = agree(train, settings, quiet)
        console.print(agreement_table(agreement, settings))
        console.print(speed_table(race(train, settings, blocks, quiet), settings))
        tolerance = TOLERANCE[dtype]
        if not agreement.loss <= tolerance:
            typer.echo(f"the losses differ by {agreement.loss:.1e}, more than {tolerance:.0e}", err=True)
            raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
