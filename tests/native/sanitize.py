"""`python -m tests.native.sanitize --jobs 2`: the corpus's kernels under the sanitizers of GCC.

Each is compiled with those of addresses and of undefined behaviour, and called at odd lengths and at long ones, on one
thread and on two, over memory of its own and over that of an earlier call; what it gives is held against autograd as
well. Outcomes stand in runs/sanitized.jsonl, so that a run that is cut off goes on where it was. Exit status 1 where
anything was found.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import torch

from derive.catalogue import load_file
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.ir.terms.axes import PACK_NAME
from derive.verify.battery import BATTERY, LOOPS
from derive.verify.cases import Case
from derive.verify.compare import Disagreement
from derive.verify.kernels import NoKernel, compiled
from derive.verify.lengths import free_axes_of, places
from tests.corpus import corpus
from tests.trials import Ended, again_under_sanitizers, apart, is_sanitized, keep, kept

SECONDS = 1200
"""How long one op may take."""

LONG = (300, 1000)
"""Lengths of one axis, longer than one block of a row and no whole number of vectors."""

ODD = ("ordinary", "transposed inputs", "same sizes", "sizes 1", "empty", "zeros", "extreme values", "last index")
GROSS = 1e-2
"""The relative error in float32 that is no rounding of short rows; float64 tells smaller ones."""

_ROOM = 2**21
"""Places of one equation that there is room for."""


@dataclass(frozen=True)
class Outcome:
    """What became of one op: "clean", "no kernel", or what was found, with all that is known of it."""

    name: str
    kind: str
    detail: str = ""
    seconds: float = 0.0

    @property
    def fine(self) -> bool:
        return self.kind in ("clean", "no kernel")


def cases(op: Op) -> Iterator[Case]:
    """Calls of odd lengths, in both precisions, and those with each axis long in turn."""
    both = (torch.float64, torch.float32)
    situations = [replace(s, dtype=d) for s in BATTERY if s.name in ODD for d in both]
    many, long, some = LOOPS[::2]  # each in one precision
    for situation in (*situations, many, replace(long, dtype=torch.float32), some):
        case = situation.make(op)
        if case is not None:
            yield case
    ordinary = BATTERY[0].make(op)
    for axis in free_axes_of(op):
        for n, dtype in zip(LONG, both, strict=True):
            if ordinary is not None and _has_room(op, {**ordinary.call.lengths, axis: n}):
                case = _long(op, axis, n, dtype)
                if case is not None:
                    yield case


def _has_room(op: Op, lengths: dict[str, int]) -> bool:
    try:
        return places(op, lengths) <= _ROOM
    except DeriveError:  # no length that a merge of it may have
        return False


def _long(op: Op, axis: str, n: int, dtype: torch.dtype) -> Case | None:
    """The ordinary case with one axis so long."""
    situation = replace(BATTERY[0], name=f"{axis} of {n}", dtype=dtype)
    return situation.make(op, 0, {}, (n,)) if axis == PACK_NAME else situation.make(op, 0, {axis: n})


def _is_judged(found: Disagreement) -> bool:
    """Whether it is more than rounding, which `derive verify` judges, or than an overflow of the reference itself."""
    case = found.case
    if found.kind not in ("value", "output"):
        return True
    if not all(bool(t.isfinite().all()) for t in (*case.outputs.values(), *case.gradients.values())):
        return False
    return case.call.dtype == torch.float64 or (found.error > GROSS and case.situation != "extreme values")


def findings(op: Op) -> str:
    """What is wrong of an op's kernels: nothing, where it is empty. Raises NoKernel."""
    with compiled(op) as kernels:
        found = [f"{d}" for case in cases(op) for d in kernels.wrong(case) if _is_judged(d)]
    return "; ".join(found[:5])


def sanitized_op(op: Op) -> Outcome:
    """One op's outcome, found in a process of its own."""

    def trial() -> tuple[str, str]:
        torch.set_num_threads(1)
        try:
            wrong = findings(op)
        except NoKernel as reason:
            return "no kernel", str(reason)
        except DeriveError as error:
            return "refused", str(error)
        return ("wrong", wrong) if wrong else ("clean", "")

    start = time.monotonic()
    found = apart(trial, SECONDS)
    kind, detail = (found.cause, found.said) if isinstance(found, Ended) else found
    return Outcome(op.name, kind, detail, round(time.monotonic() - start, 1))


@lru_cache(maxsize=1)
def ops(file: Path | None) -> dict[str, Op]:
    """The corpus's ops by name, or those of a file of specs."""
    found = [spec.op for spec in corpus()] if file is None else load_file(file)
    return {op.name: op for op in found}


def _warm(file: Path | None) -> None:
    """What every trial needs and would have to do anew, done before."""
    importlib.import_module("torch._dynamo")
    with compiled(next(iter(ops(file).values()))):
        pass


def _tried(job: tuple[Path | None, str]) -> Outcome:
    file, name = job
    return sanitized_op(ops(file)[name])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.native.sanitize", description=__doc__)
    parser.add_argument("names", nargs="*", help="specs of the corpus; all, if none")
    parser.add_argument("--from", dest="file", type=Path, metavar="FILE", help="a file of specs, not the corpus")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("runs/sanitized.jsonl"), metavar="FILE.jsonl")
    parser.add_argument("--again", action="store_true", help="try once more what was not clean, or is named")
    given = parser.parse_args()
    wanted = given.names or list(ops(given.file))
    unknown = [name for name in wanted if name not in ops(given.file)]
    if unknown:
        parser.error(f"there is no spec {', '.join(unknown)}")
    if not is_sanitized():
        again_under_sanitizers("tests.native.sanitize")
    found = {o.name: o for o in (Outcome(**fields) for fields in kept(given.results)) if o.name in wanted}
    if given.again:
        found = {name: o for name, o in found.items() if o.fine and name not in given.names}
    left = [(given.file, name) for name in wanted if name not in found]
    with get_context("spawn").Pool(given.jobs, _warm, (given.file,)) as pool:
        for outcome in pool.imap_unordered(_tried, left):
            keep(given.results, asdict(outcome))
            found[outcome.name] = outcome
            print(f"{len(found):4} of {len(wanted)}  {outcome.name}: {outcome.kind}", flush=True)
    return report(list(found.values()))


def report(outcomes: list[Outcome]) -> int:
    """Print how often each outcome came, and all that was found; whether anything was."""
    wrong = [o for o in outcomes if not o.fine]
    for o in wrong:
        print(f"\n--- {o.name}: {o.kind}\n{o.detail}")
    print()
    for kind, count in Counter(o.kind for o in outcomes).most_common():
        print(f"{count:5}  {kind}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
