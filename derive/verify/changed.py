"""One gradient of a derivation under changes: of its closed form, of the forward, of functions.

What comes of a change is a form: values that a wrong gradient may have instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from sympy import S
from sympy.logic.boolalg import Boolean
from torch import Tensor

from derive.adjoint.chain_rule import Cotangent
from derive.ir.equations import Equation
from derive.ir.terms.axes import Axis
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import tensor_names
from derive.pipeline import Derivation
from derive.schedule.definitions import Definition
from derive.verify.cases import Case, autograd, scale, world_of, worst
from derive.verify.chain import chain_world, in_order
from derive.verify.leading import unflat
from derive.verify.places import World
from derive.verify.reference import execute

_ALIKE = 1e-7  # relative; a coincidence in three cases at random values is out of the question
_UNITS = 64  # in the last place, of a candidate that computes in less than float64
APART = 1e-9
"""Relative: what a form must at least be off by, which rounding is not."""
_CLEARLY = 100  # times as far from what is right as from the candidate


@dataclass(frozen=True, eq=False)
class Form:
    """Values that a gradient may have instead, in words, and the class of error that this is.

    `of` is the operand whose gradient they are, where that is another one.
    """

    text: str
    error: str
    value: Callable[[Case], Tensor | None]
    of: str = ""

    def equals(self, operand: str, case: Case, given: Tensor) -> bool:
        """Whether a candidate's gradient has this form, and that is far from right."""
        form, right = self.value(case), case.gradients[operand]
        if form is None or given.shape != form.shape or not bool(form.isfinite().all()):
            return False
        off, narrow = worst(given, form), given.dtype != torch.float64
        if off > (_UNITS * torch.finfo(given.dtype).eps if narrow else _ALIKE) * scale(form):
            return False
        return form.shape != right.shape or worst(form, right) > max(_CLEARLY * off, APART * scale(right))

    def tells(self, given: Tensor) -> bool:
        """Whether there is something to see: many forms are nothing somewhere."""
        return bool(given.any()) or self.error == "missing gradient"


Functions = Mapping[str, Callable[..., Tensor]]
NOTHING: Functions = {}


@dataclass(frozen=True, eq=False)
class Gradient:
    """One gradient of a derivation, under changes."""

    derivation: Derivation
    operand: str
    worlds: dict[Case, World] = field(default_factory=dict)  # of the forward as it is, made once a case

    @cached_property
    def target(self) -> str:
        return next(a.target.name for a in self.derivation.steps.adjoints if a.of == self.operand)

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        return {d.name: d for d in self.derivation.closed.definitions}

    @property
    def equations(self) -> tuple[Equation, ...]:
        return self.derivation.named.equations

    @cached_property
    def chain(self) -> list[Definition]:
        """What the gradient is computed by, nearest first."""
        return [self.definitions[name] for name in chain_of(self.target, self.definitions)]

    def whose(self, name: str) -> str:
        return "equals the derived gradient" + ("" if name == self.target else f", {name} taken")

    @cached_property
    def tensors(self) -> dict[str, tuple[Axis, ...]]:
        """What a gradient may read: inputs, equations' tensors, cotangents and other definitions, with their axes."""
        op = self.derivation.named
        out = {o.name: o.axes for o in op.operands if o.is_tensor and o.kind != "index"}
        out |= {e.name: e.axes for e in op.equations if e.is_plain}
        out |= {c.target.name: c.axes for c in self.derivation.steps.cotangents}
        return out | {d.name: d.axes for d in self.definitions.values()}

    def _world(self, case: Case, equations: tuple[Equation, ...] | None, functions: Functions) -> World:
        if equations is not None or functions:
            steps = self.derivation.steps
            changed = replace(steps, op=replace(steps.op, equations=equations or steps.op.equations))
            world = chain_world(replace(self.derivation, steps=changed), case.call, functions)
            return replace(world, functions={})
        if case not in self.worlds:
            self.worlds[case] = chain_world(self.derivation, case.call)
        return self.worlds[case]

    def closed(
        self,
        definitions: Mapping[str, Definition],
        equations: tuple[Equation, ...] | None = None,
        functions: Functions = NOTHING,
        saved: Functions = NOTHING,
        target: str = "",
    ) -> Callable[[Case], Tensor | None]:
        """Its value under these definitions and functions, of a forward by such equations and the functions `saved`.

        None where a length does not fit. `target` is another definition than the gradient, of the same axes.
        """
        target = target or self.target

        def value(case: Case) -> Tensor | None:
            try:
                world = replace(self._world(case, equations, saved), functions=functions)
                for name in in_order(target, definitions):
                    own = definitions[name]
                    world = world.having({name: world.tensor(own.value, own.axes)})
            except (IndexError, KeyError, RuntimeError):  # a tensor read along an axis that is longer than its own
                return None
            return unflat(self.derivation.named, self.operand, world.tensors[target], case.call.leading)

        return value

    def masked(self, case: Case, condition: Boolean, output: Cotangent) -> Tensor:
        """1 where a condition holds over the axes of an output, else 0."""
        mask = self._world(case, None, NOTHING).tensor(Where(condition, S.One, S.Zero), output.axes)
        return unflat(self.derivation.named, output.of, mask, case.call.leading)

    def autograd(
        self,
        equations: Iterable[Equation],
        held: frozenset[str] = frozenset(),
        functions: Functions = NOTHING,
        inputs: Callable[[World], Mapping[str, Tensor]] = lambda world: {},
    ) -> Callable[[Case], Tensor | None]:
        """Its value by autograd of a forward with these equations, functions and further inputs."""
        op = replace(self.derivation.named, equations=tuple(equations))

        def value(case: Case) -> Tensor | None:
            call = replace(case.call.in_dtype(torch.float64), op=op)
            leaves = {o.name: call.inputs[o.name].detach().clone().requires_grad_() for o in op.differentiable}
            world = world_of(call, {**call.inputs, **leaves})
            try:
                world = execute(op, replace(world.having(inputs(world)), functions=functions), held)
                outputs = [unflat(op, name, world.tensors[name], call.leading) for name in op.outputs]
                return autograd(outputs, leaves, call.cotangents)[self.operand]
            except (IndexError, KeyError, RuntimeError):  # the change does not fit these lengths, or these axes
                return None

        return value


def chain_of(target: str, definitions: Mapping[str, Definition]) -> list[str]:
    """A definition and those it is computed from, nearest first."""
    out, waiting = [], [target]
    while waiting:
        name = waiting.pop(0)
        if name in definitions and name not in out:
            out.append(name)
            waiting += sorted(tensor_names(definitions[name].value))
    return out
