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



def read_forward(rhs: Expr, dims: Dims, values: Facts) -> Expr:
    """The right side with every such sum, or mean, over the places that it reads, and with filters added up."""
    names = {a.base for a in rhs.atoms(Axis)} | {a.base for own in dims.values() for i in own for a in free_axes(i)}

    def changed(r: Reduce) -> Expr:
        choices = [f for f in Mul.make_args(r.body) if isinstance(f, Where) and f.args[2] == 0]
        if len(choices) != 1:
            return r
        asked, over = conjuncts(choices[0].condition), list(r.over)
        value, conditions = r.body / choices[0] * choices[0].args[1], asked
        while (back := next(_backward(value, conditions, over, dims), None)) is not None:
            i, dim, t = back
            own = t if dim == t else Axis(new_name(f"{dim.base}_read", names))
            there = own - (i - t)
            value = _moved(value, {t: there})
            before = [there >= 0] if affine(there).offset < 0 else []
            conditions = (*(c for c in conditions if t not in free_axes(c)), *before, there < Size(t))
            over[over.index(t)] = own
        if conditions == asked:
            return _added_up(r, value, conditions, dims, values, names) if r.kind == "sum" else r
        summed = Reduce("sum", Where(And(*conditions), value, S.Zero), *over)
        summed = _added_up(summed, value, conditions, dims, values, names)
        return summed if r.kind == "sum" else summed / Mul(*map(Size, r.over))

    return rhs.replace(lambda e: isinstance(e, Reduce) and e.kind in ("sum", "mean"), changed)


def _backward(
    value: Expr, conditions: Sequence[Basic], over: Collection[Axis], dims: Dims
) -> Iterator[tuple[Expr, Axis, Axis]]:
    """What a product reads at places that lie before those of a summed axis, by what is not summed.

    The index, the dimension, and the axis.
    """
    for at in (f for f in Mul.make_args(value) if isinstance(f, At)):
        for i, dim in zip(at.index, dims.get(at.name, at.index), strict=True):
            t, back = _ahead(i) if is_window(i) else (None, [])
            if t is None or t not in over or t.is_pack or {*back} & {*over} or not isinstance(dim, Axis):
                continue
            if _is_movable(value, t, dims):
                alike = t if _reads_along(value.atoms(At), t, dim, dims) else dim
                if is_just_inside([c for c in conditions if t in free_axes(c)], i, alike):
                    yield i, alike, t


def _ahead(i: Expr) -> tuple[Axis, list[Axis]] | tuple[None, list[Axis]]:
    """The axis `t` of an index `t - u`, and what it runs back by; no axis for any other index."""
    form = affine(i)
    ahead, back = ([a for a, step in form.steps if (step < 0) == way] for way in (False, True))
    alone = len(ahead) == 1 and back and dict(form.steps)[ahead[0]] == 1 and isinstance(form.offset, Integer)
    return (ahead[0], back) if alone else (None, [])


def _reads_along(reads: Iterable[At], index: Axis, dim: Axis, dims: Dims) -> bool:
    """Whether an axis reads a dimension that runs over another one, and so is as long."""
    return any((index, dim) in zip(at.index, dims[at.name], strict=True) for at in reads if at.name in dims)


def _is_movable(value: Expr, axis: Axis, dims: Dims) -> bool:
    """Whether a product reads an axis by axis arithmetic alone, once in a tensor, and its own too."""
    slots = [list(zip(at.index, dims.get(at.name, at.index), strict=True)) for at in value.atoms(At)]
    there = [[(i, dim) for i, dim in own if axis in free_axes(i)] for own in slots]
    read = [own for own in there if own]
    plain = all(len(own) == 1 and (own[0][0] == axis or is_window(own[0][0])) for own in read)
    return plain and [(axis, axis)] in read


def _moved(value: Expr, places: Mapping[Basic, Expr]) -> Expr:
    put = {at: At(at.tensor, *(expand(i.xreplace(places)) for i in at.index)) for at in value.atoms(At)}
    return value.xreplace({**put, **places})


def _added_up(
    r: Reduce, value: Expr, conditions: Sequence[Basic], dims: Dims, values: Facts, names: set[str]
) -> Reduce:
    """A filter that reads back as a sum of what is added at each place; any other sum as it is."""
    factors = list(Mul.make_args(value))
    windowed = [f for f in factors if isinstance(f, At) and sum(map(is_window, f.index)) == 1]
    at = windowed[0] if len(windowed) == 1 else None
    if at is None or len(at.index) < 2:
        return r
    factors.remove(at)
    i, dim = next((i, dim) for i, dim in zip(at.index, dims.get(at.name, at.index), strict=True) if is_window(i))
    t, back = _ahead(i)
    elsewhere = free_axes(Mul(*factors)) | {a for k in at.index if k != i for a in free_axes(k)}
    if t is None or t in elsewhere or t in r.over or len(back) != 1 or back[0] not in r.over:
        return r
    if not isinstance(dim, Axis) or not all(values.of(f).has_no_pole for f in factors):
        return r
    alike = t if _reads_along([f for f in factors if isinstance(f, At)], dim, t, dims) else dim
    if not is_just_inside(conditions, i, alike):
        return r
    own = Axis(new_name(f"{dim.base}_read", names))
    read = At(at.tensor, *(own if other == i else other for other in at.index))
    return Reduce("sum", Where(Eq(own - (i - t), t), Mul(read, *factors), S.Zero), *r.over, own)
