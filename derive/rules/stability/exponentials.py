"""What exponentials are of: `exp(z)` alone, weighed, or left out where a condition fails, under a name or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sympy import Eq, Expr, Mul, S, exp

from derive.facts.interpreter import facts_of
from derive.ir.equations import Equation, Op, inline
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At
from derive.ir.terms.kinks import maximum, minimum
from derive.primitives import CAP


def exponentials(op: Op) -> dict[str, Equation]:
    """The equations that are exponentials, each in full."""
    found: dict[str, Equation] = {}
    for e in op.equations:
        value = inline(e.body, found) if e.kind is None and e.is_plain else S.Zero
        if exponent_of(value) is not None:
            found[e.name] = replace(e, body=value.replace(is_left_out, lambda f: exp(exponent_of(f))))
    return found


def exponent_of(value: Expr) -> Expr | None:
    """What an exponential is of, -oo where it is left out; nothing for another value, or for one at a chosen place.

    What it is multiplied with may be anything that has no exponential; what is divided may be a share.
    """
    if isinstance(value, Mul):
        found = [f for f in value.args if f.has(exp)]
        below = [f for f in value.args if f not in found and f.as_base_exp()[1].could_extract_minus_sign()]
        divided = any(f.atoms(At) for f in below)
        return exponent_of(found[0]) if len(found) == 1 and not divided else None
    if isinstance(value, Where) and value.args[2] == 0 and not value.condition.atoms(Eq):
        inner = exponent_of(value.args[1])
        return None if inner is None else Where(value.args[0], inner, -S.Infinity)
    return value.args[0] if isinstance(value, exp) else None


def weights(body: Expr) -> list[Expr]:
    """What exponentials are multiplied with."""
    return [f for f in Mul.make_args(body) if not f.has(exp)]


def is_left_out(value: Expr) -> bool:
    return isinstance(value, Where) and exponent_of(value) is not None


def may_be_large(exponent: Expr, op: Op) -> bool:
    """Whether nothing is known to keep exponents small: no maximum that is taken off them, no function with a bound."""
    equations = {e.name: e for e in op.equations}
    if any(_is_largest(at.name, equations) for at in exponent.atoms(At)):
        return False
    left_out = facts_of(op).of(exponent.xreplace({-S.Infinity: S.Zero}))  # of which the exponential is 0
    return bool(exponent.atoms(At)) and (left_out.low < -CAP or left_out.high > CAP)


def _is_largest(name: str, equations: Mapping[str, Equation]) -> bool:
    """Whether a tensor is a maximum or a minimum, or the larger of one and something else."""
    e = equations.get(name)
    if e is None or e.kind is not None or not isinstance(e.body, maximum | minimum):
        return e is not None and e.kind in ("amax", "amin")
    return any(_is_largest(at.name, equations) for at in e.body.args if isinstance(at, At))


def has_gradient(value: Expr, op: Op) -> bool:
    """Whether an input that has a gradient is among what a value is made of."""
    needed = {o.name for o in op.differentiable}
    for e in op.equations:
        if not e.free and any(at.name in needed for at in e.reads):
            needed.add(e.name)
    return any(at.name in needed for at in value.atoms(At))
