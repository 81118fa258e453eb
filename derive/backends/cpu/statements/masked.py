"""An exponential of what a mask sends to -oo is chosen after it is computed, and not computed of -oo.

`exp(w[i, j] - m[i])` with `w[i, j] = where(j <= i, s[i, j], -oo)` is `where(j <= i, exp(s[i, j] - m[i]), exp(-oo -
m[i]))`, of which the last is 0, or nan where a row has nothing else, and known before the row. Compilers make vectors
of that; of the first, a loop of its own for what is masked out, element by element. Where the exponent is known never
to be positive it stays: `exp` of that costs less (`signs.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from derive.backends.cpu.statements.normal import Loop, Normal
from derive.backends.cpu.statements.signs import never_positive
from derive.ir.nodes.arithmetic import ZERO
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import node_axes, walk
from derive.ir.program import Call, Node, Num, Read


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
