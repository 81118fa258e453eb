"""Names that are free: what names something takes one."""

from __future__ import annotations

from collections.abc import Container


def free_name(stem: str, taken: Container[str], before_number: str = "") -> str:
    """The name, numbered from 2 on where it is taken."""
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}{before_number}{number}", number + 1
    return name


def new_name(stem: str, taken: set[str], before_number: str = "") -> str:
    """As `free_name`, and taken from now on."""
    taken.add(name := free_name(stem, taken, before_number))
    return name
