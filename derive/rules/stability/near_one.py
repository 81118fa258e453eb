"""What is close to 1 and loses its digits beside it: `exp(u) - 1` is `expm1(u)`, `log(1 + u)` is `log1p(u)`.

And with `p = 1 - exp(u)`, `1 - p` is `exp(u)`.
The parts may have names: of `q = 1 + x` and `log(q)` the logarithm is `log1p(x)`, where `x` need not be made again.
An exponential that something else reads as well stays: there would be two functions for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sympy import Add, Expr, Mul, S, exp, log, preorder_traversal

from derive.ir.equations import Equation, Op, inline
from derive.ir.terms.elements import At
from derive.ir.terms.functions import expm1, log1p
from derive.rules.stability.largest_off import without_unread


def with_digits_near_one(op: Op) -> Op:
    """The same op with every such difference and logarithm. An op that gives the gradient of each tensor is left."""
    if op.stepwise:
        return op
    read = [at.name for e in op.equations for at in preorder_traversal(e.body) if isinstance(at, At)]
    named: dict[str, Equation] = {}
    out: list[Equation] = []
    for e in op.equations:
        body = e.body.replace(lambda f: isinstance(f, Add), lambda f: _less_one(f, named))
        body = body.replace(lambda f: isinstance(f, log), lambda f: _beside_one(f, named))
        out.append(e if body == e.body else replace(e, body=body))
        once = read.count(e.name) == 1 and e.name not in op.outputs
        plain = e.kind is None and e.is_plain and not e.first
        if plain and ((once and isinstance(e.body, exp)) or _is_near_one(e, once)):
            named[e.name] = e
    changed = replace(op, equations=tuple(out))
    return op if changed == op else without_unread(changed, op)


def _is_near_one(e: Equation, once: bool) -> bool:
    """Whether it is 1 and a product of elements, an exponential, or what nothing else reads."""
    rest = Mul.make_args((e.body - 1).as_coeff_Mul()[1])
    return S.One in Add.make_args(e.body) and (once or all(isinstance(f, At | exp) for f in rest))


def _less_one(total: Expr, named: Mapping[str, Equation]) -> Expr:
    """A sum with `n*exp(u) - n` in it as `n*expm1(u)`, and one with `n*expm1(u) + n` as `n*exp(u)`."""
    number = total.as_coeff_Add()[0]
    for term in total.args if number != 0 else ():
        times, of = inline(term, named).as_coeff_Mul()
        if isinstance(of, Add):  # a name for `1 - exp(u)`
            inner = _less_one(of, named)
            times, of = (times, inner) if isinstance(inner, Add) else tuple((times * inner).as_coeff_Mul())
        if isinstance(of, exp) and times == -number:
            return total - number - term + times * expm1(of.args[0])
        if isinstance(of, expm1) and times == number:
            return total - number - term + times * exp(of.args[0])
    return total


def _beside_one(f: Expr, named: Mapping[str, Equation]) -> Expr:
    """The logarithm of 1 and something else; that of `1 - exp(u)` is exact for small `u` by `expm1` alone."""
    total = inline(f.args[0], named)
    if not isinstance(total, Add) or S.One not in total.args or _less_one(total, named) != total:
        return f
    return log1p(total - 1)
