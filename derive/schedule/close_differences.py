"""What nearly cancels is subtracted first: with `exp(z - m)` beside it, `log(s) + m - z` is `m - z + log(s)`.

Scores far from 0 have few digits below them, and their largest has the same ones: `log(s) + m` would be rounded as the
scores are. That `z - m` is small is told by whose exponential is taken, or who has a name for it; also of `z` at a
label. What has fewer axes is added up first, and then to that difference: a pass over the largest tensor, no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from derive.ir.nodes.arithmetic import chained_terms, summed
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import node_axes, rebuilt, walk
from derive.ir.program import Assign, Call, Node, Program, Read

_Pairs = set[tuple[str, str]]


def close_differences(program: Program) -> Program:
    """The same program with such differences first in every sum of more."""
    close = {pair for s in program.statements for pair in _close(s.value, isinstance(s, Assign))}
    if not close:
        return program
    changed = tuple(replace(s, value=_changed(s.value, close)) for s in program.statements)
    return check(replace(program, statements=changed))


def _close(value: Node, named: bool) -> Iterator[tuple[str, str]]:
    """The tensors that are subtracted from one another under a name, or in an exponential."""
    found = [value] if named else []
    found += [n.args[0] for n in walk(value) if isinstance(n, Call) and n.fn == "exp"]
    for node in found:
        if isinstance(node, Call) and node.fn == "sub" and all(isinstance(a, Read) for a in node.args):
            first, second = (a.name for a in node.args if isinstance(a, Read))
            yield from ((first, second), (second, first))


def _changed(node: Node, close: _Pairs) -> Node:
    if not isinstance(node, Call) or node.fn not in ("add", "sub"):
        return rebuilt(node, lambda n: _changed(n, close))
    terms = [(_changed(t, close), minus) for t, minus in chained_terms(node)]
    pair = _pair(terms, close) if len(terms) > 2 else None
    if pair is None or terms[:2] == list(pair):
        return summed(terms)
    rest = [t for t in terms if t not in pair]
    small = len(rest) > 1 and all(set(node_axes(t)) < {*node_axes(pair[0][0]), *node_axes(pair[1][0])} for t, _ in rest)
    if not small:
        return summed([*pair, *rest])
    added = any(not minus for _, minus in rest)
    inner = summed(sorted(((t, minus != (not added)) for t, minus in rest), key=lambda term: term[1]))
    return summed([*pair, (inner, not added)])


def _pair(terms: list[tuple[Node, bool]], close: _Pairs) -> tuple[tuple[Node, bool], tuple[Node, bool]] | None:
    """The first two terms that nearly cancel, what is subtracted behind."""
    for plus in (t for t in terms if not t[1] and isinstance(t[0], Read)):
        for minus in (t for t in terms if t[1] and isinstance(t[0], Read)):
            if (plus[0].name, minus[0].name) in close:  # type: ignore[union-attr]
                return plus, minus
    return None
