"""Exponentials over their sum, as a factor of something else, get a name: `w*exp(x - m)/s` is `w*shares`.

Named, they are one tensor to keep, where the exponentials and their sum would be two; and that they add up to 1 is
known of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from sympy import Expr, Mul, exp

from derive.ir.equations import Equation, Op, inline
from derive.ir.terms.axes import free_axes
from derive.ir.terms.elements import At
from derive.ir.terms.names import free_name
from derive.rules.splitting import own_equation
from derive.rules.stability.own_sums import divisors, summed_along


def with_named_shares(op: Op) -> Op:
    """The same op with such factors as tensors of their own."""
    known = _Known(op.names)
    for e in op.equations:
        known.take(e)
    return replace(op, equations=tuple(known.equations))


@dataclass
class _Known:
    """The equations so far; which of them are exponentials, and sums of these."""

    taken: set[str]
    equations: list[Equation] = field(default_factory=list)
    exponentials: dict[str, Equation] = field(default_factory=dict)
    sums: dict[str, Equation] = field(default_factory=dict)  # with their exponentials in full

    def take(self, e: Equation) -> None:
        if e.kind != "concat" and e.is_plain:
            e = replace(e, body=e.body.replace(lambda f: isinstance(f, Mul), partial(self.rewritten, e)))
        self.equations.append(e)
        full = inline(e.body, self.exponentials) if e.is_plain else None
        if e.kind is None and isinstance(full, exp):
            self.exponentials[e.name] = replace(e, body=full)
        elif e.kind == "sum" and isinstance(full, exp):
            self.sums[e.name] = replace(e, body=full)

    def rewritten(self, e: Equation, product: Expr) -> Expr:
        """A product with shares among its factors by their name; what is shares alone, under a name, stays."""
        for total in divisors(product, self.sums):
            for factor in product.args:
                if not summed_along(inline(factor, self.exponentials), total, self.sums[total.name]):
                    continue
                others = [f for f in product.args if f not in (factor, 1 / total)]
                alone = not others and e.kind is None and e.body == product
                return product if alone else Mul(*others, self.named(e, factor / total))
        return product

    def named(self, e: Equation, value: Expr) -> At:
        """The shares under a name; what has one already is found to be the same later (`twins.py`)."""
        axes = tuple(a for a in (*e.axes, *e.over) if a in free_axes(value))
        self.equations.append(own_equation(free_name("shares", self.taken, "_"), axes, value, self.taken))
        return self.equations[-1].left
