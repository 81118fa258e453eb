"""What a wrong gradient is instead: a changed form of the derived gradient that gives the same values.

Three kinds of forms are tried, none of which knows an op: the closed form with one thing changed
(`derive.verify.forms`), autograd of the equations with one tensor held constant, and autograd of equations of which
one has something changed. A form counts only if it gives the candidate's values in two independent cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from sympy import Expr
from torch import Tensor

from derive.algebra import normal
from derive.equations import Equation, Op
from derive.lowering.definitions import Definition
from derive.pipeline import Derivation
from derive.terms.axes import Axis
from derive.terms.elements import At, tensor_names
from derive.verify.cases import Case, autograd, scale, world_of, worst
from derive.verify.chain import chain_world, in_order
from derive.verify.forms import changes, less, moved, other
from derive.verify.leading import unflat
from derive.verify.reference import World, execute

_PAIRS = 14  # changes of which two are tried together
_ALIKE = 1e-7  # relative, in float64; a coincidence in two cases at random values is out of the question
_UNITS = 64  # in the last place, below float64


@dataclass(frozen=True)
class Explanation:
    """Which form a gradient has instead of the derived one, and the class of error that this is."""

    gradient: str
    text: str
    error: str


@dataclass(frozen=True, eq=False)
class Evidence:
    """A case and the gradients that the candidate gave for it."""

    case: Case
    given: Mapping[str, Tensor]


def explain(
    derivation: Derivation, operand: str, evidence: Sequence[Evidence], deep: bool = True
) -> Explanation | None:
    """The first form found that equals the candidate's gradient in all the evidence; None where there is none.

    `deep` also tries two changes at a time, which can take some seconds.
    """
    usable = [e for e in evidence if operand in e.given and e.given[operand].shape == e.case.gradients[operand].shape]
    if len(usable) < 2:
        return None
    swapped = _another_gradient(operand, usable)
    if swapped is not None:
        return swapped
    kinds = (
        _added_before,
        _closed_forms,
        _one_contribution,
        _held_constant,
        _other_forwards,
        *((_two_changes,) if deep else ()),
    )
    for forms in kinds:
        for text, error, value in forms(derivation, operand, [e.case for e in usable]):
            if all(_alike(e.given[operand], value(e.case)) for e in usable):
                return Explanation(f"d{operand}", text, error)
    return None


def _alike(given: Tensor, form: Tensor | None) -> bool:
    if form is None or given.shape != form.shape or not bool(form.isfinite().all()):
        return False
    alike = _ALIKE if given.dtype == torch.float64 else _UNITS * torch.finfo(given.dtype).eps
    return worst(given, form) <= alike * scale(form)


def _another_gradient(operand: str, usable: Sequence[Evidence]) -> Explanation | None:
    for name in usable[0].case.gradients:
        if name != operand and all(_alike(e.given[operand], e.case.gradients[name]) for e in usable):
            return Explanation(f"d{operand}", f"equals d{name}", "gradients in another order")
    return None


Form = tuple[str, str, Callable[[Case], Tensor | None]]


# --- the closed form, changed -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Gradient:
    """A gradient in some cases, with what can be read there."""

    op: Op
    operand: str
    target: str
    worlds: Mapping[int, World]  # of cases, by identity

    @staticmethod
    def of(derivation: Derivation, operand: str, cases: Sequence[Case]) -> _Gradient:
        target = next(a.target.name for a in derivation.steps.adjoints if a.of == operand)
        worlds = {id(case): chain_world(derivation, case.call) for case in cases}
        return _Gradient(derivation.named, operand, target, worlds)

    def under(self, definitions: Mapping[str, Definition]) -> Callable[[Case], Tensor | None]:
        """Its value under these definitions; None where a changed one cannot be evaluated at a case's sizes."""

        def value(case: Case) -> Tensor | None:
            world = self.worlds[id(case)]
            try:
                for name in in_order(self.target, definitions):
                    own = definitions[name]
                    world = world.having({name: world.tensor(own.value, own.axes)})
            except (IndexError, KeyError, RuntimeError):  # a tensor read along an axis that is longer than its own
                return None
            return unflat(self.op, self.operand, world.tensors[self.target], case.call.leading)

        return value


def _closed_forms(derivation: Derivation, operand: str, cases: Sequence[Case]) -> Iterator[Form]:
    gradient = _Gradient.of(derivation, operand, cases)
    definitions = {d.name: d for d in derivation.closed.definitions}
    tensors = _tensors(derivation)
    chain = [definitions[name] for name in _chain(gradient.target, definitions)]
    likely = [(own, change) for own in chain for change in less(own.value, own.axes)]
    for own, change in (*likely, *((d, c) for d in chain for c in other(d.value, d.axes, tensors))):
        whose = "the derived gradient" if own.name == gradient.target else f"the derived gradient, {own.name} taken"
        changed = {**definitions, own.name: replace(own, value=change.value)}
        yield f"equals {whose} {change.text}", change.error, gradient.under(changed)


def _one_contribution(derivation: Derivation, operand: str, cases: Sequence[Case]) -> Iterator[Form]:
    """Of several contributions to an adjoint one alone: each overwrote the one before."""
    adjoints = {a.target.name: a for a in derivation.steps.adjoints}
    chain = {name: Definition(name, a.axes, a.value) for name, a in adjoints.items()}
    gradient = _Gradient.of(derivation, operand, cases)
    for name in _chain(gradient.target, chain):
        parts = [c.value for c in adjoints[name].contributions] + [adjoints[name].cotangent]
        through = [c.through for c in adjoints[name].contributions] + ["the output itself"]
        several = [(p, t) for p, t in zip(parts, through, strict=True) if p is not None]
        for part, by in several if len(several) > 1 else ():
            changed = {**chain, name: replace(chain[name], value=part)}
            text = f"equals the derived gradient with the contribution to {name} through {by} alone"
            yield text, "overwritten instead of accumulated", gradient.under(changed)


def _added_before(derivation: Derivation, operand: str, cases: Sequence[Case]) -> Iterator[Form]:
    """A term that was added to another tensor, before what that goes through, instead of to the result."""
    gradient = _Gradient.of(derivation, operand, cases)
    definitions = {d.name: d for d in derivation.closed.definitions}
    cotangents = [(c.target.name, c.axes) for c in derivation.steps.cotangents]
    chain = _chain(gradient.target, definitions)
    for name in chain:
        for term, tensor in moved(definitions[name].value, cotangents):
            changed = dict(definitions)
            for each in chain:
                value = definitions[each].value - (term if each == name else 0)
                put = {at: at + At(term.tensor, *at.index) for at in value.atoms(At) if at.name == tensor}
                changed[each] = replace(definitions[each], value=normal(value.xreplace(put)))
            text = f"equals the derived gradient with {term} added to {tensor} instead of to the result"
            yield text, "added on the wrong side", gradient.under(changed)


def _two_changes(derivation: Derivation, operand: str, cases: Sequence[Case]) -> Iterator[Form]:
    """Two changes of one definition, the second of what the first left, in a short gradient."""
    gradient = _Gradient.of(derivation, operand, cases)
    definitions = {d.name: d for d in derivation.closed.definitions}
    tensors = _tensors(derivation)
    for name in _chain(gradient.target, definitions):
        own = definitions[name]
        firsts = list(islice(changes(own.value, own.axes, tensors), _PAIRS))
        for first in firsts:
            for second in islice(changes(first.value, own.axes, tensors), _PAIRS):
                changed = {**definitions, name: replace(own, value=second.value)}
                whose = "the derived gradient" if name == gradient.target else f"the derived gradient, {name} taken"
                yield f"equals {whose} {first.text} and {second.text}", first.error, gradient.under(changed)


def _chain(target: str, definitions: Mapping[str, Definition]) -> list[str]:
    """A definition and those it is computed from, nearest first."""
    out, waiting = [], [target]
    while waiting:
        name = waiting.pop(0)
        if name in definitions and name not in out:
            out.append(name)
            waiting += sorted(tensor_names(definitions[name].value))
    return out


def _tensors(derivation: Derivation) -> dict[str, tuple[Axis, ...]]:
    """What a gradient may read: inputs, equations' tensors, cotangents and other definitions, with their axes."""
    op = derivation.named
    out = {o.name: o.axes for o in op.operands if o.is_tensor and o.kind != "index"}
    out |= {e.name: e.axes for e in op.equations if e.is_plain}
    out |= {c.target.name: c.axes for c in derivation.steps.cotangents}
    return out | {d.name: d.axes for d in derivation.closed.definitions}


# --- the forward, changed ---------------------------------------------------------------------------------


def _held_constant(derivation: Derivation, operand: str, cases: Sequence[Case]) -> Iterator[Form]:
    """No gradient flows back through one of the tensors."""
    for equation in derivation.named.equations:
        if equation.name not in derivation.named.outputs:

            def value(case: Case, held: str = equation.name) -> Tensor | None:
                return _autograd(derivation, operand, case, derivation.named.equations, frozenset({held}))

            yield f"equals the gradient with {equation.name} held constant", "missing term", value


def _other_forwards(derivation: Derivation, operand: str, cases: Sequence[Case]) -> Iterator[Form]:
    """The gradient of another forward: one equation has something changed."""
    equations = derivation.named.equations
    for k, equation in enumerate(equations):
        if equation.kind == "concat":
            continue
        for text, error, body in _bodies(equation):
            changed = (*equations[:k], replace(equation, **body), *equations[k + 1 :])

            def value(case: Case, changed: tuple[Equation, ...] = changed) -> Tensor | None:
                return _autograd(derivation, operand, case, changed, frozenset())

            yield f"equals the gradient of a forward whose {equation.name} is taken {text}", error, value


def _bodies(equation: Equation) -> Iterator[tuple[str, str, dict[str, Expr]]]:
    for change in changes(equation.body, equation.axes, {}):
        if not change.value.free_symbols - equation.body.free_symbols:
            yield change.text, change.error, {"body": change.value}
    if equation.scale != 1:
        for change in changes(equation.scale, (), {}):
            yield change.text, change.error, {"scale": change.value}


def _autograd(
    derivation: Derivation, operand: str, case: Case, equations: Iterable[Equation], held: frozenset[str]
) -> Tensor | None:
    op = replace(derivation.named, equations=tuple(equations))
    call = replace(case.call.in_dtype(torch.float64), op=op)
    leaves = {o.name: call.inputs[o.name].detach().clone().requires_grad_() for o in op.differentiable}
    try:
        world = execute(op, world_of(call, {**call.inputs, **leaves}), held)
        outputs = [unflat(op, name, world.tensors[name], call.leading) for name in op.outputs]
        return autograd(outputs, leaves, call.cotangents)[operand]
    except (IndexError, RuntimeError):  # the change does not fit these sizes, or leaves nothing to differentiate
        return None
