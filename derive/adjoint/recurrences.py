"""The adjoint of a recurrence is the recurrence the other way, an equation like any other.

What a place is passed, its cotangent passes back: what was read one place earlier is the state there, and what the last
place leaves is the start here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sympy import Expr, S

from derive.adjoint.chain_rule import Adjoint, Contribution, Stepwise
from derive.ir.equations import Equation, Operand, Recurrence
from derive.ir.terms.axes import Size
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.names import new_name


@dataclass(frozen=True)
class Reversed:
    """The chain rule of an op with recurrences: its adjoints, with those of states, and the recurrences of these.

    `totals` names what each cotangent of an output that is a state is with what the next place passes back.
    """

    adjoints: tuple[Adjoint, ...]
    recurrences: tuple[Recurrence, ...]
    totals: dict[str, str]


def reversed_steps(steps: Stepwise) -> Reversed:
    """The chain rule of the op that was cut, its recurrences closed again."""
    op, cut = steps.op, steps.cut
    cotangents = {c.of: c for c in cut.cotangents}
    by_of = {a.of: a for a in cut.adjoints}
    taken = op.names | {c.target.name for c in cut.cotangents} | {a.target.name for a in cut.adjoints}
    first: list[Adjoint] = []
    recurrences: list[Recurrence] = []
    totals: dict[str, str] = {}
    for r in op.recurrences:
        given, ends = cotangents[r.state], []
        for end in (r.last, r.before):
            if end.name not in by_of:  # no equation reads it
                first.append(Adjoint(end.name, Tensor(new_name(f"d{end.name}", taken)), end.axes, ()))
                by_of[end.name] = first[-1]
            ends.append(by_of[end.name].target.name)
        before = given.target.name
        if r.state in op.outputs:
            before = new_name(f"{before}_{'next' if r.forwards else 'prev'}", taken)
            totals[given.target.name] = new_name(f"{given.target.name}_total", taken)
        carried = Operand(before, "tensor", r.before.axes, carried=True)
        last = Operand(cotangents[r.start].target.name, "tensor", r.last.axes, carried=True)
        recurrences.append(Recurrence(ends[1], ends[0], r.axis, not r.forwards, carried, last))
        if r.state in op.outputs:
            read = At(carried.tensor, *r.before.axes)
            passed = Contribution(r.state, At(Tensor(r.before.name), *r.before.axes), S.One, read, ())
            own = At(given.target, *r.before.axes)
            target = Tensor(totals[given.target.name])
            of = r.state if r.state not in by_of else target.name
            first.append(Adjoint(of, target, r.before.axes, (passed,), own))
    renamed = {Tensor(a): Tensor(b) for a, b in totals.items()}
    rest = (a for a in cut.adjoints if a not in first)
    return Reversed((*first, *(_under(a, renamed) for a in rest)), tuple(recurrences), totals)


def _under(a: Adjoint, names: dict[Tensor, Tensor]) -> Adjoint:
    """An adjoint that reads what cotangents are in all."""
    found = tuple(replace(c, value=c.value.xreplace(names)) for c in a.contributions)
    own = a.cotangent
    return replace(a, contributions=found, cotangent=own if own is None else own.xreplace(names))


def as_written(expr: Expr, recurrences: Iterable[Recurrence]) -> Expr:
    """An expression with `h[n, t - 1]` for what is carried of `h`, and its last place for what that leaves."""
    for r in recurrences:
        at = {r.before.name: r.before, r.last.name: r.last}
        found = {}
        for read in (a for a in expr.atoms(At) if a.name in at):
            state = Tensor(r.state)
            if read.name == r.before.name:
                found[read] = At(state, *r.place(read.index))
            else:
                end = Size(r.axis) - 1 if r.forwards else S.Zero
                found[read] = At(state, *_among(r, read.index, end))
        expr = expr.xreplace(found)
    return expr


def start_index(r: Recurrence) -> tuple[Expr, ...]:
    """The index of a state before its first place."""
    return _among(r, r.last.axes, S.NegativeOne if r.forwards else Size(r.axis))


def _among(r: Recurrence, index: tuple[Expr, ...], place: Expr) -> tuple[Expr, ...]:
    slot = r.before.axes.index(r.axis)
    return (*index[:slot], place, *index[slot:])


def written(equations: Iterable[Equation], recurrences: tuple[Recurrence, ...]) -> tuple[Equation, ...]:
    """Equations as a spec writes them: a start as `h[n, -1]`."""
    starts = {r.start: r for r in recurrences}
    out = []
    for e in equations if recurrences else ():
        made = replace(e, body=as_written(e.body, recurrences))
        if e.name in starts:
            made = replace(made, target=Tensor(starts[e.name].state), index=start_index(starts[e.name]))
        out.append(made)
    return tuple(out) if recurrences else tuple(equations)
