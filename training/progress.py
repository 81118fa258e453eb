"""The bar that a long run shows on stderr."""

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Bar:
    """A bar with the mean loss of the last steps and the steps a second; it moves when told."""

    def __init__(self, label: str, total: int, start: int = 0, quiet: bool = False) -> None:
        columns = (
            TextColumn(label),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("{task.fields[speed]} steps/s"),
            TimeRemainingColumn(),
        )
        # No refresh thread: it would compete with the loop for the interpreter.
        self.progress = Progress(*columns, console=Console(stderr=True), auto_refresh=False, disable=quiet)
        self.task = self.progress.add_task("", total=total, completed=start, loss="-", speed="-")
        self.start = self.done = start
        self.started = time.perf_counter()

    def __enter__(self) -> "Bar":
        self.progress.__enter__()
        self.started = time.perf_counter()
        return self

    def __exit__(self, *error: Any) -> None:
        self.seconds = time.perf_counter() - self.started
        self.progress.__exit__(*error)

    def advance(self, steps: int, loss: float) -> None:
        """So many more steps, of that mean loss."""
        self.done += steps
        speed = (self.done - self.start) / (time.perf_counter() - self.started)
        shown = f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}"
        self.progress.update(self.task, completed=self.done, loss=f"{loss:.4f}", speed=shown, refresh=True)

    def summary(self) -> str:
        """What was done, once it is."""
        steps = self.done - self.start
        return f"training: {steps:,} steps in {self.seconds:.1f} s, {steps / self.seconds:,.0f} steps/s"
