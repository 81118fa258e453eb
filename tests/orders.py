"""`python -m tests.orders --out runs/orders.jsonl`: every spec of the corpus differentiated twice, in every way.

Second derivatives by each input and by the cotangents, tangents, `vmap` over each input, Hessians where they are small
and `gradgradcheck` are held against autograd of autograd of the executed equations, in the situations that break what
is written by hand. A run that is cut off goes on where it was: another file where the code has changed. Exit status 1
where one is wrong.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from rich.progress import track
from torch import Tensor

from derive.emit import ORDERS, rendered
from derive.emit.memory import modules_in_memory
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.pipeline import derivation_of
from derive.verify import emitted
from derive.verify.battery import BATTERY
from derive.verify.cases import Case, executed
from derive.verify.compare import Subject, disagreements
from derive.verify.orders import alone, gradient_map, of_gradients, of_mapped, of_tangents, tangent_map
from derive.verify.situations import Situation
from tests.corpus import corpus
from tests.trials import keep, kept

SECONDS = 600
"""How long one spec may take."""

_NAMED = (
    "transposed inputs", "stride-0 cotangent", "expanded rows", "sizes 1", "last axis 1", "empty", "repeated indices",
    "ties", "zeros", "first input 0", "zero parameters", "some parameters 0", "large values", "scores far apart",
    "numbers 0", "ties with a number", "one tensor twice",
)  # fmt: skip
SITUATIONS = (*emitted.SITUATIONS, *(s for s in BATTERY if s.name in _NAMED))
SMALL = Situation("small", "all of a Hessian", lengths="same", leading=(2,))
_HESSIAN = 40
"""Numbers that a Hessian is taken by, at most."""


class TooSlow(Exception):
    """A spec took longer than it may."""


@dataclass(frozen=True)
class Outcome:
    """What became of one spec: `wrong` says what is, `untried` why nothing was tried.

    `beyond` are the situations in which ours is finite where autograd's second derivative is not.
    """

    name: str
    cases: int = 0
    wrong: str = ""
    untried: str = ""
    beyond: tuple[str, ...] = ()


def outcome(name: str, op: Op) -> Outcome:
    """Differentiate one spec in every way."""
    try:
        files = rendered(derivation_of(op), "torch", order=2).files
    except DeriveError as error:
        return Outcome(name, untried=str(error))
    with modules_in_memory(files) as modules:
        function, orders = modules[op.name][op.name], modules[f"{ORDERS}.{op.name}"]
        twice, forwards = of_gradients(op, function, orders), of_tangents(op, function, orders)
        over = {f"{op.name} mapped over {o.name}": of_mapped(op, function, [o.name]) for o in op.differentiable}
        cases, beyond = 0, dict[str, None]()
        for own, subjects in ((gradient_map(op), twice | over), (tangent_map(op), forwards)):
            for case in _cases(own):
                cases += 1
                for by, subject in subjects.items():
                    if found := disagreements(case, subject):
                        return Outcome(name, cases, f"{found[0].message} by {by} ({case})")
                if _is_beyond(case, next(iter(subjects.values()))):
                    beyond[f"{own.name}: {case.situation}"] = None
        small = SMALL.make(op)
        wrong = "" if small is None else _small(op, small, function)
        why = "" if cases else "found no inputs at which its gradients are finite"
        return Outcome(name, cases, wrong, why, tuple(beyond))


def _cases(op: Op) -> Iterator[Case]:
    for situation in SITUATIONS:
        try:
            case = situation.make(op)
        except DeriveError:
            return
        if case is not None and case.is_steady:
            yield from alone(case)


def _is_beyond(case: Case, subject: Subject) -> bool:
    """Whether ours is finite throughout, where what is compared with is not."""
    if all(bool(g.isfinite().all()) for g in case.gradients.values()):
        return False
    return all(g is None or bool(g.isfinite().all()) for g in subject(case.call).gradients.values())


def _small(op: Op, case: Case, function: Any) -> str:
    """What is wrong of all of a Hessian, in three ways, or of finite differences of the gradients."""
    call, names = case.call, [o.name for o in op.differentiable]
    leaves = [call.inputs[n].detach().clone() for n in names]

    def ours(*real: Tensor) -> tuple[Tensor, ...]:
        found = function(*call.arguments({**call.inputs, **dict(zip(names, real, strict=True))}))
        return found if isinstance(found, tuple) else (found,)

    def theirs(*real: Tensor) -> tuple[Tensor, ...]:
        return tuple(executed(call, {**call.inputs, **dict(zip(names, real, strict=True))}).values())

    def checked(f: Any) -> bool:
        given = [x.clone().requires_grad_() for x in leaves]
        dys = [c.clone().requires_grad_() for c in call.cotangents]
        return torch.autograd.gradgradcheck(f, given, dys, atol=1e-4, fast_mode=True, raise_exception=False)

    if all(x.numel() for x in leaves) and checked(theirs) and not checked(ours):
        return "gradgradcheck, which the equations pass"
    if sum(x.numel() for x in leaves) > _HESSIAN:
        return ""

    def total(f: Any) -> Any:
        return lambda *real: sum((c * y).sum() for c, y in zip(call.cotangents, f(*real), strict=True))

    by, reverse, forward = tuple(range(len(leaves))), torch.func.jacrev, torch.func.jacfwd
    wanted = _flat(torch.autograd.functional.hessian(total(theirs), tuple(leaves)))
    for outer, inner in ((reverse, reverse), (forward, reverse), (reverse, forward)):
        for got, want in zip(_flat(outer(inner(total(ours), by), by)(*leaves)), wanted, strict=True):
            off = torch.where(want.isfinite(), got - want, 0.0).abs().nan_to_num(nan=torch.inf)
            if off.numel() and float(off.max()) > 1e-9 * max(1.0, float(want.nan_to_num().abs().max())):
                return f"a Hessian by {outer.__name__}({inner.__name__}) is off by {float(off.max()):.3g}"
    return ""


def _flat(found: Any) -> list[Tensor]:
    return [found] if isinstance(found, Tensor) else [t for each in found for t in _flat(each)]


# --- the command --------------------------------------------------------------------------------------------


def _tried(name: str) -> Outcome:
    def stop(*_: object) -> None:
        raise TooSlow

    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        return outcome(name, next(s.op for s in corpus() if s.name == name))
    except TooSlow:
        return Outcome(name, untried=f"not done in {SECONDS} s")
    except (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError,
            ValueError) as error:  # fmt: skip
        return Outcome(name, wrong=f"{type(error).__name__}: {error}")
    finally:
        signal.alarm(0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.orders", description=__doc__)
    parser.add_argument("names", nargs="*", help="specs, or families; all if none")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th of them alone")
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl", help="where outcomes stand; they are not tried again")
    given = parser.parse_args()
    known: Mapping[str, dict[str, Any]] = {k["name"]: k for k in kept(given.out)}
    wanted = [s for s in corpus() if not given.names or {s.name, s.family, *s.family.split("/")} & set(given.names)]
    names = [s.name for s in wanted][:: given.every]
    found = [Outcome(**{**known[n], "beyond": tuple(known[n]["beyond"])}) for n in names if n in known]
    left = [n for n in names if n not in known]
    with get_context("spawn").Pool(given.jobs, maxtasksperchild=20) as pool:  # each leaves modules and caches behind
        made = pool.imap_unordered(_tried, left)
        for o in track(made, "further derivatives", total=len(left), disable=not sys.stderr.isatty()):
            keep(given.out, asdict(o))
            found.append(o)
            if o.wrong or o.untried:
                print(f"{o.name}: {o.wrong or f'not tried, {o.untried}'}", flush=True)
    return _report(found)


def _report(found: list[Outcome]) -> int:
    kinds = Counter("wrong" if o.wrong else "not tried" if o.untried else "right" for o in found)
    print(", ".join(f"{n} {kind}" for kind, n in kinds.items()), f"in {sum(o.cases for o in found)} cases")
    for o in sorted(found, key=lambda o: o.name):
        if o.beyond:
            print(f"{o.name} is finite where autograd is not: {', '.join(o.beyond)}")
    return int(kinds["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
