"""Where ops come from: the catalogue in `derive.ops`, or a user's own file of specs."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.notation.located import located
from derive.notation.running import FailedError, run, text_of
from derive.notation.spec import OpCall

_FEW = 20
"""Ops that an error names one by one."""


def catalogue() -> list[Op]:
    """Every op that a module of `derive.ops` defines, modules by name and ops as they stand in them."""
    return _distinct(_ops_where(""))


def _ops_where(text: str) -> list[Op]:
    """The ops of the modules of `derive.ops` in whose files a text stands."""
    found: list[Op] = []
    for folder in (Path(__file__).parent / "ops",):
        for entry in sorted(pkgutil.iter_modules([str(folder)], "derive.ops."), key=lambda m: m.name):
            file = folder / f"{entry.name.rpartition('.')[2]}.py"
            if not text or not file.is_file() or text in file.read_text(encoding="utf-8"):
                found += _ops_of(importlib.import_module(entry.name), None)
    return found


def find(name: str, among: list[Op] | None = None) -> Op:
    """The op of that name, in the catalogue unless told otherwise. Raises DeriveError with near names.

    Of the catalogue only the modules that say `def NAME(` are read: an op takes some hundredths of a second.
    """
    mine = _ops_where(f"def {name}(") if among is None else among
    for op in mine:
        if op.name == name:
            return op
    known = {op.name: op for op in (catalogue() if among is None else among)}
    close = get_close_matches(name, known, 1)
    hint = f"there are {', '.join(sorted(known))}" if len(known) <= _FEW else "derive list names them all"
    if name.endswith(".py"):
        hint = f"ops of a file are taken from it: --from {name}"
    elif close:
        hint = f"did you mean {close[0]}?"
    raise DeriveError(f"there is no op {name}", fix=hint)


def load_file(path: Path | str) -> list[Op]:
    """The ops that a file of specs defines, not those it imports. Runs the file.

    Raises DeriveError, with file and line, for whatever goes wrong in it, and where it defines no op.
    """
    path = Path(path)
    source = text_of(path, fix="give a file of specs")
    try:
        module = run(path, source, f"_specs_in_{path.stem}")
    except FailedError as failed:
        raise located(failed, path, source) from None
    ops = _distinct(_ops_of(module, path.name))
    written = _written(source)
    for op in ops:
        if written.count(op.name) > 1:  # of which Python keeps the last
            raise DeriveError(f"op {op.name} is defined twice in {op.source}", fix="give one of them another name")
    if not ops:
        raise DeriveError(f"{path} defines no op", fix="decorate a function of equations with @op")
    return ops


def load_text(text: str, name: str) -> list[Op]:
    """The ops of a text, as of a file NAME.py. Raises DeriveError as `load_file` does."""
    with TemporaryDirectory() as folder:  # Python shows the lines of files alone
        path = Path(folder) / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        return load_file(path)


def _ops_of(module: ModuleType, source: str | None) -> list[Op]:
    """The ops of a module's namespace that were written in `source`, as they stand there; None: in its own file.

    A namespace has them in another order: an op `relu` is where the word `relu` was imported.
    """
    source = source or f"{module.__name__.replace('.', '/')}.py"
    found = sorted((v for v in vars(module).values() if isinstance(v, OpCall)), key=lambda v: v.line)
    return [v.op for v in found if v.op.source == source]


def _written(source: str) -> list[str]:
    """The names of the decorated functions that a file defines, as often as it does so."""
    return [s.name for s in ast.parse(source).body if isinstance(s, ast.FunctionDef) and s.decorator_list]


def _distinct(ops: Iterable[Op]) -> list[Op]:
    """Each op once, by identity. Raises DeriveError where two share a name: each is to name a module."""
    by_name: dict[str, Op] = {}
    for op in ops:
        other = by_name.setdefault(op.name, op)
        if other is not op:
            where = f"twice in {op.source}"
            if other.source != op.source:
                where = f"in {other.source} and in {op.source}"
            raise DeriveError(f"op {op.name} is defined {where}", fix="give one of them another name")
    return list(by_name.values())
