"""A filter that reads back under a condition is added up through windows: what it reads is added to what reads it.

`sum(where(t >= k, w[k] * x[n, t - k], 0), over=k)` is `sum(where(eq(k + u, t), w[k] * x[n, u], 0), over=(k, u))`, which
adds each `x[n, u]` at the places behind it (`reached_places`): a convolution, and no gather as large as all windows.
The condition must say just that the place is one of the dimension, and what multiplies the read have no pole where the
inputs are finite; `finite` are the tensors that have none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sympy import Eq, Expr, Integer, Mul, S, expand

from derive.facts.bounded import has_no_pole
from derive.facts.lengths.kept_inside import first_asked, gaps, is_kept_inside, length_asked
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import Where, conjuncts
from derive.ir.terms.elements import At
from derive.ir.terms.names import new_name
from derive.ir.terms.reductions import Reduce
from derive.ir.terms.windows import affine, is_window

Dims = Mapping[str, tuple[Expr, ...]]


def added_up(rhs: Expr, dims: Dims, finite: Collection[str]) -> Expr:
    """The right side with every such sum as one of what is added at each place."""
    names = {a.base for a in rhs.atoms(Axis)} | {a.base for own in dims.values() for i in own for a in free_axes(i)}

    def changed(r: Reduce) -> Expr:
        found = _filter(r, dims, finite)
        if found is None:
            return r
        at, i, place, dim, factors = found
        own = Axis(new_name(f"{dim.base}_read", names))
        read = At(at.tensor, *(own if other == i else other for other in at.index))
        body = Where(Eq(own - (i - place), place), Mul(read, *factors), S.Zero)
        return Reduce("sum", body, *r.over, own)

    return rhs.replace(lambda e: isinstance(e, Reduce) and e.kind == "sum", changed)


def _filter(r: Reduce, dims: Dims, finite: Collection[str]) -> tuple[At, Expr, Axis, Axis, list[Expr]] | None:
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
    if not isinstance(dim, Axis) or len(at.index) < 2 or not all(has_no_pole(f, finite) for f in factors):
        return None
    place = _kept(i, r.over, free_axes(Mul(*factors)) | {a for k in at.index if k != i for a in free_axes(k)})
    conditions = conjuncts(choices[0].condition)
    if place is None or not _asks_that_alone(i, conditions, place if _are_alike(dim, place, factors, dims) else dim):
        return None
    return at, i, place, dim, factors


def _are_alike(axis: Axis, place: Axis, factors: Collection[Expr], dims: Dims) -> bool:
    """Whether an axis must be as long as that of the places, since it reads a dimension over these."""
    read = (f for f in factors if isinstance(f, At) and f.name in dims)
    return any((axis, place) in zip(f.index, dims[f.name], strict=True) for f in read)


def _kept(i: Expr, over: Collection[Axis], elsewhere: Collection[Axis]) -> Axis | None:
    """The axis `t` of an index `t - k`, where `t` stands nowhere else and `k` is summed."""
    form = affine(i)
    kept = [a for a, step in form.steps if a not in over]
    back = [step for a, step in form.steps if a in over]
    if len(kept) != 1 or len(back) != 1 or back[0] > 0 or not isinstance(form.offset, Integer):
        return None
    return kept[0] if dict(form.steps)[kept[0]] == 1 and kept[0] not in elsewhere else None


def _asks_that_alone(i: Expr, conditions: Collection[Expr], dim: Axis) -> bool:
    """Whether conditions say that an index lies on a dimension, and nothing else."""
    inside = {expand(i), expand(Size(dim) - 1 - i)}
    own = list(conditions)
    asked = all(len(gap := gaps([c])) == 1 and gap[0] in inside for c in own)
    return asked and is_kept_inside(i, own, dim) and first_asked(i) is None and length_asked(i, own, dim) is None
