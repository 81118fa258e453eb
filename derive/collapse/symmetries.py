"""Law: a tensor that stays the same, or changes its sign alone, when two axes change places is read in one order.

A Gram matrix `g[d, e] = sum_n(x[n, d]*x[n, e])` has the gradient `sum_e(x[n, e]*dg[d, e]) + sum_e(x[n, e]*dg[e, d])`;
where `dg` is made of `g` alone it is symmetric too, and both sums are one. So are those over both ends of every pair
`x[i] - x[j]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from sympy import Add, Basic, Expr, Mul
from sympy.core.relational import Eq, Ne

from derive.adjoint.chain_rule import Adjoint, Stepwise
from derive.collapse.chain import Step
from derive.ir.algebra import normal, opened, sigma
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At, Delta
from derive.ir.terms.kinks import absolute, sign
from derive.ir.terms.products import factors_of
from derive.ir.terms.reductions import Sigma


@dataclass(frozen=True)
class Symmetry:
    """`of[…, a, …, b, …]` is `sign` times `of[…, b, …, a, …]`, at these two positions, whose axes are `axes`."""

    of: str
    first: int
    second: int
    axes: tuple[Axis, Axis]
    sign: int
    tied: bool = True  # the axes are as long as one another: not so where the tensor repeats one number along both

    def __str__(self) -> str:
        a, b = self.axes
        what = "stays the same" if self.sign > 0 else "changes its sign"
        return f"{self.of} {what} when {a} and {b} change places"


Symmetries = dict[str, tuple[Symmetry, ...]]


def in_one_order(steps: Stepwise) -> tuple[Stepwise, tuple[Step, ...]]:
    """The adjoints with sums over a symmetric tensor's first axis as sums over its second, and why."""
    known: Symmetries = {}
    for e in steps.op.equations:
        if e.is_plain and e.kind in (None, "sum", "mean"):
            known[e.name] = tuple(_symmetries(e.name, e.axes, e.body, known))
    adjoints: list[Adjoint] = []
    history: list[Step] = []
    for adjoint in steps.adjoints:
        used: dict[Symmetry, None] = {}
        parts = tuple(replace(c, value=_turned(c.value, known, used)) for c in adjoint.contributions)
        turned = replace(adjoint, contributions=parts)
        if turned.value != adjoint.value:
            history.append(Step("symmetry", adjoint.left, adjoint.value, turned.value, "; ".join(map(str, used))))
            adjoint = turned
        known[adjoint.target.name] = tuple(_symmetries(adjoint.target.name, adjoint.axes, adjoint.value, known))
        adjoints.append(adjoint)
    return (replace(steps, adjoints=tuple(adjoints)), tuple(history)) if history else (steps, ())


def _symmetries(name: str, axes: tuple[Axis, ...], body: Expr, known: Symmetries) -> Iterator[Symmetry]:
    """Every pair of a tensor's axes that may change places. Where they index the same tensors, they are as long."""
    indexed = {i for at in body.atoms(At) if all(s.tied for s in known.get(at.name, ())) for i in at.index}
    for (k, a), (m, b) in combinations(enumerate(axes), 2):
        if a.is_pack or b.is_pack:
            continue
        if not {a, b} & free_axes(body):
            yield Symmetry(name, k, m, (a, b), 1, tied=False)
        elif {a, b} <= indexed:
            plain, swapped = _sorted(body, known), _sorted(body.xreplace({a: b, b: a}), known)
            if swapped == plain:
                yield Symmetry(name, k, m, (a, b), 1)
            elif swapped == normal(-plain):
                yield Symmetry(name, k, m, (a, b), -1)


def _sorted(body: Expr, known: Symmetries) -> Expr:
    """The normal form with the indices of every symmetric element, delta and comparison in one order."""
    put: dict[Basic, Basic] = {at: _in_order(at, known) for at in body.atoms(At) if at.name in known}
    for asked in body.atoms(Eq, Ne, Delta):
        a, b = asked.args
        if b.sort_key() < a.sort_key():
            put[asked] = asked.func(b, a)
    return normal(_signs_out(body.xreplace(put)))


def _signs_out(body: Expr) -> Expr:
    """`sign(b - a)` as `-sign(a - b)`, and `|b - a|` as `|a - b|`. SymPy's own functions do this by themselves."""
    for function, factor in ((sign, -1), (absolute, 1)):
        for f in body.atoms(function):
            (x,) = f.args
            if x.could_extract_minus_sign():
                body = body.xreplace({f: factor * function(-x)})
    return body


def _in_order(at: At, known: Symmetries) -> Expr:
    factor = 1
    while True:
        wrong = (s for s in known[at.name] if at.index[s.second].sort_key() < at.index[s.first].sort_key())
        s = next(wrong, None)
        if s is None:
            return factor * at
        at, factor = _swapped(at, s), factor * s.sign


def _swapped(at: At, s: Symmetry) -> At:
    index = list(at.index)
    index[s.first], index[s.second] = index[s.second], index[s.first]
    return At(at.tensor, *index)


def _turned(value: Expr, known: Symmetries, used: dict[Symmetry, None]) -> Expr:
    """The value with every sum over the first of a symmetric tensor's two axes as one over the second."""
    terms = [[_turned_sum(f, known, used) if isinstance(f, Sigma) else f for f in Mul.make_args(term)]
             for term in Add.make_args(value)]  # fmt: skip
    return normal(Add(*(Mul(*factors) for factors in terms))) if used else value


def _turned_sum(total: Sigma, known: Symmetries, used: dict[Symmetry, None]) -> Expr:
    body, bound = opened(total)
    magnitudes = [f.args[0] for f in factors_of(body, absolute) if isinstance(f.args[0], At)]
    for at in sorted([*factors_of(body, At), *magnitudes], key=lambda a: a.sort_key()):
        for s in known.get(at.name, ()):
            first, second = at.index[s.first], at.index[s.second]
            if s.tied and first in bound and isinstance(second, Axis) and second not in bound:
                turned = _changed_places(body, at, s)
                if turned is None:
                    continue
                axis = s.axes[1].copied(first.copy_number)
                used[s] = None
                return sigma(turned.xreplace({first: axis}), [axis if a == first else a for a in bound])
    return total


def _changed_places(body: Expr, at: At, s: Symmetry) -> Expr | None:
    """A product with the two indices of an element in the other order; None where it is a function of its sign."""
    there = body.xreplace({at: _swapped(at, s)})
    right = _signs_out(body.xreplace({at: Mul(s.sign, _swapped(at, s))}))
    return right if right in (there, -there) else None
