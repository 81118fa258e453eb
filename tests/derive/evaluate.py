"""Brute force: any expression of `derive.ir.terms`, one element at a time, by loops over its axes.

Slow and obvious on purpose: it shares no rule with what it judges. Tensors that hold `Fraction`s are summed and
multiplied exactly; floats stay float64. `...` is treated as one axis, called "...".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from sympy import Add, Basic, E, Function, Max, Min, Mul, Number, Pow, Rational, S, oo
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, BooleanFalse, BooleanTrue, Not, Or

from derive.adjoint.chain_rule import Stepwise
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, Scalar, tensor_names
from derive.ir.terms.indices import Merge, Part, Prefix, Slot
from derive.ir.terms.reductions import Reduce, Sigma
from derive.schedule.definitions import Definition

Place = Mapping[Axis, int]
Array = np.ndarray

FUNCTIONS: dict[str, Callable[..., float]] = {
    "absolute": abs,
    "power": lambda a, b: a**b,
    "cos": math.cos,
    "erf": math.erf,
    "capped": lambda x: min(x, 60),
    "exp": math.exp,
    "expm1": math.expm1,
    "floor": math.floor,
    "log1p": math.log1p,
    "logaddexp": lambda a, b: math.log(math.exp(a) + math.exp(b)),
    "log": lambda x: math.log(x) if x > 0 else -math.inf,
    "maximum": max,
    "minimum": min,
    "relu": lambda x: max(x, 0),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sign": lambda x: (x > 0) - (x < 0),
    "sin": math.sin,
    "softplus": lambda x: math.log1p(math.exp(x)),
    "tanh": math.tanh,
}
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
REDUCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "mean": lambda values: sum(values) / Fraction(len(values)),
    "amax": max,
    "amin": min,
    "prod": math.prod,
}


@dataclass(frozen=True)
class World:
    """Values for tensors and scalars, lengths for axes."""

    sizes: Mapping[str, int]
    tensors: Mapping[str, Array] = field(default_factory=dict)
    scalars: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether the tensors hold rationals."""
        return any(t.dtype == object for t in self.tensors.values())

    def having(self, **tensors: Array) -> World:
        return replace(self, tensors={**self.tensors, **tensors})

    def length(self, index: Basic) -> int:
        """How many values an index on a left-hand side takes."""
        if isinstance(index, Merge):
            return math.prod(self.length(a) for a in index.args)
        if isinstance(index, Slot):
            return int(self.element(index.length))
        assert isinstance(index, Axis)
        return self.sizes[index.base]

    def places(self, axes: Iterable[Axis]) -> Iterable[dict[Axis, int]]:
        """Every combination of values of the axes, the last fastest."""
        axes = tuple(axes)
        for values in itertools.product(*(range(self.sizes[a.base]) for a in axes)):
            yield dict(zip(axes, values, strict=True))

    def element(self, expr: Basic, at: Place | None = None) -> Any:
        """The value of an expression where its free axes stand at `at`."""
        return _element(self, expr, at or {})

    def tensor(self, expr: Basic, axes: Iterable[Axis]) -> Array:
        """All elements of an expression over its axes."""
        axes = tuple(axes)
        out = np.empty(tuple(self.sizes[a.base] for a in axes), dtype=object)
        for place in self.places(axes):
            out[tuple(place.values())] = self.element(expr, place)
        return out if self.exact else out.astype(float)


def _element(w: World, e: Basic, at: Place) -> Any:
    if isinstance(e, At):
        return _read(w, e, at)
    if isinstance(e, Add):
        return sum(_element(w, a, at) for a in e.args)
    if isinstance(e, Mul):
        return math.prod(_element(w, a, at) for a in e.args)
    if isinstance(e, Pow):
        return _power(_element(w, e.base, at), _element(w, e.exp, at))
    if isinstance(e, Axis):
        return at[e]
    if isinstance(e, Size):
        return Fraction(w.sizes[e.axis.base])
    if isinstance(e, Scalar):
        return w.scalars[e.name]
    if isinstance(e, Number):
        return _number(e)
    if e in (S.Pi, E):
        return float(e)
    if isinstance(e, Sigma):
        return sum(_element(w, e.body, {**at, **p}) for p in w.places(e.over))
    if isinstance(e, Reduce):
        return REDUCTIONS[e.kind]([_element(w, e.body, {**at, **p}) for p in w.places(e.over)])
    if isinstance(e, Delta):
        return int(_element(w, e.args[0], at) == _element(w, e.args[1], at))
    if isinstance(e, Where):
        return _element(w, e.args[1] if _element(w, e.condition, at) else e.args[2], at)
    if isinstance(e, Merge | Part):
        return _index(w, e, at)
    if isinstance(e, Prefix):
        return _element(w, e.args[0], at)
    if isinstance(e, BooleanTrue | BooleanFalse):
        return bool(e)
    if isinstance(e, Relational):
        return RELATIONS[e.rel_op](*(_element(w, a, at) for a in e.args))
    if isinstance(e, And | Or | Not):
        parts = [_element(w, a, at) for a in e.args]
        return not parts[0] if isinstance(e, Not) else all(parts) if isinstance(e, And) else any(parts)
    if isinstance(e, Min | Max):
        return (min if isinstance(e, Min) else max)(_element(w, a, at) for a in e.args)
    if isinstance(e, Function):
        return FUNCTIONS[type(e).__name__](*(_element(w, a, at) for a in e.args))
    raise AssertionError(f"cannot evaluate {type(e).__name__}: {e}")


def _number(e: Number) -> Any:
    if e in (oo, -oo):
        return math.inf if e is oo else -math.inf
    return Fraction(int(e.p), int(e.q)) if isinstance(e, Rational) else float(e)


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        return base ** int(exponent)
    return float(base) ** float(exponent)


def _index(w: World, i: Basic, at: Place) -> int:
    """An index as a position; merges count the first axis slowest, parts take them apart again."""
    if isinstance(i, Slot):
        return _index(w, i.index, at)
    if isinstance(i, Merge):
        position = 0
        for a in i.args:
            position = position * w.length(a) + _index(w, a, at)
        return position
    if isinstance(i, Part):
        lengths = [int(_element(w, n, at)) for n in i.lengths]
        return _index(w, i.whole, at) // math.prod(lengths[i.position + 1 :]) % lengths[i.position]
    return int(_element(w, i, at))


def _read(w: World, e: At, at: Place) -> Any:
    array = w.tensors[e.name]
    where = tuple(_index(w, i, at) for i in e.index)
    assert len(where) == array.ndim, f"{e} reads an array of shape {array.shape}"
    assert all(0 <= i < n for i, n in zip(where, array.shape, strict=True)), f"{e} reads {where} of {array.shape}"
    value = array[where]
    return value.item() if isinstance(value, np.generic) else value


# --- whole passes -------------------------------------------------------------------------------------------


def assign(world: World, equation: Equation) -> World:
    """The world with the equation's tensor in it."""
    out = np.empty(tuple(world.length(i) for i in equation.index), dtype=object)
    for place in world.places(equation.axes):
        out[tuple(_index(world, i, place) for i in equation.index)] = world.element(equation.right, place)
    return world.having(**{equation.name: out if world.exact else out.astype(float)})


def forward(op: Op, world: World) -> World:
    """Every equation of the op, in order, over axes as long as the op's own rules say."""
    for rule in op.sizes:
        if rule.formula is not None and rule.axis.base not in world.sizes:
            world = replace(world, sizes={**world.sizes, rule.axis.base: int(world.element(rule.formula))})
    for equation in op.equations:
        world = assign(world, equation)
    return world


def _with_sizes(world: World, steps: Stepwise) -> World:
    """The lengths of the axes that stand for merged dimensions."""
    sizes = dict(world.sizes)
    for item in (*steps.cotangents, *steps.adjoints):
        for axis, length in zip(item.axes, world.tensors[item.of].shape, strict=True):
            assert sizes.setdefault(axis.base, length) == length
    return replace(world, sizes=sizes)


def backward(steps: Stepwise, world: World) -> World:
    """Every adjoint, in order. The world holds the forward and the cotangents."""
    world = _with_sizes(world, steps)
    for adjoint in steps.adjoints:
        world = world.having(**{adjoint.target.name: world.tensor(adjoint.value, adjoint.axes)})
    return world


def defined(steps: Stepwise, definitions: Iterable[Definition], world: World) -> World:
    """The definitions of a closed form, each after those that it reads."""
    world = _with_sizes(world, steps)
    waiting = {d.name: d for d in definitions}
    while waiting:
        ready = [d for d in waiting.values() if not tensor_names(d.value) & set(waiting)]
        assert ready, f"definitions read each other: {', '.join(waiting)}"
        for d in ready:
            world = world.having(**{d.name: world.tensor(d.value, d.axes)})
            del waiting[d.name]
    return world


def differences(op: Op, world: World, cotangents: Mapping[str, Array], of: str, step: float = 1e-5) -> Array:
    """The gradient of `sum(cotangent * output)` with respect to one input, by central differences."""

    def loss(value: Array) -> float:
        done = forward(op, world.having(**{of: value}))
        return sum(float((done.tensors[name] * c).sum()) for name, c in cotangents.items())

    start = world.tensors[of]
    out = np.zeros(start.shape)
    for where in np.ndindex(start.shape):
        up, down = start.copy(), start.copy()
        up[where] += step
        down[where] -= step
        out[where] = (loss(up) - loss(down)) / (2 * step)
    return out


# --- random worlds ------------------------------------------------------------------------------------------


def fractions(rng: np.random.Generator, *shape: int) -> Array:
    """Random small rationals, none of them zero."""
    out = np.empty(shape, dtype=object)
    for where in np.ndindex(shape):
        out[where] = Fraction(int(rng.choice([-5, -3, -2, -1, 1, 2, 3, 7])), int(rng.integers(1, 5)))
    return out


def inputs(op: Op, sizes: Mapping[str, int], rng: np.random.Generator, **scalars: Any) -> World:
    """A world with random normal tensors, random indices and the scalars' defaults."""
    tensors: dict[str, Array] = {}
    values = {o.name: o.default for o in op.operands if o.kind == "scalar"} | scalars
    for o in op.operands:
        if o.is_tensor:
            shape = tuple(sizes[a.base] for a in o.axes)
            whole = o.ranges_over
            tensors[o.name] = rng.normal(size=shape) if whole is None else rng.integers(0, sizes[whole.base], shape)
    return World(sizes, tensors, values)


def with_cotangents(steps: Stepwise, world: World, rng: np.random.Generator) -> tuple[World, dict[str, Array]]:
    """Random cotangents for every output, in the world and by the output's name."""
    by_output = {c.of: rng.normal(size=world.tensors[c.of].shape) for c in steps.cotangents}
    return world.having(**{c.target.name: by_output[c.of] for c in steps.cotangents}), by_output
