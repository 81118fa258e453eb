"""A sum over several axes starts from the same sum over fewer of them, where the program has that one already.

With `mean_dy[n, c] = mean(dy[n, c, s], over=s)` at hand, `sum(dy[n, c, s], over=(n, s))` is
`size(s) * sum(mean_dy[n, c], over=n)`: a pass over `dy` less.
"""

from __future__ import annotations

from dataclasses import replace

from derive.program import Assign, Call, Node, Program, Read, Reduce, SizeOf, Statement, check, node_axes, walk
from derive.share import put

_KINDS = ("sum", "mean")


def partial_sums(program: Program) -> Program:
    """The same program, every sum taken by way of the largest part of it that is summed already."""
    statements = list(program.statements)
    for statement in program.statements:
        for whole in [n for n in walk(statement.value) if isinstance(n, Reduce) and n.kind in _KINDS]:
            part = _largest_part(whole, statements)
            if part is None:
                continue
            at = statements.index(statement)
            shorter = replace(statement, value=put(statement.value, whole, _from_part(whole, part)))
            statements[at] = statement = shorter
            if statements.index(part) > at:  # it reads no more than the sum does, so it can come first
                statements.remove(part)
                statements.insert(at, part)
    return check(replace(program, statements=tuple(statements)))


def _largest_part(whole: Reduce, statements: list[Statement]) -> Assign | None:
    parts = [
        (len(s.value.axes), s)
        for s in statements
        if isinstance(s, Assign) and isinstance(s.value, Reduce) and _is_part(s.value, whole)
        if set(s.axes) == set(node_axes(s.value))
    ]
    return max(parts, key=lambda found: found[0])[1] if parts else None


def _is_part(inner: Reduce, whole: Reduce) -> bool:
    return inner.kind in _KINDS and inner.body == whole.body and set(inner.axes) < set(whole.axes)


def _from_part(whole: Reduce, part: Assign) -> Node:
    """`whole` as a sum of `part`: means and sums differ by the number of elements."""
    inner = part.value
    assert isinstance(inner, Reduce)
    rest = tuple(a for a in whole.axes if a not in inner.axes)
    shorter = Reduce(whole.kind, rest, Read(part.name, part.axes))
    if whole.kind == inner.kind:
        return shorter
    count = _count(inner.axes)
    return Call("mul", (count, shorter)) if whole.kind == "sum" else Call("div", (shorter, count))


def _count(axes: tuple[str, ...]) -> Node:
    out: Node = SizeOf(axes[0])
    for a in axes[1:]:
        out = Call("mul", (out, SizeOf(a)))
    return out
