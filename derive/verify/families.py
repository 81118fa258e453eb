"""Forms of a gradient that are made of what is right, or of the closed form with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, combinations, islice, product

import torch
from sympy import And, Not, nan, zoo
from sympy.logic.boolalg import Boolean
from torch import Tensor

from derive.adjoint.chain_rule import Cotangent
from derive.ir.algebra import normal
from derive.ir.terms.axes import free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At
from derive.schedule.definitions import Definition
from derive.verify.cases import Case
from derive.verify.changed import Form, Gradient, chain_of
from derive.verify.forms import Change, alone, changes, less, masks, moved, other

_PAIRS = 14  # changes of which two are tried together

# --- what is right, of something else --------------------------------------------------------------------------------

EXCHANGED = "gradients exchanged"


def other_gradients(g: Gradient) -> Iterator[Form]:
    for o in g.derivation.op.differentiable:

        def value(case: Case, name: str = o.name) -> Tensor:
            return case.gradients[name]

        if o.name != g.operand:
            yield Form(f"equals d{o.name}", EXCHANGED, value, of=o.name)


def inner_gradients(g: Gradient) -> Iterator[Form]:
    """The gradient of a tensor that is made of the input: what lies between the two has no derivative."""
    own = g.derivation.named.operand(g.operand)
    for a in g.derivation.steps.adjoints:
        e = g.derivation.named.equation(a.of)
        if own is not None and e is not None and e.index == own.axes and g.operand in {at.name for at in e.reads}:
            adjoints = g.derivation.steps.adjoints
            definitions = {b.target.name: Definition(b.target.name, b.axes, b.value) for b in adjoints}
            text = f"equals d{a.of}, without the derivative of {a.of} by {g.operand}"
            yield Form(text, "derivative left out", g.closed(definitions, target=a.target.name))


def misplaced(g: Gradient) -> Iterator[Form]:
    """The right values at other places: all at one, or one place on."""
    own = g.derivation.named.operand(g.operand)
    for k, axis in enumerate(own.axes if own is not None else ()):
        if not axis.is_pack:
            text = f"equals the derived gradient of the last {axis} at the first, and 0 elsewhere"
            yield Form(text, _MISPLACED, _first(g, k))
            yield Form(f"equals the derived gradient one place on along {axis}", _MISPLACED, _rolled(g, k, 1))
            yield Form(f"equals the derived gradient one place back along {axis}", _MISPLACED, _rolled(g, k, -1))


_MISPLACED = "written to the wrong place"


def _rolled(g: Gradient, k: int, steps: int) -> Callable[[Case], Tensor | None]:
    return lambda case: case.gradients[g.operand].roll(steps, k + _packed(g, case, k))


def _first(g: Gradient, k: int) -> Callable[[Case], Tensor | None]:
    def value(case: Case) -> Tensor | None:
        right, dim = case.gradients[g.operand], k + _packed(g, case, k)
        out = torch.zeros_like(right)
        if right.shape[dim] < 2:
            return None
        out.select(dim, 0).copy_(right.select(dim, -1))
        return out

    return value


def _packed(g: Gradient, case: Case, k: int) -> int:
    """How many dimensions more than axes there are before one."""
    own = g.derivation.named.operand(g.operand)
    return len(case.call.leading) - 1 if own is not None and any(a.is_pack for a in own.axes[:k]) else 0


def masked_cotangents(g: Gradient) -> Iterator[Form]:
    """The right gradient of what comes in under a mask, which belongs to another gradient."""
    found = sorted({w.condition for e in g.equations for w in e.body.atoms(Where)}, key=str)
    every = [And(*(Not(c) for c in found))] if len(found) > 1 else []
    for condition, (k, output) in product((*found, *map(Not, found), *every), enumerate(g.derivation.steps.cotangents)):

        def value(case: Case, condition: Boolean = condition, k: int = k, output: Cotangent = output) -> Tensor | None:
            given = list(case.call.cotangents)
            given[k] = given[k] * g.masked(case, condition, output)
            return g.autograd(g.equations)(replace(case, call=replace(case.call, cotangents=tuple(given))))

        if free_axes(condition) <= set(output.axes):
            text = f"equals the gradient with d{output.of} masked by {condition}"
            yield Form(text, "mask on the wrong gradient", value)


def cotangents_ignored(g: Gradient) -> Iterator[Form]:
    """The right gradient of some outputs only."""
    outputs = g.derivation.named.outputs
    for size in range(1, len(outputs)):
        for ignored in combinations(range(len(outputs)), size):

            def value(case: Case, ignored: tuple[int, ...] = ignored) -> Tensor | None:
                given = enumerate(case.call.cotangents)
                less = tuple(torch.zeros_like(c) if k in ignored else c for k, c in given)
                return g.autograd(g.equations)(replace(case, call=replace(case.call, cotangents=less)))

            names = ", ".join(f"d{outputs[k]}" for k in ignored)
            yield Form(f"equals the gradient with {names} ignored", "cotangent ignored", value)


# --- the closed form, changed ----------------------------------------------------------------------------------------


def closed_less(g: Gradient) -> Iterator[Form]:
    return _closed(g, lambda own: less(own.value, own.axes))


def closed_other(g: Gradient) -> Iterator[Form]:
    others = sorted({w.condition for d in g.definitions.values() for w in d.value.atoms(Where)}, key=str)
    return _closed(g, lambda own: chain(other(own.value, own.axes, g.tensors), masks(own.value, own.axes, others)))


def closed_alone(g: Gradient) -> Iterator[Form]:
    return _closed(g, lambda own: alone(own.value))


def _closed(g: Gradient, changes: Callable[[Definition], Iterator[Change]]) -> Iterator[Form]:
    """The closed form with one of its definitions changed."""
    for own in g.chain:
        for change in changes(own):
            if not change.value.has(zoo, nan):  # what is divided by something that is 0 there
                changed = {**g.definitions, own.name: replace(own, value=change.value)}
                yield Form(f"{g.whose(own.name)} {change.text}", change.error, g.closed(changed))


def one_contribution(g: Gradient) -> Iterator[Form]:
    """Of several contributions to an adjoint one alone: each overwrote the one before."""
    adjoints = {a.target.name: a for a in g.derivation.steps.adjoints}
    definitions = {name: Definition(name, a.axes, a.value) for name, a in adjoints.items()}
    for name in chain_of(g.target, definitions):
        parts = [(c.value, c.through) for c in adjoints[name].contributions]
        cotangent = adjoints[name].cotangent
        parts += [(cotangent, "the output itself")] if cotangent is not None else []
        for part, by in parts if len(parts) > 1 else ():
            changed = {**definitions, name: replace(definitions[name], value=part)}
            text = f"equals the derived gradient with the contribution to {name} through {by} alone"
            yield Form(text, "overwritten instead of accumulated", g.closed(changed))


def added_before(g: Gradient) -> Iterator[Form]:
    """A term that was added to another tensor, before what that goes through, instead of to the result."""
    cotangents = [(c.target.name, c.axes) for c in g.derivation.steps.cotangents]
    for own in g.chain:
        for term, tensor in moved(own.value, cotangents):
            changed = dict(g.definitions)
            for each in g.chain:
                value = each.value - (term if each is own else 0)
                put = {at: at + At(term.tensor, *at.index) for at in value.atoms(At) if at.name == tensor}
                changed[each.name] = replace(each, value=normal(value.xreplace(put)))
            text = f"equals the derived gradient with {term} added to {tensor} instead of to the result"
            yield Form(text, "added on the wrong side", g.closed(changed))


def two_changes(g: Gradient) -> Iterator[Form]:
    """Two changes of one definition, the second of what the first left, in a short gradient."""
    for own in g.chain:
        for first in islice(changes(own.value, own.axes, g.tensors), _PAIRS):
            for second in islice(changes(first.value, own.axes, g.tensors), _PAIRS):
                changed = {**g.definitions, own.name: replace(own, value=second.value)}
                yield Form(f"{g.whose(own.name)} {first.text} and {second.text}", first.error, g.closed(changed))
