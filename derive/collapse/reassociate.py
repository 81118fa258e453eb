"""Law: a sum of a sum may be taken in the other order, where the forward has that inner sum already.

`sum_j p[i,j] * (sum_e do[i,e] * v[j,e]) = sum_e do[i,e] * (sum_j p[i,j] * v[j,e]) = sum_e do[i,e] * o[i,e]`.

So may one whose inner sum is an adjoint: of scores `s[i,j] = sum_e q[i,e] * k[j,e]`, which then need not be kept,
`sum_ij ds[i,j] * s[i,j] = sum_ie q[i,e] * (sum_j ds[i,j] * k[j,e]) = sum_ie q[i,e] * dq[i,e]`.

A sum of an adjoint that has a name may need no sum at all: with `ds = dloss * u / z` and `z = sum(u)`,
`sum(ds) = dloss`.

What stands in such a sum may be a tensor of the forward times a cotangent: of `y = g * o`,
`do * o = dy * g * o = dy * y`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from sympy import Add, Expr, Mul

from derive.collapse.inversions import cannot_vanish
from derive.collapse.relations import Relations, use_relations
from derive.collapse.saving import value_of
from derive.ir.algebra import is_contraction, opened, sigma, substitute
from derive.ir.equations import Op
from derive.ir.matching import match
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, Scalar, at_index, tensor_names
from derive.ir.terms.products import by_axes, factors_of
from derive.ir.terms.reductions import Sigma
from derive.schedule.definitions import Definition

Found = tuple[Expr, str]
"""The same sum, and the identities that say so."""


def reassociated(sum_: Sigma, matrix_products: dict[str, Definition], known: Relations) -> Iterator[Found]:
    """The same sum by way of forward tensors that have an inner sum of it."""
    yield from _of_a_product(sum_, matrix_products, known)
    yield from _of_some_factors(sum_, known)


def by_adjoints(sum_: Sigma, forward: dict[str, Definition], made: list[tuple[At, Definition]]) -> Iterator[Found]:
    """The same sum of a matrix product of the forward by way of an adjoint that has an inner sum of it."""
    multiples = {d.name: (d.axes, d.value) for _, d in made if is_multiple(d)}
    body, bound = opened(sum_)
    for at in sorted((f for f in factors_of(body, At) if f.name in forward), key=str):
        definition = forward[at.name]
        outer, products = one_sum(at_index(definition.value, definition.axes, at.index))
        if products is None:
            continue
        product, summed = opened(products, bound)
        for factor in factors_of(product, At):
            own = [a for a in (*bound, *summed) if a in free_axes(factor)]
            rest = substitute(body / at * outer * product / factor, multiples)
            inner = sigma(rest, [a for a in (*bound, *summed) if a not in own])
            for value, left in _adjoint_of(inner, made, multiples):
                yield sigma(factor * value, own), f"{left.name} has a sum of {at.name} in the other order"


def _adjoint_of(
    inner: Expr, made: list[tuple[At, Definition]], multiples: dict[str, tuple[tuple[Axis, ...], Expr]]
) -> Iterator[tuple[Expr, At]]:
    """What a sum is in terms of each adjoint that is a multiple of it. What that divides by has to cancel."""
    outer, one = one_sum(inner)
    asked = tensor_names(one) if one is not None else frozenset()
    for left, d in made if one is not None else ():
        names = {m for n in tensor_names(d.value) for m in (tensor_names(multiples[n][1]) if n in multiples else {n})}
        if not asked <= names:
            continue
        times, theirs = one_sum(substitute(d.value, multiples) if d.value.atoms(Sigma) else d.value)
        put = match(theirs, one) if theirs is not None and one is not None else None
        if put is not None and all(cannot_vanish(f) or isinstance(f, At | Scalar) for f in Mul.make_args(times)):
            yield outer * left.xreplace(dict(put)) / times.xreplace(dict(put)), left


def by_factors(found: Found, op: Op, made: list[tuple[At, Definition]]) -> Iterator[Found]:
    """The same sum with factors that a tensor of the forward is the product of as that tensor."""
    multiples = {d.name: (d.axes, d.value) for _, d in made if is_multiple(d)}
    outer, one = one_sum(found[0])
    if one is None:
        return
    body, bound = opened(one)
    body = substitute(body, multiples)
    factors = Mul.make_args(body)
    for e in op.equations:
        if e.kind is not None or not e.is_over_axes or not is_multiple(Definition(e.name, e.axes, e.body)):
            continue
        own = next(f for f in factors_of(e.body, At) if f.index == e.axes)
        for at in (f for f in factors if isinstance(f, At) and f.name == own.name):
            number, product = e.at(at.index).as_coeff_Mul()
            if set(Mul.make_args(product)) <= set(factors) and (product != at or not e.is_plain):
                value = body / product * at_index(e.left, e.axes, at.index) / number
                yield outer * sigma(value, bound), f"{found[1]}; {e.left} = {e.body}"


def by_what_adjoints_are(sum_: Sigma, made: list[tuple[At, Definition]], known: Relations) -> Iterator[Found]:
    """The same without a sum, where that follows from what the adjoints in it are and what is known of sums."""
    inside = {d.name: (d.axes, d.value) for _, d in made if d.name in tensor_names(sum_)}
    if inside:
        value, used = use_relations(substitute(sum_, inside), known)
        if used and not value.atoms(Sigma):
            written_out = (f"{left} = {d.value}" for left, d in made if d.name in inside)
            yield value, "; ".join([*written_out, *map(str, used)])


def is_partly(sum_: Sigma, value: Expr) -> bool:
    """Whether a value sums products of all that this sums, too: `sum(ds) - sum(ds * h**2)`.

    The slope `1 - h**2` keeps small what is small. That `sum(ds) = 0` is no reason to leave its first term out.
    """
    sums = value.atoms(Sigma)
    factors = set(Mul.make_args(opened(sum_)[0]))
    others = (s for s in sums - {sum_} if s.over == sum_.over)
    return sum_ in sums and any(factors < set(Mul.make_args(opened(s)[0])) for s in others)


@lru_cache(maxsize=20_000)
def is_multiple(d: Definition) -> bool:
    """Whether a definition is one tensor, over the same axes, times others."""
    whole = any(f.index == d.axes for f in factors_of(d.value, At))
    return whole and not isinstance(d.value, Add) and not d.value.atoms(Sigma, Delta, Where)


def _of_a_product(sum_: Sigma, matrix_products: dict[str, Definition], known: Relations) -> Iterator[Found]:
    """The sum over a matrix product that has a name."""
    body, bound = opened(sum_)
    for at in sorted(factors_of(body, At), key=lambda a: a.sort_key()):
        definition = matrix_products.get(at.name)
        if definition is None:
            continue
        outer, products = one_sum(at_index(definition.value, definition.axes, at.index))
        if products is None:
            continue
        product, summed = opened(products, bound)
        factors = [f for f in Mul.make_args(body / at * outer) if f != 1] + list(Mul.make_args(product))
        over_bound, rest = by_axes(factors, bound)
        changed, used = use_relations(sigma(Mul(*over_bound), bound), known)
        if used and not factors_of(changed, Sigma):
            yield sigma(Mul(*rest) * changed, summed), "; ".join(map(str, used))
            return


def _of_some_factors(sum_: Sigma, known: Relations) -> Iterator[Found]:
    """The sum over several axes of a long product, where some of its factors are summed over one of them already.

    Sums among its factors are taken with it, in the other order.
    """
    body, bound = opened(sum_)
    for inner in factors_of(body, Sigma):
        term, own = opened(inner, bound)
        body, bound = body / inner * term, [*bound, *own]
    for axis in bound if len(bound) > 1 else ():
        inside, others = by_axes(Mul.make_args(body), [axis])
        changed, used = use_relations(sigma(Mul(*inside), [axis]), known)
        if used and not changed.atoms(Sigma):
            yield sigma(Mul(*others, changed), [a for a in bound if a != axis]), "; ".join(map(str, used))


@lru_cache(maxsize=20_000)
def one_sum(value: Expr) -> tuple[Expr, Sigma | None]:
    """A product as what its only sum is multiplied with, and that sum; none where it has several, or none."""
    sums = factors_of(value, Sigma)
    if isinstance(value, Add) or len(sums) != 1:
        return value, None
    return value / sums[0], sums[0]


@lru_cache(maxsize=64)
def products_of(op: Op) -> dict[str, Definition]:
    """The tensors of the forward that are one matrix product, or a multiple of one, by name."""
    out: dict[str, Definition] = {}
    for e in op.equations:
        d = Definition(e.name, e.axes, value_of(e))
        if e.kind == "sum" and e.is_plain and is_contraction(e.body):
            out[e.name] = d
        elif e.kind is None and e.is_plain and is_multiple(d) and len(e.reads) == len(tensor_names(e.body)):
            whole = {n: (out[n].axes, out[n].value) for n in tensor_names(e.body) & out.keys()}
            if len(whole) == 1:
                out[e.name] = replace(d, value=substitute(d.value, whole))
    return out


def matrix_products(definitions: list[Definition]) -> dict[str, Definition]:
    """The definitions that are one matrix product, by name."""
    out = {}
    for d in definitions:
        _, one = one_sum(d.value)
        if one is not None and is_contraction(one.body):
            out[d.name] = d
    return out
