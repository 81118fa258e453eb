"""Where a subject is right: a property of the call that every case it gets right has, and none that it gets wrong.

Properties are read off the cases themselves, so that no list of known bugs is needed: strides, repeated indices, ties,
zeros, sizes that coincide, the number of leading axes, the dtype.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from derive.terms.axes import PACK_NAME
from derive.verify.cases import Case

_NOTHING = 1e-9
_SHORT = 100
_MODEST = 20.0  # a value up to which exponentials are harmless


@dataclass(frozen=True)
class Condition:
    """A property of calls in words ("gamma is nowhere 0"), and the class of error of what is right only there."""

    text: str
    error: str


_MANY = 5
"""Right cases of which one may be so by chance."""

Held = dict[Condition, bool]
"""Properties, each with whether a case has it."""


def separating(right: Sequence[Case], wrong: Sequence[Case], gradients: Sequence[str]) -> Condition | None:
    """The property, or two together, that all cases in `right` have and none in `wrong`; None where there is none.

    Cases in which the gradients in question are empty or next to 0 say nothing for being right, and are left out.
    """
    asked = [g.removeprefix("d") for g in gradients]
    right = [c for c in right if any(bool((c.gradients[n].abs() > _NOTHING).any()) for n in asked or c.gradients)]
    if not right or not wrong:
        return None
    held = [dict(_properties(c)) for c in (*right, *wrong)]
    of_right, of_wrong = held[: len(right)], held[len(right) :]
    shared = [c for c in of_right[0] if all(h.get(c, True) for h in of_right)]
    for size in (1, 2) if len(right) > 2 else (1,):  # two properties of two cases prove nothing
        for some in itertools.combinations(shared, size):
            if all(any(not h.get(c, True) for c in some) for h in of_wrong):
                return Condition(" and ".join(c.text for c in some), some[0].error)
    return but_by_chance(of_right, of_wrong)


def but_by_chance(right: Sequence[Held], wrong: Sequence[Held]) -> Condition | None:
    """The property that one of many right cases lacks, and all wrong ones: that is right by chance.

    Of two places that are overwritten, one may have had nothing to lose.
    """
    for condition in right[0] if len(right) >= _MANY else ():
        lacking = sum(not h.get(condition, True) for h in right)
        if lacking == 1 and not any(h.get(condition, True) for h in wrong):
            return replace(condition, text=f"{condition.text}, or by chance")
    return None


def _properties(case: Case) -> Iterator[tuple[Condition, bool]]:
    """Properties in the order in which they are preferred, each with whether the case has it."""
    yield from _layout(case)
    yield from _values(case)
    yield from _precision(case)
    yield from _sizes(case)


def _layout(case: Case) -> Iterator[tuple[Condition, bool]]:
    call = case.call
    dys, inputs = call.cotangents, list(call.inputs.values())
    strides = "strides"
    yield Condition("the incoming gradient has no stride 0", strides), not any(_expanded(t) for t in dys)
    plain = [t.is_contiguous() for t in dys]
    yield Condition("the incoming gradient is contiguous", strides), all(plain)
    text = "the incoming gradient is contiguous, or one number expanded"
    yield Condition(text, strides), all(p or not any(t.stride()) for p, t in zip(plain, dys, strict=True))
    yield Condition("the inputs are contiguous", strides), all(t.is_contiguous() for t in inputs)
    yield (
        Condition("the incoming gradient is the same everywhere", "wrong use of the incoming gradient"),
        all(_constant(t) for t in dys),
    )
    yield Condition("no tensor is given twice", "aliasing"), len({id(t) for t in inputs}) == len(inputs)


def _values(case: Case) -> Iterator[tuple[Condition, bool]]:
    for operand in case.op.operands:
        name = operand.name
        if operand.kind == "index":
            text = f"no value of {name} is repeated"
            t = case.call.inputs[name]
            yield Condition(text, "overwritten instead of accumulated"), len(t.unique()) == t.numel()
        elif operand.kind == "tensor":
            t = case.call.inputs[name]
            yield Condition(f"{name} is nowhere 0", "singular point"), not bool((t == 0).any())
            yield Condition(f"no two values of {name} are equal", "singular point"), len(t.unique()) == t.numel()
            text = f"no value of {name} is above {_MODEST:g} in size"
            yield Condition(text, "overflow"), not bool((t.abs() > _MODEST).any())
        elif operand.kind == "scalar" and operand.has_default:
            text = f"{name} is {operand.default:g}"
            yield Condition(text, "number written into the formula"), case.call.numbers[name] == operand.default


def _precision(case: Case) -> Iterator[tuple[Condition, bool]]:
    dtype = case.call.dtype
    yield Condition("the inputs are float32 or float64", "precision"), dtype in (torch.float32, torch.float64)
    yield Condition("the inputs are float64", "precision"), dtype == torch.float64
    yield Condition("the inputs are not float16", "precision"), dtype != torch.float16
    for axis, length in case.call.lengths.items():
        short = dtype.itemsize > 2 or length <= _SHORT
        yield Condition(f"half-precision sums over {axis} are short", "precision"), short


def _sizes(case: Case) -> Iterator[tuple[Condition, bool]]:
    call = case.call
    empty = any(t.numel() == 0 for t in call.inputs.values())
    yield Condition("no axis is empty", "empty axis"), not empty
    if any(a.is_pack for o in case.op.operands for a in o.axes):
        count = len(call.leading)
        words = {0: "there are no leading axes", 1: "there is one leading axis", 2: "there are two leading axes"}
        for k, text in words.items():
            yield Condition(text, "leading axes"), count == k
        yield Condition("there is at least one leading axis", "leading axes"), count > 0
        yield Condition("there is at most one leading axis", "leading axes"), count < 2
    lengths = {a: n for a, n in call.lengths.items() if a != PACK_NAME}
    for a, b in itertools.combinations(lengths, 2):
        yield Condition(f"size({a}) = size({b})", "wrong axis"), lengths[a] == lengths[b]
    if PACK_NAME in call.lengths:
        for a, n in lengths.items():
            text = f"size({a}) = size(...)"
            yield Condition(text, "wrong axis"), n == math.prod(call.leading)
    for a, n in lengths.items():
        yield Condition(f"size({a}) = 1", "wrong axis"), n == 1
        yield Condition(f"size({a}) > 1", "axis of length 1"), n > 1


def _expanded(t: Tensor) -> bool:
    return any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape, strict=True))


def _constant(t: Tensor) -> bool:
    return t.numel() < 2 or bool((t == t.flatten()[0]).all())
