"""In what order a product is read: numbers and small factors first, sums last; and common factors taken out.

The LaTeX and the terminal read expressions in the same order, close to that of the generated code.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sympy import Add, Expr, Integer, Mul, Number, Pow, S, Symbol

from derive.ir.lowering.factoring import Product, factor
from derive.ir.lowering.ordering import weight
from derive.ir.terms.axes import Size
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import Delta
from derive.ir.terms.numbers import as_decimal, as_quotient, decimal
from derive.ir.terms.reductions import Reduce, Sigma


@dataclass(frozen=True)
class Signed:
    """A product as it is read: sign, factors above the line and below it, small ones first, sums last."""

    negative: bool
    up: tuple[Expr, ...]
    down: tuple[Expr, ...]


def signed(term: Expr) -> Signed:
    """Take a product apart without evaluating it, so that a factored one stays factored."""
    number, up, down = S.One, [], []
    for f in Mul.make_args(term):
        if isinstance(f, Number) and f.is_finite:
            number *= f
        elif isinstance(f, Pow) and f.exp.is_number and f.exp.is_negative:
            down.append(Pow(f.base, -f.exp))
        else:
            up.append(f)
    up.sort(key=_factor_order)
    down.sort(key=_factor_order)
    top, bottom = _written(abs(number))
    if top != 1 or not up:
        up.insert(0, top)
    if bottom != 1:
        down.insert(0, bottom)
    return Signed(bool(number.is_negative), tuple(up), tuple(down))


def _written(number: Expr) -> tuple[Expr, Expr]:
    """Numerator and denominator, or the decimal that a person would have written: 0.044715, not 8943/200000."""
    if not number.is_Rational:
        return number.as_numer_denom()
    whole = Fraction(int(number.p), int(number.q))
    text = decimal(whole)
    if text is not None:
        return Symbol(text), S.One
    top, bottom = (Integer(n.numerator) if n.denominator == 1 else Symbol(as_decimal(n)) for n in as_quotient(whole))
    return top, bottom


def _factor_order(f: Expr) -> tuple[object, ...]:
    return (rank(f), weight(f), not isinstance(f, Size), not f.is_Symbol, f.sort_key())


def rank(f: Expr) -> int:
    """Plain factors, sums of terms, indicators, and last sums over axes, which take in all that follows."""
    if isinstance(f, Sigma | Reduce):
        return 3
    if isinstance(f, Delta | Where):
        return 2
    return 1 if isinstance(f, Add) else 0


def factored(value: Expr) -> Expr:
    """A normal form with its common factors taken out, as the generated code has it; left unevaluated."""
    return _unevaluated(factor(value)) if value != 0 else value


def _unevaluated(product: Product) -> Expr:
    parts = [product.number] if product.number != 1 else []
    parts += product.powers
    for inner in product.sums:
        summands = [_unevaluated(p) for p in inner.parts]
        parts.append(summands[0] if len(summands) == 1 else Add(*summands, evaluate=False))
    flat = [f for p in parts for f in Mul.make_args(p)]
    return flat[0] if len(flat) == 1 else Mul(*flat, evaluate=False)
