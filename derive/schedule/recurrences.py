"""Recurrences closed again: a program of an op that was cut becomes one with loops, and as little in them as may be.

The adjoint of a recurrence is the recurrence the other way: what its places pass on (`before` from `after`) its
cotangents pass back, what it starts from gets what comes out at the end, and what its last place leaves is where the
cotangents start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from derive.adjoint.chain_rule import Stepwise
from derive.adjoint.recurrences import reversed_steps
from derive.errors import DeriveError
from derive.ir.equations import Op, Recurrence
from derive.ir.nodes.arithmetic import ZERO, chained_terms, multiplied, summed
from derive.ir.nodes.leftovers import given_what_it_reads, without_unread
from derive.ir.nodes.loops import Loop, items
from derive.ir.nodes.naming import new_name_of
from derive.ir.nodes.products import is_tensor, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of, under_names
from derive.ir.nodes.walking import node_axes, reads, top_down, walk
from derive.ir.program import (
    Assign,
    AxisValue,
    Call,
    Carry,
    Index,
    Join,
    Node,
    Program,
    Read,
    Reduce,
    Scan,
    Shares,
    Statement,
    base,
)


def closed(forward: Program, backward: Program, steps: Stepwise) -> tuple[Program, Program]:
    """Both programs of the op that was cut, as those of the op of `steps`.

    What the backward reads of a state one place earlier it moves there itself: the forward saves the state. Raises
    DeriveError where a step cannot stand alone.
    """
    op = steps.op
    starts = _inputs_as_starts(forward, op)
    carries = tuple(_carry(r).under(starts) for r in op.recurrences)
    backward = _closed_backward(backward, forward, carries, steps)
    kept = [n for n, _ in backward.given if n in forward.names and n not in backward.carried]
    given = _with_carried(forward.given, op)
    forward = replace(forward, given=given, returns=(*op.outputs, *kept), carries=carries)
    return in_places(without_unread(forward), op.name), in_places(backward, op.name)


def _carry(r: Recurrence) -> Carry:
    return Carry(r.axis.name, r.forwards, r.start, r.before.name, r.state, r.last.name)


def _with_carried(given: Iterable[tuple[str, tuple[str, ...]]], op: Op) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What a program is given, and what is carried."""
    every = {o.name: tuple(a.name for a in o.axes) for r in op.recurrences for o in (r.before, r.last)}
    return tuple((dict(given) | every).items())


def _inputs_as_starts(forward: Program, op: Op) -> dict[str, str]:
    """Of each start that is an input as it stands, that input."""
    inputs, found = {o.name for o in op.operands}, dict[str, str]()
    for r in op.recurrences:
        made = forward.assigned.get(r.start)
        value = made.value if made is not None and r.start not in op.outputs else None
        if isinstance(value, Read) and made is not None and value.index == made.axes and value.name in inputs:
            found[r.start] = value.name
    return found


def _closed_backward(backward: Program, forward: Program, carries: tuple[Carry, ...], steps: Stepwise) -> Program:
    op, back = steps.op, reversed_steps(steps)
    axes = dict(backward.given) | {s.name: s.axes for s in forward.statements} | dict(forward.given)
    carried = [o for r in (*op.recurrences, *back.recurrences) for o in (r.before, r.last)]
    axes |= {o.name: tuple(a.name for a in o.axes) for o in carried}
    gradients = dict(zip((o.name for o in op.cut.differentiable), backward.returns, strict=True))
    first: list[Statement] = []
    own: list[Carry] = []
    for r, there in zip(op.recurrences, back.recurrences, strict=True):
        ends = []
        for end, name in ((r.last, there.start), (r.before, there.state)):
            if end.name not in gradients:
                first.append(Assign(name, tuple(a.name for a in end.axes), ZERO))
            ends.append(gradients.get(end.name, name))
        own.append(Carry(there.axis.name, there.forwards, ends[0], there.before.name, ends[1], there.last.name))
        given = next(c.target.name for c in (*steps.cotangents, *steps.carried) if c.of == r.state)
        if given in back.totals:
            index = axes[given]
            both = Call("add", (Read(given, index), Read(there.before.name, index)))
            first.append(Assign(back.totals[given], index, both))
    moved = [c for c in carries if c.before in {n for s in backward.statements for n in reads(s.value)}]
    for c in moved:
        start = forward.assigned.get(c.start)
        if start is not None and not reads(start.value):  # a number
            first.append(start)
    statements = (*first, *(under_names(s, back.totals) for s in backward.statements))
    returns = tuple(back.totals.get(g, g) for g in (gradients[o.name] for o in op.differentiable))
    own = [replace(c, start=back.totals.get(c.start, c.start), after=back.totals.get(c.after, c.after)) for c in own]
    program = replace(backward, statements=statements, returns=returns, carries=(*own, *moved))
    cotangents = [c.target.name for c in steps.cotangents]
    others = [n for n in axes if n not in cotangents]
    return given_what_it_reads(program, cotangents, others, axes, program.scalars)  # type: ignore[arg-type]


# --- in order, and what leaves the loops ----------------------------------------------------------------------


def in_places(program: Program, op: str) -> Program:
    """The program with each loop's statements together, and what reads no state before or behind them.

    Raises DeriveError where a step reads more than its own place and what is carried to it.
    """
    if not program.carries:
        return program
    program = _ordered(program)
    loops = [i for i in items(program) if isinstance(i, Loop) and i.goes_round]
    for loop, inside in [(i, [program.statements[k] for k in i.statements]) for i in loops]:
        axis = _one_way(loop, op)
        states = {c.before for c in loop.carries} | {s.name for s in inside}
        made: list[Statement] = []
        kept = [_less(s, states, axis, made, program.names) for s in inside]
        where = program.statements.index(inside[0]) if inside else 0
        others = [s for s in program.statements if s not in inside]
        program = replace(program, statements=(*others[:where], *made, *kept, *others[where:]))
        dims = {**dict(program.given), **{s.name: s.axes for s in program.statements}}
        for s in kept:
            _check_step(s, states, axis, dims, op)
    return check(_ordered(program))


def _ordered(program: Program) -> Program:
    order = [k for item in items(program) for k in (item.statements if isinstance(item, Loop) else (item,))]
    return replace(program, statements=tuple(program.statements[k] for k in order))


def _one_way(loop: Loop, op: str) -> str:
    ways = {(c.axis, c.forwards) for c in loop.carries}
    if len(ways) > 1:
        names = " and ".join(sorted(c.after for c in loop.carries))
        raise DeriveError(
            f"{names} read one another along more than one axis or way", op=op,
            fix="carry what reads one another along one axis, one way",
        )  # fmt: skip
    return loop.carries[0].axis


def _less(s: Statement, states: set[str], axis: str, made: list[Statement], taken: set[str]) -> Statement:
    """A statement of a loop without what reads no state, which is `made` for all places at once."""
    taken = taken | {m.name for m in made}

    def without(node: Node) -> Node | None:
        if reads(node) & states:
            return _together(node, states, s, without) if isinstance(node, Call) else None
        if not _is_moved(node, axis) and not (_computes(node) and _is_no_larger(node, s)):
            return None
        known = next((m for m in made if m.value == node), None)
        if known is None:
            known = Assign(new_name_of(node, taken), _in_order(node, s), node)
            made.append(known)
        return Read(known.name, known.axes)

    return replace(s, value=top_down(s.value, without))


def _together(node: Call, states: set[str], s: Statement, without: Callable[[Node], Node | None]) -> Node | None:
    """A sum or a product whose parts that read no state stand together; None for another node."""
    if node.fn in ("add", "sub"):
        terms = chained_terms(node)
        free = [t for t in terms if not reads(t[0]) & states]
        if len(free) > 1 and _is_no_larger(part := summed(free), s):
            rest = [(top_down(t, without), minus) for t, minus in terms if reads(t) & states]
            rest.insert(0 if rest[0][1] else len(rest), (top_down(part, without), False))
            return summed(rest)
    if node.fn == "mul":
        factors = product_factors(node)
        own = [f for f in factors if not reads(f) & states]
        if len([f for f in own if is_tensor(f)]) > 1 and _is_no_larger(product := multiplied(own), s):
            return multiplied([*(top_down(f, without) for f in factors if f not in own), top_down(product, without)])
    return None


def _computes(node: Node) -> bool:
    """Whether a node is more than an element, a number or a length."""
    return isinstance(node, Call | Reduce | Scan | Shares | Join) and bool(node_axes(node))


def _is_moved(node: Node, axis: str) -> bool:
    """Whether a node has the place of the axis itself, or reads another one of what is no state."""
    if isinstance(node, AxisValue):
        return node.axis == axis
    return isinstance(node, Read) and axis in node_axes(node) and list(node.index).count(axis) != 1


def _is_no_larger(node: Node, s: Statement) -> bool:
    """Whether a part is no larger than the statement that reads it, or than a tensor that it is made of."""
    axes = {base(a) for a in node_axes(node)}
    held = [{base(a) for a in s.axes if isinstance(a, str)}]
    held += [{base(a) for a in node_axes(n)} for n in walk(node) if isinstance(n, Read)]
    return len(axes) == len(node_axes(node)) and any(axes <= own for own in held)


def _in_order(part: Node, s: Statement) -> tuple[str, ...]:
    """The axes of a part in the order of its statement, where that has all of them."""
    own = tuple(a for a in s.axes if isinstance(a, str) and a in node_axes(part))
    return own if len(own) == len(node_axes(part)) else axes_of(part)


def _check_step(s: Statement, states: set[str], axis: str, dims: Mapping[str, Sequence[Index]], op: str) -> None:
    """Refuse a statement of a loop that is not of one place."""
    wrong = "" if list(s.axes).count(axis) == list(s.slots).count(axis) == 1 else "has not one place"
    for n in (n for part in (s.value, *s.slots) for n in walk(part)):
        over = n.axes if isinstance(n, Reduce | Shares) else (n.to, n.over) if isinstance(n, Scan) else ()
        over = (n.axis, *n.own) if isinstance(n, Join) else over
        if axis in over:
            wrong = "takes several places together"
        if isinstance(n, Read) and axis in (*dims[n.name], *node_axes(n)):
            own = list(dims[n.name]).index(axis) if axis in dims[n.name] else None
            if list(n.index).count(axis) != 1 or (n.name in states and (own is None or n.index[own] != axis)):
                wrong = f"reads {n}"
    if wrong:
        raise DeriveError(
            f"a step along {axis} {wrong}", op=op, equation=s.name,
            fix="a step reads its own place and the one before it: name what it reads of others in an equation before",
        )  # fmt: skip
