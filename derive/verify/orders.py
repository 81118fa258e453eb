"""The second order, held against autograd of the executed equations, which autograd differentiates again.

Nothing is shared with the derived first order. A double backward is the backward of the map from inputs and cotangents
to gradients. A JVP is the backward of the same map by the cotangents alone, in which it is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import torch
from sympy import Mul
from torch import Tensor

from derive.ir.equations import Op, Operand, SizeRule
from derive.ir.terms.axes import PACK, PACK_NAME, Axis, Size
from derive.ir.terms.names import new_name
from derive.verify.cases import Call, Case, autograd, case_of, executed
from derive.verify.compare import Answer, Subject
from derive.verify.leading import leading_of
from derive.verify.opaque import Opaque

# --- the maps ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def gradient_map(op: Op) -> Opaque:
    """`NAME_gradients`, from inputs and cotangents to the gradients: what a double backward is the backward of."""
    return _mapped(op, f"{op.name}_gradients", op.operands)


@lru_cache(maxsize=64)
def tangent_map(op: Op) -> Opaque:
    """`NAME_jvp`: the same of fixed inputs, by whose backward cotangents of the gradients become tangents."""
    fixed = (replace(o, kind="constant") if o.differentiable else o for o in op.operands)
    return _mapped(op, f"{op.name}_jvp", tuple(fixed))


def _mapped(op: Op, name: str, operands: tuple[Operand, ...]) -> Opaque:
    taken = {*op.names, *op.tensors}
    cotangents = tuple(
        Operand(new_name(f"d{o}", taken), "tensor", tuple(PACK if a == PACK_NAME else Axis(a) for a in op.dims(o)))
        for o in op.outputs
    )
    merged = tuple(SizeRule(Axis(n), formula=Mul(*map(Size, axes))) for n, axes in op.merged.items())
    given, returned = (*operands, *cotangents), tuple(f"d{o.name}" for o in op.differentiable)
    return Opaque(
        name=name, doc="", operands=given, equations=op.equations, outputs=returned,
        sizes=(*op.sizes, *merged), requirements=op.requirements, recurrences=op.recurrences,
        function=partial(_gradients, op), given=tuple(o.name for o in given),
    )  # fmt: skip


def _gradients(op: Op, *arguments: Any) -> tuple[Tensor, ...]:
    """The gradients by autograd of the executed equations, with a graph of their own where one is wanted."""
    given, dys = _parted(op, arguments)
    tensors = {o.name: a for o, a in zip(op.operands, given, strict=True) if o.is_tensor}
    numbers = {o.name: a for o, a in zip(op.operands, given, strict=True) if not o.is_tensor}
    leaves = {o.name: _followed(tensors[o.name]) for o in op.differentiable}
    call = Call(op, leading_of(op, tensors), {**tensors, **leaves}, numbers, tuple(dys))
    wanted = any(isinstance(a, Tensor) and a.requires_grad for a in arguments)
    return tuple(autograd(list(executed(call).values()), leaves, dys, again=wanted).values())


def _followed(t: Tensor) -> Tensor:
    return t if t.requires_grad else t.detach().requires_grad_()


def _parted(op: Op, arguments: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """The op's own arguments, and the cotangents of its outputs."""
    return arguments[: len(op.operands)], arguments[len(op.operands) :]


def alone(case: Case) -> Iterator[Case]:
    """The case, and where it has several cotangents the cases in which all but one are missing."""
    yield case
    cotangents = case.call.cotangents
    for k, name in enumerate(case.op.outputs if len(cotangents) > 1 else ()):
        only = tuple(c if j == k else torch.zeros_like(c) for j, c in enumerate(cotangents))
        yield case_of(f"{case.situation}, of {name} alone", case.seed, replace(case.call, cotangents=only))


# --- subjects ---------------------------------------------------------------------------------------------


def of_gradients(op: Op, function: Callable[..., Any], orders: Mapping[str, Any]) -> dict[str, Subject]:
    """What gives second derivatives: the double backward by name, `NAME` differentiated twice, and that mapped."""
    by_name, by_graph = f"{op.name}_double_backward", f"{op.name} differentiated twice"
    double = of_double_backward(op, orders[f"{op.name}_forward"], orders[by_name])
    return {by_name: double, by_graph: of_twice(op, function), f"{by_graph} and mapped": of_mapped(op, function)}


def of_tangents(op: Op, function: Callable[..., Any], orders: Mapping[str, Any]) -> dict[str, Subject]:
    """What gives tangents: the JVP by name, and `NAME` in forward mode."""
    by_name = f"{op.name}_jvp"
    direct = of_jvp(op, orders[f"{op.name}_forward"], orders[by_name])
    return {by_name: direct, f"{op.name} in forward mode": of_forward_mode(op, function)}


def of_double_backward(op: Op, forward: Callable[..., Any], double_backward: Callable[..., Any]) -> Subject:
    """A generated module's `NAME_double_backward`: what cotangents of the outputs get first, then the inputs."""

    def subject(call: Call) -> Answer:
        given, dys = _parted(op, call.arguments())
        *_, saved = forward(*given)
        found = double_backward(*map(_or_none, call.cotangents), *dys, *saved)
        names = [o.name for o in call.op.differentiable]
        return Answer(dict(zip([*names[-len(dys) :], *names[: -len(dys)]], found, strict=True)))

    return subject


def of_twice(op: Op, function: Callable[..., Any]) -> Subject:
    """A forward whose gradients autograd differentiates."""

    def subject(call: Call) -> Answer:
        arguments = [_followed(a) if o.differentiable else a for o, a in _each(call)]
        given, dys = _parted(op, arguments)
        leaves = {o.name: a for o, a in zip(call.op.operands, arguments, strict=True) if o.differentiable}
        real = [leaves[o.name] for o in op.differentiable]
        first = torch.autograd.grad(function(*given), real, dys, create_graph=True, allow_unused=True)
        pairs = [(g, c) for g, c in zip(first, call.cotangents, strict=True) if g is not None and g.requires_grad]
        return Answer(autograd([g for g, _ in pairs], leaves, [c for _, c in pairs]))

    return subject


def of_mapped(op: Op, function: Callable[..., Any], names: Collection[str] = ()) -> Subject:
    """The same by `vmap` over these inputs and cotangents, or over all that have `...`, or over all."""

    def subject(call: Call) -> Answer:
        at = [k for k, (o, _) in enumerate(_each(call)) if o.differentiable]
        real = [k for k in at if k < len(op.operands)]

        def first(*several: Tensor) -> tuple[Tensor, ...]:
            arguments = _put(call.arguments(), at, several)
            given, dys = _parted(op, arguments)
            outputs = lambda *x: _several(function(*_put(given, real, x)))  # noqa: E731
            return torch.func.vjp(outputs, *(arguments[k] for k in real))[1](tuple(dys))

        def second(cotangents: tuple[Tensor, ...], *several: Tensor) -> tuple[Tensor, ...]:
            return torch.func.vjp(first, *several)[1](cotangents)

        of = [call.op.operands[k] for k in at]
        over = names or [o.name for o in of if PACK in o.axes] or [o.name for o in of]  # over `...` alone it is no loop
        dims = [0 if o.name in over else None for o in of]
        several = [_paired(call.arguments()[k], d) for k, d in zip(at, dims, strict=True)]
        cotangents = tuple(map(_paired, call.cotangents, dims))
        found = torch.func.vmap(second, (tuple(dims[: len(cotangents)]), *dims))(cotangents, *several)
        return Answer({o.name: g[1] for o, g in zip(of, found, strict=True)})

    return subject


def of_jvp(op: Op, forward: Callable[..., Any], jvp: Callable[..., Any]) -> Subject:
    """A generated module's `NAME_jvp`."""

    def subject(call: Call) -> Answer:
        given, _ = _parted(op, call.arguments())
        *_, saved = forward(*given)
        return _of_outputs(call, jvp(*map(_or_none, call.cotangents), *saved))

    return subject


def of_forward_mode(op: Op, function: Callable[..., Any]) -> Subject:
    """A forward by `torch.func.jvp`."""

    def subject(call: Call) -> Answer:
        given, _ = _parted(op, call.arguments())
        real = [k for k, o in enumerate(op.operands) if o.differentiable]
        of = lambda *x: function(*_put(given, real, x))  # noqa: E731
        return _of_outputs(call, torch.func.jvp(of, tuple(given[k] for k in real), call.cotangents)[1])

    return subject


def _of_outputs(call: Call, found: Any) -> Answer:
    return Answer(dict(zip((o.name for o in call.op.differentiable), _several(found), strict=True)))


def _paired(t: Any, dim: int | None) -> Any:
    """Beside another, where one maps over it."""
    return t if dim is None else torch.stack([0.5 * t, t])


def _each(call: Call) -> Iterator[tuple[Operand, Any]]:
    return zip(call.op.operands, call.arguments(), strict=True)


def _put(arguments: Sequence[Any], at: Sequence[int], values: Sequence[Any]) -> list[Any]:
    own = dict(zip(at, values, strict=True))
    return [own.get(k, a) for k, a in enumerate(arguments)]


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def _or_none(t: Tensor) -> Tensor | None:
    """A cotangent or a tangent as the functions by name take it: None where it is 0."""
    return t if bool(t.any()) or not t.numel() else None
