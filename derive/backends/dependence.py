"""What the gradients of a module depend on beside cotangents."""

from __future__ import annotations

from collections.abc import Iterator

from derive.ir.nodes.walking import children
from derive.ir.program import CONDITIONS, Call, Index, Node, Read, Scatter, Statement
from derive.pipeline import Derivation
from derive.primitives import names

FLAT = CONDITIONS | names(lambda r: r.slope == "0")
"""Functions that are constant nearly everywhere."""


def is_linear(d: Derivation) -> bool:
    """Whether gradients are constant in the real inputs: the backward only compares what follows these."""
    following = {o.name for o in d.op.differentiable}
    for s in d.forward.statements:
        if following.intersection(_read_by(s)):
            following.add(s.name)
    return not any(following.intersection(_read_by(s)) for s in d.backward.statements)


def _read_by(s: Statement) -> Iterator[str]:
    for n in (s.value, *s.slots):
        yield from _values(n)
    if isinstance(s, Scatter) and s.onto:
        yield s.onto


def _values(node: Node | Index) -> Iterator[str]:
    """The tensors that a node reads, but for what it only compares or takes the sign of."""
    if isinstance(node, Call) and node.fn in FLAT:
        return
    if isinstance(node, Read):
        yield node.name
    for n in children(node):
        yield from _values(n)
