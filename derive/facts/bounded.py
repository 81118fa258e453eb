"""Which tensors of a forward are finite where its inputs are."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping

from sympy import Add, Basic, Expr, Mul, Number, Pow, S, Symbol, exp, oo

from derive.facts.lengths.kept_inside import gaps
from derive.ir.equations import Equation, Op, Operand
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Concat, Where
from derive.ir.terms.elements import At, Scalar
from derive.ir.terms.functions import having, power
from derive.ir.terms.kinks import maximum, minimum
from derive.primitives import CAP, FINITE, row

SMALLEST = 1e-12
"""What a finite value is divided by with a finite result."""


def polynomials(op: Op) -> frozenset[str]:
    """The tensors of the forward that are finite where the inputs are: see `is_polynomial`."""
    floors, equations = floored(op), {e.name: e for e in op.equations}
    every = {f for e in op.equations for f in e.body.atoms(exp)}
    small = frozenset(f for f in every if ends_of(f.args[0], equations)[1] <= CAP)
    return _found(op.operands, op.equations, lambda value, known: is_polynomial(value, known, floors, small))


def ends_of(value: Expr, equations: Mapping[str, Equation]) -> tuple[Expr, Expr]:
    """Numbers that a value lies between, by what it is made of; infinite ones where none are known."""
    if value.is_number:  # SymPy cannot compare a function of ours: softplus(2)
        return (value, value) if value.is_comparable else (-oo, oo)
    if isinstance(value, At):
        e = equations.get(value.name)
        return (-oo, oo) if e is None or e.kind is not None else ends_of(e.body, equations)
    known = row(type(value).__name__)
    if known.high < math.inf:
        return S(known.low), S(known.high)
    if not isinstance(value, Add | Mul | Where | maximum | minimum):
        return -oo, oo
    parts = [ends_of(a, equations) for a in value.args if isinstance(a, Expr)]
    if isinstance(value, maximum | minimum):
        choose = max if isinstance(value, maximum) else min
        return choose(low for low, _ in parts), choose(high for _, high in parts)
    if isinstance(value, Where):
        return min(low for low, _ in parts), max(high for _, high in parts)
    if isinstance(value, Add):
        low, high = (Add(*ends) for ends in zip(*parts, strict=True))
        return (-oo, oo) if S.NaN in (low, high) else (low, high)
    magnitude = Mul(*(max(abs(low), abs(high)) for low, high in parts))
    return (-oo, oo) if magnitude is S.NaN else (-magnitude, magnitude)


def without_poles(operands: Iterable[Operand], equations: Iterable[Equation]) -> frozenset[str]:
    """The tensors of a forward that are finite where the inputs are, but for what is too large for a float."""
    return _found(operands, equations, has_no_pole)


def _found(
    operands: Iterable[Operand], equations: Iterable[Equation], is_finite: Callable[[Expr, Collection[str]], bool]
) -> frozenset[str]:
    known = {o.name for o in operands if o.is_tensor and o.kind != "index"}
    for e in equations:
        if e.kind in (None, "sum", "mean", "amax", "amin", "concat") and is_finite(e.body, known):
            known.add(e.name)
    return frozenset(known)


def floored(op: Op) -> frozenset[str]:
    """The tensors of the forward that are no smaller than a number above 0: `maximum(count, 1)`, `total + 1e-6`."""
    return frozenset(e.name for e in op.equations if e.kind is None and has_floor(e.body))


def has_floor(value: Expr) -> bool:
    """Whether a value is no smaller than a number above 0 that is not tiny."""
    if isinstance(value, maximum):
        return any(isinstance(a, Number) and bool(a >= SMALLEST) for a in value.args)
    number, rest = value.as_coeff_Add()
    return isinstance(value, Add) and bool(number >= SMALLEST) and bool(rest.is_nonnegative)


def above_zero(op: Op) -> frozenset[str]:
    """The tensors of the forward that are above 0 by what they are made of: exponentials, their sums, `var + eps`."""
    known: dict[str, Symbol] = {o.name: Symbol(o.name, positive=True) for o in op.operands if o.assumed == "positive"}
    for e in op.equations:
        of = e.body.xreplace({at: known[at.name] for at in e.body.atoms(At) if at.name in known})
        signs = {"positive": of.is_positive, "nonnegative": of.is_nonnegative}
        sign = next((s for s, holds in signs.items() if holds), None)
        if sign is not None and e.kind in (None, "sum", "mean", "amax", "amin") and e.scale.is_positive:
            known[e.name] = Symbol(e.name, **{sign: True})
    return frozenset(name for name, s in known.items() if s.is_positive)


_CLOSED = (Add, Mul, Pow, *having(lambda r: r.finite == FINITE))
ENTIRE = (Add, Mul, Pow, *having(lambda r: r.finite))


def has_no_pole(value: Expr, known: Collection[str], padded: Collection[At] = ()) -> bool:
    """Whether a value is made of known tensors by functions without poles, and quotients by what is above 0.

    `exp` of a large number may be oo all the same. This is for choices that places alone decide: none of them keeps a
    tap from being too large, `where(t >= k, exp(a[k]) * x[t - k], 0)`. Not so `exp(g[t - 1] - g[t])`, which is only
    too large with a 0 in the place of what is read: `padded` are the elements that may be such.
    """
    if isinstance(value, Pow | power) and value.args[1].is_nonnegative and not value.args[1].atoms(At):
        return has_no_pole(value.args[0], known, padded)  # `a[c] ** k` of a place k
    if isinstance(value, Pow):
        positive = bool(value.base.is_positive) and bool(value.exp.is_number)
        return positive and has_no_pole(value.base, known, padded)
    if isinstance(value, At):
        return value.name in known
    if isinstance(value, exp) and value.atoms(At) & set(padded):
        return False
    parts = _parts(value, ENTIRE)
    return _is_number(value) or (bool(parts) and all(has_no_pole(a, known, padded) for a in parts))


def _parts(value: Expr, functions: tuple[type[Expr], ...]) -> tuple[Expr, ...]:
    """What a value is finite with: branches, pieces, arguments of these functions; nothing for any other."""
    if isinstance(value, Where):
        return value.args[1:]
    return value.pieces if isinstance(value, Concat) else value.args if isinstance(value, functions) else ()


def is_polynomial(
    value: Expr, known: Collection[str], floors: Collection[str] = (), small: Collection[Expr] = ()
) -> bool:
    """Whether a value is a polynomial of known tensors, of bounded functions of them, or of what is never near 0.

    `floors` are the tensors that are no smaller than a number above 0, `small` the exponentials of what has a bound.
    """
    if value in small:
        return True
    if isinstance(value, At):
        return value.name in known
    if isinstance(value, Pow) and not (value.exp.is_Integer and value.exp.is_positive):
        by_numbers = all(isinstance(f, Scalar | Size | Number) for f in Mul.make_args(value.base))  # never 0
        if value.exp.is_Integer and by_numbers:
            return True
        above_zero = isinstance(value.base, At) and value.base.name in floors
        return (above_zero or has_floor(value.base)) and is_polynomial(value.base, known, floors, small)
    parts = _parts(value, _CLOSED)
    return _is_number(value) or (bool(parts) and all(is_polynomial(a, known, floors, small) for a in parts))


def _is_number(value: Expr) -> bool:
    return isinstance(value, Scalar | Size | Axis) or (isinstance(value, Number) and bool(value.is_finite))


def says_only_inside(
    condition: Basic, value: Expr, inside: Mapping[At, Collection[Expr]], finite: Collection[str]
) -> bool:
    """Whether a value with zeros around what it reads is 0 wherever a condition on places fails, and has no pole.

    `inside` has what is at least 0 where each element that is read is one of its tensor.
    """
    own = gaps([condition])
    zeros = {at: S.Zero for at, places in inside.items() if own and own[0] in places}
    sure = zeros and has_no_pole(value, {*finite, *(at.name for at in zeros)}, zeros)
    return bool(sure and value.xreplace(zeros) == 0)
