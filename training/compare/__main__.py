"""`python -m training.compare [names|digits|tape|gpt|pinn]`: a loop beside its plain-PyTorch twin."""

from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from typer import Argument, Option

from training.compare.measures import agree, race, weigh
from training.compare.sides import Ask, Model, contest
from training.compare.tables import agreement_table, cost_table
from training.errors import reported
from training.names.settings import Dtype, within

# Runs that round differently drift apart slowly; a wrong gradient leaves these bounds within a few steps.
TOLERANCE = {Dtype.float32: 1e-4, Dtype.float64: 1e-10}


def main(
    model: Annotated[Model, Argument(help="The loop.")] = Model.names,
    steps: Annotated[int, Option(help="Steps to compare.")] = 1000,
    dtype: Annotated[Dtype, Option(help="Precision.")] = Dtype.float32,
    batch: Annotated[int | None, Option(help="Examples a step.", show_default="the loop's own")] = None,
    names: Annotated[Path | None, Option(help="One name a line; the default is that of training.names.")] = None,
    blocks: Annotated[int, Option(help="Timed blocks of each loop.")] = 15,
    threads: Annotated[int, Option(help="PyTorch's threads.")] = 1,
    quiet: Annotated[bool, Option("--quiet", help="No progress bars.")] = False,
) -> None:
    """Losses, gradients, speed and memory of a hand-written loop beside its autograd twin.

    Exit status 1 when the losses differ by more than 1e-4 (float32) or 1e-10 (float64).
    """
    with reported():
        within("--steps", steps, 1)
        within("--blocks", blocks, 1)
        within("--threads", threads, 1)
        if batch is not None:
            within("--batch", batch, 2)
        torch.set_num_threads(threads)
        both = contest(model, Ask(dtype, batch, names))
        console = Console()
        agreement = agree(both, steps, quiet)
        console.print(agreement_table(both, agreement))
        memory = weigh(both)
        console.print(cost_table(both, race(both, blocks, quiet), memory, threads))
        most = TOLERANCE[dtype]
        if not agreement.loss <= most:
            typer.echo(f"the losses differ by {agreement.loss:.1e}, more than {most:.0e}", err=True)
            raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
