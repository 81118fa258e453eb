"""Jinja templates: the shape of what is written; they hold no mathematics and know no op."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_HERE = Path(__file__).parents[1]  # the package
TEMPLATES = next((p for p in (_HERE / "templates", _HERE.parent / "templates") if p.is_dir()), _HERE / "templates")
"""The folder of the templates: inside the package where a wheel was installed, beside it in a repository."""


def environment(folder: str = "", autoescape: bool = False) -> Environment:
    """Jinja over the templates, or over one folder of them; a variable that is missing raises `UndefinedError`."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES / folder),
        undefined=StrictUndefined,
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
