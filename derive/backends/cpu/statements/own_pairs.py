"""What points of one set weigh for themselves is left out of sums of differences, where it may be infinite.

In `sum(rsqrt(d2[n, i]) * (x[n, d] - x[i, d]), over=i)` the point itself adds nothing, but its root is 0 and infinity
times 0 no number. Other points that coincide keep what they are: there, a distance has no slope.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from derive.backends.cpu.statements.normal import Loop, Normal
from derive.nodes.arithmetic import multiplied
from derive.nodes.own_pairs import of_one_set, without_own_pairs
from derive.nodes.products import product_factors
from derive.nodes.walking import node_axes, walk
from derive.program import Call, Node, Num, Read

_INFINITE_AT_0 = frozenset({"rsqrt", "div", "log"})


def without_infinite_own_pairs(form: Normal) -> None:
    """Mask such weights in the loops of a form."""
    known = {s.name: s for s in form.loops if s.kind == "set"}
    form.loops = [_masked(s, known) if s.kind == "sum" else s for s in form.loops]


def _masked(s: Loop, known: Mapping[str, Loop]) -> Loop:
    factors = product_factors(s.value)
    pair = next((p for f in factors if (p := of_one_set(f)) is not None), None)
    weights = [f for f in factors if pair and pair <= set(node_axes(f)) and of_one_set(f) is None]
    if pair is None or not any(_may_be_infinite(w, known) for w in weights):
        return s
    whole = without_own_pairs(multiplied(weights), pair, {})
    others = [f for f in factors if f not in weights]
    return replace(s, value=multiplied([whole, *others]))


def _may_be_infinite(weight: Node, known: Mapping[str, Loop]) -> bool:
    """Whether it has a root, quotient or logarithm of what may be 0, as far as this function computes it."""
    for n in walk(weight):
        negative = isinstance(n, Call) and n.fn == "pow" and not _is_positive(n.args[1])
        if negative or (isinstance(n, Call) and n.fn in _INFINITE_AT_0 and node_axes(n.args[-1])):
            return True
        if isinstance(n, Read) and n.name in known and _may_be_infinite(known[n.name].value, known):
            return True
    return False


def _is_positive(exponent: Node) -> bool:
    return isinstance(exponent, Num) and exponent.value > 0
