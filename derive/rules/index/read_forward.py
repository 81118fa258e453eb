"""A sum of what is read back from where it stands runs over the places that are read, and reads the rest forward.

`sum(where(t >= u, x[n, t] * y[n, t - u], 0), over=t)` asks at each `t` for a place before it. With `s` for `t - u` it
is `sum(where(s + u < size(t), x[n, s + u] * y[n, s], 0), over=s)`, a correlation: windows of a padded `x`, and no
gather as large as all of them. The conditions must say of the place that it is one of the dimension, and nothing else
of `t`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sympy import And, Basic, Expr, Integer, Mul, S, expand

from derive.facts.lengths.kept_inside import first_asked, gaps, is_kept_inside, length_asked
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import Where, conjuncts
from derive.ir.terms.elements import At
from derive.ir.terms.names import new_name
from derive.ir.terms.reductions import Reduce
from derive.ir.terms.windows import affine, is_window

Dims = Mapping[str, tuple[Expr, ...]]


@dataclass(frozen=True)
class _Back:
    """A place that is read, of which dimension, by which summed axis, and the conditions that keep it inside."""

    place: Expr
    dim: Axis
    summed: Axis
    inside: tuple[Basic, ...]


def read_forward(rhs: Expr, dims: Dims) -> Expr:
    """The right side with every such sum, or mean, over the places that it reads."""
    names = {a.base for a in rhs.atoms(Axis)} | {a.base for own in dims.values() for i in own for a in free_axes(i)}

    def changed(r: Reduce) -> Expr:
        choices = [f for f in Mul.make_args(r.body) if isinstance(f, Where) and f.args[2] == 0]
        if len(choices) != 1:
            return r
        conditions, over = conjuncts(choices[0].condition), list(r.over)
        value = r.body / choices[0] * choices[0].args[1]
        while (back := next(_backward(value, conditions, over, dims), None)) is not None:
            own = _over(back, names)
            there = own - (back.place - back.summed)
            value = _moved(value, {back.summed: there})
            left = tuple(c for c in conditions if c not in back.inside)
            conditions = (*left, *_on_the_axis(there, back))
            over[over.index(back.summed)] = own
        if tuple(over) == r.over and conditions == conjuncts(choices[0].condition):
            return r
        summed = Reduce("sum", Where(And(*conditions), value, S.Zero), *over)
        return summed if r.kind == "sum" else summed / Mul(*map(Size, r.over))

    return rhs.replace(lambda e: isinstance(e, Reduce) and e.kind in ("sum", "mean"), changed)


def _over(back: _Back, names: set[str]) -> Axis:
    """The axis of the places that are read: the same, where it is as long."""
    if back.dim == back.summed:
        return back.summed
    own = Axis(new_name(f"{back.dim.base}_read", names))
    return own


def _backward(value: Expr, conditions: Sequence[Basic], over: Collection[Axis], dims: Dims) -> Iterator[_Back]:
    """What a product reads at places that lie before those of a summed axis, by what is not summed."""
    for at in (f for f in Mul.make_args(value) if isinstance(f, At)):
        for i, dim in zip(at.index, dims.get(at.name, at.index), strict=True):
            summed = _summed(i, over) if isinstance(dim, Axis) and is_window(i) else None
            if summed is None or not _is_movable(value, summed, dims):
                continue
            own = tuple(c for c in conditions if summed in free_axes(c))
            alike = summed if _are_alike(dim, summed, value, dims) else dim
            if _say_that_alone(i, own, alike):
                yield _Back(i, alike, summed, own)


def _summed(i: Expr, over: Collection[Axis]) -> Axis | None:
    """The axis `t` of an index `t - u`, where `t` alone is summed."""
    form = affine(i)
    own = [(a, step) for a, step in form.steps if a in over]
    back = all(step < 0 for a, step in form.steps if a not in over)
    if len(own) != 1 or len(form.steps) < 2 or not back or not isinstance(form.offset, Integer):
        return None
    ((axis, step),) = own
    return axis if step == 1 and not axis.is_pack else None


def _is_movable(value: Expr, axis: Axis, dims: Dims) -> bool:
    """Whether a product reads an axis by axis arithmetic alone, once in a tensor, and its own too."""
    slots = [list(zip(at.index, dims.get(at.name, at.index), strict=True)) for at in value.atoms(At)]
    there = [[(i, dim) for i, dim in own if axis in free_axes(i)] for own in slots]
    read = [own for own in there if own]
    plain = all(len(own) == 1 and (own[0][0] == axis or is_window(own[0][0])) for own in read)
    return plain and [(axis, axis)] in read


def _are_alike(dim: Axis, axis: Axis, value: Expr, dims: Dims) -> bool:
    """Whether a dimension must be as long as an axis, since that reads one as long."""
    pairs = (p for at in value.atoms(At) if at.name in dims for p in zip(at.index, dims[at.name], strict=True))
    return any(p == (axis, dim) for p in pairs)


def _say_that_alone(i: Expr, conditions: Sequence[Basic], dim: Axis) -> bool:
    """Whether conditions say that an index lies on a dimension, and nothing else."""
    inside = {expand(i), expand(Size(dim) - 1 - i)}
    asked = all(len(gap := gaps([c])) == 1 and gap[0] in inside for c in conditions)
    inside_alone = is_kept_inside(i, conditions, dim) and first_asked(i) is None
    return asked and inside_alone and length_asked(i, conditions, dim) is None


def _on_the_axis(there: Expr, back: _Back) -> Iterator[Basic]:
    """That a place is one of the axis that was summed over."""
    if affine(there).offset < 0:
        yield there >= 0
    yield there < Size(back.summed)


def _moved(value: Expr, places: Mapping[Basic, Expr]) -> Expr:
    put = {at: At(at.tensor, *(expand(i.xreplace(places)) for i in at.index)) for at in value.atoms(At)}
    return value.xreplace({**put, **places})
