"""Someone's backward, found by `FILE.py:function`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from derive.equations import Op
from derive.errors import DeriveError
from derive.running import FailedError, Someones, run, text_of
from derive.verify.compare import Subject
from derive.verify.subjects import of_backward, of_function_class


def load(where: str, op: Op) -> Subject:
    """The candidate that `FILE.py:function` names: a backward, or a `torch.autograd.Function`.

    Runs the file. Raises DeriveError for whatever goes wrong on the way.
    """
    file, _, name = where.rpartition(":")
    if not file or not name:
        raise DeriveError(f"{where} names no function in a file", fix="write it as FILE.py:function")
    module = _module(Path(file))
    found = getattr(module, name, None)
    if found is None:
        known = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__]
        close = get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(known) or 'no functions'}"
        raise DeriveError(f"{file} has no {name}", fix=hint)
    if inspect.isclass(found) and issubclass(found, torch.autograd.Function):
        return of_function_class(found, op)
    if inspect.isclass(found) or not callable(found):
        kind = "class" if inspect.isclass(found) else type(found).__name__
        raise DeriveError(f"{where} is a {kind}", fix="give a function, or a torch.autograd.Function")
    return of_backward(found, op)


def function(where: str) -> Callable[..., Any]:
    """The function that a dotted name, as `torch.nn.functional.silu`, or `FILE.py:function` stands for.

    Raises DeriveError where there is none.
    """
    if ":" in where:
        file, _, name = where.rpartition(":")
        found = getattr(_module(Path(file)), name, None)
    else:
        module, _, name = where.rpartition(".")
        try:
            with Someones():
                found = getattr(importlib.import_module(module), name, None) if module else None
        except FailedError as failed:
            raise DeriveError(f"cannot import {module}: {failed}", fix="name what is installed") from None
    if not callable(found):
        raise DeriveError(f"there is no function {where}", fix="write it as torch.nn.functional.NAME or FILE.py:NAME")
    return found


def _module(path: Path) -> ModuleType:
    text = text_of(path, fix="write it as FILE.py:function")
    try:
        return run(path, text, f"_candidates_in_{path.stem}")
    except FailedError as failed:
        error = failed.error
        if isinstance(error, SyntaxError):
            raise DeriveError(f"{path}, line {error.lineno}: {error.msg}", fix="correct the file") from None
        raise DeriveError(f"{path} cannot be run: {failed.line}", fix="correct the file") from None
