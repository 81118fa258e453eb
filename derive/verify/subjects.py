"""Whatever gives gradients, as a subject: generated functions, someone's backward, a `torch.autograd.Function`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from derive.emit.live import Live
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.verify.cases import Call
from derive.verify.compare import Answer, Subject

_PLAIN = torch.contiguous_format
_OLD = 7  # what lies in memory that is used again
_FAR = 2.0**40  # a power of 2, by which nothing is rounded


def of_live(live: Live) -> Subject:
    """The live functions of an op: its forward, and its backward on what that saved."""
    return of_functions(live.forward, live.backward)


def parts(live: Live) -> dict[str, Callable[..., Any]]:
    """The functions of a live module, by what follows the op's name: `forward`, `backward_out`."""
    prefix = f"{live.derivation.op.name}_"
    return {n.removeprefix(prefix): f for n, f in live.function.__globals__.items() if n.startswith(prefix)}


def of_functions(forward: Callable[..., Any], backward: Callable[..., Any]) -> Subject:
    """A generated module's `NAME_forward` and `NAME_backward`."""

    def subject(call: Call) -> Answer:
        *outputs, saved = forward(*call.arguments())
        given = dict(zip(call.op.outputs, outputs, strict=True))
        found = backward(*call.cotangents, *saved)
        return Answer(_named(call.op, found), {n: o.clone() for n, o in given.items()})

    return subject


def of_workspace(functions: Mapping[str, Callable[..., Any]]) -> Subject:
    """A module's `forward_out` and `backward_out`, over what its `forward` and `backward` returned, overwritten."""

    def subject(call: Call) -> Answer:
        given = [t.untyped_storage().data_ptr() for t in (*call.inputs.values(), *call.cotangents)]
        results = functions["forward"](*call.arguments())
        made = functions["backward"](*call.cotangents, *results[-1])
        for t in tensors_in(results):
            if t.untyped_storage().data_ptr() not in given and 0 not in t.stride():
                t.fill_(_OLD)
        *outputs, saved = functions["forward_out"](*call.arguments(), **{_out_of(functions["forward_out"]): results})
        own = [torch.full_like(g, _OLD) for g in tensors_in(made)]
        out = type(made)(*own) if isinstance(made, tuple) else own[0]
        found = functions["backward_out"](*call.cotangents, *saved, **{_out_of(functions["backward_out"]): out})
        values = {n: o.clone() for n, o in zip(call.op.outputs, outputs, strict=True)}
        return Answer(_named(call.op, found), values)

    return subject


def _out_of(function: Callable[..., Any]) -> str:
    """The parameter that says where a function writes."""
    return next(p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY)


def of_stepwise(forward: Callable[..., Any], backward: Callable[..., Any]) -> Subject:
    """A module's `NAME_stepwise_forward` and `NAME_stepwise_backward`, which returns other adjoints as well."""

    def subject(call: Call) -> Answer:
        *outputs, saved = forward(*call.arguments())
        given = {n: o.clone() for n, o in zip(call.op.outputs, outputs, strict=True)}
        found = backward(*call.cotangents, *saved)
        each = found._asdict() if hasattr(found, "_asdict") else {f"d{call.op.differentiable[0].name}": found}
        return Answer({o.name: each[f"d{o.name}"] for o in call.op.differentiable}, given)

    return subject


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of a tuple of tuples, in order; of anything else it holds nothing."""
    if isinstance(value, tuple):
        return [t for v in value for t in tensors_in(v)]
    return [value] if isinstance(value, Tensor) else []


def cotangent_of(function: Callable[..., Any]) -> str:
    """What `NAME_with_gradients` calls the number that gradients are multiplied by."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD][-1]


def of_loss_with_gradients(function: Callable[..., Any], cotangent: str = "") -> Subject:
    """A generated module's `NAME_with_gradients`, whose last argument, if not another, is the cotangent as a number."""
    cotangent = cotangent or cotangent_of(function)

    def subject(call: Call) -> Answer:
        loss, found = function(*call.arguments(), **{cotangent: float(call.cotangents[0])})
        return Answer(_named(call.op, found), {call.op.outputs[0]: loss.clone()})

    return subject


def of_loss_over_old(function: Callable[..., Any], function_out: Callable[..., Any]) -> Subject:
    """A module's `NAME_with_gradients_out`, over what its `NAME_with_gradients` returned, overwritten."""

    def over_old(*args: Any, **cotangent: float) -> Any:
        out = function(*args, **cotangent)
        for t in tensors_in(out):
            t.fill_(_OLD)
        return function_out(*args, **cotangent, **{_out_of(function_out): out})

    return of_loss_with_gradients(over_old, cotangent_of(function))


def of_descent(function: Callable[..., Any]) -> Subject:
    """A generated module's `NAME_sgd`: its gradients are read off a step so long that the weights round nothing away.

    A step is taken in place, so that the weights are copies that lie as they must. Half precision is left to float32.
    """
    parameters = list(inspect.signature(function).parameters)

    def subject(call: Call) -> Answer:
        wide = call.in_dtype(torch.float32) if call.dtype.itemsize < 4 else call
        weights = {o.name: wide.inputs[o.name].clone(memory_format=_PLAIN) for o in call.op.differentiable}
        before = {n: w.clone() for n, w in weights.items()}
        given = {o.name: weights.get(o.name, a) for o, a in zip(call.op.operands, wide.arguments(), strict=True)}
        (rate,) = [p for p in parameters if p not in given]
        loss = function(**given, **{rate: _FAR})
        steps = {n: (before[n] - w) / _FAR * wide.cotangents[0] for n, w in weights.items()}
        return Answer({n: g.to(call.dtype) for n, g in steps.items()}, {call.op.outputs[0]: loss.to(call.dtype)})

    return subject


def of_differentiable(function: Callable[..., Any]) -> Subject:
    """A differentiable forward, judged by what autograd makes of it."""

    def subject(call: Call) -> Answer:
        return _by_autograd(function, call)

    return subject


def of_function_class(cls: type[torch.autograd.Function], op: Op) -> Subject:
    """A `torch.autograd.Function` whose `apply` takes the op's inputs in order; its numbers too, where it has room.

    Raises DeriveError where it takes another number of inputs.
    """
    parameters = list(inspect.signature(cls.forward).parameters.values())
    takes = None if any(p.kind is p.VAR_POSITIONAL for p in parameters) \
        else len(parameters) - ("setup_context" not in vars(cls))  # fmt: skip
    return _of_apply(cls.apply, f"{cls.__name__}.apply", takes, op)


def of_forward(function: OpOverload, op: Op) -> Subject:
    """An op of `torch.library` that takes the op's inputs in order, judged by what it has registered for autograd."""
    return _of_apply(function, str(function), len(function._schema.arguments), op)


def _of_apply(apply: Callable[..., Any], name: str, takes: int | None, op: Op) -> Subject:
    """What takes all of the op's inputs, or its tensors alone; None: as many as it is given."""
    tensors = sum(o.is_tensor for o in op.operands)
    if takes is not None and takes == tensors:
        return of_differentiable(lambda *args: apply(*(a for a in args if isinstance(a, Tensor))))
    if takes not in (None, len(op.operands)):
        raise DeriveError(
            f"{name} takes {takes} inputs, and the op has {len(op.operands)}",
            op=op.name,
            fix=f"let it take {', '.join(o.name for o in op.operands)}",
        )
    return of_differentiable(apply)


def of_backward(function: Callable[..., Any], op: Op, without: Collection[str] = ()) -> Subject:
    """Someone's `backward(d_output, *inputs)`: one cotangent an output, then the inputs in the order of the op.

    Of these it is not given those `without` which it does.

    Numbers are given to a parameter of their name, or in order where there is room for them. What it returns is one
    gradient a differentiable input, in order; or one an input, with anything for those that take none; or a mapping
    by name.
    """
    taken = replace(op, operands=tuple(o for o in op.operands if o.name not in without))
    numbers = _wanted_numbers(function, taken)
    fixed = [o for o in op.operands if o.kind == "scalar" and o.has_default]
    ignored = [o for o in fixed if numbers is not None and o.name not in numbers]

    def subject(call: Call) -> Answer:
        for operand in ignored:
            if call.numbers[operand.name] != operand.default:
                raise TypeError(f"takes no {operand.name}")
        tensors = [t for n, t in call.inputs.items() if n not in without]
        if numbers is None:
            own = (a for o, a in zip(op.operands, call.arguments(), strict=True) if o.name not in without)
            return Answer(_named(op, function(*call.cotangents, *own)))
        given = {name: call.numbers[name] for name in numbers}
        return Answer(_named(op, function(*call.cotangents, *tensors, **given)))

    return subject


def _wanted_numbers(function: Callable[..., Any], op: Op) -> tuple[str, ...] | None:
    """The numbers that are passed by name; None: all operands are passed in order."""
    names = [o.name for o in op.operands if not o.is_tensor]
    parameters = signature_of(function).parameters
    kinds = {p.kind for p in parameters.values()}
    places = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    room = len(places) - len(op.outputs)
    needed = sum(p.default is p.empty for p in places) - len(op.outputs)
    tensors = sum(o.is_tensor for o in op.operands)
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    if room >= len(op.operands) and not set(names) <= set(parameters):
        return None
    if needed > tensors + len(set(names) & set(parameters)) or room < tensors:
        outputs = ", ".join(f"d{o}" for o in op.outputs)
        raise DeriveError(
            f"the candidate takes {len(places)} arguments, and the op gives {len(op.outputs) + tensors}",
            op=op.name,
            fix=f"write it as backward({outputs}, {', '.join(o.name for o in op.operands if o.is_tensor)})",
        )
    return tuple(n for n in names if n in parameters)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters of a function, or those of the schema of an op of `torch.library`."""
    if not isinstance(function, OpOverload):
        return inspect.signature(function)
    kind, none = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    given = ((a.name, a.default_value if a.has_default_value() else none) for a in function._schema.arguments)
    return inspect.Signature([inspect.Parameter(name, kind, default=default) for name, default in given])


def _by_autograd(function: Callable[..., Any], call: Call) -> Answer:
    wanted = [o.name for o in call.op.differentiable]
    leaves = {n: call.inputs[n].detach().clone().requires_grad_() for n in wanted}
    if all(t.is_contiguous() for t in call.inputs.values()) is False:  # a clone would be laid out anew
        leaves = {n: call.inputs[n].detach().requires_grad_() for n in wanted}
    arguments = [leaves.get(o.name, a) for o, a in zip(call.op.operands, call.arguments(), strict=True)]
    outputs = function(*arguments)
    outputs = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
    found = torch.autograd.grad(outputs, list(leaves.values()), call.cotangents, allow_unused=True)
    return Answer(dict(zip(wanted, found, strict=True)), dict(zip(call.op.outputs, outputs, strict=True)))


def _named(op: Op, found: Any) -> Mapping[str, Tensor | None]:
    """Gradients by operand, from whatever a backward returned. Raises TypeError where their number is wrong."""
    out = _in_order(op, found)
    for name, gradient in out.items():
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(f"returned a {type(gradient).__name__} for d{name}, expected a tensor")
    return out


def _in_order(op: Op, found: Any) -> dict[str, Any]:
    wanted = [o.name for o in op.differentiable]
    if isinstance(found, Mapping):
        by_name = {str(k).removeprefix("d") if str(k) not in wanted else str(k): v for k, v in found.items()}
        return {n: by_name.get(n) for n in wanted}
    several: Sequence[Any] = list(found) if isinstance(found, tuple | list) else [found]
    if len(several) == len(wanted):
        return dict(zip(wanted, several, strict=True))
    for operands in ([o for o in op.operands if o.is_tensor], list(op.operands)):
        if len(several) == len(operands):
            return {o.name: g for o, g in zip(operands, several, strict=True) if o.differentiable}
    raise TypeError(f"returned {len(several)} gradients, expected {len(wanted)}: {', '.join(f'd{n}' for n in wanted)}")
