"""The smallest counterexample: the same disagreement with shorter axes, and with numbers that a person can follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from derive.ir.terms.axes import PACK_NAME
from derive.verify.cases import Call, Case, case_of
from derive.verify.compare import Disagreement, Subject, disagreements
from derive.verify.situations import Situation

_SEEDS = 3


def smallest(
    found: Disagreement,
    situation: Situation,
    subject: Subject,
    shows: Callable[[Disagreement, Subject], bool] = lambda found, subject: True,
) -> Disagreement:
    """The disagreement at the shortest axes, lowest seed and roundest values at which it still shows its reason.

    Axes are shortened one at a time, so this is a local minimum. Layout and kind of values stay those of the situation.
    """

    def again(case: Case | None) -> Disagreement | None:
        if case is None:
            return None
        same = (d for d in disagreements(case, subject) if (d.kind, d.tensor) == (found.kind, found.tensor))
        smaller = next(same, None)
        return smaller if smaller is not None and shows(smaller, subject) else None

    best = _shorter(found, situation, again)
    for digits in (0, 1, 2):
        rounder = again(_rounded(best.case, digits))
        if rounder is not None and _tells(rounder):
            return rounder
    return best


def _shorter(
    best: Disagreement, situation: Situation, again: Callable[[Case | None], Disagreement | None]
) -> Disagreement:
    changed = True
    while changed:
        changed = False
        for lengths, leading in _shapes(best.case.call):
            smaller = _attempt(situation, best, lengths, leading, again)
            if smaller is not None:
                best, changed = smaller, True
                break
    return best


def _shapes(call: Call) -> Iterator[tuple[dict[str, int], tuple[int, ...]]]:
    """Lengths with one axis shorter, or with fewer leading axes."""
    lengths, leading = call.lengths, call.leading
    for fewer in ((), (1,), (2,)):
        if len(fewer) < len(leading):
            yield lengths, fewer
    for k, n in enumerate(leading):
        for length in _less(n):
            yield lengths, (*leading[:k], length, *leading[k + 1 :])
    for axis in reversed([a for a in lengths if a != PACK_NAME]):
        for length in _less(lengths[axis]):
            yield {**lengths, axis: length}, leading
    for length in (1, 2):  # all at once, for what runs only where lengths are the same
        yield dict.fromkeys(lengths, length), (length,) * len(leading)


def _less(length: int) -> Iterator[int]:
    """Shorter lengths: the shortest, one more than whole blocks, a half, and one less, or an eighth of a long one."""
    tried = {*range(1, 4), *(2**k + 1 for k in range(2, 9)), length // 2, min(length - 1, length - length // 8)}
    yield from sorted(n for n in tried if 0 < n < length)


def _attempt(
    situation: Situation,
    best: Disagreement,
    lengths: Mapping[str, int],
    leading: tuple[int, ...],
    again: Callable[[Case | None], Disagreement | None],
) -> Disagreement | None:
    op = best.case.op
    for seed in range(_SEEDS):
        case = situation.make(op, best.case.seed + seed, lengths, leading)
        if case is None or _extent(case) >= _extent(best.case):
            return None
        found = again(case)
        if found is not None and _tells(found):
            return found
    return None


def _tells(found: Disagreement) -> bool:
    """Whether a value is off by enough to be seen, where the disagreement was about a value."""
    return found.kind not in ("value", "output") or found.error > 1e-3 or found.case.call.dtype != torch.float64


def _rounded(case: Case, digits: int) -> Case | None:
    """The case with its values rounded, where they stay distinct and away from 0 if they were."""
    call = case.call
    made = {id(t): _round(t, digits) for t in (*call.inputs.values(), *call.cotangents)}
    if any(_lost(t, made[id(t)]) for t in (*call.inputs.values(), *call.cotangents)):
        return None
    inputs = {n: made[id(t)] for n, t in call.inputs.items()}
    rounder: Call = replace(call, inputs=inputs, cotangents=tuple(made[id(t)] for t in call.cotangents))
    rounded = case_of(case.situation, case.seed, rounder)
    return rounded if all(bool(o.isfinite().all()) for o in rounded.outputs.values()) else None


def _round(t: Tensor, digits: int) -> Tensor:
    """Rounded in place of a copy with the same strides, so that the layout stays."""
    if not t.is_floating_point() or not t.dim():
        return t.round(decimals=digits) + 0.0 if t.is_floating_point() else t
    out = t.detach().clone(memory_format=torch.preserve_format).round_(decimals=digits).add_(0.0)  # -0 becomes 0
    if out.stride() == t.stride():
        return out
    base = torch.empty(t.untyped_storage().nbytes() // t.element_size(), dtype=t.dtype)
    view = torch.as_strided(base, t.shape, t.stride(), t.storage_offset())
    base.copy_(torch.as_strided(t, (len(base),), (1,), 0).round(decimals=digits))
    return view


def _lost(t: Tensor, rounded: Tensor) -> bool:
    return len(t.unique()) != len(rounded.unique()) or bool(((rounded == 0) & (t != 0)).any())


def _extent(case: Case) -> tuple[int, int]:
    """How large a case is: elements first, dimensions next."""
    return sum(t.numel() for t in case.call.inputs.values()), len(case.call.leading)
