"""Where a form holds: it divides by nothing but what the chain rule divides by, or what the spec says is not 0."""

from __future__ import annotations

from sympy import Add, Function, Mul

from derive.adjoint import Stepwise
from derive.collapse.inversions import Inversion
from derive.collapse.relations import Relations
from derive.lowering.definitions import Definition
from derive.terms.elements import At, Scalar, tensor_names


def divisors(steps: Stepwise) -> set[str]:
    """What the chain rule itself divides by, and the tensors declared not to be 0: nothing else may be divided by."""
    declared = {o.name for o in steps.op.operands if o.assumed}
    return declared | {name for a in steps.adjoints for name in divided_by(a.value)}


def outside_domain(definitions: list[Definition], allowed: set[str]) -> bool:
    """Whether definitions divide by a tensor that is not allowed."""
    return any(name not in allowed for d in definitions for name in divided_by(d.value))


def divided_by(value: object) -> set[str]:
    """The tensors, numbers and functions that an expression divides by: what is positive on paper may underflow."""
    out: set[str] = set()
    for term in Add.make_args(value):
        for f in Mul.make_args(term):
            base, exponent = f.as_base_exp()
            if exponent.is_number and exponent.is_negative and isinstance(base, At | Scalar | Function):
                named = isinstance(base, At | Scalar)
                out.add(base.name if named else f"{base.func.__name__} of {sorted(tensor_names(base))}")
            elif exponent.is_number and exponent.is_negative and isinstance(base, Add) and not _holds_a_number(base):
                out.add(f"sum of {sorted(tensor_names(base))}")  # two gates that both underflow
            for inner in getattr(f, "over", ()) and [f.body]:
                out |= divided_by(inner)
    return out


def undivided(known: Relations, allowed: set[str]) -> Relations:
    """The identities that divide by nothing but what may be divided by."""
    return {names: tuple(r for r in some if not divided_by(r.value) - allowed) for names, some in known.items()}


def conditions(known: tuple[Inversion, ...]) -> set[str]:
    """The tensors that conditional eliminations divide by."""
    return {name for i in known if i.nonzero is not None for name in tensor_names(i.nonzero)}


def _holds_a_number(total: Add) -> bool:
    """Whether a term is a number: 1 + exp(x) does not vanish by underflow, as x - 1 may at one place alone."""
    return any(term.is_number for term in total.args)
