"""The package that the columns of native kernels call: generated and compiled for one run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from derive.ir.equations import Op

Pair = tuple[Callable[..., Any], Callable[..., Any]]
"""A forward and its backward."""


@dataclass(frozen=True)
class NativeFunctions:
    """What a package has of one op; of a loss, the calls that do it all."""

    pair: Pair
    pair_out: Pair
    with_gradients: Pair | None  # and the same over memory of an earlier call
    sgd: Callable[..., Any] | None


@dataclass(frozen=True)
class NativePackage:
    """A package of `derive generate --backend cpu`, and why it is missing where it is."""

    module: Any = None
    missing: str = ""

    def functions(self, name: str) -> NativeFunctions | None:
        """The functions of an op; None where the package has none."""
        if not hasattr(self.module, f"{name}_forward"):
            return None
        parts = ("forward", "backward", "forward_out", "backward_out", "with_gradients", "with_gradients_out", "sgd")
        f, b, fo, bo, one, one_out, sgd = (getattr(self.module, f"{name}_{part}", None) for part in parts)
        return NativeFunctions((f, b), (fo, bo), None if one is None else (one, one_out), sgd)  # type: ignore[arg-type]


_packages = count()  # a process imports a name once


@contextmanager
def native_package(ops: Iterable[Op], file: Path | None = None) -> Any:
    """Generate the ops with native kernels into a folder of their own, and import it as long as it is needed."""
    with TemporaryDirectory(prefix="benchmarks_") as folder:
        package = f"handgrad_native_kernels_{next(_packages)}"
        source = [] if file is None else ["--from", str(file)]
        command = [sys.executable, "-m", "derive.cli", "generate", "--backend", "cpu", "--workspace", "--step"]
        command += ["--unproven", "--order", "1", "--out", f"{folder}/{package}"]
        done = subprocess.run([*command, *source, *(op.name for op in ops)], capture_output=True, text=True)
        if done.returncode:
            yield NativePackage(missing=(done.stderr.strip().splitlines() or ["no message"])[-1])
            return
        sys.path.insert(0, folder)
        try:
            yield NativePackage(import_module(package))
        finally:
            sys.path.remove(folder)
