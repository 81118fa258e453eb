"""Two exponentials over their sum are one function: `(exp(u) - exp(v)) / (exp(u) + exp(v))` is `tanh((u - v)/2)`.

And `exp(u) / (exp(u) + exp(v))` is `sigmoid(u - v)`, also with numbers before them. As they are written they are nan
where an exponential overflows, and the first loses its digits where `u` and `v` are close. 1 is `exp(0)`.
`2*sigmoid(2*u) - 1` is `tanh(u)` as well.
"""

from __future__ import annotations

from sympy import Add, Expr, Mul, Pow, S, exp, log, tanh

from derive.ir.terms.functions import sigmoid


def exponents(total: Expr) -> dict[Expr, Expr] | None:
    """By exponent, the number before each exponential that a sum is made of; nothing where it has other terms."""
    found: dict[Expr, Expr] = {}
    for term in Add.make_args(total):
        number, rest = term.as_coeff_Mul()
        if rest != 1 and not isinstance(rest, exp):
            return None
        found[S.Zero if rest == 1 else rest.args[0]] = number
    return found if any(u != 0 for u in found) else None


def beside_one(total: Expr) -> Expr | None:
    """The `x` of `1 + exp(x)`; nothing for another value."""
    others = [t for t in Add.make_args(total) if t != 1]
    return others[0].args[0] if len(others) == 1 != len(total.args) and isinstance(others[0], exp) else None


def mirrored(total: Expr) -> tuple[Expr, Expr] | None:
    """Of `c*exp(u) + c*exp(-u)` both `u` and `c`, where `c` is above 0; nothing for another sum."""
    found = exponents(total) or {}
    u = next((u for u in found if not u.could_extract_minus_sign()), S.Zero)
    alike = set(found) == {u, -u} and u != 0 and found[u] == found[-u] and found[u].is_positive
    return (u, found[u]) if alike else None


def by_quotients(e: Expr) -> Expr:
    """The expression with every quotient of two exponentials and their sum as one function."""
    return e.replace(lambda f: isinstance(f, Mul), _over_sum).replace(lambda f: isinstance(f, Add), _less_one)


def _over_sum(e: Expr) -> Expr:
    for below in (f for f in e.args if isinstance(f, Pow) and f.exp == -1):
        found = exponents(below.base)
        if found is None or len(found) != 2 or not all(number.is_positive for number in found.values()):
            continue
        for above in (f for f in e.args if f is not below):
            one = _quotient(above, found)
            if one is not None:
                return Mul(*(f for f in e.args if f not in (above, below)), one)
    return e


def _quotient(above: Expr, below: dict[Expr, Expr]) -> Expr | None:
    """What is over `a*exp(u) + b*exp(v)` as the function that the quotient is."""
    own = exponents(above)
    (u, a), (v, b) = below.items()
    if own == {u: S.One}:
        return sigmoid(u - v + log(a / b)) / a
    if own == {v: S.One}:
        return sigmoid(v - u + log(b / a)) / b
    if own is not None and set(own) == {u, v} and own[u] == -own[v] and a == b:
        return own[u] * tanh((u - v) / 2) / a
    return None


def _less_one(e: Expr) -> Expr:
    """`a*sigmoid(w) - a/2` in a sum as `a/2 * tanh(w/2)`."""
    number = e.as_coeff_Add()[0]
    for term in e.args:
        before, rest = term.as_coeff_Mul()
        if isinstance(rest, sigmoid) and number != 0 and before == -2 * number:
            return e - term - number - number * tanh(rest.args[0] / 2)
    return e
