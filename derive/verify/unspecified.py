"""A candidate without a spec: held against autograd of its own forward, or another, or finite differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from derive.errors import DeriveError
from derive.notation.running import FailedError, Someones
from derive.verify.battery import BATTERY
from derive.verify.cases import Case, executed, reference, scale, worst
from derive.verify.compare import Subject, disagreements
from derive.verify.inputs import Taken, guessed, opaque
from derive.verify.opaque import Opaque
from derive.verify.situations import Situation
from derive.verify.subjects import of_backward, of_differentiable, signature_of

_ALIKE = {torch.float64: 1e-5, torch.float32: 2e-2}  # relative: autograd and differences of one forward


Found = Callable[..., Any] | type[torch.autograd.Function]


class _Varies(DeriveError):
    """A forward that returns something else each time, whatever it is given."""


class _Context:
    """What a `torch.autograd.Function` is given as `ctx`, where its forward runs under autograd itself."""

    def __init__(self) -> None:
        self.saved_tensors: tuple[Any, ...] = ()
        self.needs_input_grad = (True,) * 64

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        pass

    mark_dirty = mark_non_differentiable

    def set_materialize_grads(self, value: bool) -> None:
        pass


@dataclass(frozen=True, eq=False)
class Unspecified:
    """A candidate with its forward, and that one's parameters.

    It is a function under autograd, where it has its own backward, or itself a backward.
    """

    name: str
    forward: Callable[..., Any]
    parameters: tuple[inspect.Parameter, ...]
    whose: str  # "its own forward", "the forward NAME"
    apply: Callable[..., Any] | None = None
    backward: Callable[..., Any] | None = None
    by_differences: bool = False  # its forward has the gradient that is judged

    def subject(self, op: Opaque) -> Subject:
        """The candidate's gradients. Raises DeriveError where a backward takes another number of inputs."""
        if self.backward is not None:
            return of_backward(self.backward, op)
        assert self.apply is not None
        apply = self.apply
        return of_differentiable(lambda *given: tuple(op.named(apply(*op.called_with(given))).values()))


@dataclass(frozen=True, eq=False)
class Standing:
    """An op that stands for a candidate's forward, what that takes, and whether it was guessed."""

    op: Opaque
    taken: tuple[Taken, ...]
    guessed: bool


def unspecified(found: Found, name: str, forward: Callable[..., Any] | None, whose: str) -> Unspecified:
    """The candidate, by its own forward or the one that is given.

    Raises DeriveError where a function that is no `torch.autograd.Function` comes without a forward.
    """
    if forward is not None:
        other = Unspecified(name, forward, tuple(signature_of(forward).parameters.values()), whose)
        if isinstance(found, type) and issubclass(found, torch.autograd.Function):
            return replace(other, apply=found.apply)
        takes_as_many = isinstance(found, OpOverload) and len(found._schema.arguments) == len(other.parameters)
        return replace(other, apply=found) if takes_as_many else replace(other, backward=found)
    if isinstance(found, OpOverload):
        own = tuple(signature_of(found).parameters.values())
        return Unspecified(name, found, own, "its own forward", apply=found, by_differences=True)
    if isinstance(found, type) and issubclass(found, torch.autograd.Function):
        with_context = "setup_context" not in vars(found)
        plain = (lambda *given: found.forward(_Context(), *given)) if with_context else found.forward
        own = tuple(inspect.signature(found.forward).parameters.values())[with_context:]
        return Unspecified(name, plain, own, "its own forward", apply=found.apply)
    raise DeriveError(
        f"{name} is a function, whose forward is not known",
        fix="give --forward FILE.py:NAME, or a spec with --op or --from",
    )


def standing(candidate: Unspecified, taken: Sequence[Taken] | None, seed: int) -> Standing:
    """The op that stands for the candidate's forward, with what that takes as said, or guessed.

    Of several guesses the first at which the candidate is right, else that at which it runs. Raises DeriveError where
    the forward runs with none of them.
    """
    if taken is not None:
        return Standing(_as_said(candidate, taken, seed), tuple(taken), False)
    best: tuple[int, Standing] | None = None
    for guess in guessed(candidate.parameters):
        try:
            found = Standing(_settled(candidate, guess, False, seed), guess, True)
        except _Varies:
            raise
        except DeriveError:
            continue
        wrong = _how_wrong(candidate, found.op, seed)
        if best is None or wrong < best[0]:
            best = wrong, found
        if wrong == 0:
            break
    if best is None:
        names = ", ".join(p.name for p in candidate.parameters)
        raise DeriveError(
            f"what its forward takes is not known: {names}",
            op=candidate.name,
            fix=f'say it with --inputs "{_suggested(candidate.parameters)}", or by example_inputs() in the file',
        )
    return best[1]


def _suggested(parameters: Sequence[inspect.Parameter]) -> str:
    whole = (int, bool, "int", "bool")
    shown = ((p.name, "2" if p.annotation in whole else "[n, d]") for p in parameters if p.default is p.empty)
    return ", ".join(f"{name}: {what}" for name, what in shown)


def _as_said(candidate: Unspecified, taken: Sequence[Taken], seed: int) -> Opaque:
    """With the lengths free, and where the forward refuses that, as they were given in numbers."""
    try:
        return _settled(candidate, taken, False, seed)
    except DeriveError as error:
        if not any(a.isdigit() for t in taken for a in t.axes):
            raise
        first = error
    try:
        return _settled(candidate, taken, True, seed)
    except DeriveError:
        raise first from None


def _settled(candidate: Unspecified, taken: Sequence[Taken], fixed: bool, seed: int) -> Opaque:
    """The op with its outputs, the dtype that its forward computes in, and whether autograd tells its gradient."""
    op = opaque(candidate.name, candidate.forward, candidate.parameters, taken, fixed)
    op = replace(op, by_differences=candidate.by_differences)
    call = BATTERY[0].call(op, seed)
    if call is None or not op.differentiable:
        what = "no lengths fit" if op.differentiable else "no input takes a gradient"
        raise DeriveError(what, op=op.name, fix="give floating point tensors with --inputs")
    try:
        executed(call)
    except DeriveError:
        op = replace(op, takes=torch.float32)
        executed(replace(call, op=op))  # which tells, where this is not why
    case = BATTERY[0].make(op, seed)
    if case is None:
        raise DeriveError("found no inputs at which its forward is finite", op=op.name, fix="give others with --inputs")
    if all(torch.equal(o, o.float().double()) for o in case.outputs.values() if o.numel() > 1):
        op = replace(op, takes=torch.float32)
    op = replace(op, outputs=tuple(_with_gradient(candidate, op, case)))
    case = _made(op, BATTERY[0], seed)
    again = executed(case.call)
    if any(worst(o, case.outputs[n]) > 0 for n, o in again.items()):
        fix = "let it take what it draws, a mask, as an input"
        raise _Varies("its forward returns something else each time", op=op.name, fix=fix)
    return op if op.by_differences else replace(op, by_differences=not _is_differentiable(op, case))


def _made(op: Opaque, situation: Situation, seed: int) -> Case:
    case = situation.make(op, seed)
    assert case is not None, "it was made before"
    return case


def _with_gradient(candidate: Unspecified, op: Opaque, case: Case) -> list[str]:
    """The outputs through which a gradient flows back to the candidate; all of a backward, or of what does not run."""
    if candidate.apply is None:
        return list(case.outputs)
    arguments = case.call.in_dtype(op.takes).arguments()
    leaves = [a.detach().clone() if isinstance(a, Tensor) else a for a in arguments]
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            leaf.requires_grad_()
    try:
        with Someones():
            found = op.named(candidate.apply(*op.called_with(leaves)))
    except FailedError:
        return list(case.outputs)
    if not any(t.requires_grad for t in found.values()):
        raise DeriveError("nothing that it returns has a gradient", op=op.name, fix="return what is differentiable")
    return [n for n, t in found.items() if t.requires_grad]


def _is_differentiable(op: Opaque, case: Case) -> bool:
    """Whether autograd of the forward is what finite differences say, all of it."""
    by_autograd = reference(case.call)[1]
    found = op.differences(case.call.arguments(), case.call.cotangents)
    return all(worst(by_autograd[n], g) <= _ALIKE[op.takes] * scale(g) for n, g in found.items())


def _how_wrong(candidate: Unspecified, op: Opaque, seed: int) -> int:
    """0 where the candidate is right of an ordinary call, 1 where a value is wrong, 2 a shape, 3 where it raises."""
    try:
        subject = candidate.subject(op)
    except DeriveError:
        return 3
    kinds = {d.kind for d in disagreements(_made(op, BATTERY[0], seed), subject)}
    return 3 if "raised" in kinds else 2 if "shape" in kinds else 1 if kinds else 0
