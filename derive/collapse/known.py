"""What has a name goes by that name: an element read at places, a product, a sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from sympy import Add, Expr, Mul

from derive.adjoint.chain_rule import Adjoint, Stepwise
from derive.ir.equations import Equation, Op
from derive.ir.matching import match
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At, reads_of, tensor_names
from derive.ir.terms.reductions import Sigma

# --- elements at places ---------------------------------------------------------------------------------------------

Gathers = dict[str, tuple[tuple[At, At], ...]]
"""By the name of a tensor, its elements at places, each with what the forward calls it."""


def gathers(op: Op) -> Gathers:
    """The equations `t[n, k] = p[n, ix[n, k]]` of an op."""
    found: Gathers = {}
    for e in op.equations:
        is_gather = e.kind is None and e.is_plain and isinstance(e.body, At) and _at_places(e.body)
        if is_gather and free_axes(e.body) == set(e.axes):
            found[e.body.name] = (*found.get(e.body.name, ()), (e.body, e.left))
    return found


def use_gathers(value: Expr, known: Gathers) -> tuple[Expr, tuple[str, ...]]:
    """Law: what is read at places where the forward reads it under a name goes by that name: `p[n, ix[n, k]]` is
    `t[n, k]`.

    So what is known of `t` is known there too: of `w = t / sum(t)`, the shares of those chosen of a softmax, the
    gradient reaches `p` through `t` alone, and a sum of `dt * p[n, ix[n, k]]` is one of `dt * t`, which is 0. Only what
    vanishes is shown by it: where a sum stays, `p` is there to be looked up, and `t` would be kept beside it.
    """
    put, used = {}, list[str]()
    for at in sorted((at for at in value.atoms(At) if at.name in known), key=lambda at: at.sort_key()):
        for place, name in known[at.name]:
            axes = match(Sigma(place), Sigma(at)) if _at_places(at) else None
            if axes is not None and all(isinstance(a, Axis) for a in axes.values()):
                put[at] = name.xreplace(dict(axes))
                used.append(f"{name} = {place}")
    return (value.xreplace(put) if put else value), tuple(dict.fromkeys(used))


def _at_places(at: At) -> bool:
    return any(isinstance(i, At) for i in at.index)


# --- products -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def products(op: Op) -> tuple[Equation, ...]:
    """The inner equations of an op that are products of several tensors, in order."""
    inner = (e for e in op.equations if e.name not in op.outputs and e.names_its_body and not e.first)
    return tuple(e for e in inner if _is_product(e.body))


def by_products(value: Expr, known: tuple[Equation, ...]) -> Iterator[Expr]:
    """Law: a product that the forward has goes by its name: with `u = m*e`, `c*m*e` is `c*u`.

    Nothing is divided by, as it would be if `u` gave `e`: `m` may be 0. So it is with a quotient, `p = u/s`. The
    weights `m*exp(s)` of a masked softmax are kept as its shares then, and neither `m` nor `exp(s)`. The value with all
    of them by name comes first, then with fewer, then with one alone.
    """
    found, current = list[Expr](), value
    for equation in known:
        changed = _by(current, equation)
        if changed != current:
            found, current = [changed, *found], changed
    yield from dict.fromkeys([*found, *(one for e in known if (one := _by(value, e)) != value)])


def _is_product(body: Expr) -> bool:
    powers = body.as_powers_dict()
    tensors = [b for b, e in powers.items() if isinstance(b, At) and e.is_Integer]
    return len(tensors) > 1 and all(b in tensors or not reads_of(b) for b in powers)


def _by(value: Expr, equation: Equation) -> Expr:
    if not tensor_names(equation.body) <= tensor_names(value):
        return value
    number, product = equation.body.as_coeff_Mul()
    wanted = product.as_powers_dict()
    terms = []
    for term in Add.make_args(value):
        have = term.as_powers_dict()
        there = all((have.get(b, 0) / e).is_positive and (have[b] / e) >= 1 for b, e in wanted.items())
        terms.append(term / Mul(product, number) * equation.left if there else term)
    return Add(*terms)


# --- sums -----------------------------------------------------------------------------------------------------------

Sums = dict[str, tuple[Adjoint, ...]]
"""The adjoints before each that are sums, by the tensor that it is the adjoint of."""


def sums_before(steps: Stepwise) -> Sums:
    """What each adjoint may read as a sum with a name: none that comes after it, which may read it."""
    found: Sums = {}
    known: tuple[Adjoint, ...] = ()
    for adjoint in steps.adjoints:
        found[adjoint.of] = known
        known += (adjoint,) if isinstance(adjoint.value.as_coeff_Mul()[1], Sigma) else ()
    return found


def cancelled(value: Expr, known: Iterable[Adjoint]) -> tuple[Expr, str]:
    """Law: a sum that an adjoint is by name goes by that name, where terms then cancel: `mu*sum(dy) - dsh*mu` is 0.

    For `y = a*x + sh` with `sh = b - mu*a`, `da = sum(dy*x) - dsh*mu` where `dsh = sum(dy)`. By way of
    `x = x_minus_mu + mu` the first is `sum(dy*x_minus_mu) + mu*sum(dy)`: what is left of `mu` would be a tensor less
    itself, which is no number where `dy` is infinite, and would keep `mu`.
    """
    why: list[str] = []
    terms, sums = Add.make_args(value), value.atoms(Sigma)
    for adjoint in known if len(terms) > 1 and sums else ():
        number, total = adjoint.value.as_coeff_Mul()
        after = value.xreplace({s: left / number for s in sums if (left := _named(adjoint, total, s)) is not None})
        if len(Add.make_args(after)) < len(terms):
            value, terms, sums = after, Add.make_args(after), after.atoms(Sigma)
            why.append(f"{adjoint.left} = {adjoint.value}")
    return value, "; ".join(why)


def _named(adjoint: Adjoint, total: Expr, candidate: Sigma) -> At | None:
    """The element of an adjoint that a sum is of which it is the general one; None where it is another."""
    alike = isinstance(total, Sigma) and tensor_names(total) == tensor_names(candidate)
    found = match(total, candidate) if alike else None
    return None if found is None else At(adjoint.target, *(found.get(a, a) for a in adjoint.axes))
