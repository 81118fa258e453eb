"""A spec to start from: a small op, complete, with a comment for every word of the notation that it uses."""

from __future__ import annotations

import keyword
import sys
from pathlib import Path

import black

from derive import notation
from derive.emit import LINE_LENGTH
from derive.emit.names import OURS
from derive.emit.templating import environment
from derive.errors import DeriveError

_TAKEN = {"d", "eps", "f", "handgrad", "rrms", "torch", "w", "x", "y", "derive"}
"""Names that the starter itself gives, and packages that a file of that name would hide."""


def starter(name: str, path: Path | None = None) -> str:
    """The text of a starter spec for an op of that name, to stand in the file `path` (default: NAME.py).

    Raises DeriveError for a name that no op of a user can have.
    """
    _check(name)
    text = environment().get_template("starter.py.j2").render(name=name, file=(path or Path(f"{name}.py")).as_posix())
    return black.format_str(text, mode=black.Mode(line_length=LINE_LENGTH))


def write_starter(name: str, path: Path | None = None) -> Path:
    """Write a starter spec to `path` (default: NAME.py, here), which must not exist; return where it stands.

    Raises DeriveError for an invalid name, and where there is something already.
    """
    path = path or Path(f"{name}.py")
    text = starter(name, path)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise DeriveError(f"{path} exists already", fix="give another file with --out") from None
    except OSError as error:
        raise DeriveError(f"cannot write {path}: {error.strerror}", fix="give another file with --out") from None
    return path


def _check(name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise DeriveError(f"{name!r} cannot name an op", fix="use a Python identifier, such as my_op")
    if name in {*notation.__all__, *OURS, *_TAKEN, *sys.stdlib_module_names}:
        raise DeriveError(f"{name} has a meaning already", fix=f"choose another name, such as my_{name}")
