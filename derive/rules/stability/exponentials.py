"""What exponentials are of, alone, weighed, or left out where a condition fails; and what is taken off their exponents.

An expression is `exp(shift) * value`: a product adds the shifts of its factors, a sum has that of all its terms, and
the logarithm is `shift + log(value)`. A softmax's shares have none left: what is taken off cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from sympy import Add, Eq, Expr, Mul, Pow, S, exp, log

from derive.facts.interpreter import facts_of
from derive.ir.equations import Equation, Op, inline
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, tensor_names
from derive.ir.terms.functions import capped
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
    differences = [e.body for at in exponent.atoms(At) if (e := equations.get(at.name)) and isinstance(e.body, Add)]
    taken_off = {-term for body in differences for term in body.args if isinstance(-term, At)}
    if any(_is_largest(at.name, equations) for at in exponent.atoms(At) | taken_off):
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


@dataclass(frozen=True)
class Shifted:
    """How expressions are read where sums of exponentials lose a shift, which is never below any of their exponents."""

    taken: Callable[[Expr], tuple[Expr, Expr] | None]  # such a sum without its shift, and that; None of anything else
    largest: Collection[str]  # the tensors that shifts read
    sign: Expr = S.One  # of these in a shift
    capped: Expr | None = None  # an exponent that may be above its shift, where a factor with a gradient is 0
    beside: Collection[Expr] = ()  # exponents of what is added to such sums, which the shift bounds too
    apart: bool = True  # whether the logarithm of a product has that of each factor: log_shares knows plain shares

    def put(self, value: Expr) -> Expr | None:
        """The expression by sums without their shifts; None where these do not cancel."""
        made = self._closed(*self._of(value))
        return made if all(map(self._is_small, made.atoms(exp))) else None

    def _of(self, value: Expr) -> tuple[Expr, Expr]:
        """What an expression is without its shift, and that."""
        if (found := self.taken(value)) is not None:
            return found
        parts = [self._of(a) for a in (() if isinstance(value, At) else value.args)]  # of conditions as well
        if isinstance(value, Mul):
            return Mul(*(v for v, _ in parts)), Add(*(s for _, s in parts))
        if isinstance(value, Pow) and value.exp.is_number:
            return parts[0][0] ** value.exp, parts[0][1] * value.exp
        if isinstance(value, Add):
            shifts = {s for _, s in parts if s != 0}
            shift = shifts.pop() if len(shifts) == 1 else S.Zero
            above = self.beside and (self.sign * shift.as_coeff_Mul()[0]).is_positive  # what is beside is no larger
            shift = shift if above or all(s != 0 for _, s in parts) else S.Zero
            return Add(*(self._closed(v, s - shift) for v, s in parts)), shift
        if isinstance(value, log):
            return self._logarithm(*parts[0]), S.Zero
        args = tuple(self._closed(v, s) for v, s in parts)
        return value if not args or args == value.args else value.func(*args), S.Zero

    def _closed(self, value: Expr, shift: Expr) -> Expr:
        """The product of a value and the exponential of a shift, as one with all that it has."""
        if shift == 0:
            return value
        own = [f for f in Mul.make_args(value) if isinstance(f, exp)]
        exponent = Add(*(f.args[0] for f in own), shift)
        exponent = capped(exponent) if self.capped in [f.args[0] for f in own] else exponent
        return Mul(*(f for f in Mul.make_args(value) if f not in own), exp(exponent))

    def _logarithm(self, value: Expr, shift: Expr) -> Expr:
        own = [f for f in Mul.make_args(value) if isinstance(f, exp)]
        if own and not self.apart:
            return log(self._closed(value, shift))
        rest = Mul(*(f for f in Mul.make_args(value) if f not in own))
        turned = isinstance(rest, Pow) and rest.exp == -1
        return Add(shift, *(f.args[0] for f in own), -log(1 / rest) if turned else log(rest))

    def _is_small(self, f: Expr) -> bool:
        """Whether an exponential is not of a shift alone, and of none that is added, or of a part of one."""
        terms = Add.make_args(f.args[0].args[0] if isinstance(f.args[0], capped) else f.args[0])
        own = [t for t in terms if tensor_names(t) & set(self.largest)]
        others = any(t.atoms(At) for t in terms if t not in own)
        times = [-self.sign * t.as_coeff_Mul()[0] for t in own]
        return not own or ((others or S.Zero in self.beside) and all(n.is_Integer and n > 0 for n in times))
