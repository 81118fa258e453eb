"""The logarithm of a share, `log(exp(x - m) / s)`, as a difference: `x - m - log(s)`.

A share underflows where it is small: its logarithm is infinite then, and 0 times that is nan. It is also a logarithm
for each element, where the sum has one for all that share it. Only where `m` is the maximum of what `s` adds up: `s`
has a term `exp(0)` then, so that its logarithm is neither far from 0 nor infinite. Without it `x - log(s)` would lose
the digits that `x` and `log(s)` have in common, and the logarithm of the share does not.

Of `where(p > 0, p * log(p), 0)` the share stands outside, `p * where(p > 0, log(p), 0)`: what is 0 by itself is not
asked for, and that shares add up to 1 is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from sympy import Add, Expr, Mul, Pow, S, StrictGreaterThan, exp, log

from derive.ir.equations import Equation, Op, inline
from derive.ir.lowering.lower import node
from derive.ir.nodes.naming import new_name_of
from derive.ir.terms.axes import free_axes, sorted_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Tensor, at_index
from derive.ir.terms.kinks import maximum, minimum
from derive.rules.stability.largest_off import LEAST, may_be_none


def with_logs_of_shares(op: Op) -> Op:
    """The same op with the logarithm of every such share as a difference, also where the share has a name."""
    known = _Known(op.names)
    for e in op.equations:
        body = e.body.replace(lambda f: isinstance(f, log), partial(known.rewritten, e))
        known.take(replace(e, body=body.replace(lambda f: isinstance(f, Where), known.unmasked)))
    return replace(op, equations=tuple(known.equations))


@dataclass
class _Known:
    """The equations so far, and which of them are maxima, sums with a term `exp(0)`, and shares of such sums."""

    taken: set[str]
    equations: list[Equation] = field(default_factory=list)
    maxima: dict[str, Equation] = field(default_factory=dict)
    sums: set[str] = field(default_factory=set)
    shares: dict[str, Equation] = field(default_factory=dict)  # and exponentials, in full
    logs: set[Tensor] = field(default_factory=set)  # such differences, which are finite

    def take(self, e: Equation) -> None:
        self.equations.append(e)
        full = inline(e.body, self.shares)
        if not e.is_plain:
            return
        if e.kind in ("amax", "amin"):
            self.maxima[e.name] = e
        elif e.kind is None and isinstance(of := _but_for_none(full), At) and of.name in self.maxima:
            self.maxima[e.name] = self.maxima[of.name]
        elif e.kind == "sum" and self.has_largest(e, full):
            self.sums.add(e.name)
        elif e.kind is None and self.logarithm(full) is not None:
            self.shares[e.name] = replace(e, body=full)

    def has_largest(self, e: Equation, body: Expr) -> bool:
        """Whether a sum is of exponentials of what their maximum over the same axes was taken off, or of multiples.

        A caller's number is taken to be positive: what a temperature below 0 leaves is all the larger.
        """
        exponent = body.args[0] if isinstance(body, exp) else S.Zero
        if isinstance(exponent, Mul):
            exponent = next((a for a in exponent.args if _is_temperature(exponent / a, e)), S.Zero)
        for term in Add.make_args(exponent):
            at, kind = (term, "amin") if isinstance(term, At) else (-term, "amax")
            largest = self.maxima.get(at.name) if isinstance(at, At) else None
            if largest is not None and largest.kind == kind and len(largest.over) == len(e.over):
                same = dict(zip(sorted_axes(largest.over), sorted_axes(e.over), strict=True))
                of = at_index(largest.body.xreplace(same), largest.axes, at.index)
                if exponent - term == (of if kind == "amax" else -of):
                    return True
        return False

    def logarithm(self, value: Expr) -> Expr | None:
        """What exponentials and the reciprocals of such sums add up to as logarithms; nothing for another value."""
        exponents = [f.args[0] for f in Mul.make_args(value) if isinstance(f, exp)]
        sums = [1 / f for f in Mul.make_args(value) if not isinstance(f, exp)]
        shared = all(isinstance(s, At) and s.name in self.sums for s in sums)
        return Add(*exponents, *(-log(s) for s in sums)) if shared else None

    def rewritten(self, e: Equation, f: Expr) -> Expr:
        """The logarithm of a share, or of the quotient of two, by its parts; of anything else as it is."""
        found = self.logarithm(inline(f.args[0], self.shares))
        if found is not None:
            return found if isinstance(found, At) else self.named(e, f, found)
        parts = [log(part) for part in f.args[0].as_numer_denom()]
        logs = [self.logarithm(inline(part.args[0], self.shares)) for part in parts if isinstance(part, log)]
        if len(logs) < 2 or None in logs:
            return f
        over, under = (self.named(e, part, own) for part, own in zip(parts, logs, strict=True))
        return over - under

    def unmasked(self, choice: Expr) -> Expr:
        """A choice between a multiple of a share and 0, by whether the share is above 0, with the share outside."""
        condition, value, other = choice.args
        share = condition.args[0] if isinstance(condition, StrictGreaterThan) and condition.args[1] == 0 else None
        factors = Mul.make_args(value)
        if share is None or other != 0 or share not in factors or self.logarithm(inline(share, self.shares)) is None:
            return choice
        if may_be_none(inline(share, self.shares), self.equations):  # shares of nothing are no numbers
            return choice
        rest = Mul(*(f for f in factors if f != share))
        finite = not rest.has(log, Pow, Where) and all(at.tensor in self.logs for at in rest.atoms(At))
        return share * Where(condition, rest, S.Zero) if finite else choice

    def named(self, e: Equation, f: Expr, value: Expr) -> At:
        """The difference under a name: `x - m` comes before anything else is added, which may be less near."""
        axes = tuple(a for a in (*e.axes, *e.over) if a in free_axes(value))
        made = Equation(Tensor(new_name_of(node(f), self.taken)), axes, value, given=False)
        self.logs.add(made.target)
        self.equations.append(made)
        return made.left


def _but_for_none(value: Expr) -> Expr | None:
    """The maximum or minimum that a value is, but where there is none."""
    if not isinstance(value, maximum | minimum):
        return None
    number, of = sorted(value.args, key=lambda a: not a.is_number)
    return of if number.is_Number and abs(number) >= -LEAST else None


def _is_temperature(factor: Expr, e: Equation) -> bool:
    """Whether a factor is one for all that is summed, and positive as far as is known."""
    alike = free_axes(factor).isdisjoint(e.over)
    return alike and (factor.is_positive or not factor.atoms(At)) and not factor.could_extract_minus_sign()
