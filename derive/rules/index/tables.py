"""A table of what an index selects is not made where sums read it: they say themselves what they select.

With `hot[n, c] = where(eq(c, y[n]), 1, 0)`, `sum(hot[n, c] * z[n, c], over=c)` is the sum of that choice times `z`, a
gather. With `q[n, c] = (1 - a) * hot[n, c] + a / size(c)` it is two sums, of which one is a gather, and so it is where
that is written as a choice of two numbers, `where(eq(c, y[n]), 1 - a + a / size(c), a / size(c))`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from sympy import Add, Expr, Mul, S

from derive.facts.interpreter import signs
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.names import new_name
from derive.rules.index.asked_places import Ranges, place_of


def without_tables(op: Op, ranges: Ranges) -> Op:
    """The same op with such tables in the sums that read them, and none that nothing else reads."""
    tables: dict[str, Equation] = {}
    taken, out = op.names, []
    for e in op.equations:
        in_full = _written_out(e, tables, ranges)
        if e.kind is None and _is_table(in_full, ranges):
            tables[e.name] = in_full
        out += _sums(e, tables, ranges, taken) or [e]
    for name in reversed(tables):
        if name not in op.outputs and not any(name in (at.name for at in e.reads) for e in out):
            out = [e for e in out if e.name != name]
    return replace(op, equations=tuple(out))


def _is_table(e: Equation, ranges: Ranges) -> bool:
    """Whether an equation says of places what an index selects, and reads nothing over all of its axes but indices."""
    own = set(e.axes)
    reads = (at for at in e.reads if not at.tensor.is_integer)
    small = e.is_plain and all(free_axes(at) < own for at in reads)
    return small and not e.target.is_integer and any(_selects(t, ranges, own) for t in Add.make_args(e.body))


def _selects(term: Expr, ranges: Ranges, axes: set[Axis]) -> bool:
    """Whether a factor of a term asks of one of these axes which place it is."""
    places = (place_of(f, ranges)[0] for f in Mul.make_args(term))
    return any(p is not None and p[0] in axes for p in places)


def _written_out(e: Equation, tables: dict[str, Equation], ranges: Ranges) -> Equation:
    """The equation with tables in the place of the factors that read them, each at its axes."""
    terms = [Mul(*(_opened(f, tables, ranges) for f in Mul.make_args(t))) for t in Add.make_args(e.body)]
    return replace(e, body=Add(*terms))


def _opened(factor: Expr, tables: dict[str, Equation], ranges: Ranges) -> Expr:
    """A factor, or the table that it reads by plain axes; a choice of two numbers as one and a selection."""
    if isinstance(factor, Where) and factor.args[2] != 0 and all(_is_number(a) for a in factor.args[1:]):
        condition, chosen, other = factor.args
        mask = Where(condition, S.One, S.Zero)
        return factor if place_of(mask, ranges)[0] is None else other + (chosen - other) * mask
    table = tables.get(factor.name) if isinstance(factor, At) else None
    index = factor.index if table is not None else ()
    if table is None or not all(isinstance(i, Axis) for i in index):
        return factor
    return table.at(index)


def _is_number(value: Expr) -> bool:
    """Whether it is finite and the same at all places."""
    return not value.atoms(At) and not free_axes(value) and not value.has(S.Infinity, S.NegativeInfinity)


def _sums(e: Equation, tables: dict[str, Equation], ranges: Ranges, taken: set[str]) -> list[Equation]:
    """A sum that reads a table, as the sums of what that is; nothing where it reads none so that it could select."""
    bodies = list(_terms(e, tables, ranges)) if e.kind in ("sum", "mean") and e.is_plain else []
    if len(bodies) == 1:
        return [replace(e, body=bodies[0])]
    parts, terms = [], []
    for body in bodies:
        number, rest = body.as_independent(Axis, At, as_Add=False)
        if rest == 1:  # as often as there are places
            terms.append(number * (Mul(*map(Size, e.over)) if e.kind == "sum" else S.One))
            continue
        target = Tensor(new_name(f"{e.name}_part", taken), **signs(rest))
        parts.append(replace(e, target=target, body=rest, given=False, scale=S.One))
        terms.append(number * parts[-1].left)
    return [*parts, replace(e, body=e.scale * Add(*terms), kind=None, over=(), scale=S.One)] if terms else []


def _terms(e: Equation, tables: dict[str, Equation], ranges: Ranges) -> Iterator[Expr]:
    """The products that are added up where a factor reads a table; none where no term of it could select."""
    factors = Mul.make_args(e.body)
    opened = [_opened(f, tables, ranges) for f in factors]
    axes = {*e.over, *e.axes}
    sides = [Add.make_args(o) if o != f else (o,) for f, o in zip(factors, opened, strict=True)]
    if opened != list(factors) and any(_selects(t, ranges, axes) for side in sides for t in side):
        yield from (Mul(*chosen) for chosen in product(*sides))
