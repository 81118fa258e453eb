"""An axis that is only summed over is as long as each sum's own windows allow: such an index is local to its sum.

`sum((x[i + 1, w] - x[i, w])**2, over=(i, w)) + sum((x[h, i + 1] - x[h, i])**2, over=(h, i))` runs over the rows but
one, then over the columns but one. As one axis both would be as long as the shorter of the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sympy import Basic, Expr, Integer, Min

from derive.errors import DeriveError
from derive.facts.lengths.sizes import shortest, size_of, told
from derive.ir.equations import Equation, Operand
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.elements import Tensor, reads_of
from derive.ir.terms.names import free_name
from derive.ir.terms.windows import affine, is_window, longest

_Declared = Mapping[str, tuple[Tensor, tuple[Expr, ...]]]
_Lengths = tuple[Expr, ...]


def apart_by_length(
    equations: Sequence[Equation], operands: Iterable[Operand], declared: _Declared, said: Mapping[Axis, Expr]
) -> list[Equation]:
    """The equations with an axis that is only summed over under a name for each length that its sums give it."""
    operands = tuple(operands)
    kept = {*said, *(a for o in operands for a in (*o.axes, *o.declared, o.ranges_over))}
    kept |= {a for e in equations if e.given and not e.guard for a in e.axes}
    known = {a.base for a in kept if a is not None} | {a.base for e in equations for a in _axes(e)}
    out = list(equations)
    for axis in dict.fromkeys(a for e in equations for a in e.over if a not in kept):
        if axis.fixed is None and not axis.is_pack:
            names, renamed = _apart(axis, out, declared, known)
            asked = next((e for e in out if axis not in _axes(e) and Size(axis) in _lengths_in(e)), None)
            if asked is not None and len(names) > 1:
                raise _one_length_asked(axis, list(names)).within(equation=asked.name)
            if set(names.values()) <= told(operands, tuple(renamed), said).keys():
                out, known = renamed, known | {a.base for a in names.values()}
    return out


def _apart(
    axis: Axis, equations: Sequence[Equation], declared: _Declared, known: set[str]
) -> tuple[dict[_Lengths, Axis], list[Equation]]:
    """The names of an axis by the lengths that its sums give it, and the equations under them."""
    out, names, taken = list(equations), dict[_Lengths, Axis](), set(known)
    for together in _sums(axis, equations):
        lengths = _lengths(axis, [equations[k] for k in together], declared)
        if lengths not in names:
            names[lengths] = axis.renamed(free_name(axis.base, taken, "_")) if names else axis
            taken.add(names[lengths].base)
        for k in together:
            other = names[lengths]
            out[k] = out[k].substituted({axis: other, Size(axis): Size(other)}) if other != axis else out[k]
    return names, out


def _one_length_asked(axis: Axis, found: Sequence[_Lengths]) -> DeriveError:
    one, other = (str(Min(*lengths)) if lengths else "all of what it reads" for lengths in found[:2])
    return DeriveError(
        f"size({axis.base}) is asked for, but {axis.base} is {one} in one sum and {other} in another",
        fix="give the axis another name in each sum",
    )


def _axes(e: Equation) -> set[Axis]:
    return {*e.body.atoms(Axis), *e.axes, *e.over}


def _lengths_in(e: Equation) -> set[Basic]:
    return e.body.atoms(Size) | e.scale.atoms(Size)


def _sums(axis: Axis, equations: Sequence[Equation]) -> list[list[int]]:
    """The sums over an axis, each with what was split off from it."""
    groups: list[list[int]] = []
    for k, e in enumerate(equations):
        if axis not in _axes(e):
            continue
        met = [g for g in groups if any(axis in equations[j].axes and _reads(e, equations[j]) for j in g)]
        groups = [g for g in groups if g not in met] + [[j for g in met for j in g] + [k]]
    return sorted(map(sorted, groups))


def _reads(e: Equation, other: Equation) -> bool:
    return any(at.name == other.name for at in e.reads)


def _lengths(axis: Axis, equations: Sequence[Equation], declared: _Declared) -> _Lengths:
    """How long the windows of some equations allow an axis to be; nothing where it is read place by place alone."""
    found: list[Expr] = []
    for at in (at for e in equations for at in reads_of(e.body)):
        for i, dim in zip(at.index, declared[at.name][1], strict=True):
            if i == axis and dim != axis:
                found.append(size_of(dim))
            elif is_window(i) and axis in free_axes(i):
                found.append(longest(affine(i), axis, size_of(dim)))
    windows = [length for length in found if not isinstance(length, Size | Integer)]
    return tuple(sorted(Min.make_args(shortest(found)), key=str)) if windows else ()
