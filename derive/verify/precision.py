"""What a candidate computes in, and whether an error of it is one of rounding.

A formula's error is a smooth function of the inputs, and hardly moves where these are moved by a few units in the last
place; an error of rounding moves by its own size. That tells `1e-6` left out of a root from float32 arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from derive.emit.live import live_of
from derive.ir.equations import Op
from derive.notation.running import FailedError, Someones
from derive.verify.cases import Call, Case, by_place, nudged, reference, scale, worst
from derive.verify.compare import Disagreement, Subject
from derive.verify.opaque import Opaque
from derive.verify.situations import Situation
from derive.verify.subjects import of_differentiable, of_live

WIDEST_FIRST = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_MOVED = 0.25  # of an error's own size: more is rounding
_FEW = 8  # units in the last place, which no finding is made of
_SMALL = 0.02  # the largest step by which inputs are moved: a formula's error follows by as much


@dataclass(frozen=True)
class Finding:
    """What is to be said of the precision of what is right: `text` after "right, ", and `detail` with its numbers."""

    text: str
    detail: str = ""


def named(dtype: torch.dtype) -> str:
    """The dtype without its module."""
    return str(dtype).removeprefix("torch.")


def grave(dtype: torch.dtype) -> float:
    """The relative error that leaves half of the digits: more than that is no finding beside being right."""
    return float(torch.finfo(dtype).eps ** 0.5)


def computes_in(case: Case, situation: Situation, subject: Subject) -> torch.dtype:
    """The dtype of a candidate's arithmetic at a case that it accepts: that of the case, or a narrower one.

    It is narrower where all that it returns fits into that, and what is right does not; or where it is as far off as
    autograd of the equations is there, by rounding.
    """
    own = case.call.dtype
    narrower = [d for d in WIDEST_FIRST if torch.finfo(d).eps > torch.finfo(own).eps]
    found = _values(case.call, subject)
    given = {n: found[f"d{n}"] for n in case.gradients if f"d{n}" in found}
    given = {n: g for n, g in given.items() if g.shape == case.gradients[n].shape}
    for dtype in reversed(narrower):
        telling = [g for n, g in given.items() if not _fits(case.gradients[n].to(own), dtype)]
        if any(map(_varies, telling)) and all(_fits(g, dtype) for g in telling):
            return dtype
    off = {n: worst(g, case.gradients[n]) for n, g in given.items()}
    off = {n: error for n, error in off.items() if error > case.allowed[n]}
    for dtype in narrower if off else ():
        low = replace(situation, dtype=dtype).make(case.op, case.seed)
        if low is None or any(error > low.allowed[n] for n, error in off.items()):
            continue
        if all(is_rounding(case, f"d{n}", subject, dtype) for n in off):
            return dtype
    return own


def _fits(t: Tensor, dtype: torch.dtype) -> bool:
    """Whether a tensor's finite elements are numbers of that dtype."""
    finite = t.detach()[t.isfinite()]
    return torch.equal(finite, finite.to(dtype).to(t.dtype))


def _varies(t: Tensor) -> bool:
    """Whether most of its elements differ: ones and zeros fit into any dtype."""
    return 2 * len(t[t != 0].unique()) > t.numel()


def _values(call: Call, subject: Subject) -> Mapping[str, Tensor]:
    """The gradients, as `d` and the operand, and the outputs that a candidate gives for a copy of a call.

    None of them where it raises.
    """
    inputs = {n: t.clone() for n, t in call.inputs.items()}
    try:
        with Someones():
            given = subject(replace(call, inputs=inputs, cotangents=tuple(c.clone() for c in call.cotangents)))
    except FailedError:
        return {}
    found = {f"d{n}": g for n, g in given.gradients.items()} | dict(given.outputs or {})
    return {n: g.detach() for n, g in found.items() if isinstance(g, Tensor)}


def is_rounding(case: Case, tensor: str, subject: Subject, dtype: torch.dtype | None = None) -> bool:
    """Whether the error of a gradient `dx`, or an output, is of arithmetic in a dtype, that of the case unless told.

    It moves by its own size where inputs are moved by a few units, or by as much, ties as one; a formula's does not.
    """
    before = _error(case.call, tensor, subject)
    if before is None:
        return False
    eps = torch.finfo(dtype or case.call.dtype).eps
    off = float(before.abs().max()) / scale(_right(case)[tensor])
    for k, step in enumerate((4 * eps, off, 4 * off)):
        step = min(step, _SMALL)
        sign = by_place(case.seed + k)
        call = nudged(case.call, step, _as_one)
        cotangents = tuple((c * (1 + step * sign(c))).to(c.dtype) for c in call.cotangents)
        after = _error(replace(call, cotangents=cotangents), tensor, subject)
        if after is None:
            return False
        if float((after - before).norm()) > _MOVED * float(before.norm()):
            return True
    return False


def _as_one(t: Tensor) -> Tensor:
    """Up or down by what it is, so that equal values stay equal."""
    return (t.abs() * 997).floor() % 2 * 2 - 1


def _right(case: Case) -> Mapping[str, Tensor]:
    """What is right, a gradient as `d` and the operand."""
    return {f"d{n}": g for n, g in case.gradients.items()} | dict(case.outputs)


def _error(call: Call, tensor: str, subject: Subject) -> Tensor | None:
    """What a candidate gives less what is right; None where it is not finite there, or of another shape."""
    outputs, gradients = reference(call.in_dtype(torch.float64))
    want = outputs[tensor] if tensor in outputs else gradients[tensor.removeprefix("d")]
    got = _values(call, subject).get(tensor)
    if got is None or got.shape != want.shape:
        return None
    off = torch.where(want.isfinite(), got.double() - want, 0.0)
    return off if bool(off.isfinite().all()) else None


def less_exact(d: Disagreement) -> Finding | None:
    """That an error of rounding is more than twice that of the derived backward in its dtype, and a few units.

    Of an op without equations, than that of autograd of its forward, which finite differences tell nothing of.
    """
    case = d.case
    if isinstance(case.op, Opaque) and case.op.by_differences:
        return None
    other = "autograd of its forward" if isinstance(case.op, Opaque) else "the derived backward"
    got, want = _values(case.call, _derived(case.op)).get(d.tensor), _right(case)[d.tensor]
    theirs = math.inf if got is None else worst(got, want) / scale(want)
    if d.error <= 2 * theirs + _FEW * torch.finfo(case.call.dtype).eps:
        return None
    detail = f"{d.tensor} is off by {d.error:.1e}, that of {other} by {theirs:.1e}"
    return Finding(f"less exact than {other}", f'{detail}, in the situation "{case.situation}"')


@lru_cache(maxsize=8)
def _derived(op: Op) -> Subject:
    """The op's derived functions, or its forward under autograd."""
    if isinstance(op, Opaque):
        return of_differentiable(lambda *given: tuple(op.named(op.function(*op.called_with(given))).values()))
    return of_live(live_of(op))
