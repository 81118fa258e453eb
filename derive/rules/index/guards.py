"""A gather in a branch that is not taken is not read: where the condition fails, place 0 is read in its stead.

`where(ne(y[n], -100), logp[n, y[n]], 0)` reads `logp[n, y_read[n]]` with `y_read[n] = where(ne(y[n], -100), y[n], 0)`,
so that `y` may hold -100. The value read there reaches nothing, and its adjoint is 0. Nor is one read in an equation
that only such branches read: `nll[n] = -logp[n, y[n]]` before `where(ne(y[n], -100), nll[n], 0)`. What counts are the
conditions over axes of the index: one over more would leave out a place here and not there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from sympy import And, Basic, Expr, Not, Or, S

from derive.facts.domains import Domain
from derive.facts.lengths.sizes import joined
from derive.ir.equations import Equation, Op, Requirement, SizeRule
from derive.ir.terms.asked import asked
from derive.ir.terms.axes import Axis, free_axes, sorted_axes
from derive.ir.terms.choices import Where, conjuncts
from derive.ir.terms.elements import At, Scalar, Tensor, at_index
from derive.ir.terms.names import free_name
from derive.ir.terms.reductions import Reduce
from derive.ir.terms.windows import affine, is_window

Conditions = frozenset[Basic]
"""What holds wherever something is read."""


def _parts(condition: Basic) -> Conditions:
    """What holds where a condition does, each part by itself: an index may have the axes of some parts alone."""
    return frozenset(conjuncts(condition))


def _opposites(condition: Basic) -> Conditions:
    """What holds where a condition does not, likewise."""
    return frozenset(asked(Not(c), At) for c in Or.make_args(condition))


Dims = Mapping[str, tuple[Expr, ...]]
"""What each dimension of a tensor runs over, by its name."""


def guarded(rhs: Expr, known: list[Equation], taken: set[str], dims: Dims) -> tuple[Expr, list[Equation]]:
    """The right side with its guarded gathers by indices of their own, and the new ones' equations."""
    made: list[Equation] = []
    under: defaultdict[tuple[Expr, Expr | None], set[Conditions]] = defaultdict(set)

    def noted(i: Expr, own: Conditions, dim: Expr | None) -> Expr:
        under[i, dim].add(_about(i, own))
        return i

    def index(i: Expr, own: Conditions, dim: Expr | None) -> Expr:
        own = next(c for c in _whole(under[i, dim]) if c <= _about(i, own))
        if dim is not None and Domain.under(own, lambda length: joined(length, known)).keeps_inside(i, dim):
            axes = tuple(a for a, _ in sorted(affine(i).steps, key=lambda step: -step[1]))
            stem = "_".join(["place", *(a.base for a in axes)])
        elif isinstance(i, At) and _is_chosen(i, own):
            axes, stem = _axes_of(i), f"{i.name}_read"
        else:
            return i
        body = Where(And(*own), i, S.Zero)
        if axes != i.args[1:]:
            body = _with_indices(body, frozenset(), dims, index)
        if not isinstance(body, Where):  # no condition, or some of which one is the opposite of another
            return body
        for e in (*known, *made):
            if e.body == body and e.index == axes:
                return At(e.target, *axes)
        name = free_name(stem, taken | {e.name for e in made})
        made.append(Equation(Tensor(name, integer=True), axes, body, guard=True))
        return At(made[-1].target, *axes)

    _with_indices(rhs, frozenset(), dims, noted)
    return _with_indices(rhs, frozenset(), dims, index), made


def _about(i: Expr, held: Conditions) -> Conditions:
    """What may keep an index inside: of axis arithmetic that is no condition on values."""
    return frozenset(c for c in held if not c.atoms(At, Scalar)) if is_window(i) else held


def _is_chosen(i: At, held: Conditions) -> bool:
    """Whether an index is itself to be guarded: an element, or one at other places of which a condition asks."""
    if all(isinstance(a, Axis) for a in i.index):
        return True
    return all(isinstance(a, Axis) or is_window(a) for a in i.index) and any(c.atoms(At) for c in held)


def _axes_of(i: At) -> tuple[Axis, ...]:
    return tuple(dict.fromkeys(a for part in i.index for a in sorted_axes(free_axes(part))))


def _of_places(condition: Basic, other: Basic) -> Conditions:
    """What a condition asks of places alone, where it asks something else as well."""
    others = conjuncts(condition) if other.atoms(At) else ()
    return frozenset(c for c in others if c != other and not c.atoms(At))


def _with_indices(
    expr: Basic, held: Conditions, dims: Dims, change: Callable[[Expr, Conditions, Expr | None], Expr]
) -> Any:
    """The expression with its indices changed, each by what holds where it is read and the dimension that it is of."""

    def within(part: Basic, held: Conditions) -> Any:
        return _with_indices(part, held, dims, change)

    if not expr.atoms(At):
        return expr
    if isinstance(expr, Where):
        taken, left_out = held | _parts(expr.condition), held | _opposites(expr.condition)
        condition = And(*(within(c, held | _of_places(expr.condition, c)) for c in conjuncts(expr.condition)))
        return Where(condition, within(expr.args[1], taken), within(expr.args[2], left_out))
    if isinstance(expr, At):
        own = dims.get(expr.name, ())
        along = own if len(own) == len(expr.index) else (None,) * len(expr.index)
        about = (frozenset(c for c in held if free_axes(c) <= free_axes(i)) for i in expr.index)
        changed = (change(i, c, d) for i, c, d in zip(expr.index, about, along, strict=True))
        both = zip(expr.index, changed, strict=True)  # an index may itself be read by one: `z[n, y[n, t + 1]]`
        return At(expr.tensor, *(within(i, held) if i == new and isinstance(i, At) else new for i, new in both))
    if isinstance(expr, Reduce):  # its axes are others than those of the same names outside
        held = frozenset(c for c in held if not free_axes(c) & set(expr.over))
    return expr.func(*(within(a, held) for a in expr.args))


def _whole(under: Iterable[Conditions]) -> list[Conditions]:
    """The conditions under which an index is read, those of two branches of a choice as what holds in both.

    Where `c` and where not, the same place is read: under one guard it is gathered once.
    """
    found = sorted(under, key=lambda conditions: sorted(map(str, conditions)))
    for one, other in combinations(found, 2):
        if len(one) == len(other) == len(one & other) + 1:
            (own,), (others,) = one - other, other - one
            if others == asked(Not(own), At):
                return _whole([one & other, *(c for c in found if not c >= one & other)])
    return found


def guarded_behind(equations: Sequence[Equation], outputs: Collection[str], given: Collection[str]) -> list[Equation]:
    """The equations of an op, those guarded that are read under conditions on their own index alone."""
    held = _held(equations, outputs)
    out: list[Equation] = []
    known = set(given)
    taken = known | set(held)
    for e in equations:
        body, made = _behind(e, held[e.name], known, taken)
        out += [*made, e if body == e.body else replace(e, body=body)]
        known |= {x.name for x in (*made, e)}
        taken |= known
    return out


def _held(equations: Sequence[Equation], outputs: Collection[str]) -> dict[str, Conditions]:
    """By the name of an equation, what holds wherever it is read: what an output is asked for is not known."""
    found: defaultdict[str, list[tuple[At, Conditions]]] = defaultdict(list)
    held: dict[str, Conditions] = {}
    for e in reversed(equations):  # all that reads an equation stands behind it
        held[e.name] = frozenset() if e.name in outputs else _shared(e, found[e.name])
        for at, conditions in _reads(e.body, held[e.name]):
            found[at.name].append((at, conditions))
    return held


def _shared(e: Equation, reads: list[tuple[At, Conditions]]) -> Conditions:
    """What holds wherever an equation is read, in its own axes."""
    found: list[Conditions] = []
    for at, conditions in reads:
        if not e.is_plain or not all(isinstance(i, Axis) for i in at.index) or len(set(at.index)) < len(at.index):
            return frozenset()
        about = (c for c in conditions if free_axes(c) <= set(at.index))
        found.append(frozenset(at_index(c, at.index, e.index) for c in about))
    return frozenset.intersection(*found) if found else frozenset()


def _reads(expr: Basic, conditions: Conditions) -> Iterator[tuple[At, Conditions]]:
    """Every element that an expression reads, and what holds there."""
    if isinstance(expr, Where):
        yield from _reads(expr.condition, conditions)
        yield from _reads(expr.args[1], conditions | _parts(expr.condition))
        yield from _reads(expr.args[2], conditions | _opposites(expr.condition))
        return
    if isinstance(expr, At):
        yield expr, conditions
    for a in expr.args:
        yield from _reads(a, conditions)


def window_of(i: Expr, guards: Mapping[str, Equation]) -> tuple[Basic, Expr] | None:
    """The condition under which a guarded place is inside, and the axis arithmetic that it stands for."""
    guard = guards.get(i.name) if isinstance(i, At) else None
    if guard is None or not isinstance(i, At):
        return None
    condition, window = (at_index(part, guard.axes, i.index) for part in guard.body.args[:2])
    return condition, window


def without_guards(
    op: Op, equations: Sequence[Equation], sizes: Iterable[SizeRule], needs: Iterable[Requirement]
) -> Op:
    """The op with other equations, less the guards that these no longer read by, and what they ask of lengths."""
    guards, read = guards_of_places(equations), {at.name for e in equations for at in e.reads}
    return with_lengths(op, [e for e in equations if e.name not in guards or e.name in read], sizes, needs)


def with_lengths(op: Op, equations: Sequence[Equation], sizes: Iterable[SizeRule], needs: Iterable[Requirement]) -> Op:
    """The op with other equations, and what these ask of lengths."""
    known = {r.axis for r in op.sizes}
    sizes = (*op.sizes, *(r for r in sizes if r.axis not in known))
    asked = {(r.left, r.relation, r.right): r for r in reversed((*op.requirements, *needs))}
    needs = tuple(reversed(asked.values()))
    return replace(op, equations=tuple(equations), sizes=sizes, requirements=needs)


def guards_of_windows(equations: Iterable[Equation]) -> dict[str, Equation]:
    """The equations that keep a window inside, by name."""
    return {e.name: e for e in equations if e.guard and is_window(e.body.args[1])}


def guards_of_places(equations: Iterable[Equation]) -> dict[str, Equation]:
    """Those, and the ones that keep what an index names, where a condition fails."""
    return {e.name: e for e in equations if e.guard and isinstance(e.body, Where)}


def unguarded(
    equations: Sequence[Equation], kind: Callable[[Iterable[Equation]], dict[str, Equation]] = guards_of_windows
) -> tuple[Equation, ...]:
    """The equations as they were written: what guards a window is read as the window that it guards."""
    guards = kind(equations)

    def written(expr: Expr) -> Expr:
        return expr.xreplace({at: own[1] for at in expr.atoms(At) if (own := window_of(at, guards)) is not None})

    return tuple(replace(e, body=written(e.body)) for e in equations if e.name not in guards)


def _behind(
    e: Equation, conditions: Conditions, known: Collection[str], taken: set[str]
) -> tuple[Expr, list[Equation]]:
    """The body of an equation with the gathers guarded whose index one of the conditions is about, and the guards.

    A guard reads what its conditions do, which must be known by then.
    """
    made: list[Equation] = []
    put: dict[Basic, Basic] = {}
    indices = {i for at in e.reads for i in at.index if isinstance(i, At) and all(isinstance(a, Axis) for a in i.index)}
    for i in sorted(indices, key=lambda i: i.sort_key()):
        about = {c for c in conditions if i in c.atoms(At) and free_axes(c) <= free_axes(i)}
        if about and {at.name for c in about for at in c.atoms(At)} <= set(known):
            target = Tensor(free_name(f"{i.name}_read", taken | {m.name for m in made}), integer=True)
            made.append(Equation(target, i.index, Where(And(*about), i, S.Zero)))
            put[i] = At(target, *i.index)
    gathers = {at: At(at.tensor, *(put.get(i, i) for i in at.index)) for at in e.reads}
    return e.body.xreplace({a: b for a, b in gathers.items() if a != b}), made
