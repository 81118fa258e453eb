"""Law: what is read at places where the forward reads it under a name goes by that name: `p[n, ix[n, k]]` is `t[n, k]`.

So what is known of `t` is known there too: of `w = t / sum(t)`, the shares of those chosen of a softmax, the gradient
reaches `p` through `t` alone, and a sum of `dt * p[n, ix[n, k]]` is one of `dt * t`, which is 0. Only what vanishes is
shown by it: where a sum stays, `p` is there to be looked up, and `t` would be kept beside it.
"""

from __future__ import annotations

from sympy import Expr

from derive.ir.equations import Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At

Gathers = dict[str, tuple[tuple[At, At], ...]]
"""By the name of a tensor, its elements at places, each with what the forward calls it."""


def gathers(op: Op) -> Gathers:
    """The equations `t[n, k] = p[n, ix[n, k]]` of an op."""
    found: Gathers = {}
    for e in op.equations:
        is_gather = e.kind is None and e.is_plain and isinstance(e.body, At) and any(map(_is_place, e.body.index))
        if is_gather and free_axes(e.body) == set(e.axes):
            found[e.body.name] = (*found.get(e.body.name, ()), (e.body, e.left))
    return found


def use_gathers(value: Expr, known: Gathers) -> tuple[Expr, tuple[str, ...]]:
    """The value with such elements by their names, and the equations that say so."""
    put, used = {}, list[str]()
    for at in sorted((at for at in value.atoms(At) if at.name in known), key=lambda at: at.sort_key()):
        for place, name in known[at.name]:
            axes = _put_on(place, at) if any(map(_is_place, at.index)) else None
            if axes is not None:
                put[at] = name.xreplace(axes)
                used.append(f"{name} = {place}")
    return (value.xreplace(put) if put else value), tuple(dict.fromkeys(used))


def _put_on(place: At, at: At) -> dict[Axis, Expr] | None:
    """What to put for the axes of the one place so that it is the other; None where that is another."""
    pairs = [pair for i, j in zip(place.index, at.index, strict=True) for pair in _pairs(i, j)]
    axes = {i: j for i, j in pairs if isinstance(i, Axis)}
    return axes if all(isinstance(j, Axis) for j in axes.values()) and place.xreplace(axes) == at else None


def _pairs(i: Expr, j: Expr) -> list[tuple[Expr, Expr]]:
    if _is_place(i) and _is_place(j):
        return list(zip(i.index, j.index, strict=False))
    return [(i, j)]


def _is_place(index: Expr) -> bool:
    return isinstance(index, At)
