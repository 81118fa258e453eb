"""A plain read of a dimension that is longer than the axis is one of its first places: `x[t]` beside `x[t + 1]`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sympy import Add, Expr, Integer, Min, floor

from derive.facts.lengths.sizes import Dims, closed, size_of
from derive.ir.equations import Equation, SizeRule
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import Concat
from derive.ir.terms.elements import At
from derive.ir.terms.indices import Prefix
from derive.ir.terms.windows import is_window


def read_prefixes(
    equations: tuple[Equation, ...], dims: Dims, sizes: tuple[SizeRule, ...], said: Mapping[Axis, Expr]
) -> tuple[Equation, ...]:
    """The equations with every plain read of a longer dimension marked as a read of its first places.

    A dimension is longer where the axis is as long as some window allows, where a window runs over the same dimension
    by the same axis (`x[t]` beside `x[t + 1]`), and where lengths prove it (a piece of what was joined, or both are
    numbers), or the axis is that of the first piece, though what stands behind it is one place. It may be longer where
    the length of the axis is an argument: how many places are read is what the caller says then. And it is where the
    body says that the axis has another length.
    """
    rules = {r.axis: r for r in sizes}
    first = {along: own for along, own in _first_pieces(equations).items() if rules[along].formula is not None}
    slid = {
        (at.name, slot, axis)
        for e in equations
        for at in e.reads
        for slot, i in enumerate(at.index)
        if is_window(i) and not isinstance(i, Axis)
        for axis in free_axes(i)
    }

    def is_prefix(name: str, slot: int, i: Expr, dim: Expr) -> bool:
        if not isinstance(i, Axis) or not isinstance(dim, Axis) or i == dim:
            return False
        if i.fixed and dim.fixed:
            return i.fixed < dim.fixed
        formula = rules[i].formula
        if formula is not None and not isinstance(formula, Size | Integer) and formula != Size(dim):
            return True
        longer = closed(said.get(dim, size_of(dim)), rules) - closed(said.get(i, Size(i)), rules)
        if (rules[i].given is not None or {i, dim} & said.keys()) and longer != 0:
            return True
        return (name, slot, i) in slid or first.get(dim) == {i} or _is_longer(longer)

    def read(at: At) -> At:
        slots = enumerate(zip(at.index, dims[at.name], strict=True))
        return At(at.tensor, *(Prefix(i) if is_prefix(at.name, k, i, d) else i for k, (i, d) in slots))

    return tuple(
        replace(e, body=e.body.xreplace({at: read(at) for at in e.reads if read(at) != at})) for e in equations
    )


def _is_longer(difference: Expr) -> bool:
    """Whether a difference of lengths is a sum of lengths: never negative, and not 0."""
    return difference != 0 and all(
        t.as_coeff_Mul()[0].is_positive and t.atoms(Size) and not t.atoms(floor, Min) for t in Add.make_args(difference)
    )


def _first_pieces(equations: Iterable[Equation]) -> dict[Axis, set[Axis]]:
    """By the axis that pieces are joined along, the axes of those that stand first there."""
    out: dict[Axis, set[Axis]] = {}
    for e in equations:
        if isinstance(e.body, Concat):
            out.setdefault(e.body.along, set()).add(e.over[0])
    return out
