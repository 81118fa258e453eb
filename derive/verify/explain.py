"""What a wrong gradient is instead: a changed form of the derived gradient that gives the same values.

Three kinds of forms are tried, none of which knows an op: the closed form with one thing changed
(`derive.verify.forms`), autograd of the equations with one tensor held constant, and autograd of equations of which
one has something changed. A form counts only if it gives the candidate's values in two independent cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sympy import Expr
from torch import Tensor

from derive.equations import Equation
from derive.pipeline import Derivation
from derive.schedule import Definition
from derive.terms import Axis, tensor_names
from derive.verify.cases import Case, autograd, scale, world_of, worst
from derive.verify.chain import chain_world, in_order
from derive.verify.forms import changes
from derive.verify.reference import World, execute, unflat

_ALIKE = 1e-7  # relative; a coincidence in two cases at random values is out of the question


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


def explain(derivation: Derivation, operand: str, evidence: Sequence[Evidence]) -> Explanation | None:
    """The first form found that equals the candidate's gradient in all the evidence; None where there is none."""
    usable = [e for e in evidence if operand in e.given and e.given[operand].shape == e.case.gradients[operand].shape]
    if len(usable) < 2:
        return None
    other = _another_gradient(operand, usable)
    if other is not None:
        return other
    for forms in (_closed_forms, _held_constant, _other_forwards):
        for text, error, value in forms(derivation, operand, [e.case for e in usable]):
            if all(_alike(e.given[operand], value(e.case)) for e in usable):
                return Explanation(f"d{operand}", text, error)
    return None


def _alike(given: Tensor, other: Tensor | None) -> bool:
    if other is None or given.shape != other.shape or not bool(other.isfinite().all()):
        return False
    return worst(given, other) <= _ALIKE * scale(other)


def _another_gradient(operand: str, usable: Sequence[Evidence]) -> Explanation | None:
    for name in usable[0].case.gradients:
        if name != operand and all(_alike(e.given[operand], e.case.gradients[name]) for e in usable):
            return Explanation(f"d{operand}", f"equals d{name}", "gradients in another order")
    return None


Form = tuple[str, str, Callable[[Case], Tensor | None]]


# --- the closed form, changed -----------------------------------------------------------------------------


def _closed_forms(derivation: Derivation, operand: str, cases: Sequence[Case]) -> Iterator[Form]:
    target = next(a.target.name for a in derivation.steps.adjoints if a.of == operand)
    definitions = {d.name: d for d in derivation.closed.definitions}
    worlds = {id(case): chain_world(derivation, case.call) for case in cases}
    tensors = _tensors(derivation)
    for name in _chain(target, definitions):
        own = definitions[name]
        for change in changes(own.value, own.axes, tensors):
            whose = "the derived gradient" if name == target else f"the derived gradient, {name} taken"
            changed = {**definitions, name: replace(own, value=change.value)}

            def value(case: Case, changed: dict[str, Definition] = changed) -> Tensor | None:
                return _evaluated(derivation, operand, target, changed, worlds[id(case)], case)

            yield f"equals {whose} {change.text}", change.error, value


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


def _evaluated(
    derivation: Derivation, operand: str, target: str, definitions: Mapping[str, Definition], world: World, case: Case
) -> Tensor | None:
    """One definition, after those it reads; None where a changed form cannot be evaluated at these sizes."""
    try:
        for name in in_order(target, definitions):
            own = definitions[name]
            world = world.having({name: world.tensor(own.value, own.axes)})
    except (IndexError, KeyError, RuntimeError):  # a tensor read along an axis that is longer than its own
        return None
    return unflat(derivation.named, operand, world.tensors[target], case.call.leading)


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
    call = replace(case.call, op=op)
    leaves = {o.name: call.inputs[o.name].detach().clone().requires_grad_() for o in op.differentiable}
    try:
        world = execute(op, world_of(call, {**call.inputs, **leaves}), held)
        outputs = [unflat(op, name, world.tensors[name], call.leading) for name in op.outputs]
        return autograd(outputs, leaves, call.cotangents)[operand]
    except (IndexError, RuntimeError):  # the change does not fit these sizes, or leaves nothing to differentiate
        return None
