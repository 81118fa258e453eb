"""The forward program: the equations that the outputs and the kept tensors need, in the order they were written."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sympy import Add, Expr, Mul, fraction

from derive.errors import DeriveError
from derive.ir import placed
from derive.ir.equations import Equation, Grouping, Op
from derive.ir.lowering import lower
from derive.ir.lowering.lower_factored import factored
from derive.ir.nodes.arithmetic import multiplied, signed_terms
from derive.ir.nodes.products import is_matrix_product, is_tensor, is_weighted, quotient_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import walk
from derive.ir.program import Assign, Call, Join, Node, Program, Read, Reduce, Scatter, SizeOf, Statement
from derive.ir.terms.axes import Size, free_axes
from derive.ir.terms.choices import Concat
from derive.ir.terms.elements import At, Delta, Scalar
from derive.ir.terms.products import factors_of, without
from derive.ir.terms.windows import is_gather, is_window
from derive.schedule.definitions import Definition
from derive.schedule.groupings import as_written
from derive.schedule.positions import places_meet, slots_of, spread_over, value_at_places


def forward_statements(op: Op, kept: tuple[str, ...]) -> Program:
    """Statements for the outputs and what is kept; what we split off stays inside the one equation that reads it."""
    needed = _needed(op, set(op.outputs) | set(kept))
    equations = [e for e in op.equations if e.name in needed]
    used = {s.name for e in equations for x in (e.body, e.scale) for s in x.atoms(Scalar)}
    slots = {e.name: found for e in equations if (found := _places(e)) is not None}
    once = [e for e in equations if not e.given and e.name not in (*op.outputs, *kept)]
    equations, additions = _additions_apart(equations, {e.name: (e, slots[e.name]) for e in once if e.name in slots})
    sums = tuple(dict.fromkeys(g for e in op.equations for g in e.sums))  # also of what has got a name since
    values = {e.name: _lowered(e, slots.get(e.name), (*e.sums, *sums)) for e in equations} | {
        key: lower.node(value) for some in additions.values() for key, (_, value) in some.items()
    }
    for e in equations:
        if not e.given and e.name not in (*op.outputs, *kept, *slots, *additions):
            _inline(e, values)
    statements: list[Statement] = []
    for e in (e for e in equations if e.name in values):
        if e.body != 0 or e.name not in additions:
            statements.append(_statement(e, values[e.name], slots.get(e.name)))
        for at, value in ((at, values[key]) for key, (at, _) in additions.get(e.name, {}).items()):
            statements.append(_added(e, at, value, bool(statements) and statements[-1].name == e.name))
    given = tuple((o.name, op.dims(o.name)) for o in op.operands if o.is_tensor)
    scalars = tuple(o.name for o in op.operands if not o.is_tensor and o.name in used)
    return check(Program(op.name, given, scalars, tuple(statements), (*op.outputs, *kept)))


Additions = dict[str, tuple[tuple[Expr, ...], Expr]]
"""Where terms with deltas are added, and what they are there, under keys of their own."""


Around = dict[str, tuple[Equation, tuple[Expr, ...]]]
"""Sums that put something at places of zeros, by name, each with these places."""


def _additions_apart(equations: list[Equation], around: Around) -> tuple[list[Equation], dict[str, Additions]]:
    """The equations without terms such as `delta(i, j) * v[i]`, and these: `v` is added along the diagonal.

    What is added to zeros for one sum alone is added to the rest of that sum.
    """
    rest: list[Equation] = []
    found: dict[str, Additions] = {}
    reads = Counter(at.name for e in equations for at in e.reads)
    around = {name: own for name, own in around.items() if reads[name] == 1 and _is_whole(*own)}
    around = {name: own for name, own in around.items() if not places_meet(map(lower.index, own[1]))}
    for e in equations:
        places = ((t, _place(t, e) or _added_to_zeros(t, e, around)) for t in Add.make_args(e.body))
        terms = {t: place for t, place in places if place is not None}
        here: Additions = {}
        for slots, value in terms.values():
            key = f"{e.name} at {slots}"
            here[key] = slots, value + (here[key][1] if key in here else 0)
        found |= {e.name: here} if here else {}
        rest.append(replace(e, body=e.body - Add(*terms)) if here else e)
    return rest, found


def _is_whole(e: Equation, slots: tuple[Expr, ...]) -> bool:
    """Whether nothing is summed before a sum puts it at its places."""
    return e.kind == "sum" and set(e.over) <= spread_over(slots)


def _added_to_zeros(term: Expr, e: Equation, around: Around) -> tuple[tuple[Expr, ...], Expr] | None:
    """Where a term has something but zeros, and what that is; None for another term."""
    if e.kind is not None or not isinstance(term, At) or term.name not in around or term.index != e.index:
        return None
    own, slots = around[term.name]
    return (slots, own.scale * without(own.body, Delta)) if own.index == e.index else None


def _place(term: Expr, e: Equation) -> tuple[tuple[Expr, ...], Expr] | None:
    """Where a term with deltas stands in its equation, and its value there; None for another term."""
    if e.kind is not None or not e.is_plain or not factors_of(term, Delta):
        return None
    slots, value = slots_of(Definition(e.name, e.axes, e.body), term)
    return None if value.atoms(Delta) or free_axes(value) - spread_over(slots) else (slots, value)


def _added(e: Equation, slots: tuple[Expr, ...], value: Node, begun: bool) -> Statement:
    onto = e.name if begun else None
    return Scatter(e.name, tuple(a.name for a in e.axes), tuple(lower.index(i) for i in slots), value, onto=onto)


def _lowered(e: Equation, slots: tuple[Expr, ...] | None, sums: tuple[Grouping, ...]) -> Node:
    try:
        return as_written(_value(e) if slots is None else _scattered(e, slots), sums)
    except DeriveError as error:
        raise error.within(equation=e.name) from None


def _statement(e: Equation, value: Node, slots: tuple[Expr, ...] | None) -> Statement:
    if slots is None:
        return Assign(e.name, tuple(lower.index(i) for i in e.index), value)
    kind = e.kind if e.kind in placed.KINDS else "sum"
    return Scatter(e.name, tuple(a.name for a in e.axes), tuple(lower.index(i) for i in slots), value, kind=kind)


def _places(e: Equation) -> tuple[Expr, ...] | None:
    """Where the terms of `sum(delta(u, ix[e]) * m[e], over=e)` stand: at `ix[e]` of axis `u`. None for another sum.

    What is put at axis arithmetic, `sum(delta(u, i + j) * m[i, j], over=(i, j))`, stands in windows.

    So for a maximum over what an index puts at each place.
    """
    if e.kind in placed.KINDS:
        extremum = placed.slots(e.body, e.axes)
        return extremum[0] if extremum is not None else None
    deltas = factors_of(e.body, Delta)
    slots: dict[Expr, Expr] = {}
    for delta in deltas:
        for one, other in (delta.args, delta.args[::-1]):
            summed = free_axes(other) & set(e.over)  # where none is, it asks at every place
            if one in e.axes and one not in slots and (is_gather(other) or is_window(other)) and summed:
                slots[one] = other
                break
    fits = e.kind == "sum" and e.is_plain and len(slots) == len(deltas) > 0
    # `y[n, c] == c` asks at every place of `c`
    asked = free_axes(without(e.body, Delta)) | {a for i in slots.values() for a in free_axes(i)}
    return tuple(slots.get(a, a) for a in e.axes) if fits and not set(slots) & asked else None


def _scattered(e: Equation, slots: tuple[Expr, ...]) -> Node:
    """What a sum adds at its places: itself without the deltas, over the axes that the places do not have."""
    extremum = placed.slots(e.body, e.axes)
    if extremum is not None:
        return value_at_places(str(e.kind), *extremum, e.over)
    body = e.scale * without(e.body, Delta)
    rest = tuple(a.name for a in e.over if a not in {b for i in slots for b in free_axes(i)})
    return Reduce("sum", rest, lower.node(body)) if rest else lower.node(body)


def _needed(op: Op, wanted: set[str]) -> set[str]:
    needed = set(wanted)
    for equation in reversed(op.equations):
        if equation.name in needed:
            needed |= {at.name for at in equation.reads}
    return needed


def _value(equation: Equation) -> Node:
    if isinstance(equation.body, Concat):
        parts = tuple(lower.node(p) for p in equation.body.pieces)
        runs = zip(equation.over, equation.body.pieces, strict=True)
        own = tuple(a.name if a in free_axes(p) or a.fixed != 1 else "" for a, p in runs)
        return Join(equation.body.along.name, parts, own)
    body = factored(equation.body, lower.node) if equation.normal else lower.node(equation.body)
    if equation.kind is None:
        return body
    kind, scale, places = equation.kind, equation.scale, Mul(*(Size(a) for a in equation.over))
    if kind == "sum" and scale * places in (1, -1):
        kind, scale = "mean", scale * places
    return _scaled(_reduced(kind, tuple(a.name for a in equation.over), body), scale)


def _scaled(value: Node, scale: Expr) -> Node:
    """The value times a number, or divided by one where that is its part below: `sum(x) / (2 * size(n))`."""
    top, bottom = fraction(scale)
    if top not in (1, -1):
        return Call("mul", (value, lower.node(scale)))
    value = value if bottom == 1 else Call("div", (value, lower.node(bottom)))
    return value if top == 1 else Call("neg", (value,))


def _reduced(kind: str, over: tuple[str, ...], body: Node) -> Node:
    """A reduction; the mean of a product that a matrix product sums is that sum, divided."""
    total = Reduce("sum", over, body)
    if kind == "mean" and (is_matrix_product(total) or is_weighted(total)):
        return Call("div", (total, multiplied([SizeOf(a) for a in over])))
    return Reduce(kind, over, body)


def _is_product_beside(own: Read, value: Node, reader: Node) -> bool:
    """Whether a matrix product, or a multiple, is a term of a sum that has another one: one matrix adds up both."""
    if not isinstance(value, Reduce) or not is_matrix_product(value):
        return False
    sums = ([_unnumbered(term) for term, _ in signed_terms(n)] for n in walk(reader) if isinstance(n, Call))
    return any(own in terms and any(isinstance(t, Reduce) and is_matrix_product(t) for t in terms) for terms in sums)


def _unnumbered(term: Node) -> Node:
    """A tensor without the numbers that it is multiplied with or divided by."""
    tensors = [(f, divides) for f, divides in quotient_factors(term) if is_tensor(f)]
    return tensors[0][0] if len(tensors) == 1 and not tensors[0][1] else term


def _inline(equation: Equation, values: dict[str, Node]) -> None:
    """Put a split-off value back where it is read, if one equation reads it, once and under its own axes."""
    own = Read(equation.name, tuple(lower.index(i) for i in equation.index))
    readers = [
        (name, [n for n in walk(value) if isinstance(n, Read) and n.name == equation.name])
        for name, value in values.items()
    ]
    readers = [(name, found) for name, found in readers if found]
    if len(readers) != 1 or readers[0][1] != [own]:
        return
    reader = readers[0][0]
    if (
        any(isinstance(n, Reduce) for n in walk(values[reader]))
        and any(isinstance(n, Reduce) for n in walk(values[equation.name]))
        and not _is_product_beside(own, values[equation.name], values[reader])
    ):
        return
    values[reader] = put(values[reader], own, values[equation.name])
    del values[equation.name]
