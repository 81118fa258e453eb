"""Where ops come from: the catalogue in `derive.ops`, or a user's own file of specs."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

import derive.ops
from derive.equations import Op
from derive.errors import DeriveError
from derive.recording.spec import OpCall
from derive.running import MISTAKES, run, text_of

_FEW = 20
"""Ops that an error names one by one."""


def catalogue() -> list[Op]:
    """Every op that a module of `derive.ops` defines, modules by name and ops as they stand in them."""
    found: list[Op] = []
    for entry in sorted(pkgutil.iter_modules(derive.ops.__path__, "derive.ops."), key=lambda m: m.name):
        found += _ops_of(importlib.import_module(entry.name), None)
    return _distinct(found)


def find(name: str, among: list[Op] | None = None) -> Op:
    """The op of that name, in the catalogue unless told otherwise. Raises DeriveError with near names."""
    known = {op.name: op for op in (catalogue() if among is None else among)}
    if name in known:
        return known[name]
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
    except (*MISTAKES, SyntaxError) as error:
        raise _located(error, path, source) from None
    ops = _distinct(_ops_of(module, path.name))
    written = _written(source)
    for op in ops:
        if written.count(op.name) > 1:  # of which Python keeps the last
            raise DeriveError(f"op {op.name} is defined twice in {op.source}", fix="give one of them another name")
    if not ops:
        raise DeriveError(f"{path} defines no op", fix="decorate a function of equations with @op")
    return ops


def _ops_of(module: ModuleType, source: str | None) -> list[Op]:
    """The ops of a module's namespace that were written in `source`; None: in the module's own file."""
    source = source or f"{module.__name__.replace('.', '/')}.py"
    found = [value.op for value in vars(module).values() if isinstance(value, OpCall)]
    return [op for op in found if op.source == source]


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


# --- telling where in a file it went wrong ----------------------------------------------------------------


def _located(error: BaseException, path: Path, source: str) -> DeriveError:
    """The error as one of ours: its op and equation, and the line of the file that it comes from."""
    if isinstance(error, SyntaxError):
        return _not_python(error, path, source)
    line = _line(error, path)
    op, equation = _where(source, line)
    if isinstance(error, DeriveError) and error.equation and equation is None:  # told of the whole op
        line = _line_of_equation(source, error.op or op, error.equation) or line
    place = f"{path}:{line}" if line else str(path)
    if isinstance(error, DeriveError):
        cause, fix = error.cause, error.fix
        op, equation = error.op or op, error.equation or equation
    elif isinstance(error, NameError):
        name = error.name or str(error)
        cause, fix = (
            f"{name} is not defined",
            f'declare an axis with {name} = axes("{name}"), or import the function',
        )
    elif re.search("unpack.* Axis object|values to unpack", str(error)):
        cause, fix = "there are not as many names as axes", 'give each axis a name: n, d = axes("n d"), d = axes("d")'
    else:
        cause, fix = f"{type(error).__name__}: {' '.join(str(error).split())}", "correct the spec"
    return DeriveError(f"{cause} ({place})", op=op, equation=equation, fix=fix)


def _not_python(error: SyntaxError, path: Path, source: str) -> DeriveError:
    """What Python cannot read, in the op that begins above it."""
    at = f"{path}:{error.lineno}" if error.lineno else str(path)
    above = source.splitlines()[: error.lineno or 0]
    outside = next((line for line in reversed(above) if re.match(r"[^\s)]", line)), "")  # begins what stands below it
    op = found[1] if (found := re.match(r"def (\w+)\(", outside)) else None
    empty = re.search(r"(f\.\w+|\b\w+)\[\s*\]", above[-1]) if above else None
    fix = f"an element of a tensor without axes is {empty[1]}[()]" if empty else "a spec is ordinary Python"
    return DeriveError(f"{error.msg} ({at})", op=op, fix=fix)


def _line(error: BaseException, path: Path) -> int | None:
    """The innermost line of the file on the way to the error, or to the error that it was made of."""
    found = None
    cause: BaseException | None = error
    while cause is not None:
        lines = [line for frame, line in walk_tb(cause.__traceback__) if frame.f_code.co_filename == str(path)]
        found = lines[-1] if lines else found
        cause = cause.__context__
    return found


def _line_of_equation(source: str, op: str | None, equation: str) -> int | None:
    """The line of an op's function that assigns `f.equation[…]`."""
    functions = (n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == op)
    lines = (n.lineno for f in functions for n in ast.walk(f) if isinstance(n, ast.Assign))
    return next((line for line in lines if _where(source, line)[1] == equation), None)


def _where(source: str, line: int | None) -> tuple[str | None, str | None]:
    """The op and the equation a line belongs to: the function around it, the `f.name[…]` it assigns."""
    op = equation = None
    for node in ast.walk(ast.parse(source)):
        if line is None or not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or 0):
            continue
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            op = node.name
        if isinstance(node, ast.Assign) and op is not None:
            target = node.targets[0]
            target = target.value if isinstance(target, ast.Subscript) else target
            equation = target.attr if isinstance(target, ast.Attribute) else None
    return op, equation
