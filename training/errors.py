"""What a user can put right, said in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


class InputError(Exception):
    """A step that cannot go on with what it was given: the step, the cause and the remedy."""

    def __init__(self, step: str, cause: str, remedy: str) -> None:
        super().__init__(f"{step}: {cause}; {remedy}")


@contextmanager
def reported() -> Iterator[None]:
    """Turn an `InputError` into one line on stderr and exit status 2."""
    try:
        yield
    except InputError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
