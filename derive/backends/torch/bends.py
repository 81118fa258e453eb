"""A line that bends at 0 is one call: `where(x > 0, x, a*x)`, `maximum(x, 0) + a*minimum(x, 0)`, `maximum(x, x/10)`.

PyTorch has it by name. What stands beside the line is added, and a factor that is a number is multiplied with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from sympy import Dummy, Expr, expand

from derive.backends.torch.pieces import is_power_of_2, is_written_out, one_sign
from derive.ir.lowering.lower import node as lowered
from derive.ir.lowering.raising import raised
from derive.ir.nodes.arithmetic import ZERO, chained_terms, summed
from derive.ir.nodes.walking import rebuilt, walk
from derive.ir.program import Call, Node, Read, Scal
from derive.ir.terms.elements import Scalar

_BENDS: dict[str, Callable[..., tuple[Node, Node]]] = {
    "relu": lambda x: (x, ZERO),
    "absolute": lambda x: (x, Call("neg", (x,))),
    "maximum": lambda a, b: (a, b),
    "minimum": lambda a, b: (a, b),
}
"""Of which two values a function is the larger, or the smaller."""


def bent(
    x: Node, above: Expr, below: Expr, z: Dummy, as_written: bool, negative: Collection[str] = ()
) -> Node | None:
    """`v + s*bent(x, r/s)` for `v + s*z` where `z`, which is `x`, is above 0, and `v + r*z` below; else None.

    `s` is 1, -1, or a number beside a number `r`, so that nothing is divided by what may be 0. What is added to the
    line has its sign, or both are sums `as_written` and the line is as exact as its terms: `s` is a power of 2.
    """
    v = expand(above).coeff(z, 0)
    s, r = (expand(side).coeff(z) for side in (above, below))
    lines = all(expand(side - v - slope * z) == 0 for side, slope in ((above, s), (below, r)))
    if not lines or 0 in (s, r) or s in (r, -r):
        return None
    if not s.is_number or (abs(s) != 1 and not r.is_number):
        return None
    if not (as_written and is_power_of_2(s)) and None in (one_sign((v, s), negative), one_sign((v, -r), negative)):
        return None
    line: Node = Call("bent", (x, lowered(expand(r / s))))
    if abs(s) != 1:
        line = Call("mul", (lowered(abs(s)), line))
    return summed([(line, s < 0), *([(lowered(v), False)] if v != 0 else [])])


def bent_at_zero(node: Node) -> Node:
    """The node with one call for the terms of a sum, or for an extremum, that bend at 0 together."""
    node = rebuilt(node, bent_at_zero)
    if not isinstance(node, Call) or node.fn not in ("add", "sub", "maximum", "minimum"):
        return node
    terms = chained_terms(node)
    for x in dict.fromkeys(n for n in walk(node) if isinstance(n, Read) and n.index):
        together = [t for t in terms if {n for n in walk(t[0]) if isinstance(n, Read)} == {x}]
        line = _as_line(summed(together), x, alone=len(together) == len(terms)) if together else None
        if line is not None:
            return summed([(line, False), *(t for t in terms if t not in together)])
    return node


def _as_line(node: Node, x: Read, alone: bool) -> Node | None:
    """A node as a line that bends at 0, where that is less work, and as exact as its terms if it is not `alone`."""
    z = Dummy(real=True)
    above, below = (_on_side(node, x, z, side) for side in (1, -1))
    if above is None or below is None or not (alone or is_power_of_2(expand(above).coeff(z))):
        return None
    line = bent(x, above, below, z, as_written=is_written_out(node, {x: z}))
    work, before = (sum(isinstance(n, Call) for n in walk(n)) if n is not None else 0 for n in (line, node))
    return line if work < before else None


def _on_side(node: Node, x: Read, z: Dummy, side: int) -> Expr | None:
    """A node where `x` is above 0, or below it, as a function of `z`; None where that does not say all."""

    def other(n: Node) -> Expr | None:
        if isinstance(n, Scal):
            return Scalar(n.name)
        if not isinstance(n, Call) or n.fn not in _BENDS:
            return None
        a, b = (raised(m, {x: z}, other) for m in _BENDS[n.fn](*n.args))
        if a is None or b is None:
            return None
        ahead = expand(a - b).coeff(z) * side
        if not ahead.is_number or expand(a - b - ahead * side * z) != 0:
            return None
        return a if (ahead > 0) == (n.fn != "minimum") else b

    return raised(node, {x: z}, other)
