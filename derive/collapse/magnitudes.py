"""Laws: `sign(u) * abs(u) = u`, `sign(u) / abs(u) = 1 / u`: a magnitude, squared or divided by, leaves no sign behind.

With `r = abs(e)` and `y = r**2`, `de = 2*dy*r*sign(e)` is `2*dy*e`, and `r` need not be there; with `y = log(r)` it is
`dy / e`. Taken where cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sympy import Expr, Mul

from derive.ir.algebra import normal
from derive.ir.equations import Op
from derive.ir.terms.elements import At, at_index
from derive.ir.terms.kinks import absolute, sign


def magnitudes(value: Expr, op: Op) -> Iterator[Expr]:
    """The value with every magnitude and its sign as what it is the magnitude of, where one multiplies the other."""
    known = {e.name: e for e in op.equations if e.is_plain and e.kind is None and isinstance(e.body, absolute)}

    def argument(factor: Expr) -> Expr | None:
        if isinstance(factor, At) and factor.name in known:
            equation = known[factor.name]
            return at_index(equation.body.args[0], equation.axes, factor.index)
        return factor.args[0] if isinstance(factor, absolute) else None

    new = {product: signed for product in value.atoms(Mul) if (signed := _signed(product, argument)) is not None}
    if new:
        yield normal(value.xreplace(new))


def _signed(product: Expr, argument: Callable[[Expr], Expr | None]) -> Expr | None:
    """The product without one magnitude and its sign, times what they are of or divided by it; None without a pair."""
    powers = product.as_powers_dict()
    for factor, exponent in powers.items():
        inner = argument(factor) if exponent.is_Integer and exponent != 0 else None
        for u in () if inner is None else (inner, -inner):
            if powers.get(sign(u)) == 1:
                side = 1 if exponent.is_positive else -1
                return product / sign(u) * factor**-side * u**side
    return None
