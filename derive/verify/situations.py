"""One way in which a call is unusual, and the case that an op has of it.

What the values of the inputs must be for the op to be finite is what the spec says, then what trying shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from zlib import crc32

import torch
from sympy import Mul, Pow
from torch import Generator, Tensor

from derive.errors import DeriveError
from derive.ir.equations import Op, Operand
from derive.ir.terms.axes import PACK_NAME
from derive.ir.terms.elements import At, Scalar
from derive.ir.terms.functions import having
from derive.primitives import is_of_exponentials
from derive.rules.stability.largest_off import with_largest_taken_off
from derive.verify import values
from derive.verify.cases import Call, Case, case_of, executed, reference, shape_of, world_of
from derive.verify.lengths import containers, emptied, filled, fitting, free_axes_of, places, room_for_offsets
from derive.verify.opaque import Opaque
from derive.verify.reference import all_sizes, execute

_DISTINCT = (3, 5, 2, 7, 4, 6, 9, 8, 11, 10)
_ODD_FIRST = (3, 5, 7, 9, 2, 4, 6, 8, 11, 10)
_BLOCKS = (16, 32, 8, 64)
_SHORT = (3, 2, 4, 5)
_ROWS = (301, 151, 75)
_ROOM = 2**19
"""How long one row is, the first for which the places of no equation are more than there is room for."""
_LONG = 600
_SOME = (32, 16, 8, 4)  # the most of these that there is room for
_ATTEMPTS = 6
_EXPONENTIALS = having(is_of_exponentials)
_GOALS = {"many rows": (600, 2**20), "long rows": (2400, 2**20), "rows of some vectors": (48, 2**17)}
"""The length of the first or the last axis, and how many places of one equation there is room for."""
_SUMS = ("long first", "long last", *_GOALS)


@dataclass(frozen=True)
class Situation:
    """One way in which a call is unusual. What is not said is ordinary: distinct sizes, two leading axes, float64.

    `lengths` is "distinct", "whole blocks" (powers of two), "odd", "same", "ones", "first is 1", "last is 1", "empty",
    "many", "long first", "long last" or "one long row" (all others short), or, for loops that take a while, "many
    rows", "long rows" or "rows of some vectors"; `inputs` and `cotangents` are a layout, "contiguous", "transposed",
    and for cotangents "stride 0" (one number for all) or "rows" (stride 0 along the last dimension); `indices` are
    "any", "repeated", "pairs", "last" or "distinct"; `numbers` are "default", "other", "zero", or "two", which values
    that are rounded can meet. `exponents`: what is changed is not the first input, but those that exponentials are
    taken of.
    """

    name: str
    why: str
    lengths: str = "distinct"
    leading: tuple[int, ...] = (2, 3)
    change: values.Change = values.unchanged
    indices: str = "any"
    inputs: str = "contiguous"
    cotangents: str = "contiguous"
    numbers: str = "default"
    shared: bool = False
    dtype: torch.dtype = torch.float64
    exponents: bool = False
    applies: Callable[[Op], bool] = lambda op: True

    def make(
        self, op: Op, seed: int = 0, lengths: Mapping[str, int] | None = None, leading: tuple[int, ...] | None = None
    ) -> Case | None:
        """The case of this situation, or None where the op has none.

        `lengths` overrides those of some axes, and `leading` the leading ones.

        Raises DeriveError where no inputs are found at which the op is finite anywhere.
        """
        if not self.applies(op):
            return None
        domains: Mapping[str, str] = domains_of(op)
        for attempt in range(_ATTEMPTS):
            generator = Generator().manual_seed(crc32(f"{op.name} {self.name} {seed} {attempt}".encode()))
            if 2 * attempt >= _ATTEMPTS:  # other numbers may ask for other values: x**1.5 for x above 0
                domains = {n: "not below 0" if d == "any" else d for n, d in domains.items()}
            call = self._call(op, generator, domains, lengths or {}, leading)
            if call is None:
                return None
            outputs = _outputs(call)
            if outputs is not None and (_is_bounded(outputs) or not _bounded(op)):
                return case_of(self.name, seed, self._with_cotangents(call, outputs, generator))
        return None

    def call(self, op: Op, seed: int = 0) -> Call | None:
        """A call of the op with its inputs as they are drawn, whatever comes of it; None where no lengths fit."""
        return self._call(op, Generator().manual_seed(seed), dict.fromkeys((o.name for o in op.operands), "any"), {})

    def _call(
        self,
        op: Op,
        generator: Generator,
        domains: Mapping[str, str],
        override: Mapping[str, int],
        leading: tuple[int, ...] | None = None,
    ) -> Call | None:
        leading = self._leading(op) if leading is None else leading
        sizes = self._sizes(op, override, leading)
        try:
            if sizes is not None and self.lengths in _GOALS and not override:
                sizes, leading = _filled(op, sizes, leading, self.lengths)
            sizes = None if sizes is None else all_sizes(op, sizes)
        except DeriveError:  # no place is left beside an empty axis
            return None
        if sizes is None:
            return None
        meant = exponents_of(op) if self.exponents else {o.name for o in op.differentiable[:1]}
        inputs: dict[str, Tensor] = {}
        for operand in op.operands:
            if operand.is_tensor:
                shape = shape_of(operand, sizes, leading)
                drawn = self._drawn(operand, shape, sizes, generator, operand.name in meant)
                inputs[operand.name] = values.laid_out(values.DOMAINS[domains[operand.name]](drawn), self.inputs)
        inputs = apart(op, inputs, domains, sizes)
        if self.shared:
            inputs = _sharing(op, inputs)
        numbers = {o.name: self._numbers(op, o, sizes) for o in op.operands if not o.is_tensor}
        return Call(op, leading, inputs, numbers).in_dtype(self.dtype)

    def _leading(self, op: Op) -> tuple[int, ...]:
        special = {"ones": (1,), "same": (3,), "long first": (_LONG,), "first is 1": (1, 3), "empty": (0,)}
        if self.lengths == "one long row":
            return (2, _ROWS[0]) if free_axes_of(op) == (PACK_NAME,) else (1, 2)
        return special.get(self.lengths, self.leading)

    def _sizes(self, op: Op, override: Mapping[str, int], leading: tuple[int, ...]) -> dict[str, int] | None:
        """The lengths that this situation wants, or near them; an empty axis is put in after the rest fits."""
        if self.lengths == "one long row" and not override:
            return _with_a_long_row(op, leading)
        axes = free_axes_of(op)
        pool = iter({"odd": _ODD_FIRST, "whole blocks": _BLOCKS}.get(self.lengths, _DISTINCT))
        wish = {a: next(pool, 3) for a in axes} | {a: 11 for a in containers(op)}
        if self.lengths in ("distinct", "odd"):
            wish |= {a: n + wish[a] for a, n in room_for_offsets(op).items() if n >= wish.get(a, n + 1)}
        if self.indices == "distinct":
            wish |= {o.ranges_over.base: 48 for o in op.operands if o.kind == "index" and o.ranges_over is not None}
        own = [a for a in axes if a != PACK_NAME]
        changed = {
            "same": dict.fromkeys(axes, 3),
            "ones": dict.fromkeys(axes, 1),
            "first is 1": dict.fromkeys(own[:1], 1),
            "last is 1": dict.fromkeys(own[-1:], 1),
            "long first": dict.fromkeys(axes, 4) | dict.fromkeys(axes[:1], _LONG),
            "many": dict.fromkeys(axes, next(n for n in _SOME if n ** len(axes) <= _ROOM or n == _SOME[-1])),
            "long last": dict.fromkeys(axes, 4) | dict.fromkeys(own[-1:], _LONG),
        }.get(self.lengths, {})
        wish = {**wish, **changed, **override, PACK_NAME: math.prod(leading)}
        sizes = None if override else fitting(op, wish, 3) or fitting(op, wish, 2)
        sizes = sizes or fitting(op, wish)
        if sizes is None:  # of many axes, products of the last ones are longer than any may be
            short = {a: _SHORT[k % len(_SHORT)] for k, a in enumerate(axes)}
            sizes = fitting(op, {**wish, **short, **changed, **override})
        if sizes is not None and self.lengths == "empty" and not override:
            chosen = {o.ranges_over.base for o in op.operands if o.kind == "index" and o.ranges_over is not None}
            chosen |= {a.base for e in with_largest_taken_off(op).equations if e.free for a in e.over}
            in_turn = sorted(axes, key=lambda a: a != PACK_NAME)
            found = (emptied(op, sizes, a) for a in in_turn if a not in chosen)
            # no value lies on an empty axis, and no maximum
            fit = (s for s in found if s is None or all(all_sizes(op, s).get(a) != 0 for a in chosen))
            return next(fit, sizes)
        return sizes

    def _drawn(
        self, operand: Operand, shape: list[int], sizes: Mapping[str, int], generator: Generator, first: bool
    ) -> Tensor:
        if operand.ranges_over is not None:
            return values.indices(self.indices, shape, sizes[operand.ranges_over.base], generator)
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return self.change(drawn, operand, first)

    def _numbers(self, op: Op, operand: Operand, sizes: Mapping[str, int]) -> float:
        if operand.kind == "length" and operand.ranges_over is not None:
            return sizes[operand.ranges_over.base]
        default = operand.default if operand.has_default else 0.7
        nothing = default if operand.name in _divisors(op) else 0
        return {"default": default, "two": 2, "zero": nothing, "other": 0.7 * default + 0.05}[self.numbers]

    def _with_cotangents(self, call: Call, outputs: Mapping[str, Tensor], generator: Generator) -> Call:
        made = tuple(values.cotangent(self.cotangents, list(o.shape), generator, self.dtype) for o in outputs.values())
        if self.lengths in _SUMS and self.dtype != torch.float64:  # of what cancels, few digits are left
            made = tuple(c.abs() for c in made)
        return Call(call.op, call.leading, call.inputs, call.numbers, made)


@lru_cache(maxsize=64)
def exponents_of(op: Op) -> frozenset[str]:
    """The inputs with a gradient that exponentials are taken of, however these are spelled: the nearest of them.

    Of an op without equations the first, which they may be taken of.
    """
    if isinstance(op, Opaque):
        return frozenset(o.name for o in op.differentiable[:1])
    near = {at.name for e in op.equations for f in e.body.atoms(*_EXPONENTIALS) for at in f.atoms(At)}
    given, seen = {o.name for o in op.differentiable}, set[str]()
    while near and not near & given:
        seen |= near
        near = {at.name for e in op.equations if e.name in near for at in e.reads} - seen
    return frozenset(near & given)


def takes_exponentials(op: Op) -> bool:
    return bool(exponents_of(op))


@lru_cache(maxsize=64)
def _divisors(op: Op) -> frozenset[str]:
    """The numbers that the equations divide by, which are not 0."""
    below = (f.base for e in op.equations for f in e.right.atoms(Pow) if f.exp.is_negative)
    return frozenset(s.name for base in below for s in Mul.make_args(base) if isinstance(s, Scalar))


def _filled(
    op: Op, sizes: dict[str, int], leading: tuple[int, ...], lengths: str
) -> tuple[dict[str, int], tuple[int, ...]]:
    """Lengths that make many rows, or longer ones, and the leading lengths that go with them."""
    axes = free_axes_of(op)
    if not axes:
        return sizes, leading
    row = _row(op) if lengths == "rows of some vectors" else _own(op)[-1]
    found = filled(op, sizes, axes[0] if lengths == "many rows" else row, *_GOALS[lengths])
    same = found.get(PACK_NAME) in (None, math.prod(leading))
    return found, leading if same else (found[PACK_NAME],)


def _own(op: Op) -> tuple[str, ...]:
    """The axes whose lengths the caller chooses, without `...` where there are others."""
    axes = free_axes_of(op)
    return tuple(a for a in axes if a != PACK_NAME) or axes


def _row(op: Op) -> str:
    """The last of these axes of the largest input, along which windows run."""
    own = _own(op)
    largest = max((o.axes for o in op.operands), key=len)
    return [*own[-1:], *(a.base for a in largest if a.base in own)][-1]


def _with_a_long_row(op: Op, leading: tuple[int, ...]) -> dict[str, int] | None:
    """Lengths of which that of one row is as long as there is room for, and all others are short."""
    axes = free_axes_of(op)
    if not axes:
        return {}
    short = {a: _SHORT[k % len(_SHORT)] for k, a in enumerate(axes)} | {a: 11 for a in containers(op)}
    for length in _ROWS:
        wish = {**short, _row(op): length, PACK_NAME: math.prod(leading)}
        for least in (2, 1):
            sizes = fitting(op, wish, least, longest=length + len(axes))
            if sizes is not None and places(op, sizes) <= _ROOM:
                return sizes
    return None


def _outputs(call: Call) -> dict[str, Tensor] | None:
    """The outputs of the executed equations, or None where some is not a number or there are none."""
    try:
        outputs = executed(call.in_dtype(torch.float64))
    except (DeriveError, IndexError, RuntimeError):  # the maximum of nothing, a place that an axis of 0 lacks
        return None
    return None if any(bool(o.isnan().any()) for o in outputs.values()) else outputs


def _is_bounded(outputs: Mapping[str, Tensor]) -> bool:
    return all(bool(o.isfinite().all()) for o in outputs.values())


def _sharing(op: Op, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    names = alike(op)
    return {name: inputs[names[0]] if name in names else t for name, t in inputs.items()}


def apart(op: Op, inputs: dict[str, Tensor], domains: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, Tensor]:
    """Indices of one axis that must not meet, as the ends of an edge, stand as many places from the first of them."""
    out, firsts = dict(inputs), dict[tuple[str, torch.Size], list[str]]()
    for operand in op.operands:
        if operand.ranges_over is not None and domains.get(operand.name) == "apart":
            axis, own = operand.ranges_over.base, inputs[operand.name]
            before = firsts.setdefault((axis, own.shape), [])
            if before:
                out[operand.name] = (inputs[before[0]] + len(before)) % max(sizes[axis], 1)
            before.append(operand.name)
    return out


def alike(op: Op) -> list[str]:
    """Inputs with the same axes, of which at least one takes a gradient: one tensor may stand for all of them."""
    for operand in op.differentiable:
        names = [o.name for o in op.operands if o.kind in ("tensor", "constant") and o.axes == operand.axes]
        if len(names) > 1:
            return names
    return []


@lru_cache(maxsize=512)
def domains_of(op: Op) -> dict[str, str]:
    """What the values of each input must be for the op to be finite: what the spec says, then what trying shows.

    An op whose outputs hold infinities whatever its inputs are, such as masked scores, need only be a number.
    """
    given = {o.name: _declared(op, o) for o in op.operands if o.is_tensor}
    open_ones = [o.name for o in op.operands if o.kind in ("tensor", "constant") and given[o.name] == "any"]
    attempts = [{}, *({n: d} for d in ("not below 0", "0 to 1") for n in open_ones)]
    attempts += [dict.fromkeys(open_ones, d) for d in ("not below 0", "0 to 1", "above 0")]
    attempts += [{n: "below 0"} for n in open_ones]
    for high, low in (("above 0", "below 0"), ("above 1", "0 to 1")):  # log(a - b) asks for an order
        attempts += [dict.fromkeys(open_ones, low) | {n: high} for n in open_ones]
        attempts += [dict.fromkeys(open_ones, high) | {n: low} for n in open_ones]
    ends = [o.name for o in op.operands if o.ranges_over is not None and o.is_tensor]
    if len(ends) > 1:  # what lies at one place may be at no distance, by which it is divided
        attempts += [a | dict.fromkeys(ends, "apart") for a in attempts]
    for bounded in (True, False):
        for attempt in attempts:
            if _is_finite(op, {**given, **attempt}, bounded):
                return _with_slopes(op, {**given, **attempt}, ends)
    raise DeriveError(
        "found no inputs at which the op is finite",
        op=op.name,
        fix="declare what its inputs may be, such as x: tensor[n].positive, or choose by where(…) what holds at a 0/0",
    )


def _with_slopes(op: Op, domains: dict[str, str], ends: list[str]) -> dict[str, str]:
    """The same, indices of one axis apart where autograd has no number for the slope of a distance that is 0."""
    apart_too = domains | dict.fromkeys(ends, "apart")
    if len(ends) < 2 or domains == apart_too or _has_slopes(op, domains) or not _has_slopes(op, apart_too):
        return domains
    return apart_too


def _has_slopes(op: Op, domains: Mapping[str, str]) -> bool:
    """Whether autograd of the equations is finite wherever the outputs are."""
    for seed in range(_ATTEMPTS):
        call = Situation("", "")._call(op, Generator().manual_seed(seed), domains, {})
        outputs = None if call is None else _outputs(call)
        if call is None or outputs is None or not _is_bounded(outputs):
            continue
        call = replace(call, cotangents=tuple(map(torch.ones_like, outputs.values())))
        if not all(bool(g.isfinite().all()) for g in reference(call)[1].values()):
            return False
    return True


@lru_cache(maxsize=512)
def _bounded(op: Op) -> bool:
    """Whether there are inputs of its domain at which the op has no infinite output."""
    return _is_finite(op, domains_of(op), True)


def _declared(op: Op, operand: Operand) -> str:
    if operand.assumed == "positive":
        return "above 0"
    divides = any(
        p.exp.is_number and p.exp.is_negative and getattr(p.base, "name", None) == operand.name
        for e in op.equations
        for p in (*e.body.find(lambda x: x.is_Pow), *e.scale.find(lambda x: x.is_Pow))
    )
    return "away from 0" if divides or operand.assumed == "nonzero" else "any"


def _is_finite(op: Op, domains: Mapping[str, str], bounded: bool) -> bool:
    """Whether most calls with such inputs have finite outputs, and none has an intermediate that is not a number."""
    ordinary = Situation("", "")
    finite = 0
    for seed in range(_ATTEMPTS):
        call = ordinary._call(op, Generator().manual_seed(seed), domains, {})
        if call is None:
            raise DeriveError(
                "found no lengths that its axes accept", op=op.name, fix="simplify its merges and windows"
            )
        outputs = _outputs(call)
        if outputs is not None and (not bounded or _is_bounded(outputs)):
            world = execute(op, world_of(call))
            finite += not any(bool(world.tensors[e.name].isnan().any()) for e in op.equations)
    return 2 * finite > _ATTEMPTS
