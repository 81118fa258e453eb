"""What a person at the terminal sees on the standard error: a bar, or one line of complaint."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from derive.ir.equations import Op

PATIENCE = 2.0
"""Seconds that a derivation takes before a line says what is searched."""


@dataclass
class Bar:
    """A bar of ops on the standard error, if that is a terminal."""

    progress: Progress
    task: TaskID
    ops: list[Op]
    since: float

    def __call__(self, op: Op) -> None:
        """This op is done."""
        following = self.ops[self.ops.index(op) + 1 :]
        self.since = monotonic()
        self.progress.update(self.task, advance=1, description=following[0].name if following else op.name)

    def told(self, what: str) -> None:
        """This is searched for the op that is next, said once that takes long."""
        if monotonic() - self.since > PATIENCE:
            at = int(self.progress.tasks[0].completed)
            self.progress.update(self.task, description=f"{self.ops[min(at, len(self.ops) - 1)].name}: {what}")


@contextmanager
def bar(ops: list[Op]) -> Iterator[Bar]:
    """A bar on the standard error, if that is a terminal; what it gives is called with each op that is done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bar(progress, progress.add_task(ops[0].name, total=len(ops)), ops, monotonic())


@contextmanager
def searching(op: Op) -> Iterator[Callable[[str], None]]:
    """A line that says what is searched, on the standard error of a terminal, once that takes longer than a person
    waits without asking; what it gives is called with each thing searched.
    """
    console = Console(stderr=True)
    start = monotonic()
    with console.status(op.name) if console.is_terminal else nullcontext() as status:
        if status is not None:
            status.stop()

        def told(what: str) -> None:
            if status is not None and monotonic() - start > PATIENCE:
                status.start()
                status.update(f"{op.name}: {what}")

        yield told


def complain(message: str) -> None:
    """One line on the standard error, whatever the message holds."""
    print(f"derive: {' '.join(message.split())}", file=sys.stderr)
