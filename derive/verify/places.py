"""One expression, evaluated as it is written.

An expression is evaluated at *places*: one position an axis, all elements of a tensor side by side in one vector. A
tensor is read by indexing it with one vector of positions a dimension, a reduction crosses the places with every
position of its axes, and each branch of a choice is evaluated at the places that choose it. There is no broadcasting
and no planning, nothing of the backends is shared, and speed does not matter. `...` is one axis here, as long as its
axes together.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType
from typing import Any

import torch
from sympy import Add, Basic, E, Expr, Function, Max, Min, Mul, Number, Pow, S
from sympy.core.relational import Equality, Relational
from sympy.logic.boolalg import And, BooleanFalse, BooleanTrue, Not, Or
from torch import Tensor

from derive.ir.program import RELATIONS
from derive.ir.terms.axes import Axis, Size, free_axes, sorted_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, Scalar
from derive.ir.terms.functions import CLASSES
from derive.ir.terms.indices import Merge, Part, Prefix, Slot
from derive.ir.terms.reductions import Reduce, Sigma
from derive.primitives import CAP, ROWS


def _expm1(x: Tensor) -> Tensor:
    """With the derivative `exp(x)`, of which PyTorch has `expm1(x) + 1`: nothing is left of it far below 0."""
    slope = torch.exp(x.clamp(max=0))
    return torch.where(x < 0, torch.expm1(x.detach()) + (slope - slope.detach()), torch.expm1(x))


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    **{r.name: operator.attrgetter(r.torch_name)(torch) for r in ROWS if r.name in CLASSES and "{x}" not in r.torch},
    "capped": lambda x: torch.where(x > CAP, x - (x - CAP).detach(), x),
    "expm1": _expm1,
    "polygamma": lambda n, x: torch.polygamma(int(n.flatten()[0]), x),  # digamma(x) is polygamma(0, x)
    "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "stop": torch.Tensor.detach,
}
_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda t: t.sum(1),
    "mean": lambda t: (t if t.is_floating_point() else t.double()).mean(1),
    "amax": lambda t: t.amax(1),  # ties share the gradient evenly, as the notation has it
    "amin": lambda t: t.amin(1),
    "prod": lambda t: t.prod(1),
}


@dataclass(frozen=True)
class World:
    """Lengths of axes (`...` as one), tensors by name (`...` as one dimension), and numbers.

    `reads` holds what single reads find, over their own axes, in place of their tensor, and `functions` what stands for
    a function of that name.
    """

    sizes: Mapping[str, int]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    reads: Mapping[At, Tensor] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Tensor]] = field(default_factory=dict)

    def having(self, tensors: Mapping[str, Tensor]) -> World:
        """The same world with further tensors."""
        return replace(self, tensors={**self.tensors, **tensors})

    def length(self, index: Basic) -> int:
        """How many values an index on a left-hand side takes."""
        if isinstance(index, Merge):
            return math.prod(self.length(a) for a in index.args)
        if isinstance(index, Slot):
            return int(position(index.length, Places(1, {}), self))
        assert isinstance(index, Axis), f"{index} is no axis"
        return self.sizes[index.base]

    def tensor(self, expr: Expr, axes: Sequence[Axis], at: Mapping[Axis, int] = MappingProxyType({})) -> Tensor:
        """All elements of an expression over its axes, at one place of others."""
        places = Places(1, {a: torch.tensor([k]) for a, k in at.items()}).crossed(axes, self)
        return full(value_at(expr, places, self), places.count).reshape([self.sizes[a.base] for a in axes])


@dataclass(frozen=True)
class Places:
    """Where an expression is evaluated: `count` places, each with one position of every axis."""

    count: int
    at: Mapping[Axis, Tensor]

    def crossed(self, axes: Iterable[Axis], world: World) -> Places:
        """Every place with every position of further axes, the last of them fastest."""
        out = self
        for axis in axes:
            n = world.sizes[axis.base]
            at = {a: p.repeat_interleave(n) for a, p in out.at.items()}
            at[axis] = torch.arange(n).repeat(out.count)
            out = Places(out.count * n, at)
        return out

    def only(self, chosen: Tensor) -> Places:
        return Places(int(chosen.sum()), {a: p[chosen] for a, p in self.at.items()})


def full(value: Tensor, count: int) -> Tensor:
    """A value for each of the places, where it may be one for all."""
    return value if value.dim() else value.expand(count)


def value_at(e: Basic, places: Places, world: World) -> Tensor:
    """The values of an expression: one a place, or a tensor without dimensions where they are all the same."""
    if isinstance(e, At):
        return _read(e, places, world)
    if isinstance(e, Add):  # numbers last: what is left of elements that cancel has digits of a small one
        terms = sorted(e.args, key=lambda a: not a.atoms(At))
        return reduce(torch.add, [value_at(a, places, world) for a in terms])
    if isinstance(e, Mul):
        return reduce(torch.mul, [value_at(a, places, world) for a in e.args])
    if isinstance(e, Pow):
        return _power(e, places, world)
    if isinstance(e, Sigma | Reduce):
        kind = "sum" if isinstance(e, Sigma) else e.kind
        if kind == "sum" and isinstance(e.body, Where) and e.body.args[2] == 0 and e.body.condition.atoms(Equality):
            return _sum_of_what_meets(e.body, e.over, places, world)
        inner = places.crossed(e.over, world)
        body = full(value_at(e.body, inner, world), inner.count)
        body = body.reshape(places.count, inner.count // places.count if places.count else _count(e.over, world))
        return _REDUCTIONS[kind](body)
    if isinstance(e, Where):
        return _choice(e, places, world)
    if isinstance(e, Function):
        name = type(e).__name__
        args = [value_at(a, places, world) for a in e.args]
        return _wide(world.functions.get(name) or FUNCTIONS[name], args)
    if isinstance(e, Min | Max):
        return reduce(
            torch.minimum if isinstance(e, Min) else torch.maximum, [value_at(a, places, world) for a in e.args]
        )
    return _simple(e, places, world)


def _wide(function: Callable[..., Tensor], args: list[Tensor]) -> Tensor:
    """A function of half precision as PyTorch has it: in float32, then rounded. Some have no kernel for it."""
    half = [a.dtype for a in args if a.dtype in (torch.float16, torch.bfloat16)]
    return function(*(a.float() for a in args)).to(half[0]) if half and len(half) == len(args) else function(*args)


def _sum_of_what_meets(body: Where, over: Iterable[Axis], places: Places, world: World) -> Tensor:
    """A sum of what equal positions choose, at the chosen places alone: one of 10,000 in a transposed convolution."""
    left, inner = list(over), Places(places.count, {**places.at, _SUMMED_AT: torch.arange(places.count)})
    for part in sorted(And.make_args(body.condition), key=lambda part: not isinstance(part, Equality)):
        own = [a for a in left if a in part.atoms(Axis)]
        left = [a for a in left if a not in own]
        inner = inner.crossed(own, world)
        inner = inner.only(_condition(part, inner, world).expand(inner.count))
    inner = inner.crossed(left, world)
    values = full(value_at(body.args[1], inner, world), inner.count)
    wide = torch.promote_types(values.dtype, torch.float32)  # as PyTorch's own sums of half precision add up
    total = torch.zeros(places.count, dtype=wide).index_add(0, inner.at[_SUMMED_AT], values.to(wide))
    return total.to(values.dtype)


_SUMMED_AT = Axis("summed_at")
"""Stands for the place that a sum is of, among the axes of the places that it adds up."""


def _simple(e: Basic, places: Places, world: World) -> Tensor:
    """What reads no real tensor: numbers, lengths, positions, deltas, conditions."""
    if isinstance(e, Axis | Merge | Part | Prefix):
        return position(e, places, world).double()
    if isinstance(e, Size):
        return _number(world.sizes[e.axis.base])
    if isinstance(e, Scalar):
        return _number(world.numbers[e.name])
    if isinstance(e, Number) or e in (S.Pi, E):
        return _number(float(e))
    if isinstance(e, Delta):
        a, b = (position(i, places, world) for i in e.args)
        return (a == b).double()
    raise AssertionError(f"cannot evaluate {type(e).__name__}: {e}")


def _number(value: float) -> Tensor:
    return torch.tensor(float(value), dtype=torch.float64)  # without dimensions, so that it changes no dtype


def _count(axes: Iterable[Axis], world: World) -> int:
    return math.prod(world.sizes[a.base] for a in axes)


def _power(e: Pow, places: Places, world: World) -> Tensor:
    base = value_at(e.base, places, world)
    if e.exp == S.Half:
        return torch.sqrt(base)
    if e.exp == -S.Half:
        return torch.rsqrt(base)
    if e.exp.is_number:
        return base ** (int(e.exp) if e.exp.is_Integer else float(e.exp))
    return torch.pow(base, value_at(e.exp, places, world))


def _choice(e: Where, places: Places, world: World) -> Tensor:
    """Each branch at the places that choose it, so that the other branch's infinities reach no gradient."""
    chosen = _condition(e.condition, places, world).expand(places.count)
    branches = []
    for branch, mask in ((e.args[1], chosen), (e.args[2], ~chosen)):
        there = places.only(mask)
        branches.append(full(value_at(branch, there, world), there.count))
    dtype = torch.promote_types(branches[0].dtype, branches[1].dtype)
    order = torch.cat([chosen.nonzero()[:, 0], (~chosen).nonzero()[:, 0]])
    return torch.cat([b.to(dtype) for b in branches])[order.argsort()]


def _condition(e: Basic, places: Places, world: World) -> Tensor:
    if isinstance(e, BooleanTrue | BooleanFalse):
        return torch.tensor(bool(e))
    if isinstance(e, Relational):
        return getattr(operator, RELATIONS[e.rel_op])(*(value_at(a, places, world).double() for a in e.args))
    if isinstance(e, Not):
        return ~_condition(e.args[0], places, world)
    if isinstance(e, And | Or):
        join = torch.logical_and if isinstance(e, And) else torch.logical_or
        return reduce(join, [_condition(a, places, world) for a in e.args])
    raise AssertionError(f"{e} is no condition")


def _read(e: At, places: Places, world: World) -> Tensor:
    if e in world.reads:
        return world.reads[e][tuple(places.at[a] for a in sorted_axes(free_axes(e)))]
    tensor = world.tensors[e.name]
    if not e.index:
        return tensor
    where = [position(i, places, world) for i in e.index]
    at = tuple(w if w.dim() else w.expand(places.count) for w in where)
    return _Gather.apply(tensor, at) if tensor.dtype in (torch.float16, torch.bfloat16) else tensor[at]


class _Gather(torch.autograd.Function):
    """A gather whose gradients add up in float32, as the sums of PyTorch's own half-precision ops do."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, at: tuple[Tensor, ...]) -> Tensor:
        ctx.at, ctx.shape = at, tensor.shape
        return tensor[at]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        wide = torch.zeros(ctx.shape).index_put_(ctx.at, gradients[0].float(), accumulate=True)
        return wide.to(gradients[0].dtype), None


def position(i: Basic, places: Places, world: World) -> Tensor:
    """An index as whole numbers, one a place; merges count the first axis slowest, parts take them apart again."""
    if isinstance(i, Axis):
        return places.at[i]
    if isinstance(i, Prefix | Slot):
        return position(i.args[0], places, world)
    if isinstance(i, Merge):
        out = torch.tensor(0)
        for a in i.args:
            out = out * world.length(a) + position(a, places, world)
        return out
    if isinstance(i, Part):
        lengths = [int(position(n, places, world)) for n in i.lengths]
        whole = position(i.whole, places, world)
        return whole // math.prod(lengths[i.position + 1 :]) % lengths[i.position]
    if isinstance(i, At):
        return _read(i, places, world)
    if isinstance(i, Size):
        return torch.tensor(world.sizes[i.axis.base])
    if isinstance(i, Add | Mul):
        parts = [position(a, places, world) for a in i.args]
        return reduce(torch.add if isinstance(i, Add) else torch.mul, parts)
    if isinstance(i, Number) and i.is_Integer:
        return torch.tensor(int(i))
    raise AssertionError(f"{i} is no index")
