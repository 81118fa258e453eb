"""What an op is called with: numbers where it has numbers, indices over its axes, signs that it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sympy import Expr, SympifyError, sympify

from derive.errors import DeriveError
from derive.ir.equations import Op, Operand
from derive.ir.terms.axes import PACK, Axis, Size, free_axes
from derive.ir.terms.elements import Tensor
from derive.ir.terms.indices import Merge

Tensors = dict[str, tuple[Tensor, tuple[Expr, ...]]]  # of a caller: each with its dimensions


def runs(formal: tuple[Axis, ...], dims: tuple[Expr, ...]) -> Iterator[tuple[Axis, tuple[Expr, ...]]]:
    """Each declared axis with what it stands for among the dimensions given; `...` takes what is left in front."""
    position = 0
    for axis in formal:
        width = len(dims) - len(formal) + 1 if axis == PACK else 1
        yield axis, tuple(dims[position : position + width])
        position += width


def number_of(op: Op, operand: Operand, value: Any) -> Expr:
    """What is given for a number. Raises DeriveError where it is none, or another one at each place of an axis."""
    try:
        found = sympify(value, strict=True)
    except SympifyError:
        found = None
    if not isinstance(found, Expr) or free_axes(found):
        raise DeriveError(
            f"{op.name}: {operand.name} is one number, but {value} is given",
            fix="pass a number, a scalar or size(axis)",
        )
    return found


def check_arguments(op: Op, given: dict[str, Any], tensors: Tensors, operands: dict[str, Operand]) -> None:
    """What the callee assumes of its tensors holds of those given, which have been matched with its axes."""
    names = {o.name: given[o.name]._name for o in op.operands if o.is_tensor}
    dims = {o: _dims(name, tensors, operands) for o, name in names.items()}
    for operand in (o for o in op.operands if o.is_tensor):
        name = names[operand.name]
        known = operands.get(name)  # of what the caller makes it may hold, though nobody can say so
        if operand.assumed is not None and known is not None and not getattr(known.tensor, f"is_{operand.assumed}"):
            raise DeriveError(
                f"{op.name}: {operand.name} is to be {operand.assumed}, which {name} may not be",
                fix=f"declare {known}.{operand.assumed}",
            )
        if operand.differentiable and known is not None and known.kind == "index":
            own = ", ".join(map(str, dims[operand.name])) or "()"
            raise DeriveError(
                f"{op.name}: {operand.name} holds real numbers, but {name} holds integers",
                fix=f"declare {name}: tensor[{own}]; where the integers are its numbers, f.a[{own}] = {name}[{own}]",
            )
        if operand.ranges_over is not None:
            allowed = _given_for(operand.ranges_over, op, given, dims)
            _check_range(op, operand, name, tensors[name][0], operands.get(name), allowed)


def _dims(name: str, tensors: Tensors, operands: dict[str, Operand]) -> tuple[Expr, ...]:
    """A tensor's dimensions as they were written, where one axis may stand twice."""
    return (operands[name].declared if name in operands else ()) or tensors[name][1]


def _given_for(axis: Axis, op: Op, given: dict[str, Any], dims: dict[str, tuple[Expr, ...]]) -> set[Expr]:
    """What the caller has where the callee has that axis."""
    found: set[Expr] = {axis} if axis.fixed is not None else set()
    for o in op.operands:
        if o.is_tensor:
            found |= {run[0] for a, run in runs(o.declared or o.axes, dims[o.name]) if a == axis}
        elif o.kind == "length" and o.ranges_over == axis:
            value = given[o.name]
            found.add(value.axis if isinstance(value, Size) else Axis(axis.base, fixed=int(value)))
    return found


def _check_range(
    op: Op, operand: Operand, name: str, tensor: Tensor, known: Operand | None, allowed: set[Expr]
) -> None:
    """What is given for an index holds integers, which run over what the caller has for that axis of the callee."""
    assert operand.ranges_over is not None
    over = known.ranges_over if known is not None else None
    wanted = f"over axis {next(iter(allowed))}" if len(allowed) == 1 else f"over its axis {operand.ranges_over}"
    if over is None and not tensor.is_integer:
        fix = f"declare {name}: index(…)[…]"
        raise DeriveError(f"{op.name}: {operand.name} is an index {wanted}, but {name} holds no integers", fix=fix)
    same = over in allowed or any(isinstance(a, Merge) for a in allowed)
    fixed = over is not None and over.fixed is not None and over.fixed in {getattr(a, "fixed", None) for a in allowed}
    if over is not None and allowed and not same and not fixed:
        raise DeriveError(
            f"{op.name}: {operand.name} is an index {wanted}, but {name} runs over axis {over.base}",
            fix=f"pass an index over that axis, or give both axes one name where {name} is declared",
        )
