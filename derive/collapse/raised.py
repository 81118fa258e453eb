"""Law: a power meets what it is of: `e * b**(e - 1) * b` is `e * b**e`, made already, and finite where `b` is 0."""

from __future__ import annotations

from sympy import Expr, Mul, S

from derive.ir.terms.choices import Where
from derive.ir.terms.functions import is_zero, power


def raised(value: Expr) -> tuple[Expr, tuple[str, ...]]:
    """A value with every slope of a power that its base multiplies as the power, and which these are."""
    used: dict[str, None] = {}

    def joined(product: Expr) -> Expr:
        for f in product.args:
            for slope in sorted(f.atoms(power), key=lambda p: p.sort_key()):
                base, exponent = slope.args[0], _exponent(slope)
                rest = Mul(*(g for g in product.args if g is not f))
                if exponent is None or not _is_slope(f, slope, exponent, rest):
                    continue
                if (left := _divided(rest, base)) is not None:
                    used[f"{base} is what the power {slope} is of"] = None
                    return left * f.xreplace({slope: power(base, exponent)})
        return product

    changed = value.replace(lambda f: isinstance(f, Mul) and bool(f.atoms(power)), joined)
    return changed, tuple(used)


def _exponent(slope: power) -> Expr | None:
    """The exponent of the power whose slope this is of: `e` for `e - 1`, and for that but at `e = 0`."""
    exponent = slope.args[1]
    if isinstance(exponent, Where):
        condition, at_0, below = exponent.args
        return below + 1 if at_0 == 0 and condition == is_zero(below + 1) else None
    return exponent + 1 if not exponent.is_number else None


def _is_slope(f: Expr, slope: power, exponent: Expr, rest: Expr) -> bool:
    """Whether a factor of a product is the slope of a power, 0 where the exponent is, as the chain rule has it."""
    if f == slope:
        return isinstance(slope.args[1], Where) or exponent in Mul.make_args(rest)
    return isinstance(f, Where) and f.args[:2] == (is_zero(exponent), S.Zero) and slope in Mul.make_args(f.args[2])


def _divided(product: Expr, base: Expr) -> Expr | None:
    """A product without a base, all of whose factors it has; nothing where it has not."""
    have = product.as_powers_dict()
    for factor, times in base.as_powers_dict().items():
        left = have.get(factor, S.Zero)
        numbers = times.is_number and left.is_number
        if times != left and not (numbers and (0 < times <= left or left <= times < 0)):
            return None
    return product / base
