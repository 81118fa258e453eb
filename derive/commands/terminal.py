"""What a person at the terminal sees on the standard error: a bar, or one line of complaint."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from derive.equations import Op


@contextmanager
def bar(ops: list[Op]) -> Iterator[Callable[[Op], None]]:
    """A bar on the standard error, if that is a terminal; what it gives is called with each op that is done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(ops[0].name, total=len(ops))

        def done(op: Op) -> None:
            following = ops[ops.index(op) + 1 :]
            progress.update(task, advance=1, description=following[0].name if following else op.name)

        yield done


def complain(message: str) -> None:
    """One line on the standard error, whatever the message holds."""
    print(f"derive: {' '.join(message.split())}", file=sys.stderr)
