"""Every order on the first one's road: the derived programs as ops, whose derivation is the next order's.

No second chain rule. The second derivative is the derivation of the map from inputs and cotangents to gradients,
forward included: what the first order saves is a function of the inputs there. The backward is linear in its
cotangents, so that the tangent map (JVP) is its adjoint by them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from sympy import Basic, Expr, Mul

from derive.adjoint.chain_rule import Adjoint, Contribution, Cotangent, Stepwise
from derive.catalogue import load_text
from derive.collapse.chain import Step
from derive.collapse.search import Closed
from derive.ir.equations import Op, Operand
from derive.ir.nodes.arithmetic import ZERO
from derive.ir.nodes.leftovers import given_what_it_reads, made_otherwise, without_copies, without_unread
from derive.ir.nodes.substituting import under_names
from derive.ir.nodes.walking import walk
from derive.ir.program import CONDITIONS, Call, Carry, Node, Program, SizeOf, base
from derive.ir.terms.axes import PACK_NAME, Axis, Size
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.names import free_name
from derive.ir.words import listed
from derive.notation.printed import Printable, own_axes, spec_file
from derive.pipeline import Derivation, derivation_of
from derive.schedule.definitions import Definition


@lru_cache(maxsize=256)
def gradient_op(op: Op, only: str = "") -> Op:
    """`NAME_gradients`: from the inputs and the cotangents to the gradients, or to that of one input `only`.

    Raises DeriveError where it is no op.
    """
    d = derivation_of(op)
    return _read(gradients(d, only), d)


@lru_cache(maxsize=256)
def tangent_op(op: Op) -> Op:
    """`NAME_jvp`: from the inputs and a tangent of each to the tangents of the outputs. Raises DeriveError likewise."""
    d = derivation_of(op)
    return _read(tangents(d), d)


def specs(d: Derivation) -> str:
    """The text of three ops: the backward as it is called, the map from inputs and cotangents to gradients, the JVP."""
    return spec_file((backward(d), gradients(d), tangents(d)), fixed(d.named))


def backward(d: Derivation) -> Printable:
    """`NAME_backward`: from cotangents and saved tensors, and inputs that only tell a length, to the gradients."""
    program = replace(d.backward, name=f"{d.op.name}_backward")
    operands = [_operand(d, name, axes) for name, axes in program.given if name not in program.carried]
    operands += [o for o in d.op.operands if o.name in program.scalars]
    operands += _telling(d.op, {base(a) for o in operands for a in map(str, o.axes)}, _axes(program, operands))
    return Printable(program, tuple(operands), lengths(d.named))


def gradients(d: Derivation, only: str = "") -> Printable:
    """`NAME_gradients`: from the inputs and the cotangents to the gradients, or to that of one input `only`."""
    operands = (*d.op.operands, *(_operand(d, name, axes) for name, axes in _cotangents(d)))
    of = dict(zip((o.name for o in d.op.differentiable), d.backward.returns, strict=True))
    backward = replace(d.backward, returns=(of[only],)) if only else d.backward
    return Printable(_joined(d, backward, f"{d.op.name}_gradients", operands), operands, lengths(d.named))


def tangents(d: Derivation) -> Printable:
    """`NAME_jvp`: from the inputs and their tangents, `tx` of `x`, to the tangents of the outputs."""
    own = _tangents(d)
    operands = (*d.op.operands, *(_operand(own, name, axes) for name, axes in _cotangents(own)))
    program = _joined(own, own.backward, f"{d.op.name}_jvp", operands)
    return Printable(program, operands, {**lengths(d.named), **lengths(own.named)})  # no cotangent tells an axis here


def _tangents(d: Derivation, only: str = "") -> Derivation:
    """The map to the gradients and its backward by the cotangents alone, called as tangents of inputs and outputs."""
    of = gradient_op(d.op, only)
    fixed_inputs = {o.name for o in d.op.differentiable}
    operands = tuple(replace(o, kind="constant") if o.name in fixed_inputs else o for o in of.operands)
    own = derivation_of(replace(of, operands=operands))
    taken = {*own.forward.names, *own.backward.names, *(o.name for o in of.operands)}
    inputs = [o for o in d.op.differentiable if only in ("", o.name)]
    of_inputs = zip((c.target.name for c in own.steps.cotangents), inputs, strict=True)
    of_outputs = zip(own.backward.returns, d.op.outputs, strict=True)
    names: dict[str, str] = {}
    for old, whose in (*((name, o.name) for name, o in of_inputs), *of_outputs):
        names[old] = free_name(f"t{whose}", taken)
        taken.add(names[old])
    backward = replace(
        own.backward,
        given=tuple((names.get(n, n), axes) for n, axes in own.backward.given),
        statements=tuple(under_names(s, names) for s in own.backward.statements),
        returns=tuple(names.get(n, n) for n in own.backward.returns),
        carries=tuple(c.under(names) for c in own.backward.carries),
    )
    steps, closed = _called(own.steps, names), _called(own.closed, names)
    return replace(own, steps=steps, closed=closed, backward=backward)


def _called(value: Any, names: Mapping[str, str]) -> Any:
    """What was derived, with other names for these tensors."""
    if isinstance(value, Basic):
        return value.xreplace({t: Tensor(names[t.name]) for t in value.atoms(Tensor) if t.name in names})
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, tuple):
        return tuple(_called(v, names) for v in value)
    if not isinstance(value, Stepwise | Cotangent | Adjoint | Contribution | Closed | Definition | Step):
        return value
    return replace(value, **{f.name: _called(getattr(value, f.name), names) for f in fields(value)})


def forward_mode(d: Derivation, only: str = "") -> Derivation:
    """The tangent map as a backward of what the op's own forward keeps, and of inputs; of `only` one's tangent."""
    own = _tangents(d, only)
    given = listed([name for name, _ in _cotangents(d)])
    doc = f"Linear in {given}, so that its backward by the cotangents is the tangent map of {d.op.name}."
    return _from_what_is_kept(replace(own, op=replace(own.op, doc=doc)), d)


def double_backward(d: Derivation, only: str = "") -> Derivation:
    """The second derivative as a backward of the cotangents, of what the op's own forward keeps, and of inputs.

    It returns what the cotangents get first, then what the inputs get; where `only` one gradient has a cotangent.
    """
    own = derivation_of(gradient_op(d.op, only))
    first = len(d.op.differentiable)
    returns = (*own.backward.returns[first:], *own.backward.returns[:first])
    by_name = {o.name: o for o in own.op.operands}
    cotangents = [name for name, _ in _cotangents(d)]
    operands = (*(by_name[n] for n in cotangents), *(o for o in own.op.operands if o.name not in cotangents))
    doc = f"The map from inputs and cotangents to gradients, whose backward is the double backward of {d.op.name}."
    op = replace(own.op, operands=operands, doc=doc)
    own = replace(own, op=op, backward=replace(own.backward, returns=returns))
    return _from_what_is_kept(_without_zeros(own), d, cotangents)


def _without_zeros(own: Derivation) -> Derivation:
    """A derivation without the gradients that are 0, whose inputs it holds for constants."""
    zeros = {s.name for s in own.backward.statements if s.value == ZERO and s.name not in own.backward.added_to}
    of = [o for o, name in zip(own.op.differentiable, own.backward.returns, strict=True) if name in zeros]
    operands = tuple(replace(o, kind="constant") if o in of else o for o in own.op.operands)
    returns = tuple(n for n in own.backward.returns if n not in zeros)
    return replace(own, op=replace(own.op, operands=operands), backward=replace(own.backward, returns=returns))


def _from_what_is_kept(own: Derivation, d: Derivation, always: Collection[str] = ()) -> Derivation:
    """A derivation of the map to the gradients, whose backward computes again what the op's own forward does not keep.

    It is given some tensors `always`, of which it may read no more than a length.
    What is kept is a function of the inputs in the map, whose equations call it by the same name.
    """
    made, masks = own.forward.assigned, {c.name for c in d.conditions}
    known = {n for n in d.kept if n in made and (_is_condition(made[n].value) or n not in masks)}
    before = tuple(s for s in own.forward.statements if s.name not in known)
    again = made_otherwise(own.forward, own.backward)
    made_before = {s.name for s in own.forward.statements} - again
    after = tuple(s for s in own.backward.statements if s.name not in made_before)
    taken = own.forward.names | own.backward.names
    names = {n: free_name(n, taken, "_") for n in sorted(again)}
    before = tuple(under_names(s, {n: names[n] for n in again - known}) for s in before)
    after = tuple(under_names(s, {n: names[n] for n in again & known}) for s in after)
    axes = {**dict(d.backward.given), **dict(own.forward.given), **dict(own.backward.given)}
    first = [name for name, _ in _cotangents(own)]
    statements = (*before, *after)
    given = [n for n in axes if n not in first and n not in {s.name for s in statements}]
    carries = _both(own.forward.carries, own.backward.carries, {n: names[n] for n in again})
    program = replace(
        own.backward, given=tuple((n, axes[n]) for n in (*first, *given)), statements=statements, carries=carries
    )
    program = without_copies(replace(program, scalars=_scalars(own)))
    backward = given_what_it_reads(program, first, given, axes, program.scalars, always)
    kept = [n for n, _ in backward.given[len(first) :] if n not in backward.carried]
    forward = without_unread(replace(own.forward, returns=(*own.op.outputs, *kept)))
    conditions = {c.name: c for c in (*d.conditions, *own.conditions)}
    return replace(own, forward=forward, backward=backward, conditions=tuple(conditions.values()))


def _scalars(d: Derivation) -> tuple[str, ...]:
    return tuple(o.name for o in d.op.operands if o.kind == "scalar")


def _is_condition(value: Node) -> bool:
    return isinstance(value, Call) and value.fn in CONDITIONS


def _cotangents(d: Derivation) -> list[tuple[str, tuple[str, ...]]]:
    """What the backward is given for the outputs, with its axes."""
    names = {c.target.name for c in d.steps.cotangents}
    return [(name, axes) for name, axes in d.backward.given if name in names]


def _joined(d: Derivation, backward: Program, name: str, operands: tuple[Operand, ...]) -> Program:
    """The forward and a backward as one program of these operands, without what nothing reads."""
    given, known = {**dict(d.forward.given), **dict(backward.given)}, [o.name for o in operands if o.is_tensor]
    known += sorted(d.forward.carried | backward.carried)
    return without_unread(
        replace(
            backward,
            name=name,
            given=tuple((n, given[n]) for n in known if n in given),
            scalars=_scalars(d),
            statements=(*d.forward.statements, *backward.statements),
            carries=_both(d.forward.carries, backward.carries, {}),
        )
    )


def _both(first: tuple[Carry, ...], second: tuple[Carry, ...], names: Mapping[str, str]) -> tuple[Carry, ...]:
    """What two programs carry, one behind the other; `names` are those under which the second makes something else."""
    return tuple(dict.fromkeys((*first, *(c.under(names) for c in second))))


def _read(p: Printable, d: Derivation) -> Op:
    """A program printed and read."""
    (op,) = load_text(spec_file([p], fixed(d.named)), p.program.name)
    return op


def _operand(d: Derivation, name: str, axes: tuple[str, ...]) -> Operand:
    """A tensor that a program is given, as an input of a spec."""
    known, made = d.op.operand(name), d.named.equation(name)
    if known is not None:
        return replace(known, assumed=None)
    over = None
    if made is not None and made.target.is_integer:
        chosen = made.body.args[1] if isinstance(made.body, Where) else made.body
        of = d.op.operand(chosen.name) if isinstance(chosen, At) else None
        over = of.ranges_over if of is not None else made.axes[0]
    mask = any(s.label == name and s.element == "mask" for s in d.saved)
    kind = "constant" if mask else "tensor" if over is None else "index"
    return Operand(name, kind, tuple(map(Axis, axes)), over)


def _telling(op: Op, known: set[str], used: Iterable[str]) -> Iterator[Operand]:
    """The inputs that tell the lengths of axes which nothing else tells."""
    for rule in op.sizes:
        axis = rule.axis.base
        if axis in used and axis not in known and rule.axis.fixed is None and rule.formula is None:
            own = op.operand(rule.given or rule.operand or "")
            if own is not None:
                known |= {a.base for a in own.axes} | {axis}
                yield replace(own, kind="constant" if own.is_tensor else own.kind, assumed=None)


def _axes(program: Program, operands: Iterable[Operand]) -> set[str]:
    """The axes that a program names, and those of their lengths."""
    parts = (part for s in program.statements for part in (s.value, *s.axes, *s.slots))
    names = (a for part in parts for n in walk(part) for a in ((n.axis,) if isinstance(n, SizeOf) else own_axes(n)))
    return {o.ranges_over.base for o in operands if o.ranges_over is not None} | set(map(base, names))


def fixed(op: Op) -> dict[str, int]:
    """The axes whose length is a number."""
    return {r.axis.base: r.axis.fixed for r in op.sizes if r.axis.fixed is not None}


def lengths(op: Op) -> dict[str, Expr]:
    """The lengths that no input is asked for, and those that inputs must have."""
    found = {r.axis.base: r.formula for r in op.sizes if r.formula is not None and r.axis.fixed is None}
    for r in op.requirements:
        if r.relation == "==" and isinstance(r.left, Size):
            known = {Size(Axis(a)): n for a, n in found.items()}
            found |= {} if r.right.xreplace(known).has(r.left) else {r.left.axis.base: r.right}
    merged = {name: Mul(*map(Size, axes)) for name, axes in op.merged.items()}
    return {a: n for a, n in (found | merged).items() if a != PACK_NAME}
