"""`python -m tests.properties.run --examples 20000 --seed 0`: many random specs, their outcome, and what failed.

Example k of a seed is the same whenever it is tried. `--shrink` makes the first failure of each kind small. Exit
status 1 where one is wrong.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

import torch
from rich.progress import track

from tests.properties import native
from tests.properties.grammar import Example
from tests.properties.judging import Verdict, expected_refusal, judge
from tests.properties.shrinking import numbered, shrunk

SECONDS = 60
"""How long one example may take."""


class TooSlow(Exception):
    """An example took longer than `SECONDS`."""


@dataclass(frozen=True)
class Outcome:
    """What became of one example; `kind` tells failures of one cause from others."""

    number: int
    kind: str
    detail: str = ""

    @property
    def fine(self) -> bool:
        return self.kind == "right" or self.kind.startswith("rightly refused")


def outcome(number: int, made: Example, judge: Callable[[Example], Verdict] = judge) -> Outcome:
    """Judge one example; whatever it raises is an outcome too."""
    try:
        with _limit():
            verdict = judge(made)
    except TooSlow:
        return Outcome(number, "too slow")
    except (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, SyntaxError,
            TypeError, ValueError) as error:  # fmt: skip
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = re.sub(r"[^A-Za-z]+", " ", str(error))[:50].strip()
        where = f"{place.filename.rpartition('/')[2]}:{place.name}" if "<" not in place.filename else "generated code"
        return Outcome(number, f"{type(error).__name__} in {where}: {text}", str(error))
    return Outcome(number, _kind(verdict), verdict.detail)


def _kind(verdict: Verdict) -> str:
    if verdict.outcome == "rightly refused":
        return "rightly refused: lengths that do not fit"
    if verdict.outcome != "refused":
        return verdict.outcome
    cause = re.sub(r"\[[^]]*\]|\b\w\d?\b|\d", "_", verdict.detail.partition(": ")[2].partition(";")[0])
    return f"{'rightly ' if expected_refusal(verdict.detail) else ''}refused: {cause}"


@contextmanager
def _limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def _tried(job: tuple[int, int, bool]) -> Outcome:
    seed, number, kernels = job
    torch.set_num_threads(1)
    return outcome(number, numbered(seed, number)[0], native.judge if kernels else judge)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.properties.run", description=__doc__)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first example")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--shrink", action="store_true", help="make the first failure of each kind small")
    parser.add_argument("--native", action="store_true", help="the C kernels instead of the torch form")
    given = parser.parse_args()
    jobs = [(given.seed, k, given.native) for k in range(given.first, given.first + given.examples)]
    kinds: dict[str, list[int]] = defaultdict(list)
    with get_context("spawn").Pool(given.jobs, maxtasksperchild=20) as pool:  # each leaves modules and caches behind
        found = pool.imap_unordered(_tried, jobs, chunksize=25)
        for o in track(found, "random specs", total=len(jobs), disable=not sys.stderr.isatty()):
            kinds[o.kind].append(o.number)
            if not o.fine:
                print(f"example {o.number}: {o.kind}", flush=True)
    return report(given.seed, kinds, given.shrink, native.judge if given.native else judge)


def report(
    seed: int, kinds: dict[str, list[int]], shrink: bool, judge: Callable[[Example], Verdict] = judge
) -> int:
    """Print how often each outcome came, then a spec for each that is wrong."""
    failed = []
    for kind, numbers in sorted(kinds.items(), key=lambda k: -len(k[1])):
        print(f"{len(numbers):6}  {kind}")
        if not Outcome(0, kind).fine:
            failed.append((kind, min(numbers)))
    for kind, number in failed:
        made, choices = numbered(seed, number)
        if shrink:
            made = shrunk(choices, lambda e, kind=kind: outcome(0, e, judge).kind == kind)
        print(f"\n--- {kind}\n# example {number}, save={made.save}, {made.layout} cotangents, lengths {made.lengths}")
        print("# " + ", ".join(f"{i.name}: {list(i.shape)}" for i in made.inputs))
        print(f"# {outcome(0, made, judge).detail}\n{made.source}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
