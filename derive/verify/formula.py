"""A gradient claimed as a formula in the notation: `dx[..., d] = p[..., d]*(dp[..., d] - sum(dp[..., e]*p[..., e],
over=e))`.

It may read the op's inputs, the tensors of its equations, the cotangents, and the adjoints of the chain rule
(`dxhat`); several equations are separated by `;`, and the first ones may define names for the later. A formula is
refuted by a counterexample; `proof` may show that it is right.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from sympy import Basic, Expr, SympifyError, nan, sympify, zoo
from torch import Tensor as TorchTensor

from derive import notation
from derive.errors import DeriveError
from derive.ir.algebra import normal, sigma
from derive.ir.terms.axes import PACK, Axis, Size, free_axes
from derive.ir.terms.elements import At, Scalar, Tensor
from derive.ir.terms.indices import Merge
from derive.ir.terms.reductions import Reduce
from derive.notation.questions import refused
from derive.notation.recorded import settled
from derive.pipeline import Derivation
from derive.schedule.definitions import Definition
from derive.verify.cases import Call
from derive.verify.chain import chain_world, in_order, with_adjoints
from derive.verify.compare import Answer, Subject
from derive.verify.leading import unflat

_FILE = "<formula>"
_COPIES = 700  # numbers from which a formula's own bound axes are counted

Dims = Mapping[str, tuple[Axis, ...]]


@dataclass(frozen=True)
class Formula:
    """What a formula claims: definitions over the op's own axes, and for each gradient the definition that is it."""

    definitions: tuple[Definition, ...]
    gradients: Mapping[str, str]  # of operands: the definition's name


class _Handle:
    """A tensor that a formula reads."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    def __getitem__(self, key: Any) -> At:
        return At(self.tensor, *_indices(key))


def _indices(key: Any) -> tuple[Expr, ...]:
    out = []
    for k in key if isinstance(key, tuple) else (key,):
        out.append(PACK if k is Ellipsis else Merge(*map(sympify, k)) if isinstance(k, tuple) else sympify(k))
    return tuple(out)


def parse(text: str, derivation: Derivation) -> Formula:
    """The formula's definitions. Raises DeriveError for what is no formula of a gradient of the op."""
    op = derivation.named
    targets = {a.target.name: a for a in derivation.steps.adjoints}
    wanted = {targets[n].target.name: targets[n].of for n in targets if targets[n].of in _names(op.differentiable)}
    wanted |= {f"d{o.name}": o.name for o in op.differentiable if f"d{o.name}" not in targets}
    dims = dict(_known(derivation))
    symbols: dict[str, Tensor] = {o.name: o.tensor for o in op.operands if o.is_tensor}
    symbols |= {e.name: e.target for e in op.equations}
    definitions: list[Definition] = []
    for statement in _statements(text, op.name):
        name, left, value = _read(statement, symbols, dims, [o.name for o in op.operands if not o.is_tensor], op.name)
        if name in symbols or (name in dims and name not in wanted):
            raise DeriveError(f"{name} is a tensor of the op already", op=op.name, fix="give it another name")
        own = op.operand(wanted[name]) if name in wanted else None
        made = _over_own_axes(name, left, value, dims, None if own is None else own.axes, op.name)
        definitions.append(made)
        dims[made.name] = made.axes
    gradients = {wanted[d.name]: d.name for d in definitions if d.name in wanted}
    if not gradients:
        known = ", ".join(wanted)
        raise DeriveError("the formula defines no gradient", op=op.name, fix=f"define one of {known}")
    renamed = {d.name: f"{d.name}_claimed" for d in definitions if d.name in wanted}
    final = [Definition(renamed.get(d.name, d.name), d.axes, _with_names(d.value, renamed)) for d in definitions]
    return Formula(tuple(final), {of: renamed[n] for of, n in gradients.items()})


def _with_names(value: Expr, renamed: Mapping[str, str]) -> Expr:
    put = {at: At(Tensor(renamed[at.name]), *at.index) for at in value.atoms(At) if at.name in renamed}
    return value.xreplace(put)


def _names(operands: Sequence[Any]) -> list[str]:
    return [o.name for o in operands]


def _known(derivation: Derivation) -> Dims:
    """The axes of all that a formula may read."""
    op = derivation.named
    out: dict[str, tuple[Axis, ...]] = {o.name: o.axes for o in op.operands if o.is_tensor}
    out |= {a.of: a.axes for a in derivation.steps.adjoints}
    out |= {e.name: e.axes for e in op.equations if e.is_plain}
    out |= {c.target.name: c.axes for c in derivation.steps.cotangents}
    return out | {a.target.name: a.axes for a in derivation.steps.adjoints}


def _statements(text: str, op: str) -> list[ast.Assign]:
    try:
        tree = ast.parse(text.strip())
    except SyntaxError as error:
        raise DeriveError(f"the formula is not an equation: {error.msg}", op=op, fix=_EXAMPLE) from None
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
            raise DeriveError("the formula is not an equation", op=op, fix=_EXAMPLE)
    if not tree.body:
        raise DeriveError("the formula is empty", op=op, fix=_EXAMPLE)
    return [s for s in tree.body if isinstance(s, ast.Assign)]


_EXAMPLE = 'write it as "dx[..., d] = …", with `;` between several'


def _read(
    statement: ast.Assign, symbols: Mapping[str, Tensor], dims: Dims, scalars: Sequence[str], op: str
) -> tuple[str, tuple[Expr, ...], Expr]:
    """The name, the indices and the value of one equation, over axes as the formula calls them."""
    target = statement.targets[0]
    assert isinstance(target, ast.Subscript)
    name = ast.unparse(target.value)
    words: dict[str, Any] = {w: getattr(notation, w) for w in notation.__all__ if w not in ("op", "axes")}
    words |= {"abs": abs, **{s: Scalar(s) for s in scalars}}
    words |= {n: _Handle(symbols.get(n, Tensor(n))) for n in dims}
    subscripts = [n.value for n in ast.walk(statement.value) if isinstance(n, ast.Subscript)]
    called = {n.id for n in subscripts if isinstance(n, ast.Name)}
    unknown = sorted(c for c in called if not isinstance(words.get(c), _Handle))
    if unknown:
        close = get_close_matches(unknown[0], dims, 1)
        hint = f"did you mean {close[0]}?" if close else f"it may read {', '.join(dims)}"
        raise DeriveError(f"the formula reads {unknown[0]}, which the op does not have", op=op, fix=hint)
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id not in words and node.id != name:
            words[node.id] = Axis(node.id)
    try:
        index = _indices(_evaluated(target.slice, words))
        value = settled(sympify(_evaluated(statement.value, words)))
    except DeriveError as error:
        raise error.within(op, name) from None
    except (ArithmeticError, AttributeError, LookupError, SympifyError, SyntaxError, TypeError, ValueError) as error:
        raise DeriveError(f"the formula cannot be read: {error}", op=op, equation=name, fix=_EXAMPLE) from None
    if value.has(nan, zoo):
        raise DeriveError("the formula divides by 0", op=op, equation=name, fix="divide by what is not 0 everywhere")
    return name, index, value


def _evaluated(node: ast.expr, words: Mapping[str, Any]) -> Any:
    """What a piece of a formula stands for, with the words of the notation and no others."""
    code = compile(ast.fix_missing_locations(ast.Expression(node)), _FILE, "eval")
    with refused(_FILE):
        return eval(code, {"__builtins__": {}}, dict(words))


def _over_own_axes(
    name: str, left: tuple[Expr, ...], value: Expr, dims: Dims, own: tuple[Axis, ...] | None, op: str
) -> Definition:
    """The definition over the axes of the op, whatever the formula calls them; every sum in normal form."""
    for at in sorted(value.atoms(At), key=str):
        if len(at.index) != len(dims.get(at.name, at.index)):
            fix = f"{at.name} has the axes [{', '.join(str(a) for a in dims[at.name])}]"
            raise DeriveError(f"reads {at}", op=op, equation=name, fix=fix)
    if own is not None and len(left) != len(own):
        raise DeriveError("has other axes than the input", op=op, equation=name, fix=f"write {name}{list(own)}")
    free = {a: own[k] if own is not None else _dimension(a, value, dims) for k, a in enumerate(left)}
    taken = set(free.values())
    closed = _closed(value, dims).xreplace({a: b for a, b in free.items() if isinstance(a, Axis)})
    stray = free_axes(closed) - taken
    if stray:
        axis = sorted(a.base for a in stray)[0]
        fix = f"put {axis} on the left, or sum over it"
        raise DeriveError(f"axis {axis} stands on the right only", op=op, equation=name, fix=fix)
    return Definition(name, tuple(a for a in free.values() if isinstance(a, Axis)), normal(closed))


def _dimension(axis: Basic, value: Basic, dims: Dims) -> Axis:
    """The op's axis that an axis of a formula runs over: that of the dimension which it indexes."""
    for at in sorted(value.atoms(At), key=str):
        for index, dim in zip(at.index, dims.get(at.name, ()), strict=False):
            if index == axis:
                return dim
    assert isinstance(axis, Axis)
    return axis


def _closed(value: Expr, dims: Dims) -> Expr:
    """The same with every reduction as a sum in normal form, its axes under fresh numbers."""
    count = _COPIES
    while True:
        inner = sorted((r for r in value.atoms(Reduce) if not r.body.atoms(Reduce)), key=str)
        if not inner:
            return value
        reduce = inner[0]
        if reduce.kind not in ("sum", "mean"):
            raise DeriveError(f"{reduce.kind} stands in the formula", fix="read the forward's tensor in its place")
        fresh = {a: _dimension(a, reduce.body, dims).copied(count + k) for k, a in enumerate(reduce.over)}
        count += len(fresh)
        total = sigma(reduce.body.xreplace(dict(fresh)), fresh.values())
        for axis in fresh.values():
            total = total / Size(axis) if reduce.kind == "mean" else total
        value = value.xreplace({reduce: total})


def of_formula(formula: Formula, derivation: Derivation) -> Subject:
    """The formula, evaluated in float64; a formula is not to blame for rounding."""
    definitions = {d.name: d for d in formula.definitions}
    steps = derivation.steps

    def subject(call: Call) -> Answer:
        world = with_adjoints(steps, chain_world(derivation, call))
        found: dict[str, TorchTensor | None] = {}
        for operand, name in formula.gradients.items():
            for step in in_order(name, definitions):
                world = world.having({step: world.tensor(definitions[step].value, definitions[step].axes)})
            value = unflat(steps.op, operand, world.tensors[name], call.leading)
            found[operand] = value.to(call.inputs[operand].dtype)
        return Answer(found)

    return subject
