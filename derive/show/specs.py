"""The derived programs as a file of specs: each is an op of its own, whose derivation is the next order's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sympy import Expr, Mul

from derive.ir.equations import Op, Operand
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.walking import walk
from derive.ir.program import Program, SizeOf, base
from derive.ir.terms.axes import PACK_NAME, Axis, Size
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At
from derive.notation.printed import Printable, own_axes, spec_file
from derive.pipeline import Derivation


def specs(d: Derivation) -> str:
    """The text of two ops: the backward as it is called, and the map from inputs and cotangents to gradients."""
    return spec_file((backward(d), gradients(d)), fixed(d.named))


def backward(d: Derivation) -> Printable:
    """`NAME_backward`: from cotangents and saved tensors, and inputs that only tell a length, to the gradients."""
    program = replace(d.backward, name=f"{d.op.name}_backward")
    operands = [_operand(d, name, axes) for name, axes in program.given]
    operands += [o for o in d.op.operands if o.name in program.scalars]
    operands += _telling(d.op, {base(a) for o in operands for a in map(str, o.axes)}, _axes(program, operands))
    return Printable(program, tuple(operands), lengths(d.named))


def gradients(d: Derivation) -> Printable:
    """`NAME_gradients`: from the inputs and the cotangents to the gradients."""
    theirs = [(n, axes) for n, axes in d.backward.given if n in {c.target.name for c in d.steps.cotangents}]
    program = replace(
        d.backward,
        name=f"{d.op.name}_gradients",
        given=(*d.forward.given, *theirs),
        scalars=tuple(o.name for o in d.op.operands if o.kind == "scalar"),
        statements=(*d.forward.statements, *d.backward.statements),
    )
    operands = (*d.op.operands, *(_operand(d, name, axes) for name, axes in theirs))
    return Printable(without_unread(program), operands, lengths(d.named))


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
