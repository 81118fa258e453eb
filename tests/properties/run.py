"""`python -m tests.properties.run --examples 20000 --seed 0`: many random specs, their outcome, and what failed.

Example k of a seed is the same whenever it is tried. `--shrink` makes the first failure of each kind small. With
`--out FILE.jsonl` the outcomes stand in a file, and a run that is cut off goes on where it was: another file where the
code has changed. `--native --sanitize` runs kernels under the sanitizers of GCC. Exit status 1 where one is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import re
import signal
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from rich.progress import track

from tests.properties import native
from tests.properties.grammar import Example
from tests.properties.judging import Verdict, expected_refusal, judge
from tests.properties.shrinking import numbered, shrunk
from tests.trials import Ended, again_under_sanitizers, apart, is_sanitized, keep, kept

SECONDS = 60
"""How long one example may take."""

SANITIZED_SECONDS = 600
"""The same under sanitizers, which slow down the compiler and what it compiles."""


class TooSlow(Exception):
    """An example took longer than it may."""


@dataclass(frozen=True)
class Outcome:
    """What became of one example; `kind` tells failures of one cause from others."""

    number: int
    kind: str
    detail: str = ""

    @property
    def fine(self) -> bool:
        return self.kind == "right" or self.kind.startswith("rightly refused")


def outcome(
    number: int, made: Example, judge: Callable[[Example], Verdict] = judge, seconds: int = SECONDS
) -> Outcome:
    """Judge one example; whatever it raises is an outcome too."""
    try:
        with _limit(seconds):
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
def _limit(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def _judged(number: int, made: Example, kernels: bool) -> Outcome:
    """The outcome of an example; under sanitizers in a process of its own, which they end."""
    judged = native.judge if kernels else judge
    if not is_sanitized():
        return outcome(number, made, judged)
    importlib.import_module("torch._dynamo")  # which each copy of this process would have to do by itself
    found = apart(lambda: outcome(number, made, judged, SANITIZED_SECONDS), 2 * SANITIZED_SECONDS)
    return Outcome(number, found.cause, found.said) if isinstance(found, Ended) else found


def _tried(job: tuple[int, int, bool]) -> Outcome:
    seed, number, kernels = job
    torch.set_num_threads(1)
    return _judged(number, numbered(seed, number)[0], kernels)


def _known(file: Path | None, seed: int, jobs: Collection[int]) -> dict[int, Outcome]:
    """The outcomes of a seed that stand in a file, by number."""
    every = kept(file)
    return {k["number"]: Outcome(k["number"], k["kind"], k["detail"])
            for k in every if k["seed"] == seed and k["number"] in jobs}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.properties.run", description=__doc__)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first example")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--shrink", action="store_true", help="make the first failure of each kind small")
    parser.add_argument("--native", action="store_true", help="the C kernels instead of the torch form")
    parser.add_argument("--sanitize", action="store_true", help="with --native: under the sanitizers of GCC")
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl", help="where outcomes stand; they are not tried again")
    given = parser.parse_args()
    if given.sanitize and not given.native:
        parser.error("--sanitize is of C: give --native too")
    if given.sanitize and not is_sanitized():
        again_under_sanitizers("tests.properties.run")
    numbers = range(given.first, given.first + given.examples)
    kinds: dict[str, list[int]] = defaultdict(list)
    known = _known(given.out, given.seed, numbers)
    for o in known.values():
        kinds[o.kind].append(o.number)
    jobs = [(given.seed, k, given.native) for k in numbers if k not in known]
    with get_context("spawn").Pool(given.jobs, maxtasksperchild=20) as pool:  # each leaves modules and caches behind
        found = pool.imap_unordered(_tried, jobs, chunksize=1 if given.native else 25)
        for o in track(found, "random specs", total=len(jobs), disable=not sys.stderr.isatty()):
            keep(given.out, {"seed": given.seed, **asdict(o)})
            kinds[o.kind].append(o.number)
            if not o.fine:
                print(f"example {o.number}: {o.kind}", flush=True)
    return report(given.seed, kinds, given.shrink, lambda example: _judged(0, example, given.native))


def report(seed: int, kinds: dict[str, list[int]], shrink: bool, tried: Callable[[Example], Outcome]) -> int:
    """Print how often each outcome came, then a spec for each that is wrong."""
    failed = []
    for kind, numbers in sorted(kinds.items(), key=lambda k: -len(k[1])):
        print(f"{len(numbers):6}  {kind}")
        if not Outcome(0, kind).fine:
            failed.append((kind, min(numbers)))
    for kind, number in failed:
        made, choices = numbered(seed, number)
        if shrink:
            made = shrunk(choices, lambda e, kind=kind: tried(e).kind == kind)
        print(f"\n--- {kind}\n# example {number}, save={made.save}, {made.layout} cotangents, lengths {made.lengths}")
        print("# " + ", ".join(f"{i.name}: {list(i.shape)}" for i in made.inputs))
        print(f"# {tried(made).detail}\n{made.source}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
