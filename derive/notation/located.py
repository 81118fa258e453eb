"""Where in a file of specs it went wrong: the error as one of ours, with its op, its equation and its line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb

from derive.errors import DeriveError, ReturnedError
from derive.notation.running import FailedError


def located(failed: FailedError, path: Path, source: str) -> DeriveError:
    """The error as one of ours: its op and equation, and the line of the file that it comes from."""
    error = failed.error
    if isinstance(error, SyntaxError):
        return _not_python(error, path, source)
    lines = _lines(error, path)
    line = lines[-1] if lines else None
    op, equation = next((found for found in (_where(source, n) for n in lines) if found[0]), (None, None))
    if isinstance(error, DeriveError) and error.equation and equation is None:  # told of the whole op
        line = _line_of_equation(source, error.op or op, error.equation) or line
    elif isinstance(error, ReturnedError):
        line = _line_of_return(source, error.op) or line
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
    elif isinstance(error, TypeError) and (spec := _signature_at(source, line)) is not None:
        op, (cause, fix) = spec.name, _no_kind(str(error), ast.unparse(spec.args))
    elif re.search("unpack.* Axis object|values to unpack", str(error)):
        cause, fix = "there are not as many names as axes", 'give each axis a name: n, d = axes("n d"), d = axes("d")'
    else:
        cause, fix = failed.line, "correct the spec"
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


def _lines(error: BaseException, path: Path) -> list[int]:
    """The lines of the file on the way to the error, or to the error that it was made of, from the outermost inwards.

    An op's function may have a helper.
    """
    found: list[int] = []
    cause: BaseException | None = error
    while cause is not None:
        steps = walk_tb(cause.__traceback__)
        found = [n for frame, n in steps if frame.f_code.co_filename == str(path.absolute())] or found
        cause = cause.__context__
    return found


def _line_of_equation(source: str, op: str | None, equation: str) -> int | None:
    """The line of an op's function that assigns `f.equation[…]`."""
    functions = (n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == op)
    lines = (n.lineno for f in functions for n in ast.walk(f) if isinstance(n, ast.Assign))
    return next((line for line in lines if _where(source, line)[1] == equation), None)


def _line_of_return(source: str, op: str | None) -> int | None:
    """The line of the last return of an op's function."""
    functions = (n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == op)
    lines = [n.lineno for f in functions for n in _own(f) if isinstance(n, ast.Return)]
    return max(lines, default=None)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function, but not in one inside it."""
    for below in ast.iter_child_nodes(node):
        yield below
        if not isinstance(below, ast.FunctionDef | ast.Lambda):
            yield from _own(below)


def _signature_at(source: str, line: int | None) -> ast.FunctionDef | None:
    """The op's function in whose signature or decorator a line is."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or not node.decorator_list or line is None:
            continue
        if node.decorator_list[0].lineno <= line < max(node.body[0].lineno, node.lineno + 1):
            return node
    return None


_KINDS = ("tensor", "constant", "index", "length", "scalar")


def _no_kind(error: str, signature: str) -> tuple[str, str]:
    """What to say where an input's annotation cannot be: another language's, or hidden by a later import."""
    plain = re.search(r"(\w+): (bool|int|float)\[([^\]]*)\]", signature)
    if plain is not None:
        name, kind, axes = plain.groups()
        instead = {
            "bool": f"declare {name}: constant[{axes}], and compare: ne({name}[{axes}], 0)",
            "int": f"declare {name}: index(c)[{axes}], of values that run over an axis c, or constant[{axes}]",
            "float": f"declare {name}: tensor[{axes}], or constant[{axes}] where it has no gradient",
        }
        return f"{kind}[…] is no kind of input", instead[kind]
    hidden = re.search(rf": ({'|'.join(_KINDS)})\b", signature)
    if hidden is not None and re.search("not subscriptable|not callable", error):
        fix = f"a later import has hidden it: put `from derive import {hidden[1]}` below the others"
        return f"{hidden[1]} is no kind of input here ({error})", fix
    return f"TypeError: {error}", "correct the spec"


def _where(source: str, line: int | None) -> tuple[str | None, str | None]:
    """The op and the equation a line belongs to: the function around it, the `f.name[…]` it assigns."""
    op = equation = None
    if line is None:
        return None, None
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or 0):
            continue
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            op = node.name
        if isinstance(node, ast.Assign) and op is not None:
            target = node.targets[0]
            target = target.value if isinstance(target, ast.Subscript) else target
            equation = target.attr if isinstance(target, ast.Attribute) else None
    return op, equation
