"""A subject held against a case: what is wrong, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from derive.notation.running import FailedError, Someones
from derive.verify.cases import Call, Case, difference, scale, worst

_ROUNDINGS = 4
"""Times what a rounding of the inputs moves a value by, that one way to compute it may be off from another."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What a subject gives for a call: gradients by operand (None: missing), and outputs where it has a forward."""

    gradients: Mapping[str, Tensor | None]
    outputs: Mapping[str, Tensor] | None = None


Subject = Callable[[Call], Answer]


@dataclass(frozen=True, eq=False)
class Disagreement:
    """One thing that is wrong of one case.

    `kind` is "value", "output" (the forward's value), "shape", "dtype", "missing", "raised", "modified", "again"
    (the second run differs) or "gave way" (PyTorch ran in place of a kernel). `got` and `expected` are the values at
    `index`; `error` is relative to the largest element expected. `shape` is that of what was given, where it is wrong.
    """

    case: Case
    kind: str
    tensor: str
    message: str
    index: tuple[int, ...] = ()
    got: float = 0.0
    expected: float = 0.0
    error: float = float("inf")
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.case.situation}: {self.message}"


def disagreements(case: Case, subject: Subject, exactly: bool = False) -> tuple[Disagreement, ...]:
    """All that is wrong of a case; () where nothing is. The subject runs twice: to rounding, or `exactly`, the same."""
    before = _snapshot(case.call)
    try:
        with Someones():
            first = subject(case.call)
            held = {name: None if g is None else g.detach().clone() for name, g in first.gradients.items()}
            out = [d for name in first.gradients for d in _gradient(case, name, held[name])]
            out += [d for name, o in (first.outputs or {}).items() for d in _output(case, name, o)]
            modified = _modified(case, before)
            if modified:
                return (*out, *modified)
            second = subject(case.call)
    except FailedError as failed:
        return (Disagreement(case, "raised", "", failed.line),)
    out += [d for name, g in second.gradients.items() for d in _again(case, name, held[name], g, exactly)]
    return (*out, *_modified(case, before))


def told(found: Iterable[Disagreement], *where: str) -> list[Disagreement]:
    """The same, each message with where it was found."""
    return [replace(d, message=" ".join([d.message, *where])) for d in found]


def _gradient(case: Case, operand: str, got: Tensor | None) -> list[Disagreement]:
    name, want = f"d{operand}", case.gradients[operand]
    dtype = case.call.inputs[operand].dtype
    if got is None:
        if not bool(want.any()):  # as autograd has it of what an output does not depend on
            return []
        return [Disagreement(case, "missing", name, f"{name} is None, expected a gradient")]
    if got.shape != want.shape:
        text = f"{name} has shape {list(got.shape)}, expected {list(want.shape)}"
        return [Disagreement(case, "shape", name, text, shape=tuple(got.shape))]
    found = _values(case, "value", name, got, want, case.allowed[operand])
    if got.dtype != dtype:
        found.append(Disagreement(case, "dtype", name, f"{name} has dtype {got.dtype}, expected {dtype}", error=0.0))
    return found


def _output(case: Case, name: str, got: Tensor) -> list[Disagreement]:
    want, got = case.outputs[name], got.detach()
    if got.shape != want.shape:
        text = f"{name} has shape {list(got.shape)}, expected {list(want.shape)}"
        return [Disagreement(case, "output", name, text)]
    return _values(case, "output", name, got, want, case.outputs_allowed[name])


def _values(case: Case, kind: str, name: str, got: Tensor, want: Tensor, allowed: float) -> list[Disagreement]:
    off = difference(got, want)
    if off.numel() == 0 or float(off.max()) <= allowed:
        return []
    if float(off.max()) <= allowed + _ROUNDINGS * case.unavoidable[name]:
        return []
    index = tuple(int(i) for i in torch.unravel_index(off.argmax(), off.shape))
    mine, right = float(got.detach()[index]), float(want[index])
    text = f"{name}{list(index) if index else ''} is {mine:.8g}, expected {right:.8g}"
    return [Disagreement(case, kind, name, text, index, mine, right, float(off.max()) / scale(want))]


def _again(
    case: Case, operand: str, first: Tensor | None, second: Tensor | None, exactly: bool
) -> list[Disagreement]:
    if not isinstance(first, Tensor) or not isinstance(second, Tensor) or first.shape != second.shape:
        return []
    if exactly and torch.allclose(first, second, rtol=0, atol=0, equal_nan=True):
        return []
    # the right values say where to look: what is not finite twice is no difference
    apart = worst(second, torch.where(case.gradients[operand].isfinite(), first.double(), torch.nan)) \
        if first.shape == case.gradients[operand].shape else 0.0  # fmt: skip
    if apart <= (0.0 if exactly else max(case.allowed[operand], 1e-12)):
        return []
    text = f"d{operand} of a second run differs from the first by {apart:.3g}"
    return [Disagreement(case, "again", f"d{operand}", text, error=apart)]


def _tensors(call: Call) -> dict[str, Tensor]:
    return {**call.inputs, **{f"d{o}": c for o, c in zip(call.op.outputs, call.cotangents, strict=True)}}


def _snapshot(call: Call) -> dict[str, Tensor]:
    return {name: t.detach().clone() for name, t in _tensors(call).items()}


def _modified(case: Case, before: Mapping[str, Tensor]) -> list[Disagreement]:
    """Whatever the subject wrote into, put back as it was."""
    found = []
    for name, t in _tensors(case.call).items():
        if not torch.equal(t.detach().nan_to_num(), before[name].nan_to_num()):
            found.append(Disagreement(case, "modified", name, f"{name} was written to"))
            _restore(t, before[name])
    return found


def _restore(t: Tensor, values: Tensor) -> None:
    with torch.no_grad():
        if 0 in t.stride() and t.numel() > 1:  # an expanded tensor has one element a place of memory
            t = t[tuple(slice(0, 1) if s == 0 else slice(None) for s in t.stride())]
            values = values[tuple(slice(0, n) for n in t.shape)]
        t.copy_(values)
