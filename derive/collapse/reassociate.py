"""Law: a sum of a sum may be taken in the other order, where the forward has that inner sum already.

`sum_j p[i,j] * (sum_e do[i,e] * v[j,e]) = sum_e do[i,e] * (sum_j p[i,j] * v[j,e]) = sum_e do[i,e] * o[i,e]`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Add, Expr, Mul

from derive.algebra import is_contraction, opened, sigma
from derive.collapse.relations import Relation, Relations, use_relations
from derive.definitions import Definition
from derive.terms.axes import free_axes
from derive.terms.elements import At
from derive.terms.reductions import Sigma

Found = tuple[Expr, tuple[Relation, ...]]
"""The same sum, and the identities that say so."""


def reassociated(sum_: Sigma, matrix_products: dict[str, Definition], known: Relations) -> Iterator[Found]:
    """The same sum by way of forward tensors that have an inner sum of it."""
    yield from _of_a_product(sum_, matrix_products, known)
    yield from _of_some_factors(sum_, known)


def _of_a_product(sum_: Sigma, matrix_products: dict[str, Definition], known: Relations) -> Iterator[Found]:
    """The sum over a matrix product that has a name."""
    body, bound = opened(sum_)
    for at in sorted((f for f in Mul.make_args(body) if isinstance(f, At)), key=lambda a: a.sort_key()):
        definition = matrix_products.get(at.name)
        if definition is None:
            continue
        inner = definition.value.xreplace(dict(zip(definition.axes, at.index, strict=True)))
        outer, products = _one_sum(inner)
        if products is None:
            continue
        product, summed = opened(products)
        factors = [f for f in Mul.make_args(body / at * outer) if f != 1] + list(Mul.make_args(product))
        over_bound = Mul(*(f for f in factors if free_axes(f) & set(bound)))
        rest = Mul(*(f for f in factors if not free_axes(f) & set(bound)))
        changed, used = use_relations(sigma(over_bound, bound), known)
        if used and not any(isinstance(f, Sigma) for f in Mul.make_args(changed)):
            yield sigma(rest * changed, summed), used
            return


def _of_some_factors(sum_: Sigma, known: Relations) -> Iterator[Found]:
    """The sum over several axes of a long product, where some of its factors are summed over one of them already."""
    body, bound = opened(sum_)
    for axis in bound if len(bound) > 1 else ():
        inside = [f for f in Mul.make_args(body) if axis in free_axes(f)]
        others = [f for f in Mul.make_args(body) if axis not in free_axes(f)]
        changed, used = use_relations(sigma(Mul(*inside), [axis]), known)
        if used and not changed.atoms(Sigma):
            yield sigma(Mul(*others, changed), [a for a in bound if a != axis]), used


def _one_sum(value: Expr) -> tuple[Expr, Sigma | None]:
    sums = [f for f in Mul.make_args(value) if isinstance(f, Sigma)]
    if isinstance(value, Add) or len(sums) != 1:
        return value, None
    return value / sums[0], sums[0]


def matrix_products(definitions: list[Definition]) -> dict[str, Definition]:
    """The definitions that are one matrix product, by name."""
    out = {}
    for d in definitions:
        _, one = _one_sum(d.value)
        if one is not None and is_contraction(one.body):
            out[d.name] = d
    return out
