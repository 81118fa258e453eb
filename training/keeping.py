"""What a run leaves behind in its folder, and how it goes on from there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from training import checkpoint
from training.errors import InputError
from training.metrics import Metrics, Row, summary_writer

CHECKPOINT = "checkpoint.pt"
PREVIOUS = "checkpoint.previous.pt"
METRICS = "metrics.csv"


@dataclass(frozen=True)
class Keep:
    """Where a run keeps what it makes (None: nowhere), how often, and whether it goes on from there."""

    out: Path | None = None
    every: int = 5000
    resume: bool = False
    tensorboard: bool = False
    figures: bool = False
    writes: bool = True  # not so where another process of the same run does


class Keeper:
    """The folder of a run: its checkpoint, its metrics. Does nothing where `keep.out` is None.

    `identity` is what the run depends on: a checkpoint made under another one is refused.
    """

    def __init__(self, keep: Keep, identity: Mapping[str, Any], columns: Sequence[str], steps: int) -> None:
        self.keep, self.identity, self.steps = keep, dict(identity), steps
        self.state: dict[str, Any] | None = None
        self.metrics: Metrics | None = None
        self.board: Any = None
        self.saved_at: int | None = None
        if keep.out is None:
            return
        self.state = self._found(keep.out / CHECKPOINT)
        self.saved_at = self.state["step"] if self.state else None
        if not keep.writes:
            return
        if self.state is None and (keep.out / CHECKPOINT).exists():
            # A finished run's: kept, and out of the way of a --resume of the one that starts now.
            (keep.out / CHECKPOINT).replace(keep.out / PREVIOUS)
        self.metrics = Metrics(keep.out / METRICS, columns, self.start)
        self.columns = tuple(columns)
        if keep.tensorboard:
            self.board = summary_writer(keep.out / "tensorboard", self.start)

    @property
    def start(self) -> int:
        """The first step to take."""
        return self.state["step"] if self.state else 0

    def _found(self, file: Path) -> dict[str, Any] | None:
        """The state to go on from; `InputError` where there is none, or another run's, or one would be lost."""
        if not self.keep.resume and not file.exists():
            return None
        state = checkpoint.load(file)
        if not self.keep.resume:
            if state["step"] < state["steps"]:
                cause = f"{file} is an unfinished run, at step {state['step']:,} of {state['steps']:,}"
                raise InputError("starting", cause, "continue it with --resume, or choose another --out")
            return None
        for name, value in self.identity.items():
            if state["identity"].get(name) != value:
                was = state["identity"].get(name)
                cause = f"{name} is {value} here, but {was} in {file}"
                raise InputError("resuming", cause, f"give {name} as it was, or choose another --out")
        return state

    def log(self, rows: Sequence[Row]) -> None:
        """Rows of metrics; TensorBoard gets their mean, at the last step of them."""
        if self.metrics is None or not rows:
            return
        self.metrics.write(rows)
        if self.board is not None:
            step = int(rows[-1][0])
            for name, values in list(zip(self.columns, zip(*rows, strict=True), strict=True))[1:]:
                self.board.add_scalar(name, sum(values) / len(values), step)

    def due(self, step: int) -> bool:
        """Whether a checkpoint is to be written after `step` steps."""
        return self.keep.out is not None and step - (self.saved_at or 0) >= self.keep.every

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Write the checkpoint of `step` steps in place of the one before."""
        if self.keep.out is None or self.metrics is None or self.saved_at == step:
            return
        self.metrics.sync()
        whole = {"step": step, "steps": self.steps, "identity": self.identity, **state}
        checkpoint.save(self.keep.out / CHECKPOINT, whole)
        self.saved_at = step

    def last_good(self) -> str:
        """What is left where a run had to stop."""
        if self.keep.out is None or self.saved_at is None:
            return "no checkpoint was kept"
        return f"{self.keep.out / CHECKPOINT} holds the run as it was after {self.saved_at:,} steps"

    def __enter__(self) -> "Keeper":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.metrics is not None:
            self.metrics.close()
        if self.board is not None:
            self.board.close()
