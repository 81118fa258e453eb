"""`derive verify` and `derive judge` once they know what is asked: run, show, and say whether all is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from derive.cli.terminal import bar
from derive.emit.devices import device_of
from derive.emit.live import live_of
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.pipeline import derivation_of
from derive.verify import view
from derive.verify.battery import BATTERY
from derive.verify.candidates import function, load, load_further, opened
from derive.verify.curve import check, draw
from derive.verify.differences import curves
from derive.verify.elsewhere import placed
from derive.verify.formula import of_formula, parse
from derive.verify.inputs import by_example, written
from derive.verify.judge import judge as judged
from derive.verify.kernels import NoKernel, compiled
from derive.verify.measured import check_target, write_measured
from derive.verify.orders import gradient_map, tangent_map
from derive.verify.proof import Proof, prove
from derive.verify.record import record
from derive.verify.subjects import of_live
from derive.verify.unspecified import standing as standing_for
from derive.verify.unspecified import unspecified
from derive.verify.verify import Verification, moving_case, verify_kernels
from derive.verify.verify import verify as verified

_WIDE = 120  # columns of a table that is piped


def verify(
    ops: Sequence[Op],
    save: str,
    seed: int,
    *,
    backend: str,
    device: str,
    full: bool,
    plot: Path | None,
    native: str | None,
    json: Path | None,
    said: str,
    order: int = 1,
) -> bool:
    """Print what verify finds of each op, and write its numbers to the file `json`. True where every gradient is right.

    On the backend "cpu" it is the op's kernels that run; an op that has none is named, with the reason. So is one of
    several ops that cannot be tried. Of `order` 2, second derivatives and tangents have rows as well. Raises
    DeriveError where none of the ops can be, or has a kernel. `said` is the command that the file names. What would
    stop the file from being written is found before anything runs.
    """
    other, there = None if native is None else function(native), device_of(device)
    if json is not None:
        check_target(json)
    if plot is not None:
        check(plot)
    run = verify_kernels if backend == "cpu" else partial(verified, device=there, order=order)
    found = _one_by_one(ops, lambda op: run(op, save, seed, other), full)
    if not found.done:
        raise found.nothing()
    print(view.summary(found.done, found.without, found.untried))
    if json is not None:
        write_measured(record(found.done, said, there), json)
        print(f"{json}: written")
    if plot is not None:
        _plot(ops[0], save, seed, plot, backend, there)
        print(f"{plot}: written")
    return not found.untried and all(v.right for v in found.done)


@dataclass
class _Found:
    """What was found of each op; the names of those that have no kernel, and of those that cannot be tried."""

    done: list[Verification] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    def nothing(self) -> DeriveError:
        """What to say where nothing was found."""
        if self.untried:
            what = f"no op is verified: {', '.join(self.untried)}"
            return DeriveError(what, fix="correct them, as the lines above say")
        return DeriveError(f"no kernel ran: PyTorch runs {', '.join(self.without)}", fix="verify without --backend cpu")


def _one_by_one(ops: Sequence[Op], run: Callable[[Op], Verification], full: bool) -> _Found:
    """Verify ops and print what is found of each. Raises DeriveError where the only one cannot be tried."""
    out = Console()
    if not out.is_terminal:
        out = Console(width=_WIDE)
    found = _Found()
    with bar(list(ops)) as finished:
        for op in ops:
            try:
                verification = run(op)
            except NoKernel as reason:
                found.without.append(op.name)
                print(view.no_kernel(op.name, str(reason)))
            except DeriveError as error:
                if len(ops) == 1:
                    raise
                found.untried.append(op.name)
                print(view.not_verified(error.within(op.name)))
            else:
                found.done.append(verification)
                _print(verification, full, len(ops) == 1, out)
            finished(op)
    return found


def _print(found: Verification, full: bool, alone: bool, out: Console) -> None:
    if not full:
        print(*view.lines(found, alone), sep="\n")
        return
    out.print(view.table(found), *view.exponents(found), "", sep="\n")
    for line in view.complaints(found):
        print(line)


def _plot(op: Op, save: str, seed: int, path: Path, backend: str, device: torch.device) -> None:
    ordinary = BATTERY[0].make(op, seed)
    assert ordinary is not None, "what was verified has an ordinary case"
    case = moving_case(op, ordinary, seed)
    if backend == "cpu":
        with compiled(op, save) as kernels:
            given = kernels.subject(case.call).gradients
    else:
        given = placed(of_live(live_of(op, save)), device)(case.call).gradients
    gradients = {name: g for name, g in given.items() if g is not None}
    title = f"{op.name}: finite differences against the derived gradient"
    draw(title, curves(case, gradients, (torch.float64, torch.float32)), path)


def judge(
    op: Op, candidate: str | None, formula: str | None, dtype: str, strict: bool, seed: int, device: str = "cpu",
    order: int = 1, tangents: bool = False,
) -> bool:  # fmt: skip
    """Print the verdict on a candidate, run on the device, or on a formula. True where it is right.

    Of `order` 2 it is a double backward; a JVP if `tangents`.

    `strict` also asks that nothing is to be said of its precision. `dtype` may be "auto".
    """
    there = device_of(device)
    proofs: tuple[Proof, ...] | None = None
    with Console(stderr=True).status(f"deriving {op.name}, and holding the candidate against it"):
        if formula is None:
            assert candidate is not None
            further = order > 1 or tangents
            subject = load_further(candidate, op, tangents, there) if further else load(candidate, op, there)
            of = tangent_map(op) if tangents else gradient_map(op) if further else op
            found = judged(of, placed(subject, there), seed, _dtype_of(dtype))
        else:
            claimed = parse(formula, derivation_of(op))
            found = judged(op, of_formula(claimed, derivation_of(op)), seed)
            found = replace(found, claims=tuple(f"d{name}" for name in claimed.gradients))
            proofs = prove(claimed, derivation_of(op)) if found.right else ()
    Console(highlight=False, soft_wrap=True).print(view.verdict(found, proofs))
    return found.right and not (strict and found.findings)


def _dtype_of(name: str) -> torch.dtype | None:
    """The dtype of that name, None for "auto"."""
    return None if name == "auto" else getattr(torch, name)


def judge_by_forward(
    candidate: str, forward: str, inputs: str, dtype: str, strict: bool, seed: int, device: str = "cpu"
) -> bool:
    """Print the verdict on a candidate that no spec is given for, held against the gradient of its forward.

    `forward` names another than its own, `inputs` says what that takes. True where it is right.
    """
    there = device_of(device)
    taken = written(inputs) if inputs else None
    file, name = opened(candidate, forward, there), candidate.rpartition(":")[2]
    given = unspecified(file.found, name, file.forward, f"the forward {forward}")
    if taken is None and file.example is not None:
        taken = by_example([p.name for p in given.parameters], file.example)
    with Console(stderr=True).status(f"holding {name} against {given.whose}"):
        standing = standing_for(given, taken, seed)
        verdict = judged(standing.op, placed(given.subject(standing.op), there), seed, _dtype_of(dtype))
        by = "finite differences" if standing.op.by_differences else "autograd"
        how = ", ".join(map(str, standing.taken)) + (", guessed: --inputs says otherwise" if standing.guessed else "")
        verdict = replace(verdict, notes=(*verdict.notes, f"held against {by} of {given.whose}, of {how}"))
    Console(highlight=False, soft_wrap=True).print(view.verdict(verdict))
    return verdict.right and not (strict and verdict.findings)
