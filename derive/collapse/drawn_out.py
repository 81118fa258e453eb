"""Law: a factor that a choice has wherever it is not 0 stands before it: `where(c, 0, s*a)` is `s*where(c, 0, a)`.

There it may meet what divides by it: the gradient of `s*clamp(x/s)` by cases is that of the clamp, without `s`.
"""

from __future__ import annotations

from sympy import Expr, Mul, Pow, S

from derive.facts.interpreter import Facts
from derive.ir.terms.axes import free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Scalar


def drawn_out(value: Expr, values: Facts) -> tuple[Expr, tuple[str, ...]]:
    """A value with numbers and finite tensors of fewer axes before each choice that has them, and what these are."""
    put: dict[Expr, Expr] = {}
    used: dict[str, None] = {}
    for choice in sorted(value.atoms(Where), key=lambda w: w.sort_key()):
        common = sorted(_common(choice, choice, values), key=lambda f: f.sort_key())
        if common:
            put[choice] = Mul(*common, _divided(choice, Mul(*common)))
            used.update((f"{f} is a factor of {choice}", None) for f in common)
    return (value.xreplace(put).replace(_is_power, _of_powers), tuple(used)) if put else (value, ())


def _is_power(value: Expr) -> bool:
    """Whether it is a power of something or 0, of which two became one factor: a mask's, it hides what is infinite."""
    return isinstance(value, Pow) and isinstance(value.base, Where) and value.exp.is_positive and 0 in value.base.args


def _of_powers(value: Pow) -> Expr:
    condition, *branches = value.base.args
    return Where(condition, *(b**value.exp for b in branches))


def _common(value: Expr, choice: Where, values: Facts) -> set[Expr]:
    """The factors of a value, in every branch that is not 0, that a choice can have before it: 0 times them is 0."""
    if isinstance(value, Where):
        branches = [_common(b, choice, values) for b in value.args[1:] if b != 0]
        return set.intersection(*branches)
    return {f for f in Mul.make_args(value) if _is_small(f, values) and free_axes(f) < free_axes(choice)}


def _is_small(factor: Expr, values: Facts) -> bool:
    return isinstance(factor, Scalar | At) and values.of(factor).is_finite


def _divided(value: Expr, factor: Expr) -> Expr:
    if isinstance(value, Where):
        condition, a, b = value.args
        return Where(condition, _divided(a, factor), _divided(b, factor))
    return S.Zero if value == 0 else value / factor
