"""Trials in processes of their own, whose outcomes stand in a file: what ends a process ends one trial.

A run that is cut off goes on where it was. Under the sanitizers of GCC, which end a process where memory is read or
written that is nobody's, and where C says nothing of what a computation gives.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

SANITIZED = "-O0 -g1 -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all"
"""What is added to the flags of kernels. `-O0`: nothing is left out, and optimised kernels take twice as long."""


# --- under sanitizers -------------------------------------------------------------------------------------


def sanitized(cache: Path) -> dict[str, str]:
    """The environment of a Python whose kernels are compiled with the sanitizers of GCC, and kept in `cache`.

    Their libraries come first, so that they see all memory that Python and PyTorch take. Leaks are not asked for:
    Python keeps what it has until it ends.
    """
    found = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return {
        **os.environ,
        "CC": "gcc",
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=0:halt_on_error=1",
        "HANDGRAD_CFLAGS": SANITIZED,
        "HANDGRAD_CACHE": str(cache),
    }


def is_sanitized() -> bool:
    """Whether this process, or the one that it began as, has the sanitizers' libraries."""
    return os.environ.get("HANDGRAD_CFLAGS") == SANITIZED


def again_under_sanitizers(module: str) -> NoReturn:
    """Begin this command anew under them: they cannot be loaded later. Libraries are kept in runs/sanitized."""
    command = [sys.executable, "-m", module, *sys.argv[1:]]
    os.execve(sys.executable, command, sanitized(Path("runs/sanitized").absolute()))


# --- apart ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """A process that ended before its trial did, and what it said last."""

    how: str
    said: str

    @property
    def cause(self) -> str:
        """What a sanitizer found, in a line; else how the process ended."""
        for pattern in (r"runtime error: .*", r"SUMMARY: AddressSanitizer: .*", r"AddressSanitizer: .*"):
            found = re.search(pattern, self.said)
            if found:
                return re.sub(r"0x[0-9a-f]+|/\S*/", "", found[0])
        return self.how


def apart(trial: Callable[[], T], seconds: int) -> T | Ended:
    """What a trial gives, run in a copy of this process, or how that ended: by a signal, or after so many seconds.

    No other thread may run here: the copy has none.
    """
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as said:
        process = os.fork()
        if process == 0:
            os.close(reading)
            os.dup2(said.fileno(), 2)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            status = 1
            try:
                os.environ.pop("LD_PRELOAD", None)  # of this process, not of the compiler's
                with os.fdopen(writing, "wb") as out:
                    pickle.dump(trial(), out)
                status = 0
            finally:
                sys.excepthook(*sys.exc_info()) if status else None  # type: ignore[arg-type]
                sys.stderr.flush()
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading, "rb") as found:
            answer = found.read()
        _, status = os.waitpid(process, 0)
        if status == 0:
            return pickle.loads(answer)  # type: ignore[no-any-return]
        said.seek(0)
        text = said.read().decode(errors="replace")
        text = text if len(text) < 6000 else f"{text[:3000]} ... {text[-3000:]}"
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return Ended(f"not done in {seconds} s" if name == "SIGALRM" else f"ended by {name}", text)
    return Ended(f"ended with status {os.WEXITSTATUS(status)}", text)


# --- kept -------------------------------------------------------------------------------------------------


def kept(file: Path | None) -> list[dict[str, Any]]:
    """The outcomes that stand in a file, a line each; the last may be cut off."""
    if file is None or not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1] == "\n"]


def keep(file: Path | None, outcome: Mapping[str, Any]) -> None:
    """One more of them, behind whatever is cut off."""
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as out:
        out.write(json.dumps(outcome) + "\n")
