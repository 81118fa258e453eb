"""Someone's file of Python, run as a module."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from derive.errors import DeriveError

MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,  # a DeriveError is one
)
"""What running someone's code can raise by its author's mistake. Anything else is ours, and keeps its traceback."""


def text_of(path: Path, fix: str) -> str:
    """What stands in a file. Raises DeriveError where it cannot be read, with that remedy, or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DeriveError(f"{path} is not UTF-8 text", fix="save it as UTF-8") from None
    except OSError as error:
        raise DeriveError(f"cannot read {path}: {error.strerror}", fix=fix) from None


def run(path: Path, text: str, name: str) -> ModuleType:
    """The module that the text of a file makes, under that name; it may import its neighbours, as a script may.

    Raises whatever the file does.
    """
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and the like look their module up
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        exec(compile(text, str(path), "exec"), module.__dict__)
    finally:
        sys.path.remove(folder)
    return module
