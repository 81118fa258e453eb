"""One spec of the corpus with the engine as it is, and without each of the rules that did anything for it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

import torch

from derive.emit.live import live
from derive.errors import DeriveError
from derive.notation.running import FailedError, Someones
from derive.pipeline import Derivation, derive_op
from derive.verify.battery import BATTERY
from derive.verify.compare import Subject
from derive.verify.subjects import of_live
from tests.corpus import Spec, corpus
from tests.corpus.hostile import ORDINARY
from tests.corpus.measured import counted, errors, saved_bytes
from tests.laws.taken import Rule, forget, rules, watched, without

SAVINGS = ("cost", "kernel")
"""The two ways of saving that are derived: as PyTorch and as kernels."""

WRONG = 1e-6
"""A relative error in float64 above this, and above a hundred times what it was, is a wrong gradient."""


@dataclass(frozen=True)
class Figures:
    """What is emitted of one op, counted at nominal lengths: both programs, in both ways of saving together."""

    statements: int
    work: int
    saved: int
    float64: float
    float32: float  # the largest error of all situations


@dataclass(frozen=True)
class Trial:
    """One op without one rule. `outcome` is same, other, wrong, or what was raised."""

    rule: str
    outcome: str
    figures: Figures | None = None


def tried(names: list[str], jobs: int) -> Iterator[dict[str, Any]]:
    """The trials of these specs of the corpus, by several processes."""
    if jobs < 2:
        yield from map(_tried, names)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_tried, name) for name in names]):
            yield done.result()


def _tried(name: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    try:
        return _trials(next(s for s in corpus() if s.name == name))
    except DeriveError as error:
        return {"name": name, "refused": str(error), "trials": []}


def _trials(spec: Spec) -> dict[str, Any]:
    """A spec as it is, and a trial of each rule that fired in it. Raises DeriveError as derive_op does."""
    fired: set[str] = set()
    with watched(fired):
        _derived(spec)
    forget()
    whole = _derived(spec)
    figures = _figures(spec, whole)
    told = [_trial(spec, rule, whole, figures) for rule in rules() if rule.name in fired]
    return {"name": spec.name, "figures": asdict(figures), "trials": [asdict(t) for t in told]}


def _derived(spec: Spec) -> tuple[Derivation, ...]:
    return tuple(derive_op(spec.op, save) for save in SAVINGS)


def _trial(spec: Spec, rule: Rule, whole: tuple[Derivation, ...], before: Figures) -> Trial:
    try:
        with without(rule), Someones():
            made = _derived(spec)
            if all(_same(a, b) for a, b in zip(made, whole, strict=True)):
                return Trial(rule.name, "same")
            figures = _figures(spec, made)
    except FailedError as failed:
        return Trial(rule.name, f"raises {type(failed.error).__name__}")
    if figures.float64 > WRONG and figures.float64 > 100 * before.float64:
        return Trial(rule.name, "wrong", figures)
    return Trial(rule.name, "other", figures)


def _same(one: Derivation, other: Derivation) -> bool:
    return (one.forward, one.backward) == (other.forward, other.backward)


def _figures(spec: Spec, made: tuple[Derivation, ...]) -> Figures:
    counts = [c for d in made for c in counted(d)]
    subject = of_live(live(made[0], False, unproven="for a trial"))
    return Figures(
        sum(c.statements for c in counts),
        sum(c.operations for c in counts),
        sum(sum(saved_bytes(d).values()) for d in made),
        errors(spec, BATTERY[0], subject).ours,
        _worst(spec, subject),
    )


def _worst(spec: Spec, subject: Subject) -> float:
    return max(errors(spec, s, subject).ours for s in (ORDINARY, *spec.hostile))
