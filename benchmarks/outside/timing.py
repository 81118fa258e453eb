"""A problem timed: forward and backward of the derived functions beside autograd of a person's PyTorch, by turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.clock import by_turns
from benchmarks.kernels import native_package
from benchmarks.outside.problem import HERE, Problem
from benchmarks.outside.trial import arguments, forward_of, op_of, row_of, wanted
from benchmarks.ways import AUTOGRAD, Result, Way, agree
from derive.backends.torch.instructions import SETS
from derive.output.live import build

FEWEST = 5


@dataclass(frozen=True)
class Timed:
    """Seconds of autograd, and what ours take as a multiple of it, the median over rounds; None without kernels.

    `eager` is with the plain set of instructions, `line` and `all` with those; the same figure for the same code.
    """

    seconds: float
    eager: float
    line: float
    all: float
    kernels: float | None
    without_kernels: str


def timed(problem: Problem, seconds: float) -> Timed:
    """Time a problem on one thread. Raises ValueError where a way computes something else."""
    torch.set_num_threads(1)
    at = row_of(problem)
    args, forward, op = arguments(at), forward_of(problem), op_of(problem)
    leaves = [a.clone().requires_grad_() if w else a for a, w in zip(args, wanted(op), strict=True)]
    asking = [a for a, w in zip(leaves, wanted(op), strict=True) if w]
    with torch.no_grad():
        shapes = [o.shape for o in forward(*args)]
    generator = torch.Generator().manual_seed(1)
    dys = [torch.randn(shape, generator=generator) for shape in shapes]

    def autograd() -> Result:
        outputs = forward(*leaves)
        return outputs, torch.autograd.grad(outputs, asking, dys)

    def pair(functions: tuple[Any, Any]) -> Way:
        def run() -> Result:
            *outputs, saved = functions[0](*args)
            return tuple(outputs), _tuple(functions[1](*dys, *saved))

        return run

    ways: dict[str, Way] = {AUTOGRAD: autograd}
    first: dict[str, str] = {}  # the set that was the first to have some code
    of = {}
    for chosen in SETS:
        live = build(op, proven=False, instructions=chosen)
        of[chosen] = first.setdefault(live.source.partition("\n")[2], chosen)
        if of[chosen] == chosen:
            ways[chosen] = pair((live.forward, live.backward))
    source = HERE / op.source
    with native_package([op], source if source.exists() else None) as native:
        kernels = native.functions(op.name)
        if kernels is not None:
            ways["kernels"] = pair(kernels.pair)
        agree({name: way() for name, way in ways.items()})
        times = by_turns(ways, seconds, fewest=FEWEST)
    base = times[AUTOGRAD]
    over = {name: 1 / times[name].over(base) for name in ways if name != AUTOGRAD}
    plain, line, every = (over[of[chosen]] for chosen in SETS)
    return Timed(base.median, plain, line, every, over.get("kernels"), native.missing)


def _tuple(value: Any) -> tuple[Tensor, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,)
