"""`python -m training.names`: train the names network by hand, then let it invent names."""

import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from typer import Option

from training.data import load_names
from training.errors import reported
from training.names.examples import Examples, Split, split_examples
from training.names.loop import GENERATED, Recipe, descend
from training.names.network import Moments, Network, calibrate, initialise, mean_loss, sample
from training.names.settings import Dtype, Gradients, Settings
from training.names.twin import AUTOGRAD

DEFAULTS = Settings()
METHODS = {Gradients.generated: GENERATED, Gradients.autograd: AUTOGRAD}


def train(network: Network, examples: Examples, settings: Settings, generator: torch.Generator) -> None:
    """Descend in place under a progress bar with the mean loss of the last block and the steps a second."""
    recipe, method = settings.recipe, METHODS[settings.gradients]
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("{task.fields[speed]} steps/s"),
        TimeRemainingColumn(),
    )
    # No refresh thread: it would compete with the loop for the interpreter. The bar moves once a block.
    bar = Progress(*columns, console=Console(stderr=True), auto_refresh=False, disable=settings.quiet)
    started, done = time.perf_counter(), 0
    with bar:
        task = bar.add_task("", total=recipe.steps, loss="-", speed="-")
        for losses in descend(network, examples, recipe, method, generator):
            done += len(losses)
            speed = done / (time.perf_counter() - started)
            loss = sum(losses) / len(losses)
            bar.update(task, completed=done, loss=f"{loss:.4f}", speed=f"{speed:,.0f}", refresh=True)
    if done and not settings.quiet:
        seconds = time.perf_counter() - started
        typer.echo(f"training: {done:,} steps in {seconds:.1f} s, {done / seconds:,.0f} steps/s")


def report(network: Network, moments: Moments, split: Split, settings: Settings) -> None:
    """One line a split with its loss, then the names the network makes up."""
    eps = settings.recipe.eps
    parts = (("train", split.train), ("validation", split.validation), ("test", split.test))
    for name, examples in parts:
        typer.echo(f"{name + ' loss':<15} {mean_loss(network, moments, examples, eps):.4f}")
    # The notebook's own offset: samples do not depend on how many batches were drawn.
    generator = torch.Generator().manual_seed(settings.seed + 10)
    for _ in range(settings.samples):
        typer.echo(sample(network, moments, settings.context, eps, generator))


def run(settings: Settings) -> None:
    """Read, split, train, calibrate, report."""
    torch.set_num_threads(settings.threads)
    names = load_names(settings.names)
    if names.note:
        typer.echo(names.note, err=True)
    split = split_examples(names.words, settings.context, settings.split_seed)
    generator = torch.Generator().manual_seed(settings.seed)
    network = initialise(settings.context, settings.embedding, settings.hidden, generator, settings.dtype.torch)
    if not settings.quiet:
        sizes = f"{len(split.train):,} / {len(split.validation):,} / {len(split.test):,}"
        typer.echo(f"names: {len(names.words):,} from {names.source}; {sizes} examples")
        typer.echo(f"network: {network.size:,} parameters, gradients: {settings.gradients}")
    train(network, split.train, settings, generator)
    report(network, calibrate(network, split.train), split, settings)


def main(
    names: Annotated[
        Path | None,
        Option(help="One name a line, a-z.", show_default="NAMES_FILE, else a download, else a built-in list"),
    ] = None,
    context: Annotated[int, Option(help="Letters the network sees.")] = DEFAULTS.context,
    embedding: Annotated[int, Option(help="Numbers that stand for a letter.")] = DEFAULTS.embedding,
    hidden: Annotated[int, Option(help="Hidden units.")] = DEFAULTS.hidden,
    batch: Annotated[int, Option(help="Examples a step.")] = DEFAULTS.recipe.batch,
    steps: Annotated[int, Option(help="Steps of descent; 2000 for a quick try.")] = DEFAULTS.recipe.steps,
    lr: Annotated[float, Option(help="Learning rate.")] = DEFAULTS.recipe.lr,
    lr_final: Annotated[float, Option(help="Learning rate after the drop.")] = DEFAULTS.recipe.lr_final,
    lr_drop: Annotated[float, Option(help="Fraction of the steps before the drop.")] = DEFAULTS.recipe.lr_drop,
    eps: Annotated[float, Option(help="Added to the variance in batchnorm.")] = DEFAULTS.recipe.eps,
    seed: Annotated[int, Option(help="Of the parameters, the batches and the samples.")] = DEFAULTS.seed,
    split_seed: Annotated[int, Option(help="Of the 80/10/10 split.")] = DEFAULTS.split_seed,
    samples: Annotated[int, Option(help="Names to make up at the end.")] = DEFAULTS.samples,
    dtype: Annotated[Dtype, Option(help="Precision.")] = DEFAULTS.dtype,
    threads: Annotated[int, Option(help="PyTorch's threads; small batches want 1.")] = DEFAULTS.threads,
    gradients: Annotated[
        Gradients, Option(help="Derived by machine, or by autograd in the plain-PyTorch twin.")
    ] = DEFAULTS.gradients,
    quiet: Annotated[bool, Option("--quiet", help="Only the losses and the samples.")] = False,
) -> None:
    """Train the two-layer names network without loss.backward(), then let it invent names.

    A quick try: python -m training.names --steps 2000
    """
    with reported():
        recipe = Recipe(steps, batch, lr=lr, lr_final=lr_final, lr_drop=lr_drop, eps=eps)
        settings = Settings(
            recipe,
            names,
            context=context,
            embedding=embedding,
            hidden=hidden,
            seed=seed,
            split_seed=split_seed,
            samples=samples,
            dtype=dtype,
            threads=threads,
            gradients=gradients,
            quiet=quiet,
        )
        run(settings)


if __name__ == "__main__":
    typer.run(main)
