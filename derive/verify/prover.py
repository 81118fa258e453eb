"""Proves the files of one op after another, before they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from derive.emit import ORDERS
from derive.emit.memory import modules_in_memory
from derive.ir.equations import Op
from derive.verify.apart import Apart
from derive.verify.emitted import prove

Prove = Callable[[Op, Mapping[str, str]], str]
"""Of an op and its files: why nothing can be said, "" where all is right. Raises DeriveError where it is wrong."""


@contextmanager
def prover(backend: str) -> Iterator[Prove]:
    """What proves the files of a backend; kernels in a process of their own, which they may end."""
    if backend == "cpu":
        with Apart() as apart:
            yield apart.prove
    else:
        yield _prove_in_memory


def _prove_in_memory(op: Op, files: Mapping[str, str]) -> str:
    with modules_in_memory(files) as modules:
        return prove(op, modules[op.name], modules.get(f"{ORDERS}.{op.name}"))
