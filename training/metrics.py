"""Numbers of a run, a row a step: a CSV file, and TensorBoard where it is installed."""

import contextlib
import csv
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.errors import InputError
from training.files import unwritable, write_atomically

Row = Sequence[float]


class Metrics:
    """An open CSV file whose first column is the step."""

    def __init__(self, file: Path, columns: Sequence[str], start: int) -> None:
        """Go on after the rows of steps before `start`; rows from there on are dropped, for they come again."""
        self.file = file
        heading = ",".join(columns) + "\n"
        try:
            write_atomically(file, (heading + rows_before(file, start)).encode())
            self.stream = file.open("a", encoding="utf-8", newline="")
        except OSError as error:
            raise unwritable("writing metrics", file, error, "nothing was trained yet") from None

    def write(self, rows: Sequence[Row]) -> None:
        """Add rows and hand them to the operating system; `InputError` where it does not take them."""
        try:
            csv.writer(self.stream, lineterminator="\n").writerows(rows)
            self.stream.flush()
        except OSError as error:
            raise unwritable("writing metrics", self.file, error, "checkpoints are as they were") from None

    def sync(self) -> None:
        """Wait until every row is on the disk; a checkpoint written next is then never ahead of them."""
        try:
            os.fsync(self.stream.fileno())
        except OSError as error:
            raise unwritable("writing metrics", self.file, error, "checkpoints are as they were") from None

    def close(self) -> None:
        """Close the file; what could not be written was reported when it was tried."""
        # A failed flush leaves its rows in the stream, and closing tries them a second time.
        with contextlib.suppress(OSError):
            self.stream.close()


def rows_before(file: Path, start: int) -> str:
    """The rows of steps before `start`, as they stand in the file."""
    if start == 0 or not file.exists():
        return ""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)[1:]
    whole = [(line, line.split(",")) for line in lines if line.endswith("\n")]
    return "".join(line for number, (line, cells) in enumerate(whole, 2) if numbers(cells, number, file)[0] < start)


def read_rows(file: Path) -> list[tuple[float, ...]]:
    """The rows below the heading; a last line that was cut short is left out, a missing file has none."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as stream:
        heading, *lines = [*csv.reader(stream)] or [[]]
    rows = (numbers(line, number, file) for number, line in enumerate(lines, start=2))
    return [row for row in rows if len(row) == len(heading)]


def numbers(cells: Sequence[str], number: int, file: Path) -> tuple[float, ...]:
    """The cells of a line as numbers; `InputError` where one is none."""
    try:
        return tuple(map(float, cells))
    except ValueError:
        cause = f"line {number} of {file} is {','.join(cells).strip()!r}, expected numbers"
        raise InputError("reading metrics", cause, "remove the line or start anew in another --out") from None


def summary_writer(folder: Path, start: int) -> Any:
    """TensorBoard's writer, or None where TensorBoard is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        return None
    # Imported here because it takes a second, and because it may not be there.
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=start or None)
