"""What a wrong gradient is instead: a changed form of the derived gradient that gives the same values.

The forms are mechanical, and none knows an op: the closed form with one thing changed (`derive.verify.forms`), or read
with a saved tensor that was computed otherwise; autograd of the equations with a tensor held constant, with a constant
taken for a statistic, with an equation, a function or the order of two changed, with reads that overwrite one another.
A form counts only where it gives the candidate's values in all the evidence and is far from what is right there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations, islice, product

import torch
from sympy import And, Expr, Function, Mul, Not, Pow, S, nan, zoo
from sympy.logic.boolalg import Boolean
from torch import Tensor

from derive.adjoint import Cotangent
from derive.algebra import normal
from derive.equations import Equation, Operand
from derive.lowering.definitions import Definition
from derive.pipeline import Derivation
from derive.terms.axes import Axis, Size, free_axes
from derive.terms.choices import Where
from derive.terms.elements import At, Scalar, tensor_names
from derive.terms.elements import Tensor as Name
from derive.verify.cases import Case, autograd, scale, world_of, worst
from derive.verify.chain import chain_world, in_order
from derive.verify.forms import Change, alone, changes, less, masks, moved, other
from derive.verify.leading import unflat
from derive.verify.overwriting import Overwriting, overwritten
from derive.verify.places import FUNCTIONS
from derive.verify.reference import World, execute

_PAIRS = 14  # changes of which two are tried together
_ALIKE = 1e-7  # relative; a coincidence in three cases at random values is out of the question
_UNITS = 64  # in the last place, of a candidate that computes in less than float64
_APART = 1e-9  # relative: what a form must at least be off by, which rounding is not
_CLEARLY = 100  # times as far from what is right as from the candidate


@dataclass(frozen=True, eq=False)
class Form:
    """Values that a gradient may have instead, in words, and the class of error that this is."""

    text: str
    error: str
    value: Callable[[Case], Tensor | None]

    def equals(self, operand: str, case: Case, given: Tensor) -> bool:
        """Whether a candidate's gradient has this form, and that is far from right."""
        form, right = self.value(case), case.gradients[operand]
        if form is None or given.shape != form.shape or not bool(form.isfinite().all()):
            return False
        off, narrow = worst(given, form), given.dtype != torch.float64
        if off > (_UNITS * torch.finfo(given.dtype).eps if narrow else _ALIKE) * scale(form):
            return False
        return form.shape != right.shape or worst(form, right) > max(_CLEARLY * off, _APART * scale(right))

    def tells(self, given: Tensor) -> bool:
        """Whether there is something to see: many forms are nothing somewhere."""
        return bool(given.any()) or self.error == "missing gradient"


@dataclass(frozen=True, eq=False)
class Explanation:
    """Which form a gradient, and those `also`, have instead of the derived one, and the class of error that this is."""

    gradient: str
    text: str
    error: str
    form: Form | None  # None: nothing that has values
    also: tuple[str, ...] = ()

    @property
    def gradients(self) -> tuple[str, ...]:
        return (self.gradient, *self.also)

    def is_seen(self, case: Case, given: Mapping[str, Tensor | None]) -> bool:
        """Whether the gradients that a candidate gave for a case show this."""
        operand = self.gradient.removeprefix("d")
        mine = given.get(operand)
        if self.form is None:
            return True
        return mine is not None and self.form.tells(mine) and self.form.equals(operand, case, mine)


@dataclass(frozen=True, eq=False)
class Evidence:
    """A case, the gradients that the candidate gave for it, and which of them another incoming gradient left alone."""

    case: Case
    given: Mapping[str, Tensor]
    unmoved: frozenset[str] = frozenset()


def explained(
    derivation: Derivation, operands: Sequence[str], evidence: Sequence[Evidence], deep: bool = True
) -> tuple[Explanation, ...]:
    """What is found of the gradients of these operands, in order; of two that are exchanged once.

    `deep` also tries two changes at a time, which can take some seconds.
    """
    out: list[Explanation] = []
    for operand in operands:
        if f"d{operand}" not in {g for e in out for g in e.gradients}:
            found = explain(derivation, operand, evidence, deep)
            out += [found] if found is not None else []
    return tuple(out)


def explain(
    derivation: Derivation, operand: str, evidence: Sequence[Evidence], deep: bool = True
) -> Explanation | None:
    """The first form found that equals the candidate's gradient in all the evidence; None where there is none."""
    gradient, usable = _Gradient(derivation, operand), _wrong(operand, evidence)
    if usable and all(operand in e.unmoved for e in usable):
        incoming = ", ".join(f"d{o}" for o in derivation.op.outputs)
        return Explanation(f"d{operand}", f"does not depend on {incoming}", "wrong use of the incoming gradient", None)
    for family in (_FAMILIES if deep else _FAMILIES[:-1]) if len(usable) > 1 else ():
        for form in family(gradient):
            if _shown(form, operand, usable):
                return _with_the_other(Explanation(f"d{operand}", form.text, form.error, form), evidence)
    return None


def _wrong(operand: str, evidence: Sequence[Evidence]) -> list[Evidence]:
    """The evidence in which this gradient is wrong."""
    return [e for e in evidence if operand in e.given and _is_off(e.given[operand], e.case, operand)]


def _is_off(given: Tensor, case: Case, operand: str) -> bool:
    right = case.gradients[operand]
    return given.shape != right.shape or worst(given, right) > max(case.allowed[operand], _APART * scale(right))


def _shown(form: Form, operand: str, evidence: Sequence[Evidence]) -> bool:
    return all(form.equals(operand, e.case, e.given[operand]) for e in evidence) and any(
        form.tells(e.given[operand]) for e in evidence
    )


def _with_the_other(found: Explanation, evidence: Sequence[Evidence]) -> Explanation:
    """Of two gradients each of which is the other one: that they are exchanged."""
    mine = found.gradient.removeprefix("d")
    back = Form("", _EXCHANGED, lambda case: case.gradients[mine])
    for name in evidence[0].case.gradients if found.error == _EXCHANGED else ():
        if found.text == _equal_to(name) and _shown(back, name, _wrong(name, evidence)):
            return replace(found, text="are exchanged", also=(f"d{name}",))
    return found


# --- a gradient, and what its forms are made of ----------------------------------------------------------------------


Functions = Mapping[str, Callable[..., Tensor]]
_NO_FUNCTIONS: Functions = {}


@dataclass(frozen=True, eq=False)
class _Gradient:
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
        return [self.definitions[name] for name in _chain(self.target, self.definitions)]

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
        functions: Functions = _NO_FUNCTIONS,
        saved: Functions = _NO_FUNCTIONS,
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
        mask = self._world(case, None, _NO_FUNCTIONS).tensor(Where(condition, S.One, S.Zero), output.axes)
        return unflat(self.derivation.named, output.of, mask, case.call.leading)

    def autograd(
        self,
        equations: Iterable[Equation],
        held: frozenset[str] = frozenset(),
        functions: Functions = _NO_FUNCTIONS,
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


Family = Callable[[_Gradient], Iterator[Form]]


def _chain(target: str, definitions: Mapping[str, Definition]) -> list[str]:
    """A definition and those it is computed from, nearest first."""
    out, waiting = [], [target]
    while waiting:
        name = waiting.pop(0)
        if name in definitions and name not in out:
            out.append(name)
            waiting += sorted(tensor_names(definitions[name].value))
    return out


# --- what is right, of something else --------------------------------------------------------------------------------

_EXCHANGED = "gradients exchanged"


def _equal_to(name: str) -> str:
    return f"equals d{name}"


def _other_gradients(g: _Gradient) -> Iterator[Form]:
    for o in g.derivation.op.differentiable:

        def value(case: Case, name: str = o.name) -> Tensor:
            return case.gradients[name]

        if o.name != g.operand:
            yield Form(_equal_to(o.name), _EXCHANGED, value)


def _inner_gradients(g: _Gradient) -> Iterator[Form]:
    """The gradient of a tensor that is made of the input: what lies between the two has no derivative."""
    own = g.derivation.named.operand(g.operand)
    for a in g.derivation.steps.adjoints:
        e = g.derivation.named.equation(a.of)
        if own is not None and e is not None and e.index == own.axes and g.operand in {at.name for at in e.reads}:
            adjoints = g.derivation.steps.adjoints
            definitions = {b.target.name: Definition(b.target.name, b.axes, b.value) for b in adjoints}
            text = f"equals d{a.of}, without the derivative of {a.of} by {g.operand}"
            yield Form(text, "derivative left out", g.closed(definitions, target=a.target.name))


def _misplaced(g: _Gradient) -> Iterator[Form]:
    """The right values at other places: all at one, or one place on."""
    own = g.derivation.named.operand(g.operand)
    for k, axis in enumerate(own.axes if own is not None else ()):
        if not axis.is_pack:
            text = f"equals the derived gradient of the last {axis} at the first, and 0 elsewhere"
            yield Form(text, _MISPLACED, _first(g, k))
            yield Form(f"equals the derived gradient one place on along {axis}", _MISPLACED, _rolled(g, k, 1))
            yield Form(f"equals the derived gradient one place back along {axis}", _MISPLACED, _rolled(g, k, -1))


_MISPLACED = "written to the wrong place"


def _rolled(g: _Gradient, k: int, steps: int) -> Callable[[Case], Tensor | None]:
    return lambda case: case.gradients[g.operand].roll(steps, k + _packed(g, case, k))


def _first(g: _Gradient, k: int) -> Callable[[Case], Tensor | None]:
    def value(case: Case) -> Tensor | None:
        right, dim = case.gradients[g.operand], k + _packed(g, case, k)
        out = torch.zeros_like(right)
        if right.shape[dim] < 2:
            return None
        out.select(dim, 0).copy_(right.select(dim, -1))
        return out

    return value


def _packed(g: _Gradient, case: Case, k: int) -> int:
    """How many dimensions more than axes there are before one."""
    own = g.derivation.named.operand(g.operand)
    return len(case.call.leading) - 1 if own is not None and any(a.is_pack for a in own.axes[:k]) else 0


def _masked_cotangents(g: _Gradient) -> Iterator[Form]:
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


def _cotangents_ignored(g: _Gradient) -> Iterator[Form]:
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


def _less(g: _Gradient) -> Iterator[Form]:
    return _closed(g, lambda own: less(own.value, own.axes))


def _other(g: _Gradient) -> Iterator[Form]:
    others = sorted({w.condition for d in g.definitions.values() for w in d.value.atoms(Where)}, key=str)
    return _closed(g, lambda own: chain(other(own.value, own.axes, g.tensors), masks(own.value, own.axes, others)))


def _alone(g: _Gradient) -> Iterator[Form]:
    return _closed(g, lambda own: alone(own.value))


def _closed(g: _Gradient, changes: Callable[[Definition], Iterator[Change]]) -> Iterator[Form]:
    """The closed form with one of its definitions changed."""
    for own in g.chain:
        for change in changes(own):
            if not change.value.has(zoo, nan):  # what is divided by something that is 0 there
                changed = {**g.definitions, own.name: replace(own, value=change.value)}
                yield Form(f"{g.whose(own.name)} {change.text}", change.error, g.closed(changed))


def _one_contribution(g: _Gradient) -> Iterator[Form]:
    """Of several contributions to an adjoint one alone: each overwrote the one before."""
    adjoints = {a.target.name: a for a in g.derivation.steps.adjoints}
    definitions = {name: Definition(name, a.axes, a.value) for name, a in adjoints.items()}
    for name in _chain(g.target, definitions):
        parts = [(c.value, c.through) for c in adjoints[name].contributions]
        cotangent = adjoints[name].cotangent
        parts += [(cotangent, "the output itself")] if cotangent is not None else []
        for part, by in parts if len(parts) > 1 else ():
            changed = {**definitions, name: replace(definitions[name], value=part)}
            text = f"equals the derived gradient with the contribution to {name} through {by} alone"
            yield Form(text, "overwritten instead of accumulated", g.closed(changed))


def _added_before(g: _Gradient) -> Iterator[Form]:
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


def _two_changes(g: _Gradient) -> Iterator[Form]:
    """Two changes of one definition, the second of what the first left, in a short gradient."""
    for own in g.chain:
        for first in islice(changes(own.value, own.axes, g.tensors), _PAIRS):
            for second in islice(changes(first.value, own.axes, g.tensors), _PAIRS):
                changed = {**g.definitions, own.name: replace(own, value=second.value)}
                yield Form(f"{g.whose(own.name)} {first.text} and {second.text}", first.error, g.closed(changed))


# --- the forward, changed --------------------------------------------------------------------------------------------


def _statistics_held(g: _Gradient) -> Iterator[Form]:
    """No gradient flows back through a tensor that is a sum, or made of such alone."""
    yield from _held(g, [(name,) for name in _statistics(g)])


def _held_constant(g: _Gradient) -> Iterator[Form]:
    """Nor through two of these, or through another tensor."""
    yield from _held(g, combinations(_statistics(g), 2))
    yield from _held(g, [(e.name,) for e in g.equations if e.name not in _statistics(g)])


def _statistics(g: _Gradient) -> list[str]:
    found: list[str] = []
    for e in g.equations:
        if e.kind not in (None, "concat") or (e.reads and all(at.name in found for at in e.reads)):
            found.append(e.name)
    return found


def _held(g: _Gradient, several: Iterable[tuple[str, ...]]) -> Iterator[Form]:
    for held in several:
        text = f"equals the gradient with {' and '.join(held)} held constant"
        if not {*held} & {*g.derivation.named.outputs}:
            yield Form(text, "held constant", g.autograd(g.equations, frozenset(held)))


def _not_held(g: _Gradient) -> Iterator[Form]:
    """A gradient flows through constants as if they were a mean of the input, or a mean square about another one."""
    own = g.derivation.named.operand(g.operand)
    assert own is not None, "a gradient is of an operand"
    constants = [o for o in g.derivation.named.operands if o.kind == "constant" and {*o.axes} < {*own.axes}]
    centres = [None, *(o.name for o in constants)]
    known = (None, _Statistic(), *(_Statistic(p, about) for p in (S.One, S.Half, -S.Half) for about in centres))
    for picked in product(known, repeat=len(constants)) if len(constants) < 3 else ():
        kinds = {o: kind for o, kind in zip(constants, picked, strict=True) if kind is not None}
        if any(o.name == kind.about for o, kind in kinds.items()) or not kinds:
            continue

        def inputs(world: World, kinds: Mapping[Operand, _Statistic] = kinds) -> dict[str, Tensor]:
            given = {o.name: world.tensors[o.name] for o in kinds}
            flows = {o.name: _flow(world, own, o, kind) for o, kind in kinds.items()}
            return {name: t + flows[name] for name, t in given.items()}

        words = ", ".join(f"{o.name} taken as {kind.of(g.operand)}" for o, kind in kinds.items())
        yield Form(f"equals the gradient with {words}", "not held constant", g.autograd(g.equations, inputs=inputs))


@dataclass(frozen=True)
class _Statistic:
    """A mean, or a power of the mean square about another constant."""

    power: Expr = S.Zero
    about: str | None = None

    def of(self, x: str) -> str:
        if self.power == 0:
            return f"the mean of {x}"
        square = f"the mean square of {x}" + (f" - {self.about}" if self.about else "")
        return {S.One: square, S.Half: f"the root of {square}"}.get(self.power, f"one over the root of {square}")


def _flow(world: World, operand: Operand, constant: Operand, kind: _Statistic) -> Tensor:
    """0 with the gradient of a statistic of an operand over the axes that a constant lacks."""
    axes, x, own = operand.axes, world.tensors[operand.name], world.tensors[constant.name].detach()
    kept = [axes.index(a) for a in constant.axes]
    x = x.permute([*kept, *(k for k in range(len(axes)) if k not in kept)]).flatten(len(kept))
    factor: Tensor | float = 1.0
    if kind.power != 0:
        about = torch.zeros(1) if kind.about is None else world.tensors[kind.about].detach()[..., None]
        if about.dim() not in (1, x.dim()):  # of other axes than this one
            return torch.full(x.shape[:-1], torch.nan)
        x = (x - about) ** 2
        power = float(kind.power)
        factor = power * own.abs() ** ((power - 1) / power)  # the derivative of a power, by its value
    mean = x.mean(-1) * factor
    return mean - mean.detach()


def _other_forwards(g: _Gradient) -> Iterator[Form]:
    """One equation has something changed: of the forward whose gradient it is, or of a saved tensor alone."""
    read = {name for d in g.chain for name in tensor_names(d.value)}
    for k, equation in enumerate(g.equations):
        for text, error, body in _bodies(equation) if equation.kind != "concat" else ():
            if any(value.has(zoo, nan) for value in body.values()):
                continue
            changed = (*g.equations[:k], replace(equation, **body), *g.equations[k + 1 :])
            after = {equation.name}
            for e in g.equations[k + 1 :]:
                after |= {e.name} if after & {at.name for at in e.reads} else set()
            if read & after:
                said = f"equals the derived gradient read with {equation.name} taken {text}"
                yield Form(said, error, g.closed(g.definitions, changed))
            said = f"equals the gradient of a forward whose {equation.name} is taken {text}"
            yield Form(said, error, g.autograd(changed))


def _bodies(equation: Equation) -> Iterator[tuple[str, str, dict[str, Expr]]]:
    lengths = Mul(*map(Size, equation.over))
    if equation.kind == "mean":
        text = f"divided by {lengths} - 1 instead of {lengths}"
        yield text, "degrees of freedom", {"scale": equation.scale * lengths / (lengths - 1)}
        yield "as a sum", "wrong scale", {"scale": equation.scale * lengths}
    if equation.kind == "sum":
        yield "as a mean", "wrong scale", {"scale": equation.scale / lengths}
    if equation.scale != 1:
        for change in changes(equation.scale, (), {}):
            yield change.text, change.error, {"scale": change.value}
    for change in changes(equation.body, equation.axes, {}):
        if not change.value.free_symbols - equation.body.free_symbols:
            yield change.text, change.error, {"body": change.value}


# --- functions -------------------------------------------------------------------------------------------------------

_ANOTHER = "another function's formula"
_OF_ONE = ("sigmoid", "tanh", "erf", "softplus", "relu", "exp", "sin", "cos", "log", "log1p", "atan", "sign")
_SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": lambda y: y * (1 - y),
    "tanh": lambda y: 1 - y**2,
    "exp": lambda y: y,
    "relu": lambda y: (y > 0).to(y.dtype),
}
"""Derivatives by the function's own value."""
_CUBIC = 0.044715  # gelu by tanh: tanh(sqrt(2/pi)*(x + 0.044715*x**3)) for erf(x/sqrt(2))
_LIKE: dict[str, dict[str, Callable[[Tensor], Tensor]]] = {
    "erf": {
        "its approximation by tanh": lambda u: torch.tanh(2 / math.sqrt(math.pi) * (u + 2 * _CUBIC * u**3)),
        "its approximation by sigmoid": lambda u: 2 * torch.sigmoid(1.702 * math.sqrt(2) * u) - 1,
    },
    "tanh": {"erf without the approximation": lambda u: torch.erf(math.sqrt(math.pi) / 2 * _without_cubic(u))},
}


def _without_cubic(u: Tensor) -> Tensor:
    """The `s*x` of which `u` is `s*(x + 0.044715*x**3)`, by Cardano."""
    x = u.detach() / math.sqrt(2 / math.pi)
    root = torch.sqrt((x / (2 * _CUBIC)) ** 2 + 1 / (3 * _CUBIC) ** 3)
    cube = x / (2 * _CUBIC)
    x = _cube_root(cube + root) + _cube_root(cube - root)
    slope = math.sqrt(2 / math.pi) * (1 + 3 * _CUBIC * x**2)
    return math.sqrt(2 / math.pi) * (x + (u - u.detach()) / slope)


def _cube_root(x: Tensor) -> Tensor:
    return x.sign() * x.abs() ** (1 / 3)


def _other_slopes(g: _Gradient) -> Iterator[Form]:
    """Another function's derivative, by its value: `y*(1 - y)` of `y = tanh(x)`."""
    for name, (text, slope) in product(_used(g), _SLOPES.items()):
        if text != name:
            yield _with_slope(g, name, f"the slope of {text}, by its value,", _by_value(slope), _ANOTHER)


def _used(g: _Gradient) -> list[str]:
    return sorted({type(f).__name__ for e in g.equations for f in e.right.atoms(Function)} & set(_OF_ONE))


def _other_functions(g: _Gradient) -> Iterator[Form]:
    """Another function in the place of one: of the whole forward, of the closed form, or of the slope alone."""
    for name in _used(g):
        others = {**_LIKE.get(name, {}), **{n: FUNCTIONS[n] for n in _OF_ONE if n != name}}
        for text, function in others.items():
            yield from _in_place(g, name, text, function)
        at_value = _by_value(_slope_of(FUNCTIONS[name]))
        yield _with_slope(g, name, "that at its value", at_value, "wrong saved tensor")


def _in_place(g: _Gradient, name: str, text: str, function: Callable[..., Tensor]) -> Iterator[Form]:
    put, words = {name: function}, f"with {text} in place of {name}"
    yield Form(f"equals the derived gradient {words}", _ANOTHER, g.closed(g.definitions, functions=put))
    yield Form(f"equals the derived gradient read {words}", _ANOTHER, g.closed(g.definitions, saved=put))
    yield Form(f"equals the gradient of a forward {words}", _ANOTHER, g.autograd(g.equations, functions=put))
    slope = _slope_of(function)
    yield _with_slope(g, name, f"the slope of {text}", lambda x, y: slope(x), _ANOTHER)


def _with_slope(
    g: _Gradient, name: str, text: str, slope: Callable[[Tensor, Tensor], Tensor], error: str
) -> Form:
    """The gradient with another derivative of a function, which is given its argument and its value."""
    mine = FUNCTIONS[name]

    def sloped(x: Tensor) -> Tensor:
        at, y = x.detach(), mine(x.detach())
        return y + (x - at) * slope(at, y)

    text = f"equals the gradient with {text} in place of the slope of {name}"
    return Form(text, error, g.autograd(g.equations, functions={name: sloped}))


def _by_value(slope: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, y: slope(y)


def _slope_of(function: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
    def slope(at: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = at.detach().requires_grad_()
            (found,) = torch.autograd.grad(function(leaf).sum(), leaf)
        return found

    return slope


# --- order, and places -----------------------------------------------------------------------------------------------


def _other_orders(g: _Gradient) -> Iterator[Form]:
    """A function taken before what it was taken of, a rotation or a transpose, or a factor drawn out of it."""
    for k, e in enumerate(g.equations):
        for text, changed in chain(_before(g.equations, k), _drawn_out(e)):
            equations = (*g.equations[:k], *changed, *g.equations[k + 1 :])
            said = f"equals the gradient of a forward with {text}"
            yield Form(said, "wrong order", g.autograd(equations))


def _before(equations: Sequence[Equation], k: int) -> Iterator[tuple[str, tuple[Equation, ...]]]:
    """The equations in place of the k-th, a function of one tensor: that of a sum taken of what is summed, and back."""
    e = equations[k]
    made = {o.name: o for o in equations[:k]}
    reads = sorted(set(e.reads), key=str)
    if e.kind is None and len(reads) == 1 and reads[0].name in made and reads[0] == made[reads[0].name].left:
        inner = made[reads[0].name]
        for read in sorted(set(inner.reads), key=str):
            body = inner.body.xreplace({read: e.body.xreplace({reads[0]: read})})
            if inner.body.diff(read) != 0 and inner.body.diff(read, 2) == 0:
                text = f"{e.name} taken of {read} before {inner.name} instead of after"
                yield text, (replace(inner, target=e.target, body=body),)
    for read in (r for r in reads if r.name in made and e.body.diff(r, 2) == 0):
        inner = made[read.name]
        before = inner.reads[0] if len(set(inner.reads)) == 1 else inner.left
        if inner.kind is not None or before == inner.left or before.index != inner.left.index:
            continue
        plain = e.body.xreplace({read: At(before.tensor, *read.index)})
        own = Name(f"{e.name}_before_{inner.name}")
        first = replace(e, target=own, body=plain)
        after = replace(e, kind=None, over=(), scale=S.One, body=inner.body.xreplace({before: first.left}))
        yield f"{inner.name} taken after {e.name} instead of before", (first, after)


def _drawn_out(e: Equation) -> Iterator[tuple[str, tuple[Equation, ...]]]:
    """A number that a function's argument is multiplied by outside of it, and back."""
    for f in sorted(e.body.atoms(Function), key=str):
        for factor in Mul.make_args(f.args[0]) if len(f.args) == 1 else ():
            if _is_number(factor):
                put = factor * f.func(f.args[0] / factor)
                yield f"{put} in place of {f}", (replace(e, body=e.body.xreplace({f: put})),)
        for factor in Mul.make_args(e.body):
            if len(f.args) == 1 and _is_number(factor) and f in Mul.make_args(e.body):
                body = e.body / factor
                put = body.xreplace({f: f.func(f.args[0] * factor)})
                yield f"{put} in place of {e.body}", (replace(e, body=put),)


def _is_number(factor: Expr) -> bool:
    base = factor.base if isinstance(factor, Pow) else factor
    return isinstance(base, Scalar | Size)


def _overwriting(g: _Gradient) -> Iterator[Form]:
    """Of what is read at one place several times, as by windows that overlap, only what comes last is written."""
    for way in overwritten(g.derivation.named, g.operand):

        def value(case: Case, way: Overwriting = way) -> Tensor | None:
            try:
                return way.gradient(g.derivation.named, g.operand, case)
            except (IndexError, RuntimeError):  # nothing is read there
                return None

        yield Form(f"equals the gradient with {way}", "overwritten instead of accumulated", value)


_FAMILIES: tuple[Family, ...] = (
    _other_gradients,
    _inner_gradients,
    _cotangents_ignored,
    _added_before,
    _less,
    _statistics_held,
    _overwriting,
    _not_held,
    _misplaced,
    _masked_cotangents,
    _one_contribution,
    _other_slopes,
    _other,
    _held_constant,
    _alone,
    _other_orders,
    _other_forwards,
    _other_functions,
    _two_changes,
)
"""In the order in which they are tried: the likely ones first, and two changes last, which takes longest."""
