"""An exponential of what a mask sends to -oo is chosen after it is computed, and not computed of -oo.

`exp(w[i, j] - m[i])` with `w[i, j] = where(j <= i, s[i, j], -oo)` is `where(j <= i, exp(s[i, j] - m[i]), exp(-oo -
m[i]))`, of which the last is 0, or nan where a row has nothing else, and known before the row. Compilers make vectors
of that; of the first, a loop of its own for what is masked out, element by element. Where the exponent is known never
to be positive it stays: `exp` of that costs less (`signs.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from derive.backends.cpu.statements.normal import Loop, Normal
from derive.backends.cpu.statements.signs import never_positive
from derive.ir.nodes.arithmetic import ZERO, multiplied
from derive.ir.nodes.own_pairs import of_one_set, without_own_pairs
from derive.ir.nodes.products import product_factors
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import node_axes, walk
from derive.ir.program import Call, Node, Num, Read
from derive.primitives import names


def with_masks_last(form: Normal) -> None:
    """Write such exponentials as choices."""
    times = Counter(s.name for s in form.loops)
    known = {s.name: s for s in form.loops if s.kind == "set" and times[s.name] == 1}
    for k, loop in enumerate(form.loops):
        for node in [n for n in walk(loop.value) if isinstance(n, Call) and n.fn == "exp"]:
            chosen = None if never_positive(node.args[0], form) else _chosen(node, known)
            if chosen is not None:
                loop = replace(loop, value=put(loop.value, node, chosen))
        form.loops[k] = loop


def _chosen(exponential: Call, known: dict[str, Loop]) -> Node | None:
    """The choice of an exponential or 0, if its exponent is a choice of something or -oo, less or plus something."""
    exponent = exponential.args[0]
    terms = exponent.args if isinstance(exponent, Call) and exponent.fn in ("add", "sub") else (exponent,)
    choice = _value(terms[0], known)
    if not isinstance(choice, Call) or choice.fn != "where":
        return None
    condition, *sides = choice.args
    below = [isinstance(s, Num) and s.value == -math.inf for s in sides]
    if sum(below) != 1:
        return None
    if len(terms) == 1:
        taken = [ZERO if gone else Call("exp", (s,)) for s, gone in zip(sides, below, strict=True)]
        return Call("where", (condition, *taken))
    assert isinstance(exponent, Call)
    if set(node_axes(terms[1])) >= set(node_axes(terms[0])):
        return None  # what is masked out would be as much to compute
    return Call("where", (condition, *(Call("exp", (Call(exponent.fn, (s, terms[1])),)) for s in sides)))


def _value(node: Node, known: dict[str, Loop]) -> Node:
    """What a tensor is there, if it is made of what stands at the same place."""
    loop = known.get(node.name) if isinstance(node, Read) else None
    return loop.value if loop is not None and isinstance(node, Read) and node.index == loop.slots else node


_INFINITE_AT_0 = names(lambda r: r.at_0 in (math.inf, -math.inf)) | {"div"}


def without_infinite_own_pairs(form: Normal) -> None:
    """What points of one set weigh for themselves is left out of sums of differences, where it may be infinite.

    In `sum(rsqrt(d2[n, i]) * (x[n, d] - x[i, d]), over=i)` the point itself adds nothing, but its root is 0 and
    infinity times 0 no number. Other points that coincide keep what they are: there, a distance has no slope.
    """
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
