"""What a spec's author wrote, as an equation has it: SymPy's own functions as ours, signs known, decimals exact."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from typing import Any

from sympy import (
    Abs,
    Basic,
    Equality,
    Expr,
    Function,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Piecewise,
    Pow,
    S,
    Unequality,
    exp,
    floor,
    gamma,
    log,
    pi,
    sqrt,
)
from sympy import atan2 as sympy_atan2
from sympy import loggamma as sympy_loggamma
from sympy import sign as sympy_sign
from sympy.core.relational import Relational
from sympy.logic.boolalg import to_nnf

from derive.errors import DeriveError
from derive.ir.equations import Equation
from derive.ir.terms.asked import asked
from derive.ir.terms.axes import Size, free_axes
from derive.ir.terms.choices import BELOW_ALL, Where
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.functions import atan2, loggamma, power
from derive.ir.terms.kinks import absolute, maximum, minimum, sign
from derive.ir.terms.products import factors_of
from derive.ir.terms.reductions import Reduce
from derive.notation.decimals import exact


def as_recorded(expr: Basic, known: Mapping[Basic, Tensor]) -> Any:
    """The expression with what is `known` of the tensors, by how they were read (`unsigned`)."""
    return _masks_last(exact(_canonical(settled(expr).xreplace(known))))


def settled(expr: Basic) -> Any:
    """The expression with its comparisons left to the numbers, so that no sign that is known later answers them."""
    return asked(expr, At).xreplace({BELOW_ALL: S.NegativeInfinity})


def unsigned(equation: Equation, infinite: Collection[str]) -> Tensor:
    """An equation's tensor as later equations read it while they are written: without its sign.

    Of one that may be `infinite` not even that it is real is told, lest SymPy take `exp` of it for positive, or answer
    `f.m[t] > -oo` itself.
    """
    if equation.target.is_integer:
        return equation.target
    return Tensor.of_any_value(equation.name) if equation.name in infinite else Tensor(equation.name)


def may_be_infinite(equation: Equation, infinite: Collection[str]) -> bool:
    """Whether an equation writes -oo or oo, or reads a tensor that may be `infinite`."""
    written = equation.body.has(S.NegativeInfinity, S.Infinity)
    return bool(written or any(at.name in infinite for at in equation.body.atoms(At)))


def _canonical(expr: Basic) -> Any:
    """SymPy's absolute value, sign, angle and extrema as ours, whose derivatives follow PyTorch at singular points."""
    expr = expr.replace(lambda e: isinstance(e, Mul) and e.has(Abs), _absolute_powers).replace(Abs, absolute)
    expr = expr.replace(sympy_sign, sign).replace(sympy_atan2, atan2).replace(sympy_loggamma, loggamma)
    expr = expr.replace(lambda e: isinstance(e, log) and e.has(gamma), _log_of_gamma)
    expr = expr.replace(lambda e: isinstance(e, Pow) and not e.exp.is_number, lambda e: _symbolic_power(e))
    expr = expr.replace(lambda e: isinstance(e, Piecewise), _choices)
    expr = expr.replace(lambda e: isinstance(e, Reduce), _shed)
    expr = expr.replace(Max, lambda *a: reduce(maximum, a)).replace(Min, lambda *a: reduce(minimum, a))
    return expr


def _log_of_gamma(e: Expr) -> Expr:
    """What SymPy makes of `loggamma` of a whole number of places and lengths, or of half of one, as that again."""
    inside = e.args[0]
    for p in sorted((g.args[0] for g in inside.atoms(gamma)), key=str):
        if inside == gamma(p):
            return loggamma(p)
        if inside == sqrt(pi) * 2 ** (1 - p) * gamma(p) / gamma((p + 1) / 2):
            return loggamma(p / 2)
    return e


def _absolute_powers(e: Expr) -> Expr:
    """SymPy's `Abs(x) / x**4` as `absolute(x)**-3`, which it has for it: a value also where `x**4` is 0 or infinite."""
    for f in factors_of(e, Abs):
        have, squared = e.as_powers_dict(), (f.args[0] ** 2).as_powers_dict()
        times = [-have[b] / n for b, n in squared.items()]
        if all(t.is_Integer and t > 0 for t in times):
            e = e / f * f.args[0] ** (2 * min(times)) * absolute(f.args[0]) ** (1 - 2 * min(times))
    return e


def _shed(e: Reduce) -> Expr:
    """A reduction over the axes that its body has; a sum over any other multiplies by its length."""
    own = [a for a in e.over if a in free_axes(e.body)]
    times = Mul(*(Size(a) for a in e.over if a not in own)) if e.kind == "sum" else S.One
    return times * (Reduce(e.kind, e.body, *own) if own else e.body)


def _choices(e: Piecewise) -> Expr:
    """SymPy's own cases as nested choices; the last must hold everywhere."""
    (last, always), *others = reversed(e.args)
    if always != True:  # noqa: E712  (SymPy's truth)
        raise DeriveError("a Piecewise leaves a case open", fix="end it with (value, True)")
    for value, condition in others:
        last = Where(condition, value, last)
    return last


_NOTHING = (S.Zero, S.NegativeInfinity, S.Infinity)
"""What a masked place adds to a sum, a maximum or a minimum."""


def _masks_last(expr: Basic) -> Any:
    """Choices with what is masked out as their other value: `where(j > i, -oo, s)` is `where(j <= i, s, -oo)`."""
    return expr.replace(lambda e: isinstance(e, Where) and _is_masked_first(e), _turned)


def _is_masked_first(e: Where) -> bool:
    masked, value = e.args[1], e.args[2]
    return masked in _NOTHING and value not in _NOTHING and all(map(_is_negatable, e.condition.atoms(Relational)))


def _is_negatable(asked: Relational) -> bool:
    """Whether it holds or its opposite does: of nan `x > 0` and `x <= 0` are both false."""
    of_places = bool(free_axes(asked)) and all(at.is_integer for at in asked.atoms(At))
    return (of_places and _is_never_nan(asked)) or isinstance(asked, Equality | Unequality)


def _is_never_nan(asked: Relational) -> bool:
    """Whether places are only added, multiplied and divided by lengths: `sqrt(i - 3)` is nan of the first ones."""
    bases = (p.base for p in asked.atoms(Pow) if not (p.exp.is_Integer and p.exp.is_positive))
    plain = all(isinstance(base, Size) or base.is_number for base in bases)
    return plain and all(isinstance(f, floor | Mod) for f in asked.atoms(Function))


def _turned(e: Where) -> Expr:
    condition, masked, value = e.args
    return Where(to_nnf(Not(condition), simplify=False), value, masked)


def _symbolic_power(e: Pow) -> Expr:
    return e if isinstance(e, exp) or (not e.base.atoms(At) and not e.exp.atoms(At)) else power(e.base, e.exp)
