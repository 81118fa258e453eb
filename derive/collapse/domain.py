"""Where a form holds: it divides by nothing but what the chain rule divides by, or what the spec says is not 0."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache

from sympy import Add, Expr, Mul

from derive.adjoint.chain_rule import Stepwise
from derive.collapse.inversions import Inversion, cannot_vanish
from derive.collapse.relations import Relations
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Scalar, tensor_names
from derive.schedule.definitions import Definition


@lru_cache(maxsize=8)
def divisors(steps: Stepwise) -> frozenset[str]:
    """What the chain rule itself divides by, and the tensors declared not to be 0: nothing else may be divided by."""
    declared = frozenset(o.name for o in steps.op.operands if o.assumed)
    return declared | {name for a in steps.adjoints for name in divided_by(a.value)}


def outside_domain(definitions: list[Definition], allowed: Set[str]) -> bool:
    """Whether definitions divide by a tensor that is not allowed."""
    return any(name not in allowed for d in definitions for name in divided_by(d.value))


@lru_cache(maxsize=200_000)
def divided_by(value: Expr) -> frozenset[str]:
    """The tensors, numbers and functions that an expression divides by: what is positive on paper may underflow."""
    out: frozenset[str] = frozenset()
    for term in Add.make_args(value):
        for f in Mul.make_args(term):
            base, exponent = f.as_base_exp()
            if exponent.could_extract_minus_sign():
                out |= _may_vanish(base)
            for inner in getattr(f, "over", ()) and [f.body]:
                out |= divided_by(inner)
    return out


def _may_vanish(base: Expr) -> set[str]:
    """What a divisor is, for any that may be 0; of a choice what it may be, since any branch may be the one taken."""
    if isinstance(base, At | Scalar):
        return {base.name}
    if isinstance(base, Where):
        return set().union(*map(_may_vanish, base.args[1:]))
    if isinstance(base, Mul):
        return set().union(*map(_may_vanish, base.args))
    if cannot_vanish(base) and (not tensor_names(base) or (isinstance(base, Add) and _holds_a_number(base))):
        return set()
    return {f"{base.func.__name__} of {sorted(tensor_names(base))}"}


def undivided(known: Relations, allowed: Set[str]) -> Relations:
    """The identities that divide by nothing but what may be divided by."""
    return {names: tuple(r for r in some if not divided_by(r.value) - allowed) for names, some in known.items()}


def conditions(known: tuple[Inversion, ...]) -> set[str]:
    """The tensors that conditional eliminations divide by."""
    return {name for i in known if i.nonzero is not None for name in tensor_names(i.nonzero)}


def _holds_a_number(total: Add) -> bool:
    """Whether a term is a number: 1 + exp(x) does not vanish by underflow, as two gates that both do may."""
    return any(term.is_number for term in total.args)
