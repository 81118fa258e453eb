"""What a loop of single steps needs around it: a bar, metrics, checkpoints, an end when asked or when it diverges."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import typer
from torch import Tensor

from training.errors import InputError
from training.interrupts import stop_on_signals
from training.keeping import Keeper
from training.progress import Bar

COLUMNS = ("step", "loss", "rate", "norm", "clipped")
BLOCK = 20  # steps between two looks at the progress


@dataclass(frozen=True)
class Step:
    """What one step saw: its loss, the global norm of its gradients before and after clipping, the gradients after."""

    loss: float
    norm: float
    clipped: float
    gradients: Sequence[Tensor]


class Schedule(Protocol):
    """A number of steps and the learning rate of each."""

    @property
    def steps(self) -> int:
        """How many."""

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""


def drive(
    taken: Iterator[Step],
    schedule: Schedule,
    names: Sequence[str],
    keeper: Keeper,
    dump: Callable[[], dict[str, Any]],
    look: Callable[[int, Step], None],
    quiet: bool,
) -> None:
    """Take every step of an iterator that begins at `keeper.start`; `names` are those of the gradients.

    `look` is called after each step with the number of steps taken; `dump` gives what a checkpoint is to hold.
    Raises `InputError` at a loss or gradient that is not finite, and `typer.Exit` where a signal interrupts.
    """
    done, rows = keeper.start, []
    bar = Bar("training", schedule.steps, done, quiet)
    with stop_on_signals() as stop, bar:
        for step in taken:
            check_finite(done, step, names, keeper)
            rows.append((done, step.loss, schedule.rate(done), step.norm, step.clipped))
            done += 1
            look(done, step)
            last = done == schedule.steps or bool(stop)
            if len(rows) == BLOCK or last or keeper.due(done):
                bar.advance(len(rows), sum(row[1] for row in rows) / len(rows))
                keeper.log(rows)
                rows = []
            if last or keeper.due(done):
                keeper.save(done, dump())
            if last:
                break
    if done < schedule.steps:
        typer.echo(f"interrupted after {done:,} of {schedule.steps:,} steps; {keeper.last_good()}", err=True)
        raise typer.Exit(stop.status)
    if done > keeper.start and not quiet:
        typer.echo(bar.summary())


def check_finite(number: int, step: Step, names: Sequence[str], keeper: Keeper) -> None:
    """`InputError` where the loss or a gradient of a step is not finite; the last checkpoint is left alone."""
    if math.isfinite(step.loss) and math.isfinite(step.norm):
        return
    # A backward runs from the last layer to the first, and so does what goes wrong in it.
    pairs = reversed(list(zip(names, step.gradients, strict=True)))
    first = next((name for name, gradient in pairs if not gradient.isfinite().all()), None)
    began = f"the first gradient that is not finite is d{first}" if first else "every gradient is finite"
    raise InputError(
        "training", f"the loss is {step.loss} at step {number}; {began}", f"lower --lr; {keeper.last_good()}"
    )
