"""What points of one set weigh for themselves is left out of sums of differences, where it may be infinite.

In `sum(rsqrt(d2[n, i]) * (x[n, d] - x[i, d]), over=i)` the point itself adds nothing, but its root is 0 and infinity
times 0 no number. Other points that coincide keep what they are: there, a distance has no slope.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.nodes.arithmetic import multiplied
from derive.ir.nodes.own_pairs import of_one_set, without_own_pairs
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.walking import node_axes, walk
from derive.ir.program import Call, Node, Num, Read
from derive.primitives import names

_INFINITE_AT_0 = names(lambda r: r.at_0 in (math.inf, -math.inf)) | {"div"}


def without_infinite_own_pairs(form: Normal) -> None:
    """Mask such weights in the loops of a form."""
    infinite: set[str] = set()  # tensors that may be so, as far as this function computes them
    for k, s in enumerate(form.loops):
        if s.kind == "sum":
            form.loops[k] = _masked(s, infinite)
        elif _may_be_infinite(s.value, infinite):
            infinite.add(s.name)


def _masked(s: Loop, infinite: Collection[str]) -> Loop:
    factors = product_factors(s.value)
    pair = next((p for f in factors if (p := of_one_set(f)) is not None), None)
    weights = [f for f in factors if pair and pair <= set(node_axes(f)) and of_one_set(f) is None]
    if pair is None or not any(_may_be_infinite(w, infinite) for w in weights):
        return s
    whole = without_own_pairs(multiplied(weights), pair, {})
    others = [f for f in factors if f not in weights]
    return replace(s, value=multiplied([whole, *others]))


def _may_be_infinite(weight: Node, infinite: Collection[str]) -> bool:
    """Whether it has a root, quotient or logarithm of what may be 0, or is made of what has."""
    for n in walk(weight):
        if isinstance(n, Read) and n.name in infinite:
            return True
        if isinstance(n, Call) and n.fn == "pow" and not _is_positive(n.args[1]):
            return True
        if isinstance(n, Call) and n.fn in _INFINITE_AT_0 and node_axes(n.args[-1]):
            return True
    return False


def _is_positive(exponent: Node) -> bool:
    return isinstance(exponent, Num) and exponent.value > 0
