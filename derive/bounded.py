"""Which tensors of a forward are finite where its inputs are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sympy import Add, Basic, Expr, Mul, Number, Pow, S, erf, tanh

from derive.equations import Op
from derive.lengths.kept_inside import gaps
from derive.terms.axes import Axis, Size
from derive.terms.choices import Concat, Where
from derive.terms.elements import At, Scalar
from derive.terms.functions import maximum, minimum, relu, sigmoid, sign


def polynomials(op: Op) -> frozenset[str]:
    """The tensors of the forward that are finite where the inputs are: polynomials and bounded functions of them."""
    known = {o.name for o in op.operands if o.is_tensor and o.kind != "index"}
    for e in op.equations:
        if e.kind in (None, "sum", "mean", "amax", "amin", "concat") and is_polynomial(e.body, known):
            known.add(e.name)
    return frozenset(known)


def floored(op: Op) -> frozenset[str]:
    """The finite tensors of the forward that are no smaller than a number above 0, such as `maximum(count, 1)`."""
    bounded = (e for e in op.equations if e.kind is None and isinstance(e.body, maximum))
    names = {e.name for e in bounded if any(isinstance(a, Number) and a.is_positive for a in e.body.args)}
    return polynomials(op) & names


_CLOSED = (Add, Mul, Pow, maximum, minimum, relu, sigmoid, sign, tanh, erf)


def is_polynomial(value: Expr, known: Collection[str]) -> bool:
    """Whether a value is a polynomial of known tensors, or of bounded functions of them."""
    if isinstance(value, At):
        return value.name in known
    if isinstance(value, Where):
        return all(is_polynomial(a, known) for a in value.args[1:])
    if isinstance(value, Concat):
        return all(is_polynomial(a, known) for a in value.pieces)
    if isinstance(value, Pow) and not (value.exp.is_Integer and value.exp.is_positive):
        whole = bool(value.exp.is_Integer)
        return whole and all(isinstance(f, Scalar | Size | Number) for f in Mul.make_args(value.base))  # never 0
    fits = isinstance(value, _CLOSED) and all(is_polynomial(a, known) for a in value.args)
    return fits or isinstance(value, Scalar | Size | Axis) or (isinstance(value, Number) and bool(value.is_finite))


def says_only_inside(
    condition: Basic, value: Expr, inside: Mapping[At, Collection[Expr]], finite: Collection[str]
) -> bool:
    """Whether a value with zeros around what it reads is 0 wherever a condition on places fails.

    `inside` has what is at least 0 where each element that is read is one of its tensor.
    """
    own = gaps([condition])
    zeros = {at: S.Zero for at, places in inside.items() if own and own[0] in places}
    sure = zeros and is_polynomial(value, {*finite, *(at.name for at in zeros)})
    return bool(sure and value.xreplace(zeros) == 0)
