"""Sigmoids and their logarithms by the functions that are named after them, which neither overflow nor cancel.

`1 / (1 + exp(-x))` is `sigmoid(x)`, `log(1 + exp(x))` is `softplus(x)`: the rows of `STABLE`, also where the parts have
names. As they are written they are 0, infinite or nan, or their gradients are, where no dtype holds the exponential.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Expr

from derive.ir.equations import Equation, Op
from derive.ir.lowering.lower import node
from derive.ir.nodes.naming import name_of
from derive.ir.terms.axes import free_axes
from derive.ir.terms.elements import reads_of
from derive.rules.expressions import Names, as_it_is, rewritings, rewritten
from derive.rules.splitting import own_equation
from derive.rules.tables.stability import LOG_COSINES, STABLE


def by_stable_functions(op: Op) -> Op:
    """The same op with every such expression as one function, also where what it is made of has a name."""
    names: dict[str, Equation] = {}
    out: list[Equation] = []
    taken = set(op.names)
    for equation in op.equations:
        out += (apart := _sums_apart(equation, names, taken))
        e = replace(equation, body=equation.body.xreplace({s.body: s.left for s in apart}))
        body, _ = rewritten(e.body, STABLE, names, as_it_is, new=True)
        out.append(e if body == e.body else _signed(e, body))
        if e.kind is None and e.is_plain:
            names[e.name] = out[-1]
    return replace(op, equations=tuple(out))


def _signed(e: Equation, body: Expr) -> Equation:
    """The equation with this body; `-mean(-softplus(x))` without its signs."""
    terms = Add.make_args(body)
    if e.kind is not None and all(t.could_extract_minus_sign() for t in (e.scale, *terms)):
        return replace(e, body=Add(*(-t for t in terms)), scale=-e.scale)
    return replace(e, body=body)


def _sums_apart(e: Equation, names: Names, taken: set[str]) -> list[Equation]:
    """A name for each sum whose hyperbolic cosine has its logarithm taken: it comes before what is added to it."""
    found = [move.bound["u"] for move in rewritings(e.body, LOG_COSINES, names, new=True)]
    sums = dict.fromkeys(u for u in found if isinstance(u, Add) and reads_of(u))
    axes = (*e.axes, *e.over)
    return [own_equation(name_of(node(u), taken), tuple(a for a in axes if a in free_axes(u)), u, taken) for u in sums]
