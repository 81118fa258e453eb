"""A problem of a suite: a spec, the PyTorch that a person writes for it, and the backward derived by hand."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from derive.notation.spec import OpCall

SUITES = ("kernelbench_1", "kernelbench_2", "robust_kbench", "liger")
"""Modules of this package that hold problems; one that is not written yet has none."""

_FREE = ("# view", "# kept")
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Problem:
    """One problem; where the notation lacks a word for it, `op` is None and `missing` names the word.

    `forward` takes the op's inputs in the op's order, a `length` too, and is written with `torch.nn.functional`.
    `lengths` are those that it is timed at, by axis, `...` as one; `odd` and `long` those that it is tried at, of every
    axis, where those of `derive verify` do not fit `forward` (a transposed convolution, whose output has its own).
    `by_hand` is the best backward by hand, a statement a line: from the inputs, what the spec names, the gradients of
    outputs (`dy`) and `torch`, `F`, `math`, to the gradients of inputs (`dx`). It is counted by lines, and tried.
    """

    number: int
    title: str
    op: OpCall | None = None
    forward: Callable[..., Any] | None = None
    lengths: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    by_hand: str = ""
    missing: str = ""
    note: str = ""
    odd: Mapping[str, int] | None = None
    long: Mapping[str, int] | None = None

    @property
    def statements_by_hand(self) -> int:
        """Those by hand, without what only views a tensor (`# view`) or what the forward keeps (`# kept`)."""
        return sum(bool(line.strip()) and not line.endswith(_FREE) for line in self.by_hand.splitlines())


def problems(suite: str) -> tuple[Problem, ...]:
    """The problems of a suite by number; none where it is not written. Raises ValueError where two share a number."""
    if not file_of(suite).exists():
        return ()
    module = importlib.import_module(f"benchmarks.outside.{suite}")
    found = sorted((p for p in vars(module).values() if isinstance(p, Problem)), key=lambda p: p.number)
    twice = {p.number for p, q in pairwise(found) if p.number == q.number}
    if twice:
        raise ValueError(f"{suite}: two problems have the number {min(twice)}")
    return tuple(found)


def file_of(suite: str) -> Path:
    """The file of specs of a suite, as `derive generate --from` takes it."""
    return HERE / f"{suite}.py"
