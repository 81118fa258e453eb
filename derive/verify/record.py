"""What `derive verify --json` writes: the numbers of a run, in the form that the book reads."""

from __future__ import annotations

import math
import os
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from derive.emit.devices import CPU, device_name
from derive.verify.measured import FORMAT
from derive.verify.verify import Row, Verification
from derive.verify.view import complaint_texts


def record(found: Sequence[Verification], command: str, device: torch.device = CPU) -> dict[str, Any]:
    """A run as plain data, whose form is the docstring of `derive/verify/measured.py`."""
    return {
        "handgrad": FORMAT,
        "command": command,
        "machine": machine(device),
        "verified": {v.op.name: _verdict(v) for v in found},
        "errors": {v.op.name: [e for row in v.rows for e in _errors(row, v.against)] for v in found},
    }


def machine(device: torch.device = CPU) -> str:
    """Where it ran, in words: versions, the kind of processor, how many threads, a GPU; no name of a machine."""
    python = f"Python {platform.python_version()}"
    threads = torch.get_num_threads()
    at_work = f"{threads} thread{'s' if threads > 1 else ''} on {os.cpu_count()} cores"
    where = f"PyTorch {torch.__version__}, {python}, {platform.system()} {platform.machine()}, {at_work}"
    return where if device == CPU else f"{where}, {device_name(device)}"


def command_line(ops: Sequence[str], file: Path | None, everything: bool, native: str | None, **options: object) -> str:
    """The command that repeats a run; of `options`, those that are not their defaults are named."""
    words = ["derive", "verify", *([] if everything else ops), *(["--all"] if everything else [])]
    words += [] if file is None else ["--from", str(file)]
    words += [] if native is None else ["--native", native]
    for name, value in options.items():
        words += [] if value == _DEFAULTS[name] else [f"--{name}", str(value)]
    return shlex.join(words)


_DEFAULTS = {"seed": 0, "save": "cost", "backend": "torch", "device": "cpu", "order": 1}


def _verdict(v: Verification) -> dict[str, Any]:
    wrong = {d.case.situation for d in (*v.wrong, *(d for row in v.rows for d in row.wrong))}
    return {"situations": len(v.situations), "wrong in": len(wrong), "wrong": complaint_texts(v)}


def _errors(row: Row, beside: str) -> list[dict[str, Any]]:
    """Each number that `derive verify --full` prints of a gradient; what is not finite is a complaint."""
    found: list[dict[str, Any]] = [
        {"dtype": "float64", "relative": row.autograd, "against": "autograd, the worst of all situations"},
        {"dtype": "float64", "relative": row.differences.error, "against": "finite differences"},
        {"dtype": "float64", "relative": row.stepwise, "against": "the stepwise form"},
    ]
    large = [(f"float32, exponents of {size}", r) for size, r in row.exponents.items()]
    for dtype, rounding in (("float32", row.float32), ("bfloat16", row.bfloat16), *large):
        new = {"dtype": dtype, "relative": rounding.ours, "against": "float64"}
        if math.isfinite(rounding.theirs):
            new |= {"theirs": rounding.theirs, "they": _BESIDE[beside]}
        found.append(new)
    return [{"of": row.gradient} | error for error in found if math.isfinite(error["relative"])]


_BESIDE = {"equations": "autograd", "native": "the native op"}
