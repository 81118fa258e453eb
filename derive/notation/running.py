"""Someone's file of Python, run as a module."""

from __future__ import annotations

import sys
from contextlib import chdir
from pathlib import Path
from types import ModuleType, TracebackType

from derive.errors import DeriveError


class FailedError(Exception):
    """Someone's code has raised `error`."""

    def __init__(self, error: BaseException):
        super().__init__(str(error))
        self.error = error

    @property
    def line(self) -> str:
        """What was raised, in one line."""
        if isinstance(self.error, SystemExit):
            return "it ends Python, as exit() does"
        return f"{type(self.error).__name__}: {' '.join(str(self.error).split())}".removesuffix(": ")


class Someones:
    """Inside, someone's code runs, which may raise anything: `FailedError` holds it. Ctrl-C goes through."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, KeyboardInterrupt | FailedError):
            raise FailedError(error) from error


def text_of(path: Path, fix: str) -> str:
    """What stands in a file. Raises DeriveError where it cannot be read, with that remedy, or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark of the order of bytes
    except UnicodeDecodeError:
        raise DeriveError(f"{path} is not UTF-8 text", fix="save it as UTF-8") from None
    except OSError as error:
        raise DeriveError(f"cannot read {path}: {error.strerror}", fix=fix) from None


def run(path: Path, text: str, name: str) -> ModuleType:
    """The module that the text of a file makes, under that name; it may import its neighbours, as a script may.

    Raises `FailedError` of whatever the file does. What it changes the working folder to is forgotten.
    """
    module = ModuleType(name)
    path = path.absolute()  # Python looks its lines up as it runs, and afterwards
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and the like look their module up
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        with chdir(Path.cwd()), Someones():
            exec(compile(text, str(path), "exec"), module.__dict__)
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    return module
