"""Where the ops of a book were written: their families, and the text of each spec."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from derive.ir.equations import Op

_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Family:
    """The ops of one file of specs: a key, a title, what the file says of itself, the ops in their order."""

    key: str
    title: str
    says: str
    ops: tuple[Op, ...]
    specs: dict[str, str]


def families(ops: Iterable[Op], file: Path | None = None) -> tuple[Family, ...]:
    """The ops by the file that defines them; `file` is the one they were loaded from, if not the catalogue."""
    by_source: dict[str, list[Op]] = {}
    for op in ops:
        by_source.setdefault(op.source, []).append(op)
    out = []
    for source, found in by_source.items():
        text = (file if file is not None else _ROOT / source).read_text(encoding="utf-8")
        stem = Path(source).stem
        title = stem.replace("_", " ").capitalize()
        out.append(Family(stem.replace("_", "-").lower(), title, _says(text), tuple(found), _specs(text)))
    return tuple(out)


def _says(text: str) -> str:
    """The first line of a file's docstring."""
    doc = ast.get_docstring(ast.parse(text)) or ""
    return doc.partition("\n")[0]


def _specs(text: str) -> dict[str, str]:
    """The source of every function of a file, its decorators with it."""
    lines = text.splitlines()
    out = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            out[node.name] = "\n".join(lines[first - 1 : node.end_lineno]) + "\n"
    return out
