"""Law: a sum that a gradient is a multiple of gets a name where another sum starts from it.

Of scores `s[i,j] = g * sum_e q[i,e] * k[j,e]` under a gain, `dg = sum_ij ds[i,j] * sum_e q[i,e] * k[j,e]` is
`sum_ie q[i,e] * t[i,e]` with `t[i,e] = sum_j ds[i,j] * k[j,e]`, and `dq = g*t`. By way of `dq` it would divide by `g`,
which may be 0; by way of `t` the scores without their gain need not be kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from sympy import Add, Expr, Mul

from derive.collapse.inversions import cannot_vanish
from derive.collapse.reassociate import by_adjoints, one_sum
from derive.ir.algebra import is_contraction, normal, substitute
from derive.ir.terms.axes import free_axes
from derive.ir.terms.elements import At, Scalar, Tensor
from derive.ir.terms.names import free_name
from derive.ir.terms.reductions import Sigma
from derive.schedule.backward import stem_of_sum
from derive.schedule.definitions import Definition


def sums_named(
    definitions: list[Definition], forward: dict[str, Definition], asked: Collection[str], taken: Collection[str]
) -> Iterator[tuple[list[Definition], str]]:
    """The definitions with a sum in one of them as a definition of its own, before it, and another by way of it.

    Those that are `asked` for stay; another that is a multiple, by what has fewer axes, is put in its place.
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
                for value, reason in _by_way_of(other, forward, left, named):
                    by_name = replace(d, value=d.value - term + times * left)
                    of = {d.name: by_name, other.name: replace(other, value=value)}
                    changed = [of.get(o.name, o) for o in every]
                    yield [*changed[:k], named, *changed[k:]], reason


def _scaled_in_place(definitions: list[Definition], asked: Collection[str]) -> list[Definition]:
    """The definitions with those that are another times what has fewer axes in their places."""
    scaled = {d.name: (d.axes, d.value) for d in definitions if d.name not in asked and _is_scaled(d)}
    return [replace(d, value=substitute(d.value, scaled)) for d in definitions if d.name not in scaled]


def _is_scaled(d: Definition) -> bool:
    factors = [f.as_base_exp()[0] for f in Mul.make_args(d.value)]
    whole = [f for f in factors if free_axes(f) == set(d.axes)]
    plain = all(isinstance(f, At | Scalar) or f.is_Number for f in factors)
    return plain and len(whole) == 1 and whole[0] in d.value.args


def _by_way_of(
    d: Definition, forward: dict[str, Definition], left: At, named: Definition
) -> Iterator[tuple[Expr, str]]:
    """A definition with one of its sums by way of a sum with a name."""
    for s in sorted(d.value.atoms(Sigma), key=lambda s: s.sort_key()):
        for way, reason in by_adjoints(s, forward, [(left, named)]):
            yield normal(d.value.xreplace({s: way})), f"{left} = {named.value}; {reason}"
