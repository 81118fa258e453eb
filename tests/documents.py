"""What the README and docs/verify.md show as output is output. `python -m tests.documents` puts it there anew.

A `text` block whose first line is `$ derive …` is what those commands print; where a line of it is `…`, something is
left out there. A block under `<!-- from FILE: NAME -->` is that function of that file, its decorators with it; FILE may
be in the repository, or be generated from the block under `<!-- file my_ops.py -->`.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from derive.cli import main

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "docs/verify.md")
_BLOCK = re.compile(r"(?:<!-- (?P<mark>[^>\n]*) -->\n+)?```(?P<kind>\w+)\n(?P<body>.*?)```", re.DOTALL)
_MEASURED = re.compile(r"exact: (True |False)| +(\d(\.\d+)?e[-+]\d+|0)\b")
"""What may differ between processors: rounding errors, and whether the last bit is autograd's."""


def renewed(text: str) -> str:
    """The text with what its blocks show as it is today. Raises ValueError where an excerpt is not printed."""
    with _place(text) as folder:
        return _BLOCK.sub(lambda found: _renewed(found, folder), text)


@contextmanager
def _place(text: str) -> Iterator[Path]:
    """A folder in which the commands run: what the repository has, and the files that the text shows."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for path in ("museum", "generated", "derive"):
            (folder / path).symlink_to(ROOT / path, target_is_directory=True)
        for found in _BLOCK.finditer(text):
            if (found["mark"] or "").startswith("file "):
                file = folder / found["mark"].removeprefix("file ")
                file.write_text(found["body"], encoding="utf-8")
                printed(f"derive generate --from {file.name} --out {file.stem}_pkg", folder)
        yield folder


def _renewed(found: re.Match[str], folder: Path) -> str:
    mark, body = found["mark"] or "", found["body"]
    if mark.startswith("from "):
        path, _, name = mark.removeprefix("from ").partition(": ")
        return _with(found, source(folder / path, name))
    if found["kind"] == "text" and body.startswith("$ derive "):
        return _with(found, console(body, lambda command: printed(command, folder)))
    return found[0]


def _with(found: re.Match[str], body: str) -> str:
    """The block with another body; one that differs in what is measured alone stays."""
    if _MEASURED.sub(" #", body) == _MEASURED.sub(" #", found["body"]):
        return found[0]
    head = found[0][: found.start("body") - found.start()]
    return f"{head}{body}```"


def source(file: Path, name: str) -> str:
    """A function as its file has it."""
    text = file.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno]) + "\n"
    raise ValueError(f"{file.name} has no function {name}")


def console(body: str, run: Callable[[str], str]) -> str:
    """A block of commands, each with what it prints now; an excerpt stays as it is if it is printed, in order."""
    out = []
    for part in re.split(r"^(?=\$ )", body, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        text = run(command.removeprefix("$ "))
        if re.search(r"^…$", shown, re.MULTILINE):
            at = 0
            for piece in re.split(r"^…\n", shown, flags=re.MULTILINE):
                at = text.find(piece.strip("\n"), at)
                if at < 0:
                    raise ValueError(f"{command}: does not print\n{piece}")
            text = shown
        out.append(f"{command}\n{text}")
    return "".join(out)


def printed(command: str, folder: Path) -> str:
    """What a command `derive …` prints, on both of its streams."""
    out = StringIO()
    argv = shlex.split(command)
    environment = mock.patch.dict(os.environ, {"COLUMNS": "120"})
    with chdir(folder), environment, mock.patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(out):
        try:
            main()
        except SystemExit as ended:
            if ended.code not in (0, 1, 2, None):
                raise
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


if __name__ == "__main__":
    for name in DOCUMENTS:
        file = ROOT / name
        old = file.read_text(encoding="utf-8")
        new = renewed(old)
        file.write_text(new, encoding="utf-8", newline="\n")
        print(f"{name}: {'up to date' if new == old else 'written'}")
