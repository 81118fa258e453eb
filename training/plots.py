"""Figures at the end of a run, where matplotlib is installed."""

import importlib.util
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import typer
from rich.console import Console

from training.files import unwritable


def save_figures(draw: Callable[[ModuleType], None], quiet: bool = False) -> None:
    """Call `draw` with the module of figures, where matplotlib is installed."""
    if not drawable(quiet):
        return
    # Imported here: matplotlib takes a second, and a run without figures should not need it.
    from training import figures

    with nullcontext() if quiet else Console(stderr=True).status("drawing"):
        try:
            draw(figures)
        except OSError as error:
            kept = "the checkpoint and the metrics are whole"
            raise unwritable("drawing figures", Path(error.filename or "a figure"), error, kept) from None


def drawable(quiet: bool = False) -> bool:
    """Whether matplotlib is installed; one line says so where it is not."""
    found = importlib.util.find_spec("matplotlib") is not None
    if not found and not quiet:
        typer.echo("figures: matplotlib is not installed, so none were drawn; pip install matplotlib", err=True)
    return found
