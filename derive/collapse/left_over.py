"""Law: `a = (t - B)/A` eliminates `a` where what it subtracts cancels: nothing of `B` that it brought in may be left.

With `z = u + r`, `g*r*u/z` is no `g*r*(z - r)/z`: beside a large `r` the digits of `u` are gone from `z`. But
`g*u + g*r` is `g*z`. What stood in the value before is told apart from what was brought in, which is marked.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Expr, S, expand_mul

from derive.collapse.inversions import Inversion
from derive.ir.algebra import normal
from derive.ir.terms.elements import Scalar


class _Mark(Scalar):
    """A number that is 1, and says of a term by which elimination it came."""


def marked(inversion: Inversion, subtracted: Expr) -> Inversion:
    """The inversion with a mark on what it subtracts."""
    rest = expand_mul(inversion.value) - expand_mul(subtracted)
    return replace(inversion, value=rest + expand_mul(_Mark(inversion.of) * subtracted))


def left_over(value: Expr, with_marks: Expr) -> set[str]:
    """The tensors whose elimination has left in the value what it subtracts; `with_marks` is the value with its marks.

    A term that was in the value before, and from which less than all is taken, is no such one: `a + 2*r` is `t + r`.
    """
    before: dict[Expr, Expr] = {}
    brought: dict[Expr, set[str]] = {}
    for term in Add.make_args(with_marks):
        marks = term.atoms(_Mark)
        for t in Add.make_args(normal(term.xreplace(dict.fromkeys(marks, S.One)))):
            number, rest = t.as_coeff_Mul()
            if marks:
                brought.setdefault(rest, set()).update(m.name for m in marks)
            else:
                before[rest] = before.get(rest, S.Zero) + number
    out: set[str] = set()
    for t in Add.make_args(value):
        number, rest = t.as_coeff_Mul()
        had = before.get(rest, S.Zero)
        if not (0 < number < had or had < number < 0):
            out |= brought.get(rest, set())
    return out
