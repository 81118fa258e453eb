"""What is close to 1 and loses its digits beside it: `exp(u) - 1` is `expm1(u)`, `log(1 + u)` is `log1p(u)`.

And with `p = 1 - exp(u)`, `1 - p` is `exp(u)`.
The parts may have names: of `q = 1 + x` and `log(q)` the logarithm is `log1p(x)`, where `x` need not be made again.
An exponential that something else reads as well stays: there would be two functions for one.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Mul, S, exp, preorder_traversal

from derive.ir.equations import Equation, Op
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At
from derive.rules.expressions import as_it_is, rewritten
from derive.rules.splitting import without_unread
from derive.rules.tables.stability import NEAR_ONE


def with_digits_near_one(op: Op) -> Op:
    """The same op with every such difference and logarithm. An op that gives the gradient of each tensor is left."""
    if op.stepwise:
        return op
    read = [at.name for e in op.equations for at in preorder_traversal(e.body) if isinstance(at, At)]
    names: dict[str, Equation] = {}
    out: list[Equation] = []
    for e in op.equations:
        body, _ = rewritten(e.body, NEAR_ONE, names, as_it_is, new=True)
        out.append(e if body == e.body else replace(e, body=body))
        once = read.count(e.name) == 1 and e.name not in op.outputs
        plain = e.kind is None and e.is_plain and not e.first
        if plain and ((once and isinstance(e.body, exp | Where)) or _is_near_one(e, once)):
            names[e.name] = out[-1]
    changed = replace(op, equations=tuple(out))
    return op if changed == op else without_unread(changed, op)


def _is_near_one(e: Equation, once: bool) -> bool:
    """Whether it is 1 and a product of elements, an exponential, or what nothing else reads."""
    rest = Mul.make_args((e.body - 1).as_coeff_Mul()[1])
    return S.One in Add.make_args(e.body) and (once or all(isinstance(f, At | exp) for f in rest))
