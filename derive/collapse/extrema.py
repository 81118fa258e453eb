"""A tie with a maximum is told by the very numbers that the maximum was taken of.

The gradient of `amax(E)` goes where `E == m`. Were `E` computed again in another order, or put together from other
tensors, its last bits might differ and no place would equal `m`: a gradient of zero. So an expression under a maximum
is a tensor with a name, and such a tensor is kept as it is. So is the number of ties, where an index tells what a
maximum is taken of: it is read at that index's places.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Expr, Mul, S

from derive.desugaring.placed import ties
from derive.desugaring.splitting import order_axes, own_equation
from derive.equations import Equation, Op
from derive.nodes.naming import free_name
from derive.terms.axes import free_axes
from derive.terms.choices import Placed, Where
from derive.terms.elements import At, tensor_names
from derive.terms.functions import absolute, maximum, minimum, relu, sign

_EXTREMA = ("amax", "amin")
_EXACT = (absolute, maximum, minimum, relu, sign)


def name_extrema(op: Op) -> Op:
    """The same op with what every maximum and minimum is taken of as an equation of its own, where it is computed."""
    taken = op.names
    out: list[Equation] = []
    for equation in op.equations:
        if equation.kind in _EXTREMA and not is_exact(equation.body):
            body = equation.body.args[1] if isinstance(equation.body, Placed) else equation.body
            whole = sorted((*equation.axes, *equation.over), key=lambda a: not a.is_pack)  # `...` broadcasts in front
            axes = order_axes(free_axes(body), tuple(whole))
            out.append(own_equation(free_name(f"{equation.name}_of", taken), axes, body, taken))
            equation = replace(equation, body=equation.body.xreplace({body: out[-1].left}))
        count = ties(equation, free_name(f"{equation.name}_ties", taken))
        if count is not None:
            taken.add(count.name)
            equation = replace(equation, ties=count.left)
        out += [equation] if count is None else [equation, count]
    return replace(op, equations=tuple(out))


def compared(op: Op) -> frozenset[str]:
    """The tensors whose very elements a tie is told by: those under a maximum, and those that are chosen from."""
    exact = {e.name: e for e in op.equations if e.kind is None and is_exact(e.body)}
    found: set[str] = set()
    pending = [name for e in op.equations if e.kind in _EXTREMA for name in tensor_names(e.body)]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += tensor_names(exact[name].body) if name in exact else ()
    return frozenset(found)


def is_exact(expr: Expr) -> bool:
    """Whether an expression only chooses among elements, so that it has the same bits whenever it is computed."""
    if isinstance(expr, At) or not expr.atoms(At):
        return True
    if isinstance(expr, Where):
        return all(is_exact(a) for a in expr.args[1:])
    if isinstance(expr, Mul):
        return len(expr.args) == 2 and expr.args[0] is S.NegativeOne and is_exact(expr.args[1])
    return isinstance(expr, _EXACT) and all(is_exact(a) for a in expr.args)
