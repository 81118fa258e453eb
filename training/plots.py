"""Figures at the end of a run, where matplotlib is installed."""

import importlib.util
from collections.abc import Callable
from types import ModuleType

import typer


def save_figures(draw: Callable[[ModuleType], None], quiet: bool = False) -> None:
    """Call `draw` with the module of figures; say so in one line where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        if not quiet:
            typer.echo("figures: matplotlib is not installed, so none were drawn; pip install matplotlib", err=True)
        return
    # Imported here: matplotlib takes a second, and a run without figures should not need it.
    from training import figures

    draw(figures)
