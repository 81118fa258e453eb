"""Sigmoids and their logarithms by the functions that are named after them, which neither overflow nor cancel.

`1 / (1 + exp(-x))` is `sigmoid(x)`, `log(1 + exp(x))` is `softplus(x)`, and `log(sigmoid(x))` is `-softplus(-x)`. As
they are written they are 0, infinite or nan, or their gradients are, where no dtype holds the exponential. And what is
written so that it is not, `maximum(x, 0) + log1p(exp(-abs(x)))`, is that function too; not with `relu(x)`, which has
another slope at 0. `log(cosh(x))` is `x + softplus(-2*x) - log(2)`. Exponentials that have names, `u = exp(-x)` and
`1 / (1 + u)`, are read as what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sympy import Add, Expr, Mul, Pow, S, cosh, exp, log

from derive.ir.equations import Equation, Op, inline
from derive.ir.lowering.lower import node
from derive.ir.nodes.naming import name_of
from derive.ir.terms.axes import free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import reads_of
from derive.ir.terms.functions import log1p, sigmoid, softplus
from derive.ir.terms.kinks import absolute, maximum, minimum
from derive.rules.splitting import own_equation
from derive.rules.stability.two_exponentials import beside_one, by_quotients, exponents, mirrored


def by_stable_functions(op: Op) -> Op:
    """The same op with every such expression as one function, also where what it is made of has a name."""
    named: dict[str, Equation] = {}
    made: dict[str, Equation] = {}  # of one exponential or two, or a magnitude that one may be of
    out: list[Equation] = []
    taken = set(op.names)
    for equation in op.equations:
        full = replace(equation, body=inline(equation.body, made))
        out += (apart := _sums_apart(full, taken))
        whole = replace(full, body=full.body.xreplace({s.body: s.left for s in apart}))
        e = _rewritten(whole, named)
        if e == full:
            e = _rewritten(equation, named)
        whole = replace(e, body=inline(e.body, named))
        if full.kind is None and full.is_plain and _is_made_of_exponentials(full.body):
            made[e.name] = full
        if e.kind is None and e.is_plain and _log_of(whole.body) is not None:
            named[e.name] = whole
        out.append(e)
    return replace(op, equations=tuple(out))


def _sums_apart(e: Equation, taken: set[str]) -> list[Equation]:
    """A name for each sum whose hyperbolic cosine has its logarithm taken: it comes before what is added to it."""
    logs = sorted(e.body.atoms(log), key=lambda f: f.sort_key())
    found = [c[0] for f in logs if (c := _cosine(f.args[0])) is not None]
    sums = dict.fromkeys(u for u in found if isinstance(u, Add) and reads_of(u))
    axes = (*e.axes, *e.over)
    return [own_equation(name_of(node(u), taken), tuple(a for a in axes if a in free_axes(u)), u, taken) for u in sums]


def _cosine(total: Expr) -> tuple[Expr, Expr] | None:
    """What a hyperbolic cosine is of, written by exponentials or not, and the number before it."""
    if isinstance(total, cosh):
        return total.args[0], S.One
    both = mirrored(total)
    return None if both is None else (both[0], 2 * both[1])


def _is_made_of_exponentials(body: Expr) -> bool:
    found = exponents(body)
    return isinstance(body, absolute | cosh) or (found is not None and len(found) <= 2)


def _rewritten(e: Equation, named: Mapping[str, Equation]) -> Equation:
    body = by_quotients(e.body).replace(_is_inverse, _sigmoids).replace(_has_sigmoid, _with_exponential)
    body = by_quotients(body).replace(lambda f: isinstance(f, log | log1p), lambda f: _logarithm(f, named))
    body = body.replace(lambda f: isinstance(f, Add), _joined)
    if body == e.body:
        return e
    terms = Add.make_args(body)
    if e.kind is not None and all(t.could_extract_minus_sign() for t in (e.scale, *terms)):  # `-mean(-softplus(x))`
        return replace(e, body=Add(*(-t for t in terms)), scale=-e.scale)
    return replace(e, body=body)


def _is_inverse(e: Expr) -> bool:
    return isinstance(e, Pow) and bool(e.exp.is_Integer and e.exp < 0) and beside_one(e.base) is not None


def _sigmoids(e: Expr) -> Expr:
    """`(1 + exp(x)) ** -k` as a power of the sigmoid of `-x`."""
    return sigmoid(-beside_one(e.base)) ** -e.exp  # type: ignore[operator]


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


def _logarithm(e: Expr, named: Mapping[str, Equation]) -> Expr:
    """The logarithm of `1 + exp(x)`, or of a sigmoid, with a name or without."""
    total = e.args[0] + 1 if isinstance(e, log1p) else e.args[0]
    exponent = beside_one(total)
    if exponent is not None:
        return softplus(exponent)
    if (cosine := _cosine(total)) is not None:
        u, number = cosine
        return u + softplus(-2 * u) + log(number / 2)
    found = _log_of(inline(total, named))
    return e if found is None else found


def _log_of(value: Expr) -> Expr | None:
    """The logarithm of a sigmoid, of what is left of 1, or of a choice between such; nothing for another value."""
    if isinstance(value, Where):
        condition, *branches = value.args
        logs = [found for b in branches if (found := _log_of(b)) is not None]
        if len(logs) < 2:
            return None
        both = [-one for one in logs if isinstance(-one, softplus)]  # of which one is computed
        return -softplus(Where(condition, *(f.args[0] for f in both))) if len(both) == 2 else Where(condition, *logs)
    if value.is_number and value.is_positive:
        return log(value)
    if isinstance(value, sigmoid):
        return -softplus(-value.args[0])
    rest = S.One - value
    return -softplus(rest.args[0]) if isinstance(rest, sigmoid) else None


def _joined(e: Expr) -> Expr:
    """`softplus(x)` for what of `x` is above 0 and the softplus of minus its magnitude; `softplus(x) - x` turned.

    With a third term it is left, which may cancel the first: `maximum(x, 0) - y*x` with `y` 1.
    """
    terms = dict(t.as_coeff_Mul()[::-1] for t in e.args)
    for f in (f for f in terms if isinstance(f, softplus)):  # x - softplus(x)
        number, x = f.args[0].as_coeff_Mul()
        if terms.get(x) == -terms[f] * number:
            return e - terms[x] * x + terms[f] * (softplus(-f.args[0]) - f)
    of = [f for f in terms if isinstance(f, softplus) and isinstance(-f.args[0], absolute)]
    if len(terms) != 2 or len(of) != 1:
        return e
    number, (part,) = terms.pop(of[0]), terms
    (magnitude,) = (-of[0].args[0]).args
    for x in (magnitude, -magnitude):
        if (part, terms[part]) in ((maximum(x, S.Zero), number), (minimum(-x, S.Zero), -number)):
            return number * softplus(x)
    return e
