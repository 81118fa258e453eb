"""One row measured: every way checked against autograd, timed by turns, its bytes counted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from benchmarks.clock import Times, by_turns
from benchmarks.kernels import NativePackage
from benchmarks.memory import distinct_bytes, peak_bytes, saved_by_tape
from benchmarks.native import NATIVE
from benchmarks.rows import Row
from benchmarks.ways import AUTOGRAD, Way, Whole, agree, forms, ways
from derive.collapse.autograd.saved import example_sizes
from derive.emit import render
from derive.emit.devices import CPU, waiting
from derive.ir.equations import Op
from derive.pipeline import derivation_of, derive_op
from derive.show.cost_report import least_bytes, multiply_adds
from derive.show.rates import measured


@dataclass(frozen=True)
class Measured:
    """A row of the table: seconds a call each way, the floor, and bytes where the allocator is PyTorch's."""

    op: str
    size: str
    shapes: str
    times: Mapping[str, Times]
    floor: float
    peak: Mapping[str, int]
    saved: Mapping[str, int]

    def speedup(self, way: str) -> float | None:
        """How many times faster than autograd of the primitives."""
        return self.times[way].over(self.times[AUTOGRAD]) if way in self.times else None

    def over_floor(self, way: str) -> float | None:
        """The best time as a multiple of the floor."""
        return self.times[way].best / self.floor if way in self.times and self.floor else None


def measure(row: Row, seconds: float, compiled: bool, native: NativePackage | None, threads: int) -> Measured:
    """Measure one row for about so many seconds. Raises ValueError where a way computes something else."""
    found = ways(row, compiled, native)
    agree({name: way() for name, way in found.items()})
    times = by_turns(found, seconds, fewest=5, wait=waiting(row.device))
    own = forms(row.op)
    with torch.no_grad():
        *_, saved = own.live.forward(*row.args, **row.numbers)
    leaves = [a.clone().requires_grad_(w) for a, w in zip(row.args, row.wanted, strict=True)]
    kept = {AUTOGRAD: saved_by_tape(own.primitives, leaves, **row.numbers), "generated": distinct_bytes(saved)}
    if row.op.name in NATIVE:
        kept["native op"] = saved_by_tape(NATIVE[row.op.name], leaves, **row.numbers)
    kernels = None if native is None else native.functions(row.op.name)
    if kernels is not None:
        with torch.no_grad():
            *_, saved = kernels.pair[0](*row.args, **row.numbers)
        kept["native"] = distinct_bytes(saved)
    return Measured(row.op.name, row.size, row.shapes, times, floor(row, threads), _peaks(found, row.device), kept)


def measure_whole(whole: Whole, size: str, seconds: float, device: torch.device = CPU) -> Measured:
    """Measure a row that is more than one op. Raises ValueError where a way computes something else."""
    agree({name: way() for name, way in whole.ways.items()})
    times = by_turns(whole.ways, seconds, wait=waiting(device))
    return Measured(whole.title, size, whole.shapes, times, 0.0, _peaks(whole.ways, device), whole.saved)


def _peaks(found: Mapping[str, Way], device: torch.device) -> dict[str, int]:
    return {name: peak_bytes(way, device) for name, way in found.items() if name != "JAX jit"}


def floor(row: Row, threads: int) -> float:
    """Seconds that a row's bytes and multiply-adds take at this machine's rates, by the form that moves fewer."""
    given = {a: prod(n) if isinstance(n, tuple) else n for a, n in row.lengths.items()}
    floors = []
    for d in (derivation_of(row.op), derive_op(row.op, "kernel")):
        sizes = example_sizes(d.named, given)
        products = multiply_adds(d.forward, sizes) + multiply_adds(d.backward, sizes)
        floors.append(measured(threads, row.device).floor(least_bytes(d, sizes), products))
    return min(floors)


def derivation_seconds(op: Op) -> float:
    """Seconds to derive an op and to print its module."""
    start = time.perf_counter()
    render(derive_op(op))
    return time.perf_counter() - start


def as_json(rows: list[Measured], about: Mapping[str, Any], derivation: Mapping[str, float]) -> dict[str, Any]:
    """Everything measured, as plain data; seconds and bytes."""
    return {
        "about": dict(about),
        "derivation": dict(derivation),
        "rows": [
            {
                "op": r.op,
                "size": r.size,
                "shapes": r.shapes,
                "floor": r.floor,
                "seconds": {
                    way: {"median": t.median, "best": t.best, "rounds": len(t.rounds), "speedup": r.speedup(way)}
                    for way, t in r.times.items()
                },
                "peak bytes": dict(r.peak),
                "saved bytes": dict(r.saved),
            }
            for r in rows
        ],
    }
