"""Sigmoids and their logarithms by the functions that are named after them, which neither overflow nor cancel.

`1 / (1 + exp(-x))` is `sigmoid(x)`, `log(1 + exp(x))` is `softplus(x)`, and `log(sigmoid(x))` is `-softplus(-x)`. As
they are written they are 0, infinite or nan, or their gradients are, where no dtype holds the exponential. And what is
written so that it is not, `maximum(x, 0) + log1p(exp(-abs(x)))`, is that function too; not with `relu(x)`, which has
another slope at 0.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Expr, Mul, Pow, S, exp, log

from derive.equations import Equation, Op
from derive.terms.functions import absolute, log1p, maximum, minimum, sigmoid, softplus


def by_stable_functions(op: Op) -> Op:
    """The same op with every such expression as one function."""
    return replace(op, equations=tuple(map(_rewritten, op.equations)))


def _rewritten(e: Equation) -> Equation:
    body = e.body.replace(_is_inverse, _sigmoids).replace(_has_sigmoid, _with_exponential)
    body = body.replace(lambda f: isinstance(f, log | log1p), _logarithm)
    body = body.replace(lambda f: isinstance(f, Add), _joined)
    if body == e.body:
        return e
    terms = Add.make_args(body)
    if e.kind is not None and all(t.could_extract_minus_sign() for t in (e.scale, *terms)):  # `-mean(-softplus(x))`
        return replace(e, body=Add(*(-t for t in terms)), scale=-e.scale)
    return replace(e, body=body)


def _exponent(total: Expr) -> Expr | None:
    """The `x` of `1 + exp(x)`."""
    others = [t for t in Add.make_args(total) if t != 1]
    return others[0].args[0] if len(others) == 1 != len(total.args) and isinstance(others[0], exp) else None


def _is_inverse(e: Expr) -> bool:
    return isinstance(e, Pow) and bool(e.exp.is_Integer and e.exp < 0) and _exponent(e.base) is not None


def _sigmoids(e: Expr) -> Expr:
    """`(1 + exp(x)) ** -k` as a power of the sigmoid of `-x`."""
    return sigmoid(-_exponent(e.base)) ** -e.exp  # type: ignore[operator]


def _has_sigmoid(e: Expr) -> bool:
    return isinstance(e, Mul) and any(isinstance(f, exp) for f in e.args) and bool(e.atoms(sigmoid))


def _with_exponential(e: Expr) -> Expr:
    """`exp(x) * sigmoid(-x)` as `sigmoid(x)`, also where a power of the sigmoid is left."""
    factors = dict(f.as_base_exp() for f in e.args if not isinstance(f, exp))
    rest = S.One
    for f in (f for f in e.args if isinstance(f, exp)):
        own = sigmoid(-f.args[0])
        power = factors.get(own, S.Zero)
        whole = power.is_Integer and power > 0
        rest *= sigmoid(f.args[0]) if whole else f
        factors[own] = power - 1 if whole else power
    return rest * Mul(*(base**power for base, power in factors.items()))


def _logarithm(e: Expr) -> Expr:
    """The logarithm of a sigmoid, of what is left of 1, or of `1 + exp(x)`."""
    (of,) = e.args
    total = of + 1 if isinstance(e, log1p) else of
    exponent = _exponent(total)
    if exponent is not None:
        return softplus(exponent)
    if isinstance(total, sigmoid):
        return -softplus(-total.args[0])
    rest = S.One - total
    return -softplus(rest.args[0]) if isinstance(rest, sigmoid) else e


def _joined(e: Expr) -> Expr:
    """`softplus(x)` for what of `x` is above 0 and the softplus of minus its magnitude.

    With a third term it is left, which may cancel the first: `maximum(x, 0) - y*x` with `y` 1.
    """
    terms = dict(t.as_coeff_Mul()[::-1] for t in e.args)
    of = [f for f in terms if isinstance(f, softplus) and isinstance(-f.args[0], absolute)]
    if len(terms) != 2 or len(of) != 1:
        return e
    number, (part,) = terms.pop(of[0]), terms
    (magnitude,) = (-of[0].args[0]).args
    for x in (magnitude, -magnitude):
        if (part, terms[part]) in ((maximum(x, S.Zero), number), (minimum(-x, S.Zero), -number)):
            return number * softplus(x)
    return e
