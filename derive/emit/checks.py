"""What a forward checks of its tensors: the pattern of each shape, the range of each index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from sympy import Basic, Integer

from derive.backends.values import Dims, position
from derive.facts.lengths.sizes import closed
from derive.ir.equations import Op, Operand, Requirement
from derive.ir.nodes.walking import walk
from derive.ir.placed import KINDS
from derive.ir.program import Program, Reduce, base
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta
from derive.ir.terms.products import factors_of
from derive.rules.index.asked_places import asked_for_a_place
from derive.rules.index.selections import selected


def shape(dims: Dims) -> str:
    """The dimensions of a tensor, for a comment."""
    return f"[{', '.join('1' if d is None else d for d in dims)}]" if dims else "a number"


def read_as(operand: Operand, op: Op, filled: Collection[str]) -> list[str]:
    """The axes an operand is declared with, and those that equations read it by under other names: all must agree."""
    own = zip(operand.declared or operand.axes, operand.axes, strict=True)
    texts = [" ".join(_in_pattern(shown, a.base in filled and _is_source(operand, a, op)) for shown, a in own)]
    for equation in op.equations:
        for at in equation.reads:
            plain = all(isinstance(i, Axis) for i in at.index) and at.index != (operand.declared or operand.axes)
            if at.name == operand.name and plain:
                texts.append(" ".join(_in_pattern(_alike(i, op)) for i in at.index if isinstance(i, Axis)))
    return list({t.replace(">0", ""): t for t in reversed(texts)}.values())[::-1]


def _alike(axis: Axis, op: Op) -> Axis:
    """The axis whose length it takes, where all inputs that it indexes declare that one: another has to be compared."""
    formula = next(r.formula for r in op.sizes if r.axis == axis)
    if not isinstance(formula, Size):
        return axis
    read = [(op.operand(at.name), at.index.index(axis)) for e in op.equations for at in e.reads if axis in at.index]
    return formula.axis if all(o is None or o.axes[k] == formula.axis for o, k in read) else axis


def _in_pattern(axis: Axis, filled: bool = False) -> str:
    if axis.fixed is not None:
        return f"{axis.name}={axis.fixed}"
    return f"{axis.name}>0" if filled else axis.name


def given_lengths(op: Op, code: Callable[[str], str]) -> list[str]:
    """A line for each argument that is the length of an axis which an input has as well: both must agree."""
    lines = []
    for o in (o for o in op.operands if o.kind == "length"):
        axis, holder = o.ranges_over, next((t for t in op.operands if o.ranges_over in t.axes), None)
        if axis is not None and holder is not None:
            dims = tuple(a.name for a in holder.axes)
            length = f"{code(holder.name)}.shape[{position(dims, holder.axes.index(axis))}]"
            told = f'"{op.name}", "{o.name}", {code(o.name)}, "{axis.base}", "{holder.name}"'
            lines.append(f"check_given({told}, {length})")
    return lines


def filled(op: Op, named: Op, forward: Program) -> set[str]:
    """The axes that a maximum runs over, written or taken off exponents: it needs a place to be at."""
    return _maxima_over(op) | {_as_long_as(Axis(a), named).base for a in _taken_off(op, forward)}


def left_to_check(op: Op, named: Op, forward: Program) -> list[Requirement]:
    """That a maximum taken off exponents has a place to be at, where no input has an axis that says so."""
    found = []
    for axis, name in _taken_off(op, forward).items():
        rule = next((r for r in named.sizes if r.axis == _as_long_as(Axis(axis), named)), None)
        if rule is not None and rule.operand is None and not _has_a_place(Axis(axis), named):
            need = Requirement(_written_for(name, op, named), f"axis {axis}", Size(Axis(axis)), ">=", Integer(1))
            found.append(need)
    return found


def _written_for(name: str, op: Op, named: Op) -> str:
    """The equation of the spec that a tensor is a part of."""
    every, given = [e.name for e in named.equations], {e.name for e in op.equations if e.given}
    after = every[every.index(name) :] if name in every else every
    return next((n for n in after if n in given), name)


def _has_a_place(axis: Axis, op: Op) -> bool:
    """Whether it has one wherever what is asked of lengths anyway holds: of windows, that one fits."""
    rules = {r.axis: r for r in op.sizes}
    more = [closed(Size(axis) - 1 - (r.left - r.right), rules) for r in op.requirements if r.relation == ">="]
    return any(m.is_nonnegative for m in more)


def _maxima_over(op: Op) -> set[str]:
    return {a.base for e in op.equations if e.kind in KINDS for a in e.over}


def _taken_off(op: Op, forward: Program) -> dict[str, str]:
    """The axes that other maxima run over than those written, each with the tensor that is made by such a one."""
    found: dict[str, str] = {}
    for s in forward.statements:
        for n in (n for n in walk(s.value) if isinstance(n, Reduce) and n.kind in KINDS):
            found |= {base(a): s.name for a in n.axes if base(a) not in found}
    written = _maxima_over(op)
    return {a: name for a, name in found.items() if a not in written}


def _as_long_as(axis: Axis, op: Op) -> Axis:
    """The axis that one is as long as, or a whole number of times so."""
    count, of = closed(Size(axis), {r.axis: r for r in op.sizes}).as_coeff_Mul()
    return of.axis if isinstance(of, Size) and count.is_Integer else axis


def _is_source(operand: Operand, axis: Axis, op: Op) -> bool:
    """Whether the length of this axis is read here."""
    rule = next(r for r in op.sizes if r.axis == axis)
    return not axis.is_pack and rule.operand == operand.name


def indices(op: Op) -> set[str]:
    """The integer tensors that are read by as they are given, where no condition guards them, or name a place."""
    compared = {at.name for e in selected(op).equations for d in _compared(e.body) for at in d.atoms(At)}
    return read_by(op) | compared | asked_for_a_place(op)


def read_by(op: Op) -> set[str]:
    """Those among them that the forward reads by; a delta that it compares, the backward may read by."""
    equations = selected(op).equations
    places = [i for e in equations for read in e.reads for i in read.index]
    places += [f for e in equations if e.kind == "sum" for f in factors_of(e.body, Delta)]
    return {at.name for i in places for at in i.atoms(At)}


def named_places(op: Op) -> dict[str, str]:
    """The integer inputs of which every value is a place, and the axis of that place: what is none has been refused."""
    named = read_by(op) | asked_for_a_place(op)
    return {o.name: o.ranges_over.base for o in op.operands if o.ranges_over is not None and o.name in named}


def _compared(expr: Basic) -> Iterator[Delta]:
    """The deltas of an expression but those in a choice, which the backward compares as well."""
    if isinstance(expr, Delta):
        yield expr
    for a in () if isinstance(expr, Where) else expr.args:
        yield from _compared(a)


def guards(op: Op, name: str) -> list[str]:
    """The integer tensors that hold an input's values where a condition lets them be read."""
    return [e.name for e in op.equations if e.target.is_integer and any(at.name == name for at in e.reads)]


def guarding(op: Op) -> dict[str, Operand]:
    """The integer tensors that hold an input where a condition lets it be read, and that input."""
    choices = {e.name: e.body.args[1] for e in op.equations if e.target.is_integer and isinstance(e.body, Where)}
    inputs = {o.name: o for o in op.operands if o.ranges_over is not None}
    return {name: inputs[at.name] for name, at in choices.items() if isinstance(at, At) and at.name in inputs}


def first_reader(op: Op, name: str) -> str:
    """The equation that first reads an input, for the message of an index out of range."""
    if name not in indices(op) and guards(op, name):
        name = guards(op, name)[0]
    at = next((k for k, e in enumerate(op.equations) if any(at.name == name for at in e.reads)), 0)
    return next((e.name for e in op.equations[at:] if e.given and not e.target.is_integer), op.outputs[0])


def ranges(op: Op) -> tuple[tuple[str, str, str, int, str, bool], ...]:
    """For each integer input: its name, its values' axis, where its length is read, who reads it, and if guarded."""
    out = []
    for o in op.operands:
        guarded = o.name not in indices(op)
        holder = _holder(op, o.ranges_over) if o.ranges_over is not None else None
        if holder is not None and o.ranges_over is not None and (not guarded or guards(op, o.name)):
            dims = holder.axes
            position = dims.index(o.ranges_over)
            at = position - len(dims) if any(a.is_pack for a in dims[:position]) else position
            out.append((o.name, o.ranges_over.base, holder.name, at, first_reader(op, o.name), guarded))
    return tuple(out)


def _holder(op: Op, axis: Axis) -> Operand | None:
    """The input of which a dimension is an axis: the one that its length is read from, if there is one."""
    rule = next(r for r in op.sizes if r.axis == axis)
    holders = [o for o in op.operands if axis in o.axes]
    return next((o for o in holders if o.name == rule.operand), holders[0] if holders else None)
