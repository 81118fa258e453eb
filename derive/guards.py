"""A gather in a branch that is not taken is not read: where the condition fails, place 0 is read in its stead.

`where(ne(y[n], -100), logp[n, y[n]], 0)` reads `logp[n, y_read[n]]` with `y_read[n] = where(ne(y[n], -100), y[n], 0)`,
so that `y` may hold -100. The value read there reaches nothing, and its adjoint is 0.
"""

from __future__ import annotations

from sympy import Basic, Expr, Not, S

from derive.asked import asked
from derive.equations import Equation
from derive.naming import free_name
from derive.terms.axes import Axis, free_axes
from derive.terms.choices import Where
from derive.terms.elements import At, Tensor


def guarded(rhs: Expr, known: list[Equation], taken: set[str]) -> tuple[Expr, list[Equation]]:
    """The right side with its guarded gathers by indices of their own, and the new ones' equations."""
    made: list[Equation] = []

    def branch(expr: Basic, condition: Expr | None) -> Basic:
        if isinstance(expr, Where):
            return Where(
                expr.condition,
                branch(expr.args[1], expr.condition),
                branch(expr.args[2], asked(Not(expr.condition), At)),
            )
        if isinstance(expr, At):
            return At(expr.tensor, *(index(i, condition) for i in expr.index))
        if not expr.args or not expr.atoms(At):
            return expr
        return expr.func(*(branch(a, condition) if isinstance(a, Expr) else a for a in expr.args))

    def index(i: Expr, condition: Expr | None) -> Expr:
        if condition is None or not isinstance(i, At) or not all(isinstance(a, Axis) for a in i.index):
            return i
        if not free_axes(condition) <= free_axes(i):
            return i
        body = Where(condition, i, S.Zero)
        for e in (*known, *made):
            if e.body == body and e.index == i.index:
                return At(e.target, *i.index)
        name = free_name(f"{i.name}_read", taken | {e.name for e in made})
        made.append(Equation(Tensor(name, integer=True), i.index, body))
        return At(made[-1].target, *i.index)

    return branch(rhs, None), made
