"""An op that calls another: the callee's equations with the caller's tensors and axes in place of its own."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from sympy import Basic, Expr, Integer, Mul, Symbol, Tuple

from derive.errors import DeriveError
from derive.facts.interpreter import signs
from derive.ir.equations import Equation, Op, Operand, Recurrence
from derive.ir.terms.axes import PACK, Axis, Size, free_axes
from derive.ir.terms.elements import At, Scalar, Tensor, reads_of
from derive.ir.terms.indices import Merge
from derive.ir.terms.names import free_name
from derive.ir.terms.reductions import Reduce
from derive.notation.arguments import Tensors, check_arguments, number_of, runs

Spliced = dict[Axis, tuple[Expr, ...]]


def splice(expr: Basic, axes: Spliced, symbols: dict[Basic, Basic]) -> Any:
    """Replace axes by (runs of) axes, and tensors and scalars by others, through the whole expression."""
    if isinstance(expr, At):
        index = itertools.chain.from_iterable(_spliced_index(i, axes, symbols) for i in expr.index)
        return At(symbols.get(expr.tensor, expr.tensor), *index)
    if isinstance(expr, Merge):
        return Merge(*itertools.chain.from_iterable(_spliced_index(i, axes, symbols) for i in expr.args))
    if isinstance(expr, Size):
        run = axes.get(expr.axis, (expr.axis,))
        return Mul(*(Size(a) for a in run))
    if isinstance(expr, Reduce):
        over = tuple(itertools.chain.from_iterable(axes.get(a, (a,)) for a in expr.over))
        body = splice(expr.body, axes, symbols)
        return Reduce(Symbol(expr.kind), body, Tuple(*over)) if over else body
    if isinstance(expr, Axis):
        run = axes.get(expr, (expr,))
        return run[0] if len(run) == 1 else Merge(*run)
    if expr in symbols:
        return symbols[expr]
    if not expr.args:
        return expr
    return expr.func(*(splice(a, axes, symbols) for a in expr.args))


def _spliced_index(index: Expr, axes: Spliced, symbols: dict[Basic, Basic]) -> tuple[Expr, ...]:
    if isinstance(index, Axis):
        return axes.get(index, (index,))
    return (splice(index, axes, symbols),)


def inline_call(
    op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Tensors, operands: dict[str, Operand], prefix: str
) -> tuple[list[Equation], tuple[str, ...], dict[Axis, Expr], tuple[Recurrence, ...]]:
    """The callee's equations under `prefix`, the names of its outputs there, the lengths that it says of axes, and its
    recurrences.

    `operands` are the caller's.
    """
    given = _bind_arguments(op, args, kwargs)
    symbols, axes = _arguments(op, given, tensors)
    check_arguments(op, given, tensors, operands)
    callers = {a for _, dims in tensors.values() for d in dims for a in d.atoms(Axis)}
    callers |= {o.ranges_over for o in operands.values() if o.ranges_over is not None}
    for axis in _own_axes(op):
        if axis not in axes:  # as long as the callee makes it, not as an axis of that name which the caller has
            axes[axis] = (_fresh(axis, callers.union(*axes.values())),)
    recurrences = tuple(_carried_there(r, axes, prefix, op.name) for r in op.recurrences)
    for there, r in zip(recurrences, op.recurrences, strict=True):
        symbols |= {r.before.tensor: there.before.tensor, r.last.tensor: there.last.tensor}
    out = []
    for equation in op.equations:
        over = tuple(itertools.chain.from_iterable(axes.get(a, (a,)) for a in equation.over))
        index = tuple(itertools.chain.from_iterable(_spliced_index(i, axes, symbols) for i in equation.index))
        body = splice(equation.body, axes, symbols)
        scale = splice(equation.scale, axes, symbols)
        made = Equation(Tensor(prefix + equation.name), index, body, equation.kind, over, scale, equation.given)
        if equation.over and not over:  # a reduction over a `...` that stands for nothing
            made = Equation(made.target, index, scale * body, given=equation.given)
        # what the callee assumes of its inputs is no fact about the caller's tensors
        known = {"integer": True} if equation.target.is_integer else signs(made.right)
        symbols[equation.target] = new = Tensor(made.name, **known)
        called = equation.name not in op.outputs
        sums = tuple(g.changed(lambda t: splice(t, axes, symbols)) for g in equation.sums)
        out.append(replace(made, target=new, called=called, guard=equation.guard, first=equation.first, sums=sums))
    said = {axes[r.axis][0]: splice(r.formula, axes, symbols) for r in op.sizes if r.said and r.formula is not None}
    lengths = {a: n for a, n in said.items() if isinstance(a, Axis)}
    return out, tuple(prefix + name for name in op.outputs), lengths, recurrences


def _carried_there(r: Recurrence, axes: Spliced, prefix: str, op: str) -> Recurrence:
    """A recurrence of the callee under the caller's axes."""
    along = axes[r.axis]
    if len(along) != 1 or not isinstance(along[0], Axis):
        raise DeriveError(
            f"{op}: its recurrence along {r.axis} would be one along {', '.join(map(str, along)) or 'no axis'}",
            fix="pass a tensor with one axis there",
        )

    def there(o: Operand) -> Operand:
        own = tuple(i for a in o.axes for i in axes.get(a, (a,)) if isinstance(i, Axis))
        return replace(o, name=prefix + o.name, axes=own, declared=own)

    return Recurrence(prefix + r.state, prefix + r.start, along[0], r.forwards, there(r.before), there(r.last))


def _arguments(op: Op, given: dict[str, Any], tensors: Tensors) -> tuple[dict[Basic, Basic], Spliced]:
    """What the caller passes for the callee's tensors and scalars, and what its axes are there."""
    symbols: dict[Basic, Basic] = {}
    axes: Spliced = {}
    for operand in op.operands:
        value = given[operand.name]
        if operand.kind == "length" and operand.ranges_over is not None:
            axes[operand.ranges_over] = (_axis_of_length(op, operand, value),)
            continue
        if operand.kind == "scalar":
            symbols[Scalar(operand.name)] = number_of(op, operand, value)
            continue
        if isinstance(value, At):
            raise DeriveError(
                f"{op.name}: argument {operand.name} is one element, {value}",
                fix=f"pass the whole tensor and name the result: f.a = {op.name}({value.name})",
            )
        name = getattr(value, "_name", None)
        if name not in tensors:
            fix = "pass f.name or an input"
            if isinstance(value, Expr) and value.atoms(At):
                largest = sorted(reads_of(value), key=lambda at: -len(free_axes(at)))  # whose order is the author's
                own = dict.fromkeys(str(i) for at in largest for i in at.index if isinstance(i, Axis))
                fix = f"name it first, f.a[{', '.join(own)}] = {value}, and pass f.a"
            raise DeriveError(f"{op.name}: argument {operand.name} is no tensor of this spec", fix=fix)
        tensor, dims = tensors[name]
        symbols[operand.tensor] = tensor
        _bind_axes(op, operand, dims, axes, tensors)
    return symbols, axes


def _axis_of_length(op: Op, operand: Operand, value: Any) -> Axis:
    """The axis whose length is passed: the caller's, or one of a fixed length where a number is passed."""
    assert operand.ranges_over is not None
    if isinstance(value, Size):
        return value.axis
    if isinstance(value, int | Integer) and not isinstance(value, bool) and value > 0:
        return Axis(f"{operand.ranges_over.base}_{value}", fixed=int(value))
    raise DeriveError(
        f"{op.name}: {operand.name} is no length of an axis", fix="pass size(axis), or a whole number above 0"
    )


def _bind_arguments(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [o.name for o in op.operands]
    unknown = [k for k in kwargs if k not in names]
    if len(args) > len(names) or unknown:
        raise DeriveError(f"{op.name} takes ({', '.join(names)})", fix="match its signature")
    given = dict(zip(names, args, strict=False)) | kwargs
    for operand in op.operands:
        if operand.name not in given:
            if not operand.has_default:
                raise DeriveError(f"{op.name} needs {operand.name}", fix=f"its signature is ({', '.join(names)})")
            given[operand.name] = operand.default
    return given


def _bind_axes(op: Op, operand: Operand, dims: tuple[Expr, ...], axes: Spliced, tensors: Tensors) -> None:
    """Match the caller's dimensions with the callee's declared axes; `...` takes what is left in front."""
    formal = operand.axes
    fixed = len(formal) - (PACK in formal)
    if len(dims) < fixed or (len(dims) != fixed and PACK not in formal):
        raise DeriveError(
            f"{op.name}: {operand.name} has {len(formal)} axes, but {len(dims)} are given",
            fix="pass a tensor of its rank",
        )
    for axis, run in runs(formal, dims):
        if axis in axes and axes[axis] != run:
            if len(axes[axis]) != len(run):
                raise DeriveError(f"{op.name}: `...` stands for different axes", fix="pass tensors that agree in them")
            continue  # another name for an axis of the same length: the sizes are checked when the op runs
        for given in run:
            if axis.fixed is not None and not (isinstance(given, Axis) and given.fixed == axis.fixed):
                raise DeriveError(
                    f"{op.name}: {operand.name} has an axis {axis.base} of length {axis.fixed}, but {given} is given",
                    fix=f'declare it with that length: axes("{given}={axis.fixed}")',
                )
        if axis not in axes:
            axes[axis] = _injective(axis, tuple(_whole(d, tensors) for d in run), axes)


def _whole(dim: Expr, tensors: Tensors) -> Expr:
    """A merged dimension as one axis, as long as it: the callee may sum over it, and has its parts' names to itself."""
    if not isinstance(dim, Merge):
        return dim
    name = "_".join("leading" if a.is_pack else a.base for a in dim.args)
    return _fresh(Axis(name), {a for _, dims in tensors.values() for d in dims for a in d.atoms(Axis)})


def _injective(axis: Axis, run: tuple[Expr, ...], axes: Spliced) -> tuple[Expr, ...]:
    """Two axes of the callee stay two, also where the caller's tensors have one axis in both places."""
    used = {a for other in axes.values() for a in other}
    if not any(a in used for a in run):
        return run
    if len(run) == 1:
        return (_fresh(axis, used),)
    return tuple(_fresh(a, used) if a in used and isinstance(a, Axis) else a for a in run)


def _own_axes(op: Op) -> list[Axis]:
    found: dict[Axis, None] = {}
    for equation in op.equations:
        for axis in (*equation.axes, *equation.over):
            found.setdefault(axis)
    for operand in op.operands:
        if operand.ranges_over is not None:
            found.setdefault(operand.ranges_over)
    return list(found)


def _fresh(axis: Axis, used: set[Any]) -> Axis:
    """An axis of the callee alone keeps its name unless the caller has one of that name in use."""
    return axis.renamed(free_name(axis.base, {u.base for u in used if isinstance(u, Axis)}))
