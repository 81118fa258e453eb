"""Kernels, proved in a process of their own: one that writes where it must not ends that process, and is named.

`python -m derive.verify.apart FOLDER` reads names of ops, a line each. For each it starts a child, which holds the
module of that name in FOLDER against the cases that lie beside it, and leaves what it found there.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from derive.emit import ORDERS, render_orders, render_shared
from derive.ir.equations import Op
from derive.verify.compare import Disagreement
from derive.verify.emitted import every_case_of, first_wrong_of, refusal
from derive.verify.kernels import watched

_PACKAGE = "package"


class Apart:
    """The process, and the package that lies before it."""

    def __enter__(self) -> Apart:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(TemporaryDirectory(prefix="handgrad_proof_")))
            package = self.folder / _PACKAGE
            (package / ORDERS).mkdir(parents=True)
            for name, text in {"__init__.py": "", **render_shared("cpu"), **render_orders()}.items():
                (package / name).write_text(text, encoding="utf-8")
            self.said = stack.enter_context((self.folder / "said").open("w+b"))
            path = os.pathsep.join(p or os.getcwd() for p in sys.path)
            self.process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", __name__, str(self.folder)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True,
                    env=os.environ | {"PYTHONPATH": path},
                )
            )  # fmt: skip
            stack.callback(self.process.kill)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def prove(self, op: Op, files: Mapping[str, str]) -> str:
        """Why nothing can be said of an op's kernels, "" where they are right and so are PyTorch's lines beside them.

        Raises DeriveError where one is wrong, or ends the process.
        """
        cases, unproven = every_case_of(op, any("/" in name for name in files))
        if not cases:
            return unproven
        for name, text in files.items():
            (self.folder / _PACKAGE / name).write_text(text, encoding="utf-8")
        (self.folder / "cases").write_bytes(pickle.dumps((op, cases)))
        wrong, why = self._answer(op)
        if wrong:
            raise refusal(op, wrong)
        return why or unproven

    def _answer(self, op: Op) -> tuple[str, str]:
        assert self.process.stdin is not None and self.process.stdout is not None, "both are pipes"
        print(op.name, file=self.process.stdin, flush=True)
        reply = self.process.stdout.readline()
        status = int(reply) if reply else self.process.wait()
        if status == 0:
            wrong, why = pickle.loads((self.folder / "found").read_bytes())
            return wrong, why.replace(f"{self.folder / _PACKAGE}{os.sep}", "")
        last = (self.folder / "said").read_text(encoding="utf-8", errors="replace").split("\n")
        said = next((line.strip() for line in reversed(last) if line.strip()), "")
        at = self.folder / "at"
        where = at.read_text(encoding="utf-8") if at.exists() else "as it is loaded"
        ended = signal.Signals(-status).name if status < 0 else f"status {status}"
        return f"the process ends ({ended}{f', {said}' if said else ''}) in {where}", ""


# --- in that process --------------------------------------------------------------------------------------


def main(folder: Path) -> None:
    """Prove one op after another, each in a child."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever kernels print is no reply
    sys.path.insert(0, str(folder))
    for line in sys.stdin:
        child = os.fork() if hasattr(os, "fork") else 0
        if child == 0:
            found = _found(folder, line.strip())
            (folder / "found").write_bytes(pickle.dumps(found))
            if hasattr(os, "fork"):
                os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 0
        print(status, file=replies, flush=True)


def _found(folder: Path, name: str) -> tuple[str, str]:
    """What is wrong of the op of that name, and why nothing can be said of its kernels."""
    op, cases = pickle.loads((folder / "cases").read_bytes())
    module = importlib.import_module(f"{_PACKAGE}.{name}")
    runtime: Any = importlib.import_module(f"{_PACKAGE}._native")
    further = (folder / _PACKAGE / ORDERS / f"{name}.py").exists()
    orders = vars(importlib.import_module(f"{_PACKAGE}.{ORDERS}.{name}")) if further else None

    def begins(where: str) -> None:
        (folder / "at").write_text(where, encoding="utf-8")

    call = runtime.Kernel.__call__
    runtime.Kernel.__call__ = lambda *_, **__: None
    wrong = first_wrong_of(op, cases, vars(module), orders, begins)
    runtime.Kernel.__call__ = call
    if wrong is not None:
        return _told(wrong, "in PyTorch"), ""
    if not (folder / _PACKAGE / f"{name}.c").exists():
        return "", ""
    why = _why_not_compiled(f"{name}.c")
    if why:
        return "", why
    first, rest = {op.name: cases.pop(op.name)}, cases
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* runs as PyTorch: ")  # the watch tells it
        with watched(runtime) as watch:
            wrong = first_wrong_of(op, first, vars(module), orders, begins)
        wrong = wrong or first_wrong_of(op, rest, vars(module), orders, begins)  # in which PyTorch may run by right
    gave_way = ", ".join(dict.fromkeys(map(str, watch.gave_way)))
    return _told(wrong, "in C") if wrong else "", f"PyTorch ran in place of {gave_way}" if gave_way else ""


def _told(wrong: Disagreement, where: str) -> str:
    return f"{wrong.message} {where} ({wrong.case})"


def _why_not_compiled(file: str) -> str:
    library: Any = importlib.import_module(f"{_PACKAGE}._library")
    try:
        library.library(file, torch.float64)
    except library.Unavailable as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
