"""A sum of what axis arithmetic puts at a place is added through windows, to an axis that has all such places.

`sum(where(eq(2*u + k, t), x[u] * w[k], 0), over=(u, k))` asks of all triples whether they meet. Added at `2*u + k`
along an axis that reaches as far, of which `t` then reads the first places, it is the adjoint of a window. Neither `u`
nor `k` may be empty then. What scales the sum at each `t` has to be finite, as 0 times it is 0 where nothing is added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sympy import Eq, Expr, Integer, Max, Mul, S

from derive.bounded import is_polynomial, polynomials
from derive.equations import Equation, Op, Requirement, SizeRule
from derive.errors import DeriveError
from derive.terms.axes import Axis, Size, free_axes
from derive.terms.choices import Where
from derive.terms.elements import At, Delta, Tensor
from derive.terms.indices import Prefix
from derive.terms.names import free_name
from derive.terms.products import by_axes
from derive.terms.windows import affine


@dataclass(frozen=True)
class _Reached:
    """An equation's axis, the places of it that a sum adds to, counted from the first, and what is added there."""

    axis: Axis
    place: Expr  # whole steps above 0 over axes that are summed
    before: int  # how many of these places lie before the first of the axis
    added: Expr
    scale: Expr  # of what is added up, at each place

    @property
    def length(self) -> Expr:
        """How long an axis is that has all these places, and those of the equation's axis behind them."""
        form = affine(self.place)
        last = sum(((Size(a) - 1) * step for a, step in form.steps), form.offset)
        return Max(Size(self.axis) + self.before, last + 1)


def sizes(op: Op) -> tuple[SizeRule, ...]:
    """The lengths of the axes that `reached` makes."""
    finite = polynomials(op)
    found = ((e, _found(e, finite)) for e in op.equations)
    return tuple(SizeRule(_whole(e, r), formula=r.length, around=r.axis) for e, r in found if r is not None)


def requirements(op: Op) -> tuple[Requirement, ...]:
    """That the axes of such places have some: a window over none has no slices."""
    needs: dict[Axis, Requirement] = {}
    finite = polynomials(op)
    lengths = {r.axis: r.formula.axis for r in op.sizes if isinstance(r.formula, Size)}
    for e in op.equations:
        if (r := _found(e, finite)) is not None:
            for axis in (lengths.get(axis, axis) for axis, _ in affine(r.place).steps):
                needs.setdefault(axis, Requirement(e.name, f"axis {axis.base}", Size(axis), ">=", S.One))
    return tuple(r for axis, r in needs.items() if not axis.fixed)


def reached(op: Op) -> tuple[Equation, ...]:
    """The equations, each such sum behind an equation that adds to an axis of its own."""
    taken, finite = op.names, polynomials(op)
    return tuple(e for equation in op.equations for e in _apart(equation, taken, finite))


def _whole(e: Equation, r: _Reached) -> Axis:
    return Axis(f"{r.axis.base}_of_{e.name}")


def _apart(e: Equation, taken: set[str], finite: Collection[str]) -> Iterator[Equation]:
    r = _found(e, finite)
    if r is None:
        yield e
        return
    whole, target = _whole(e, r), Tensor(free_name(f"{e.name}_reached", taken, "_"))
    taken.add(target.name)
    index = tuple(whole if i == r.axis else i for i in e.index)
    place = Prefix(r.place) if isinstance(r.place, Axis) else r.place  # of which the whole may have more
    added = Delta(whole, place) * r.added
    yield replace(e, target=target, index=index, body=added, kind="sum", scale=e.weight, given=False)
    there = r.axis + r.before if r.before else Prefix(r.axis)
    read = At(target, *(there if i == r.axis else i for i in e.index))
    yield replace(e, body=r.scale * read, kind=None, over=(), scale=S.One)


def _found(e: Equation, finite: Collection[str]) -> _Reached | None:
    """How a sum asks of axes alone whether they meet an axis that it keeps; None for any other."""
    if e.kind not in ("sum", "mean") or not e.is_plain:
        return None
    factors = Mul.make_args(e.body)
    for factor in factors:
        if isinstance(factor, Where) and factor.args[2] == 0 and isinstance(factor.condition, Eq):
            others = [f for f in (*factors, *Mul.make_args(factor.args[1])) if f != factor]
            added, scale = (Mul(*part) for part in by_axes(others, e.over))
            for axis in e.axes:
                found = _on(axis, factor.condition, e.over)
                if found is not None and axis not in free_axes(added) and is_polynomial(scale, finite):
                    return _Reached(axis, *found, added, scale)
    return None


def _on(axis: Axis, condition: Eq, over: tuple[Axis, ...]) -> tuple[Expr, int] | None:
    """The place of an axis of which a condition asks, from the first one on, and how many lie before the axis."""
    difference = condition.lhs - condition.rhs
    step = difference.coeff(axis)
    if difference.atoms(At) or step not in (1, -1) or axis.is_pack:
        return None
    place = axis - difference / step
    try:
        form = affine(place)
    except DeriveError:
        return None
    summed = all(a in over and times > 0 and not a.is_pack for a, times in form.steps)
    moved = form.offset != 0 or [times for _, times in form.steps] != [1]
    if not form.steps or not moved or not summed or not isinstance(form.offset, Integer):
        return None
    before = max(0, -int(form.offset))
    return place + before, before
