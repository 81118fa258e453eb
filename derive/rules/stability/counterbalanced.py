"""Exponentials that a logistic holds down, under a sum: `exp(u + z)/(1 + exp(z))**2` is `exp(u + z - 2*softplus(z))`.

So a density's logarithm is written, and SymPy takes it apart. Where `z` is large, what is over and what is below
overflow, and where all of a sum underflow their largest exponent can be taken off (largest_off) only if there is one.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Expr, Integer, Mul, exp

from derive.ir.equations import Equation, Op
from derive.ir.terms.functions import sigmoid, softplus


def with_counterbalanced(op: Op) -> Op:
    """The same op with each such product that is summed as one exponential."""
    return replace(op, equations=tuple(_joined(e) if e.kind in ("sum", "mean") else e for e in op.equations))


def _joined(e: Equation) -> Equation:
    body = e.body.replace(lambda f: isinstance(f, Mul) and any(isinstance(g, exp) for g in f.args), _in_one)
    return e if body == e.body else replace(e, body=body)


def _in_one(product: Expr) -> Expr:
    """A product with one exponential of all that its exponentials are of and what holds them down."""
    exponent = Add(*(f.args[0] for f in product.args if isinstance(f, exp)))
    terms = {rest: number for number, rest in (t.as_coeff_Mul() for t in Add.make_args(exponent))}
    rest = []
    for f in (f for f in product.args if not isinstance(f, exp)):
        held = _held_down(f)
        number, of = held[0].as_coeff_Mul() if held else (0, None)
        if held and number * terms.get(of, 0) > 0:
            exponent -= held[1] * softplus(held[0])
        else:
            rest.append(f)
    return Mul(*rest, exp(exponent))


def _held_down(f: Expr) -> tuple[Expr, Integer] | None:
    """Of `(1 + exp(z))**-k`, or a power of the sigmoid of `-z`, both `z` and `k`; nothing for another factor."""
    base, power = f.as_base_exp()
    if not isinstance(power, Integer):
        return None
    if isinstance(base, sigmoid) and power > 0:
        return -base.args[0], power
    of = [t for t in Add.make_args(base) if t != 1]
    beside_one = len(of) == 1 != len(Add.make_args(base)) and isinstance(of[0], exp)
    return (of[0].args[0], -power) if beside_one and power < 0 else None
