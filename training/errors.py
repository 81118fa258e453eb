"""What a user can put right, said in one line."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer


class InputError(Exception):
    """A step that cannot go on with what it was given: the step, the cause and the remedy."""

    def __init__(self, step: str, cause: str, remedy: str) -> None:
        super().__init__(f"{step}: {cause}; {remedy}")
        self.step, self.cause, self.remedy = step, cause, remedy


class NotFinite(InputError):
    """A loss that is infinite or not a number, or a gradient; `losses` are those of the steps before it."""

    def __init__(self, cause: str, losses: list[float]) -> None:
        super().__init__("training", cause, "lower --lr")
        self.losses = losses

    def with_kept(self, kept: str) -> InputError:
        """The same, and what is left of the run."""
        return InputError(self.step, self.cause, f"{self.remedy}; {kept}")


@contextmanager
def reported() -> Iterator[None]:
    """Turn an `InputError` into one line on stderr and exit status 2; of several processes only the first speaks."""
    try:
        yield
    except InputError as error:
        if os.environ.get("RANK", "0") == "0":
            typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
