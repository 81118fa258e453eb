"""Timing by turns: every way once a round, so that a machine that slows down for a while slows all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SHORTEST = 5e-3
"""Seconds: a call that takes less is timed several in a row."""


@dataclass(frozen=True)
class Times:
    """Seconds a call, a round each; round k of every way was measured one right after the other."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def best(self) -> float:
        return min(self.rounds)

    def over(self, other: Times) -> float:
        """How many times faster this is than the other: the median over rounds of their ratio."""
        return statistics.median(b / a for a, b in zip(self.rounds, other.rounds, strict=True))


def by_turns(
    ways: Mapping[str, Callable[[], object]],
    seconds: float,
    fewest: int = 5,
    most: int = 200,
    wait: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Times]:
    """Time the ways in turn for about so many seconds, each warmed up before; who goes first alternates.

    `clock` may count the process's own time, in which a busy machine counts for nothing. `wait` returns when all that
    was asked of a device is done; a way that is timed several times in a row waits once.
    """
    repeats = {}
    for name, way in ways.items():
        way()
        once = min(_timed(way, 1, wait, clock) for _ in range(2))
        repeats[name] = max(1, round(SHORTEST / max(once, 1e-7)))
    taken: dict[str, list[float]] = {name: [] for name in ways}
    end = time.perf_counter() + seconds
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for turn in range(most):
            order = list(ways.items())
            for name, way in order if turn % 2 else reversed(order):
                if repeats[name] > 1:
                    way()  # what the way before it left in the caches is not this one's
                taken[name].append(_timed(way, repeats[name], wait, clock))
            if turn + 1 >= fewest and time.perf_counter() > end:
                break
    finally:
        if collecting:
            gc.enable()
    return {name: Times(tuple(rounds)) for name, rounds in taken.items()}


def _timed(way: Callable[[], object], repeats: int, wait: Callable[[], object], clock: Callable[[], float]) -> float:
    wait()
    start = clock()
    for _ in range(repeats):
        way()
    wait()
    return (clock() - start) / repeats
