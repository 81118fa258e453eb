"""Law: the sum of an adjoint that has a name is its sum, however it was reached: `db = sum(dz)` where `z = x @ w + b`.

So is a multiple of it: `-4*sum(dr2)` for `2*sum(K*dK)` where `dr2 = -K*dK/2`; and its sum with a tensor that is read
there, `-sum(ds * s)` for `sum(s[n, n]) - sum(p * s)` where `ds[n, m] = p[n, m] - delta(n, m)`.

Where `x @ w + b` stands inside a function, the chain rule goes to `b` and to the product apart, and both hold the same
local derivative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations

from sympy import Add, Expr, S

from derive.ir.algebra import normal, sigma
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At, Delta, tensor_names
from derive.ir.terms.reductions import Sigma
from derive.schedule.definitions import Definition


def sums_of_adjoints(definition: Definition, named: list[tuple[At, Definition]]) -> Iterator[tuple[Expr, str]]:
    """The definition as a sum of each of these that it is a sum of, and what that is by definition."""
    for left, other in named if definition.value.atoms(Sigma) else ():
        yield from _as_sum(definition, left, other, S.One)


def weighted_sums_of_adjoints(
    definition: Definition, named: list[tuple[At, Definition]], forward: Iterable[At]
) -> Iterator[tuple[Expr, str]]:
    """The same of sums of products with one of these tensors of the forward."""
    read = tensor_names(definition.value)
    weights = [at for at in forward if at.name in read] if definition.value.atoms(Sigma) else []
    for left, other in named if weights else ():
        for weight in (w for w in weights if free_axes(w) == set(other.axes)):
            yield from _as_sum(definition, left, other, weight)


def _as_sum(definition: Definition, left: At, other: Definition, weight: Expr) -> Iterator[tuple[Expr, str]]:
    """The definition as a multiple of the weighted sum of another, where it is one."""
    if not set(definition.axes) < set(other.axes):
        return
    for over, places in _ways(definition.axes, other.axes):
        total = _total(other.value * weight, frozenset(over))
        renamed = {a for a, b in places.items() if a != b}
        if not renamed <= {i for at in total.atoms(At) for i in at.index}:  # else nothing says that they are as long
            continue
        total = total.xreplace(places)
        for times in _ratios(definition.value, total, over - set(definition.axes)):
            if definition.value == normal(times * total):
                yield times * sigma(left * weight, over).xreplace(places), f"{left} = {other.value}"
                return


@lru_cache(maxsize=2_000)  # each sum may be one of any adjoint that has a name
def _total(value: Expr, over: frozenset[Axis]) -> Expr:
    return sigma(value, set(over))


def _ways(axes: tuple[Axis, ...], of: tuple[Axis, ...]) -> Iterator[tuple[set[Axis], dict[Axis, Axis]]]:
    """Over which axes a sum has these axes, and where it is read then: along them, or along others.

    What reads `c[i]` and `c[j]` has `sum(dw[i', i], over=i')` for the second. They are as long where they stand for one
    another in an element of a tensor; a place alone, as in `delta(0, k)`, says nothing of that.
    """
    yield set(of) - set(axes), {}
    for left in combinations(of, len(axes)):
        if left != axes:
            yield set(of) - set(left), dict(zip(left, axes, strict=True))


def _ratios(value: Expr, total: Expr, over: set[Axis]) -> tuple[Expr, ...]:
    """What a term of the one may be of one of the other: a number, or a product of what no sum runs over."""
    first = Add.make_args(value)[0]
    sums = first.atoms(Sigma)  # which have to cancel
    found = (first / t for t in Add.make_args(total) if t != 0 and t.atoms(Sigma) == sums)
    return tuple(r for r in found if not r.atoms(Sigma, Delta) and not free_axes(r) & over)
