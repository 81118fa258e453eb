"""Forms of a gradient that are those of another forward.

Tensors are held constant or not, an equation, a function or the order of two is changed, reads overwrite one another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, product

import torch
from sympy import Expr, Function, Mul, Pow, S, nan, zoo
from torch import Tensor

from derive.ir.equations import Equation, Operand
from derive.ir.terms.axes import Size
from derive.ir.terms.elements import At, Scalar, tensor_names
from derive.ir.terms.elements import Tensor as Name
from derive.primitives import ROWS, formula, names
from derive.verify.cases import Case
from derive.verify.changed import Form, Gradient
from derive.verify.forms import changes
from derive.verify.overwriting import Overwriting, overwritten
from derive.verify.places import FUNCTIONS, World

# --- the forward, changed --------------------------------------------------------------------------------------------


def statistics_held(g: Gradient) -> Iterator[Form]:
    """No gradient flows back through a tensor that is a sum, or made of such alone."""
    yield from _held(g, [(name,) for name in _statistics(g)])


def held_constant(g: Gradient) -> Iterator[Form]:
    """Nor through two of these, or through another tensor."""
    yield from _held(g, combinations(_statistics(g), 2))
    yield from _held(g, [(e.name,) for e in g.equations if e.name not in _statistics(g)])


def _statistics(g: Gradient) -> list[str]:
    found: list[str] = []
    for e in g.equations:
        if e.kind not in (None, "concat") or (e.reads and all(at.name in found for at in e.reads)):
            found.append(e.name)
    return found


def _held(g: Gradient, several: Iterable[tuple[str, ...]]) -> Iterator[Form]:
    for held in several:
        text = f"equals the gradient with {' and '.join(held)} held constant"
        if not {*held} & {*g.derivation.named.outputs}:
            yield Form(text, "held constant", g.autograd(g.equations, frozenset(held)))


def not_held(g: Gradient) -> Iterator[Form]:
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


def other_forwards(g: Gradient) -> Iterator[Form]:
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
_OF_ONE = sorted(names(lambda r: r.arity == 1 and (r.finite or r.word == "derive")) & set(FUNCTIONS))
_SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    r.name: partial(formula(r.slope_by_value, {}), None) for r in ROWS if r.finite and r.slope_by_value
}
"""Derivatives by the function's own value."""
_LIKE: dict[str, dict[str, Callable[[Tensor], Tensor]]] = {
    "erf": {
        "its approximation by tanh": lambda u: torch.tanh(2 / math.sqrt(math.pi) * (u + 2 * 0.044715 * u**3)),
        "its approximation by sigmoid": lambda u: 2 * torch.sigmoid(1.702 * math.sqrt(2) * u) - 1,
    },
}
"""What a function is often approximated by."""


def other_slopes(g: Gradient) -> Iterator[Form]:
    """Another function's derivative, by its value: `y*(1 - y)` of `y = tanh(x)`."""
    for name, (text, slope) in product(_used(g), _SLOPES.items()):
        if text != name:
            yield _with_slope(g, name, f"the slope of {text}, by its value,", _by_value(slope), _ANOTHER)


def _used(g: Gradient) -> list[str]:
    return sorted({type(f).__name__ for e in g.equations for f in e.right.atoms(Function)} & set(_OF_ONE))


def other_functions(g: Gradient) -> Iterator[Form]:
    """Another function in the place of one: of the whole forward, of the closed form, or of the slope alone."""
    for name in _used(g):
        others = {**_LIKE.get(name, {}), **{n: FUNCTIONS[n] for n in _OF_ONE if n != name}}
        for text, function in others.items():
            yield from _in_place(g, name, text, function)
        at_value = _by_value(_slope_of(FUNCTIONS[name]))
        yield _with_slope(g, name, "that at its value", at_value, "wrong saved tensor")


def _in_place(g: Gradient, name: str, text: str, function: Callable[..., Tensor]) -> Iterator[Form]:
    put, words = {name: function}, f"with {text} in place of {name}"
    yield Form(f"equals the derived gradient {words}", _ANOTHER, g.closed(g.definitions, functions=put))
    yield Form(f"equals the derived gradient read {words}", _ANOTHER, g.closed(g.definitions, saved=put))
    yield Form(f"equals the gradient of a forward {words}", _ANOTHER, g.autograd(g.equations, functions=put))
    slope = _slope_of(function)
    yield _with_slope(g, name, f"the slope of {text}", lambda x, y: slope(x), _ANOTHER)


def _with_slope(
    g: Gradient, name: str, text: str, slope: Callable[[Tensor, Tensor], Tensor], error: str
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


def other_orders(g: Gradient) -> Iterator[Form]:
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


def overwriting(g: Gradient) -> Iterator[Form]:
    """Of what is read at one place several times, as by windows that overlap, only what comes last is written."""
    for way in overwritten(g.derivation.named, g.operand):

        def value(case: Case, way: Overwriting = way) -> Tensor | None:
            try:
                return way.gradient(g.derivation.named, g.operand, case)
            except (IndexError, RuntimeError):  # nothing is read there
                return None

        yield Form(f"equals the gradient with {way}", "overwritten instead of accumulated", value)
