"""Law: a sum that an adjoint is by name goes by that name, where terms then cancel: `mu*sum(dy) - dsh*mu` is 0.

For `y = a*x + sh` with `sh = b - mu*a`, `da = sum(dy*x) - dsh*mu` where `dsh = sum(dy)`. By way of
`x = x_minus_mu + mu` the first is `sum(dy*x_minus_mu) + mu*sum(dy)`: what is left of `mu` would be a tensor less
itself, which is no number where `dy` is infinite, and would keep `mu`. Where nothing cancels, sums get their names as
statements are made.
"""

from __future__ import annotations

from collections.abc import Iterable

from sympy import Add, Expr

from derive.adjoint.chain_rule import Adjoint, Stepwise
from derive.ir.matching import match
from derive.ir.terms.elements import At, tensor_names
from derive.ir.terms.reductions import Sigma

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
    """The value with what cancels once sums go by these names gone, and why; the same where nothing does."""
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
