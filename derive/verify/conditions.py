"""Where a subject is right: a property of calls that every call it gets right has, and none that it gets wrong.

No list of known bugs is needed: strides, repeated indices, ties, zeros, lengths that coincide or that whole blocks
divide, the number of leading axes, the dtype. A property that the battery leaves standing is only a guess, and is
tried on fresh calls made to refute it, twenty that have it and twenty that lack it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

import torch
from sympy import S
from torch import Tensor

from derive.ir.equations import Op, Operand
from derive.ir.terms.axes import PACK_NAME, free_axes
from derive.ir.terms.elements import At
from derive.verify.cases import Case
from derive.verify.lengths import fitting, free_axes_of, places
from derive.verify.overwriting import places_read
from derive.verify.situations import Situation

_NOTHING = 1e-9
_SHORT = 100
_MODEST = (20.0, 300.0)  # values up to which exponentials are harmless, and so are products of them
_FAR = 700.0  # beyond which exponentials are no numbers, nor 0 those of less
_BLOCKS = (256, 128, 64, 32, 16, 8, 4, 2)  # longest first: who is wrong of whole ones of these drops no shorter one
_TWENTY = 20
_BY_CHANCE = 2  # of twenty
_TRIES = 3  # made for each that is wanted: some have not the property that they were made to have
_PAIRS = 4  # of properties, that are tried together
_MOST_LEADING = 3
_ROOM = 2**17  # places of the largest equation of a fresh case

Shape = tuple[dict[str, int], tuple[int, ...]]
"""The lengths of the axes that a caller chooses, and of the leading ones."""


Fit = Callable[[Shape, Random], Shape]
"""Makes a drawn shape one that has a property, or lacks it."""


def _as_drawn(shape: Shape, random: Random) -> Shape:
    return shape


@dataclass(frozen=True, eq=False)
class Condition:
    """A property of calls in words ("gamma is nowhere 0"), and the class of error of what is right only there.

    `meet` and `miss` change a shape so that the property is had, or only just not. `tells`: being right only there
    says why it is wrong elsewhere. `shows`: a call without the property is large enough to see what went wrong, as
    one of the shape `example` is. `chances`: how many of twenty calls without it may be right. `everywhere`: any
    formula is right there.
    """

    text: str
    error: str
    holds: Callable[[Case], bool]
    tells: bool = True
    meet: Fit = _as_drawn
    miss: Fit = _as_drawn
    shows: Callable[[Case], bool] = lambda case: True
    example: Callable[[Shape], Shape] = lambda shape: shape
    chances: int = _BY_CHANCE
    everywhere: bool = False


class Tried(Protocol):
    """One situation with its case, and whether the candidate was wrong there."""

    @property
    def situation(self) -> Situation: ...
    @property
    def case(self) -> Case: ...
    @property
    def wrong(self) -> bool: ...


Try = Callable[[Situation, Case], bool | None]
"""Whether the candidate is wrong of a fresh case; None where it need not accept it."""


def separating(op: Op, tried: Sequence[Tried], gradients: Sequence[str], again: Try, seed: int) -> Condition | None:
    """The first property, or two together, that separates right from wrong there and on fresh cases; None: none does.

    Cases in which the gradients in question are empty or next to 0 say nothing for being right, and those in which
    each input is one number little, as all elements are alike there. They are left out.
    """
    right = [t for t in tried if not t.wrong and _says_something(t.case, gradients) and not _is_one_number(t.case)]
    wrong = [t for t in tried if t.wrong]
    if not wrong:
        return None
    own = conditions(op)
    held = {c: [c.holds(t.case) for t in right] for c in own}
    lacked = {c: [not c.holds(t.case) for t in wrong] for c in own}
    singles = [c for c in own if all(lacked[c]) and (all(held[c]) or _but_one(held[c]))]
    shared = [c for c in own if right and all(held[c]) and c not in singles]
    pairs = [
        _both(a, b) for a, b in itertools.combinations(shared, 2)
        if all(x or y for x, y in zip(lacked[a], lacked[b], strict=True))
    ] if len(right) > 2 else []  # fmt: skip
    refuting: list[Case] = []  # fresh cases that are wrong
    for condition in (*singles, *pairs[:_PAIRS]):
        if not any(map(condition.holds, refuting)):
            found = tested(condition, op, tried, gradients, again, seed)
            if isinstance(found, Condition):
                return found
            refuting += [found] if isinstance(found, Case) else []
    return None


def tested(
    condition: Condition, op: Op, tried: Sequence[Tried], gradients: Sequence[str], again: Try, seed: int
) -> Condition | Case | None:
    """The condition, if all of twenty fresh cases that have it are right, and those that lack it wrong.

    Of those that lack it two may be right by chance, and that is said: of two places that are overwritten, one may
    have had nothing to lose. Else the case that has it and is wrong, or None.
    """
    fresh = {side: _fresh(condition, side, op, tried, seed) for side in (True, False)}
    count, chances = {True: 0, False: 0}, 0
    while any(n < _TWENTY for n in count.values()) and fresh:  # in turn, so that either side refutes it soon
        for side, cases in list(fresh.items()):
            found = _next(cases, condition, side, gradients, again) if count[side] < _TWENTY else None
            if found is None:
                del fresh[side]
                continue
            case, wrong = found
            if side and wrong:
                return case
            count[side] += 1
            chances += not side and not wrong
            if chances > condition.chances:
                return None
    if not all(count.values()):
        return None
    return replace(condition, text=f"{condition.text}, or by chance" if chances else condition.text)


def _next(
    fresh: Iterator[tuple[Situation, Case]], condition: Condition, side: bool, gradients: Sequence[str], again: Try
) -> tuple[Case, bool] | None:
    """The next case that says something, and whether it is wrong."""
    for situation, case in fresh:
        wrong = again(situation, case) if condition.holds(case) == side else None
        if wrong is not None and (wrong or _says_something(case, gradients)):
            return case, wrong
    return None


def _fresh(
    condition: Condition, side: bool, op: Op, tried: Sequence[Tried], seed: int
) -> Iterator[tuple[Situation, Case]]:
    """Cases of the situations that had the property, or lacked it, at other seeds, and lengths where these are free.

    Of a property of the lengths, cases of one situation that leaves these free.
    """
    random = Random(seed)
    wanted, free = condition.meet if side else condition.miss, [t for t in tried if _is_free(t.situation)][:1]
    of_lengths = condition.meet is not _as_drawn or condition.miss is not _as_drawn
    mine = free if of_lengths else [t for t in tried if condition.holds(t.case) == side] or free
    for k in range(_TRIES * _TWENTY if mine else 0):
        situation = mine[k % len(mine)].situation
        lengths: Mapping[str, int] | None = None
        leading = mine[k % len(mine)].case.call.leading
        if _is_free(situation):
            drawn = (_drawn(op, leading, random, longest) for longest in (9, 4, 2))
            shapes = (wanted(shape, random) if k % 2 or side else shape for shape in drawn)
            found = next((shape for shape in shapes if _has_room(op, shape)), None)
            if found is None:
                continue
            lengths, leading = found
        case = situation.make(op, seed + 1000 + k, lengths, leading)
        if case is not None:
            yield situation, case


def _is_free(situation: Situation) -> bool:
    return situation.lengths == "distinct" and situation.indices != "distinct"


def _has_room(op: Op, shape: Shape) -> bool:
    sizes = fitting(op, {**shape[0], PACK_NAME: math.prod(shape[1])})
    return sizes is not None and places(op, sizes) <= _ROOM


def _drawn(op: Op, leading: tuple[int, ...], random: Random, longest: int) -> Shape:
    axes = [a for a in free_axes_of(op) if a != PACK_NAME]
    return {a: random.randint(2, longest) for a in axes}, tuple(random.randint(2, min(longest, 5)) for _ in leading)


def _says_something(case: Case, gradients: Sequence[str]) -> bool:
    names = [n for n in (g.removeprefix("d") for g in gradients) if n in case.gradients]
    return any(bool((case.gradients[n].abs() > _NOTHING).any()) for n in names or case.gradients)


def _is_one_number(case: Case) -> bool:
    inputs = [case.call.inputs[o.name] for o in case.op.differentiable]
    return any(t.numel() > 1 for t in inputs) and all(map(_constant, inputs))


def _but_one(held: Sequence[bool]) -> bool:
    return len(held) >= 5 and sum(held) == len(held) - 1


def _both(a: Condition, b: Condition) -> Condition:
    return Condition(
        f"{a.text} and {b.text}",
        a.error,
        lambda case: a.holds(case) and b.holds(case),
        a.tells and b.tells,
        lambda shape, random: b.meet(a.meet(shape, random), random),
        lambda shape, random: (a if random.random() < 0.5 else b).miss(shape, random),
        lambda case: a.shows(case) and b.shows(case),
    )


# --- the properties that are known -----------------------------------------------------------------------------------


def conditions(op: Op) -> tuple[Condition, ...]:
    """Properties of an op's calls, in the order in which they are preferred."""
    return (*_layout(op), *_values(op), *_precision(op), *_leading(op), *_sizes(op))


def _layout(op: Op) -> Iterator[Condition]:
    strides = "strides"
    yield Condition(
        "the incoming gradient has no stride 0", strides, lambda c: not any(map(_expanded, c.call.cotangents))
    )
    yield Condition(
        "the incoming gradient is contiguous", strides, lambda c: all(t.is_contiguous() for t in c.call.cotangents)
    )
    yield Condition(
        "the incoming gradient is contiguous, or one number expanded",
        strides,
        lambda c: all(t.is_contiguous() or not any(t.stride()) for t in c.call.cotangents),
    )
    yield Condition(
        "the inputs are contiguous", strides, lambda c: all(t.is_contiguous() for t in c.call.inputs.values())
    )
    yield Condition(
        "the incoming gradient is the same everywhere",
        "wrong use of the incoming gradient",
        lambda c: all(map(_constant, c.call.cotangents)),
        tells=False,
    )
    yield Condition(
        "no tensor is given twice", "aliasing", lambda c: len({*map(id, c.call.inputs.values())}) == len(c.call.inputs)
    )


def _values(op: Op) -> Iterator[Condition]:
    for operand in op.operands:
        if operand.kind == "index":
            yield _of(operand, "no value of {} is repeated", "overwritten instead of accumulated", _differ)
        elif operand.kind == "constant":
            error = "rows of padding" if _is_mask(op, operand) else "singular point"
            yield _of(operand, "{} is nowhere 0", error, _nowhere_zero)
        elif operand.kind == "tensor":
            yield _of(operand, "{} is nowhere 0", "singular point", _nowhere_zero)
            yield _of(operand, "no two values of {} are equal", "singular point", _differ)
            yield _of(operand, f"the values of {{}} are less than {_FAR:g} apart", "overflow", _near)
            for most in _MODEST:
                yield _of(operand, f"no value of {{}} is above {most:g} in size", "overflow", _at_most(most))
            yield _of(operand, f"no value of {{}} is above {_FAR:g}", "overflow", _none_above)
            yield _of(operand, f"no value of {{}} is below {-_FAR:g}", "overflow", lambda t: _none_above(-t))
        elif operand.kind == "scalar" and operand.has_default:
            yield _is_default(operand)


def _of(operand: Operand, text: str, error: str, holds: Callable[[Tensor], bool]) -> Condition:
    return Condition(text.format(operand.name), error, lambda case: holds(case.call.inputs[operand.name]))


def _is_mask(op: Op, operand: Operand) -> bool:
    """Whether a constant of fewer axes than an input leaves rows of it out where it is 0: all that reads it is 0."""
    if not any({*operand.axes} < {*o.axes} for o in op.differentiable):
        return False
    reading = [(e, {at: S.Zero for at in e.reads if at.name == operand.name}) for e in op.equations]
    return all(e.body.xreplace(put) == 0 for e, put in reading if put)


def _is_default(operand: Operand) -> Condition:
    text = f"{operand.name} is {operand.default:g}"
    return Condition(
        text, "number written into the formula", lambda c: c.call.numbers[operand.name] == operand.default
    )


def _differ(t: Tensor) -> bool:
    return len(t.unique()) == t.numel()


def _nowhere_zero(t: Tensor) -> bool:
    return not bool((t == 0).any())


def _near(t: Tensor) -> bool:
    return not t.numel() or float(t.max() - t.min()) < _FAR


def _none_above(t: Tensor) -> bool:
    return not bool((t > _FAR).any())


def _at_most(most: float) -> Callable[[Tensor], bool]:
    return lambda t: not bool((t.abs() > most).any())


def _precision(op: Op) -> Iterator[Condition]:
    wide = (torch.float32, torch.float64)
    yield Condition("the inputs are float32 or float64", "precision", lambda c: c.call.dtype in wide)
    yield Condition("the inputs are float64", "precision", lambda c: c.call.dtype == torch.float64)
    yield Condition("the inputs are not float16", "precision", lambda c: c.call.dtype != torch.float16)
    for axis in free_axes_of(op):
        yield _sums_are_short(axis)


def _sums_are_short(axis: str) -> Condition:
    text = f"half-precision sums over {axis} are short"
    return Condition(text, "precision", lambda c: c.call.dtype.itemsize > 2 or c.call.lengths[axis] <= _SHORT)


def _leading(op: Op) -> Iterator[Condition]:
    if any(a.is_pack for o in op.operands for a in o.axes):
        yield _leading_axes("there are no leading axes", 0, 0)
        yield _leading_axes("there is one leading axis", 1, 1)
        yield _leading_axes("there are two leading axes", 2, 2)
        yield _leading_axes("there is at least one leading axis", 1, _MOST_LEADING)
        yield _leading_axes("there is at most one leading axis", 0, 1)


def _leading_axes(text: str, low: int, high: int) -> Condition:
    """What is read as a matrix has one leading axis."""

    def of_count(counts: Sequence[int]) -> Fit:
        return lambda shape, random: (shape[0], tuple(random.randint(2, 5) for _ in range(random.choice(counts))))

    inside = range(low, high + 1)
    outside = [k for k in range(_MOST_LEADING + 1) if k not in inside]
    return Condition(
        text, "leading axes", lambda c: len(c.call.leading) in inside, False, of_count(inside), of_count(outside)
    )


def _sizes(op: Op) -> Iterator[Condition]:
    yield Condition("no axis is empty", "empty axis", lambda c: all(t.numel() for t in c.call.inputs.values()))
    every = free_axes_of(op)
    own = [a for a in every if a != PACK_NAME]
    for a, b in (*itertools.combinations(own, 2), *((a, PACK_NAME) for a in own if PACK_NAME in every)):
        yield _same_length(a, b)
    for a, b in itertools.permutations(own, 2):
        yield _no_longer(a, b, 0)
        yield _no_longer(a, b, 1)
    yield from _read_once(op)
    for a in own:
        yield _length_1(a)
        yield _longer(a)
    for a, block in itertools.product(every, _BLOCKS):
        yield _whole_blocks(a, block)


def _same_length(a: str, b: str) -> Condition:
    text = f"size({a}) = size({b})"
    return Condition(
        text, "wrong axis", lambda c: _length(c, a) == _length(c, b), False,
        meet=lambda shape, random: ({**shape[0], a: shape[0].get(b, math.prod(shape[1]))}, shape[1]),
    )  # fmt: skip


def _no_longer(a: str, b: str, more: int) -> Condition:
    """A matrix that is square or wide; the diagonal of a tall one ends."""
    text = f"size({a}) <= size({b})" + (f" + {more}" if more else "")

    def of_lengths(shape: Shape, length: int) -> Shape:
        return {**shape[0], a: length}, shape[1]

    return Condition(
        text,
        "one axis longer than another",
        lambda c: _length(c, a) <= _length(c, b) + more,
        meet=lambda shape, random: of_lengths(shape, random.randint(1, shape[0][b] + more)),
        miss=lambda shape, random: of_lengths(shape, shape[0][b] + more + random.randint(1, 5)),
        chances=0,
    )


def _read_once(op: Op) -> Iterator[Condition]:
    """Windows that overlap add up what is at one place; one window, or windows of one place, do not."""
    derived = {r.axis.base for r in op.sizes if r.formula is not None}
    for operand in (o for o in op.operands if o.is_tensor):
        reads = {at for e in op.equations for at in e.reads if at.name == operand.name}
        if len(reads) == 1 and all(i.is_Add or not i.args for at in reads for i in at.index):
            (read,) = reads
            over = [(a.base, free_axes(i)) for a, i in zip(operand.axes, read.index, strict=True) if i.is_Add]
            taps = [sorted({a.base for a in axes} - derived) for _, axes in over]
            if over and all(len(t) == 1 for t in taps):
                yield _by_windows(read, {held: tap for (held, _), (tap,) in zip(over, taps, strict=True)})


def _by_windows(read: At, taps: Mapping[str, str]) -> Condition:
    """`taps`: the axis of a window's places by the axis that it is of."""

    def holds(case: Case) -> bool:
        at = places_read(read, case)
        return len(at.unique()) == at.numel()

    def meet(shape: Shape, random: Random) -> Shape:
        """Windows of one place, or one window."""
        if random.random() < 0.5:
            return shape[0] | dict.fromkeys(taps.values(), 1), shape[1]
        return shape[0] | {held: shape[0][tap] for held, tap in taps.items()}, shape[1]

    def miss(shape: Shape, random: Random) -> Shape:
        return shape[0] | {held: shape[0][tap] + random.randint(1, 4) for held, tap in taps.items()}, shape[1]

    text = f"no place of {read.name} is read twice"
    return Condition(text, "overwritten instead of accumulated", holds, False, meet, miss)


def _length_1(a: str) -> Condition:
    text = f"size({a}) = 1"
    return Condition(text, "wrong axis", lambda c: _length(c, a) == 1, False, meet=_with(a, 1), everywhere=True)


def _longer(a: str) -> Condition:
    return Condition(f"size({a}) > 1", "axis of length 1", lambda c: _length(c, a) > 1, miss=_with(a, 1))


def _with(axis: str, length: int) -> Fit:
    return lambda shape, random: _of_length(shape, axis, length)


def _of_length(shape: Shape, axis: str, length: int) -> Shape:
    if axis != PACK_NAME:
        return {**shape[0], axis: length}, shape[1]
    return shape[0], (*(1 for _ in shape[1][1:]), length) if shape[1] else ()


def _whole_blocks(axis: str, block: int) -> Condition:
    """Loops over whole blocks leave out what is behind the last of them, or read beyond the end."""

    def miss(shape: Shape, random: Random) -> Shape:
        return _of_length(shape, axis, block // 2 * random.choice((1, 3)))  # whole blocks of half the size

    return Condition(
        f"size({axis}) is a multiple of {block}",
        "last block dropped",
        lambda c: _length(c, axis) % block == 0,
        meet=lambda shape, random: _of_length(shape, axis, block * random.randint(1, 3)),
        miss=miss,
        shows=lambda c: _length(c, axis) > block,
        example=lambda shape: _of_length(shape, axis, block + 1),
        chances=0,
    )


def _length(case: Case, axis: str) -> int:
    return math.prod(case.call.leading) if axis == PACK_NAME else case.call.lengths[axis]


def _expanded(t: Tensor) -> bool:
    return any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape, strict=True))


def _constant(t: Tensor) -> bool:
    return t.numel() < 2 or bool((t == t.flatten()[0]).all())
