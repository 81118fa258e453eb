"""The command `derive`: its subcommands in order, and how it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated

import typer

from derive.cli.ask import judge_candidate, verify_ops
from derive.cli.options import check_options
from derive.cli.show import explain, list_ops, print_table
from derive.cli.terminal import complain
from derive.cli.write import book, generate, new_spec
from derive.errors import DeriveError

app = typer.Typer(
    help="Derive backward passes as one would by hand, and write them as PyTorch.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"derive {version('handgrad')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Derive backward passes as one would by hand, and write them as PyTorch."""


app.command("generate")(generate)
app.command("explain")(explain)
app.command("book")(book)
app.command("list")(list_ops)
app.command("new")(new_spec)
app.command("table")(print_table)
app.command("verify")(verify_ops)
app.command("judge")(judge_candidate)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """What a user can cause ends in one line and exit status 2; the rest is ours, and keeps its traceback."""
    try:
        yield
    except BrokenPipeError:  # the reader has seen enough; keep the interpreter from complaining once more as it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except DeriveError as error:
        complain(str(error))
        sys.exit(2)
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
        sys.exit(2)


def main() -> None:
    """The entry point."""
    with _one_line_errors():
        check_options(app, sys.argv[1:])
        app()
