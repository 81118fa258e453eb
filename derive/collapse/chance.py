"""One small instance of an op by chance, which tells what cannot be 0 before anything is multiplied out.

Axes are two long where they can be, every input and cotangent is drawn, and the equations and the chain rule are
evaluated in turn (Schwartz, 1980: what is 0 at random places is 0 but by chance). Only the refutation is used: an
adjoint that differs from 0 here does not vanish. What cannot be evaluated, and what reads it, may.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import product
from random import Random

from sympy import Add, Basic, E, Expr, Function, Max, Min, Mul, Number, Pow, S
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, BooleanFalse, BooleanTrue, Not, Or

from derive.adjoint.chain_rule import Stepwise
from derive.facts.instances import REDUCTIONS
from derive.ir.equations import Equation, Op
from derive.ir.program import RELATIONS
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Concat, Where
from derive.ir.terms.elements import At, Delta, Scalar
from derive.ir.terms.indices import Merge, Part, Prefix, Slot
from derive.ir.terms.reductions import Reduce, Sigma, TakenFirst
from derive.primitives import numeric, row

_LENGTH = 2
_LONGEST = 256  # which no axis is longer than: one of which single places are read is as long as that takes
_MOST = 4096  # places of one tensor, those summed over included
_NOISE = 1e-6  # of what is added up, below which a sum may be rounding: what is drawn lies between 0.1 and 0.9

_Where = Mapping[Axis, int]


class _Unknown(Exception):
    """This cannot be evaluated here."""


_UNDEFINED = (_Unknown, ArithmeticError, ValueError)


@dataclass(frozen=True)
class Instance:
    """The lengths of all axes, the numbers given, and the elements of all tensors that could be evaluated."""

    lengths: Mapping[str, int]
    numbers: Mapping[str, float]
    tensors: dict[str, dict[tuple[int, ...], float]] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: Stepwise) -> Instance:
        """The inputs and cotangents as drawn, and what the equations make of them."""
        drawn = Random(0)
        number = partial(drawn.uniform, 0.1, 0.9)
        op = steps.op
        out = cls(_lengths(op), {o.name: number() for o in op.operands if not o.is_tensor})
        for operand in filter(lambda o: o.is_tensor, op.operands):
            places = () if operand.ranges_over is None else range(out.lengths.get(operand.ranges_over.base, 1))
            out._draw(operand.name, operand.axes, partial(drawn.choice, places) if places else number)
        for cotangent in steps.cotangents:
            out._draw(cotangent.target.name, cotangent.axes, number)
        for equation in op.equations:
            if isinstance(equation.body, Concat) and equation.is_plain:
                out._join(equation, equation.body)
            else:
                out.evaluate(equation.name, equation.index, equation.axes, equation.right)
        return out

    def evaluate(self, name: str, index: tuple[Expr, ...], axes: tuple[Axis, ...], value: Expr) -> None:
        """Note the elements of a tensor; nothing where one of them cannot be evaluated."""
        try:
            found = ((at, self._value(value, at)) for at in self._places(axes))
            self.tensors[name] = {self._index(index, at): 0.0 if self._is_noise(v, value, at) else v for at, v in found}
        except _UNDEFINED:
            self.tensors.pop(name, None)

    def _join(self, equation: Equation, body: Concat) -> None:
        along = equation.axes.index(body.along)
        elements: dict[tuple[int, ...], float] = {}
        before = 0
        for piece, own in zip(body.pieces, equation.over, strict=True):
            axes = (*equation.axes[:along], own, *equation.axes[along + 1 :])
            self.evaluate(equation.name, (*axes[:along], own + before, *axes[along + 1 :]), axes, piece)
            if equation.name not in self.tensors:
                return
            elements |= self.tensors[equation.name]
            before += self.lengths[own.base]
        self.tensors[equation.name] = elements

    def may_vanish(self, axes: tuple[Axis, ...], value: Expr) -> bool:
        """Whether all elements of an expression are 0 here, or one cannot be evaluated."""
        try:
            elements = [(at, self._value(value, at)) for at in self._places(axes)]
            finite = all(math.isfinite(v) for _, v in elements)
            return not finite or all(self._is_noise(v, value, at) for at, v in elements)
        except _UNDEFINED:
            return True

    def _is_noise(self, found: float, value: Expr, at: _Where) -> bool:
        """Whether a value may be 0 but for rounding: small, and next to nothing of what it is the sum of.

        Behind many layers a gradient is small all over, and no less a number for that.
        """
        return abs(found) < _NOISE and abs(found) <= _NOISE * self._scale(value, at)

    def _scale(self, e: Basic, at: _Where) -> float:
        """What the terms of an expression add up to where none is taken away."""
        if isinstance(e, Add):
            return math.fsum(self._scale(a, at) for a in e.args)
        if isinstance(e, Mul):
            return math.prod(self._scale(a, at) for a in e.args)
        if isinstance(e, Sigma):
            return math.fsum(self._scale(e.body, inner) for inner in self._places(e.over, at))
        return abs(self._value(e, at))

    def _draw(self, name: str, axes: tuple[Axis, ...], draw: Callable[[], float]) -> None:
        with suppress(_Unknown):  # of too many places, or of a length that is none here
            self.tensors[name] = {tuple(at.values()): float(draw()) for at in self._places(axes)}

    def _places(self, axes: tuple[Axis, ...], beside: _Where | None = None) -> Iterator[dict[Axis, int]]:
        beside = beside or {}
        lengths = [self.lengths.get(a.base) for a in (*axes, *beside)]
        if None in lengths or math.prod(n for n in lengths if n) > _MOST:
            raise _Unknown
        for at in product(*(range(self.lengths[a.base]) for a in axes)):
            yield {**beside, **dict(zip(axes, at, strict=True))}

    def _value(self, e: Basic, at: _Where) -> float:
        """One element of an expression."""
        if isinstance(e, At):
            return self._element(e, at)
        if isinstance(e, Add):
            return math.fsum(self._value(a, at) for a in e.args)
        if isinstance(e, Mul):
            return math.prod(self._value(a, at) for a in e.args)
        if isinstance(e, Pow):
            return math.pow(self._value(e.base, at), self._value(e.exp, at))
        if isinstance(e, Sigma | Reduce):
            values = [self._value(e.body, inner) for inner in self._places(e.over, at)]
            return REDUCTIONS[e.kind](values)
        if isinstance(e, Where):
            return self._value(e.args[1] if self._holds(e.condition, at) else e.args[2], at)
        if isinstance(e, Function | Max | Min):
            of = {Max: max, Min: min}.get(type(e)) or numeric(row(type(e).__name__))
            if of is None:
                raise _Unknown
            return float(of(*(self._value(a, at) for a in e.args)))
        return self._number(e, at)

    def _number(self, e: Basic, at: _Where) -> float:
        if isinstance(e, Axis) and e in at:
            return float(at[e])
        if isinstance(e, Size) and e.axis.base in self.lengths:
            return float(self.lengths[e.axis.base])
        if isinstance(e, Scalar) and e.name in self.numbers:
            return self.numbers[e.name]
        if isinstance(e, Number) or e in (S.Pi, E):
            return float(e)
        if isinstance(e, Delta):
            return float(self._value(e.args[0], at) == self._value(e.args[1], at))
        if isinstance(e, TakenFirst):
            return self._value(e.body, at)
        if isinstance(e, Merge | Part | Prefix | Slot):
            return float(self._position(e, at))
        raise _Unknown

    def _element(self, e: At, at: _Where) -> float:
        index = self._index(e.index, at)
        elements = self.tensors.get(e.name, {})
        if index not in elements:
            raise _Unknown
        return elements[index]

    def _index(self, index: tuple[Expr, ...], at: _Where) -> tuple[int, ...]:
        return tuple(int(self._value(i, at)) for i in index)

    def _position(self, e: Merge | Part | Prefix | Slot, at: _Where) -> int:
        """A place on an axis that is several, or that is part of one; the last of several axes is the fastest."""
        if isinstance(e, Merge):
            return reduce(lambda out, i: out * self._count(i) + int(self._value(i, at)), e.args, 0)
        if isinstance(e, Part):
            lengths = [int(self._value(n, at)) for n in e.lengths]
            return int(self._value(e.whole, at)) // math.prod(lengths[e.position + 1 :]) % lengths[e.position]
        return int(self._value(e.args[0], at))

    def _count(self, index: Basic) -> int:
        if isinstance(index, Axis) and index.base in self.lengths:
            return self.lengths[index.base]
        if isinstance(index, Slot):
            return int(self._value(index.length, {}))
        raise _Unknown

    def _holds(self, e: Basic, at: _Where) -> bool:
        if isinstance(e, BooleanTrue | BooleanFalse):
            return bool(e)
        if isinstance(e, Relational):
            return getattr(operator, RELATIONS[e.rel_op])(*(self._value(a, at) for a in e.args))
        if isinstance(e, Not):
            return not self._holds(e.args[0], at)
        if isinstance(e, And | Or):
            return (all if isinstance(e, And) else any)(self._holds(a, at) for a in e.args)
        raise _Unknown


def _lengths(op: Op) -> dict[str, int]:
    """Two for every axis, or what the op requires of it: a formula, room for what is read. What is none is left out."""
    asked = {r.left: r.right for r in op.requirements if r.relation in ("==", ">=") and isinstance(r.left, Size)}
    out: dict[str, int] = {}
    for rule in op.sizes:
        length = S(rule.axis.fixed or _LENGTH) if rule.formula is None else rule.formula
        if rule.formula is None and Size(rule.axis) in asked:
            length = Max(length, asked[Size(rule.axis)])
        length = length.xreplace({s: S(out.get(s.axis.base, _LENGTH)) for s in length.atoms(Size)})
        if length.is_Integer and 0 < length <= _LONGEST:
            out[rule.axis.base] = int(length)
    for name, axes in op.merged.items():
        if all(a.base in out for a in axes):
            out[name] = math.prod(out[a.base] for a in axes)
    return out
