"""A sum of what is read back from where it stands runs over the places that are read, and reads the rest forward.

`sum(where(t >= u, x[n, t] * y[n, t - u], 0), over=t)` asks at each `t` for a place before it. With `s` for `t - u` it
is `sum(where(s + u < size(t), x[n, s + u] * y[n, s], 0), over=s)`, a correlation: windows of a padded `x`, and no
gather as large as all of them. The conditions must say of the place that it is one of the dimension, and nothing else
of `t`.

Where what is read runs back from what is kept, a filter, it is added up through windows:
`sum(where(t >= k, w[k] * x[n, t - k], 0), over=k)` is `sum(where(eq(k + u, t), w[k] * x[n, u], 0), over=(k, u))`, which
adds each `x[n, u]` at the places behind it (`reached_places`): a convolution, and no gather as large as all windows.
What multiplies the read must have no pole where the inputs are finite; `values` says which tensors have none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sympy import And, Basic, Eq, Expr, Integer, Mul, S, expand

from derive.facts.domains import is_just_inside
from derive.facts.interpreter import Facts
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


def read_forward(rhs: Expr, dims: Dims, values: Facts) -> Expr:
    """The right side with every such sum, or mean, over the places that it reads, and with filters added up."""
    names = _axis_names(rhs, dims)

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

    rhs = rhs.replace(lambda e: isinstance(e, Reduce) and e.kind in ("sum", "mean"), changed)
    return _added_up(rhs, dims, values)


def _axis_names(rhs: Expr, dims: Dims) -> set[str]:
    """The axes that a right side has, and those of the tensors that are known."""
    return {a.base for a in rhs.atoms(Axis)} | {a.base for own in dims.values() for i in own for a in free_axes(i)}


def _reads_along(reads: Iterable[At], index: Axis, dim: Axis, dims: Dims) -> bool:
    """Whether an axis reads a dimension that runs over another one, and so is as long."""
    return any((index, dim) in zip(at.index, dims[at.name], strict=True) for at in reads if at.name in dims)


def _over(back: _Back, names: set[str]) -> Axis:
    """The axis of the places that are read: the same, where it is as long."""
    if back.dim == back.summed:
        return back.summed
    return Axis(new_name(f"{back.dim.base}_read", names))


def _backward(value: Expr, conditions: Sequence[Basic], over: Collection[Axis], dims: Dims) -> Iterator[_Back]:
    """What a product reads at places that lie before those of a summed axis, by what is not summed."""
    for at in (f for f in Mul.make_args(value) if isinstance(f, At)):
        for i, dim in zip(at.index, dims.get(at.name, at.index), strict=True):
            summed = _summed(i, over) if isinstance(dim, Axis) and is_window(i) else None
            if summed is None or not _is_movable(value, summed, dims):
                continue
            own = tuple(c for c in conditions if summed in free_axes(c))
            alike = summed if _reads_along(value.atoms(At), summed, dim, dims) else dim
            if is_just_inside(own, i, alike):
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


def _on_the_axis(there: Expr, back: _Back) -> Iterator[Basic]:
    """That a place is one of the axis that was summed over."""
    if affine(there).offset < 0:
        yield there >= 0
    yield there < Size(back.summed)


def _moved(value: Expr, places: Mapping[Basic, Expr]) -> Expr:
    put = {at: At(at.tensor, *(expand(i.xreplace(places)) for i in at.index)) for at in value.atoms(At)}
    return value.xreplace({**put, **places})


def _added_up(rhs: Expr, dims: Dims, values: Facts) -> Expr:
    """The right side with every filter that reads back as a sum of what is added at each place."""
    names = _axis_names(rhs, dims)

    def changed(r: Reduce) -> Expr:
        found = _filter(r, dims, values)
        if found is None:
            return r
        at, i, place, dim, factors = found
        own = Axis(new_name(f"{dim.base}_read", names))
        read = At(at.tensor, *(own if other == i else other for other in at.index))
        body = Where(Eq(own - (i - place), place), Mul(read, *factors), S.Zero)
        return Reduce("sum", body, *r.over, own)

    return rhs.replace(lambda e: isinstance(e, Reduce) and e.kind == "sum", changed)


def _filter(r: Reduce, dims: Dims, values: Facts) -> tuple[At, Expr, Axis, Axis, list[Expr]] | None:
    """The read of a filter, its index, the axis that it keeps, the dimension that it reads, and the other factors."""
    factors = list(Mul.make_args(r.body))
    choices = [f for f in factors if isinstance(f, Where) and f.args[2] == 0]
    if len(choices) != 1:
        return None
    factors.remove(choices[0])
    factors += Mul.make_args(choices[0].args[1])
    windowed = [f for f in factors if isinstance(f, At) and sum(map(is_window, f.index)) == 1]
    if len(windowed) != 1:
        return None
    at = windowed[0]
    factors.remove(at)
    slot = next(k for k, i in enumerate(at.index) if is_window(i))
    i, dim = at.index[slot], dims.get(at.name, at.index)[slot]
    if not isinstance(dim, Axis) or len(at.index) < 2 or not all(values.of(f).has_no_pole for f in factors):
        return None
    place = _kept(i, r.over, free_axes(Mul(*factors)) | {a for k in at.index if k != i for a in free_axes(k)})
    conditions = conjuncts(choices[0].condition)
    read = [f for f in factors if isinstance(f, At)]
    if place is None or not is_just_inside(conditions, i, place if _reads_along(read, dim, place, dims) else dim):
        return None
    return at, i, place, dim, factors


def _kept(i: Expr, over: Collection[Axis], elsewhere: Collection[Axis]) -> Axis | None:
    """The axis `t` of an index `t - k`, where `t` stands nowhere else and `k` is summed."""
    form = affine(i)
    kept = [a for a, step in form.steps if a not in over]
    back = [step for a, step in form.steps if a in over]
    if len(kept) != 1 or len(back) != 1 or back[0] > 0 or not isinstance(form.offset, Integer):
        return None
    return kept[0] if dict(form.steps)[kept[0]] == 1 and kept[0] not in elsewhere else None
