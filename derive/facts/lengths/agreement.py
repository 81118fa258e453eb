"""Which lengths are the same for every input that an op takes, and which no input can have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd

from sympy import Expr, Min, S, expand, floor

from derive.errors import DeriveError
from derive.facts.domains import solved_for
from derive.ir.equations import Requirement
from derive.ir.terms.axes import Size

Lengths = dict[Expr, Expr]
"""Lengths by those of other axes."""
_OTHER_NAMES = "give axes whose lengths differ names of their own"


def agreed(needs: Iterable[Requirement], closed: Callable[[Expr], Expr]) -> Lengths:
    """What lengths are by one another once these hold; `closed` writes a length by those that inputs have.

    Raises DeriveError where no lengths at all can satisfy them.
    """
    needs, known = list(needs), Lengths()
    for r in (r for r in needs if r.relation == "=="):
        left, right = (in_terms(closed(side), known) for side in (r.left, r.right))
        slack = expand(left - right)
        if _is_never_zero(slack):
            raise _refused(r, f"{r.what} has length {left}, which is never {right}")
        if _are_only_zero(slack, left):
            raise _refused(r, f"{r.what} has length {left}, which is {right} only where both are 0", _untold(r, closed))
        solved = _solved(slack)
        if solved is not None:
            known = {k: in_terms(v, dict([solved])) for k, v in known.items()} | dict([solved])
    for r in (r for r in needs if r.relation == ">="):
        left, right = (in_terms(closed(side), known) for side in (r.left, r.right))
        if _is_below_zero(expand(left - right), or_zero=True):
            why = f"{r.what} needs {right} places of {r.where or r.what}, which never has more than {left}"
            raise _refused(r, why, _parts_of(r, needs, right / left))
    return known


def _refused(need: Requirement, why: str, fix: str = _OTHER_NAMES) -> DeriveError:
    return DeriveError(why, equation=need.equation, fix=fix)


def _untold(need: Requirement, closed: Callable[[Expr], Expr]) -> str:
    """What to write where an axis is as long as what it reads for want of another length."""
    found = sorted({s.axis.base for s in (need.left - need.right).atoms(Size) if closed(s) != s})
    if not found:
        return _OTHER_NAMES
    return f"say how long axis {found[0]} is, with a parameter such as count: length({found[0]})"


def _parts_of(need: Requirement, needs: Iterable[Requirement], times: Expr) -> str:
    """What to write where an axis that has all places of a dimension is to have those of a part: `x[e + size(e)]`."""
    own_times, part = need.right.as_coeff_Mul()
    if not isinstance(need.left, Size) or not isinstance(part, Size) or own_times != times or not times.is_Integer:
        return _OTHER_NAMES
    alike = (r.right.as_coeff_Mul() for r in needs if r.relation == ">=" and r.left == need.left)
    count = max(n for n, of in alike if of == part)
    whole, own = need.left.axis.base, part.axis.base
    read = f"{need.what.partition('[')[0]}[…, (p, {own})]"
    return (
        f"say where in {whole} a part of it begins, {own} + size({whole}) // {count}, "
        f'or take it apart before, f.z[…, p, {own}] = {read} with p = axes("p={count}"), and read f.z[…, 1, {own}]'
    )


def _solved(slack: Expr) -> tuple[Expr, Expr] | None:
    """A length and what it is where this is 0; of several, one that is others and some more places, not less."""
    found = []
    for length in sorted(slack.atoms(Size), key=str, reverse=True):
        other = solved_for(length, slack)
        if other is not None:
            found.append((length, expand(other)))
    return min(found, key=lambda pair: bool(pair[1].as_coeff_add()[0] < 0), default=None)


def in_terms(length: Expr, known: Lengths) -> Expr:
    """A length, in terms of those that agree with no others."""
    return expand(length.xreplace(known))


def _is_below_zero(slack: Expr, or_zero: bool = False) -> bool:
    """Whether it is, whatever the lengths are; or 0, where all of them are."""
    number, terms = slack.as_coeff_add()
    least = number < 0 or bool(or_zero and number == 0 and terms)
    return least and not slack.has(floor, Min) and all(t.as_coeff_Mul()[0] < 0 for t in terms)


def _are_only_zero(slack: Expr, side: Expr) -> bool:
    """Whether two sides agree only where each is 0, as `d` and `2*d` do: all that an op takes is then empty.

    In `i + j == i` one tensor of two is, which a caller may give.
    """
    alike = _is_below_zero(slack, or_zero=True) or _is_below_zero(expand(-slack), or_zero=True)
    return alike and side.xreplace(dict.fromkeys(slack.atoms(Size), S.Zero)) == 0


def _is_never_zero(slack: Expr) -> bool:
    """Whether a sum of lengths is 0 for none: all of one sign, or not divisible by what all lengths in it are."""
    if _is_below_zero(slack) or _is_below_zero(expand(-slack)):
        return True
    number, terms = slack.as_coeff_add()
    steps = [t.as_coeff_Mul()[0] for t in terms]
    whole = number.is_Integer and all(s.is_Integer for s in steps) and not slack.has(floor, Min)
    return bool(steps and whole and int(number) % gcd(*map(int, steps)))
