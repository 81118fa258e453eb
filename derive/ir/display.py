"""How a notebook shows a value: what knows how to typeset it registers that here, and data need not know of it."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def display(value: object) -> str:
    """The value as a LaTeX display. Raises TypeError for what nobody typesets."""
    raise TypeError(f"{type(value).__name__} has no display")
