"""Sums by way of a multiple: of a tensor that is read in sums alone, and of a sum that a gradient is a multiple of."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from sympy import Add, Expr, Mul

from derive.collapse.inversions import cannot_vanish
from derive.collapse.reassociate import by_adjoints, one_sum
from derive.ir.algebra import is_contraction, normal, substitute
from derive.ir.equations import Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At, Scalar, Tensor, tensor_names
from derive.ir.terms.names import free_name
from derive.ir.terms.reductions import Sigma
from derive.schedule.backward import stem_of_sum
from derive.schedule.definitions import Definition


def sums_of_multiples(
    definitions: list[Definition], op: Op, kept: Collection[str]
) -> Iterator[tuple[list[Definition], str]]:
    """Law: a sum with a multiple of a tensor is a multiple of the sum: of `y = g*x/r`, `sum(dy*y)` is
    `g/r * sum(dy*x)`.

    Where `x` is read in any case, `y` need not be kept for this; and `dg = sum(dy*x/r)` starts from the same sum.
    """
    for e in reversed(op.equations):
        plain = e.name in kept and e.kind is None and e.is_plain and not e.first
        whole = _multiple_of(e.body, e.axes) if plain else None
        if whole is None or whole.name not in kept or (e.body / whole).is_Number:
            continue
        of = {e.name: (e.axes, e.body)}
        put = {s: substitute(s, of) for d in definitions for s in d.value.atoms(Sigma) if e.name in tensor_names(s)}
        changed = [replace(d, value=d.value.xreplace(put)) for d in definitions]
        if not any(e.name in tensor_names(d.value) for d in changed):
            yield changed, f"{e.left} = {e.body}"


def sums_named(
    definitions: list[Definition], forward: dict[str, Definition], asked: Collection[str], taken: Collection[str]
) -> Iterator[tuple[list[Definition], str]]:
    """Law: a sum that a gradient is a multiple of gets a name where another sum starts from it.

    Of scores `s[i,j] = g * sum_e q[i,e] * k[j,e]` under a gain, `dg = sum_ij ds[i,j] * sum_e q[i,e] * k[j,e]` is
    `sum_ie q[i,e] * t[i,e]` with `t[i,e] = sum_j ds[i,j] * k[j,e]`, and `dq = g*t`. By way of `dq` it would divide by
    `g`, which may be 0; by way of `t` the scores without their gain need not be kept. Gradients that are `asked` for
    stay; another that is a multiple, by what has fewer axes, is put in its place.
    """
    every = _scaled_in_place(definitions, asked)
    for k, d in enumerate(every):
        for term in Add.make_args(d.value):
            times, one = one_sum(term)
            if one is None or not is_contraction(one.body) or cannot_vanish(times) or free_axes(one) != set(d.axes):
                continue
            named = Definition(free_name(stem_of_sum(one), {*taken, *(o.name for o in every)}), d.axes, one)
            left = At(Tensor(named.name), *d.axes)
            for other in (o for o in every if o is not d):
                for s in sorted(other.value.atoms(Sigma), key=lambda s: s.sort_key()):
                    for way, reason in by_adjoints(s, forward, [(left, named)]):
                        by_name = replace(d, value=d.value - term + times * left)
                        by_way = replace(other, value=normal(other.value.xreplace({s: way})))
                        of = {d.name: by_name, other.name: by_way}
                        changed = [of.get(o.name, o) for o in every]
                        yield [*changed[:k], named, *changed[k:]], f"{left} = {one}; {reason}"


def _scaled_in_place(definitions: list[Definition], asked: Collection[str]) -> list[Definition]:
    """The definitions with those that are another times what has fewer axes in their places."""
    others = [d for d in definitions if d.axes and d.name not in asked]
    scaled = {d.name: (d.axes, d.value) for d in others if _multiple_of(d.value, d.axes) not in (None, d.value)}
    return [replace(d, value=substitute(d.value, scaled)) for d in definitions if d.name not in scaled]


def _multiple_of(value: Expr, axes: Collection[Axis]) -> At | None:
    """The tensor over all these axes that a value is, or is times what has fewer, element by element."""
    factors = [f for f in Mul.make_args(value) if not f.is_Number]
    whole = [f for f in factors if free_axes(f) == set(axes)]
    plain = all(isinstance(f.as_base_exp()[0], At | Scalar) for f in factors)
    return whole[0] if plain and len(whole) == 1 and isinstance(whole[0], At) else None
