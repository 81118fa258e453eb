"""The backward in independent stretches, so that the search for a closed form grows with the graph and no faster.

An adjoint that every form names (a matrix product's, a scatter's) separates what comes before from what comes after.
A stretch without such a boundary is cut where a single adjoint carries everything, once it has grown long.
"""

from __future__ import annotations

from derive.adjoint import Adjoint, Stepwise
from derive.collapse.chain import is_broadcast

LONGEST = 6
"""Adjoints in a stretch before it is cut at the next adjoint that everything passes through."""


def segments(steps: Stepwise, always: frozenset[str]) -> tuple[list[tuple[Adjoint, ...]], tuple[str, ...]]:
    """The stretches in order, and the adjoints at which long ones were cut."""
    made = _long_cuts(steps, always)
    cuts = set(always) | set(made)
    target_of = {a.target.name: a.of for a in steps.adjoints}
    group: dict[str, str] = {a.of: a.of for a in steps.adjoints}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    for adjoint in steps.adjoints:
        for name in sorted(adjoint.reads):
            source = target_of.get(name)
            if source is not None and source not in cuts:
                group[root(adjoint.of)] = root(source)
    parts: dict[str, list[Adjoint]] = {}
    for adjoint in steps.adjoints:
        parts.setdefault(root(adjoint.of), []).append(adjoint)
    readers = {cut: [a.of for a in steps.adjoints if cut in map(target_of.get, a.reads)] for cut in made}
    apart = tuple(c for c in made if any(root(r) != root(c) for r in readers[c]))  # a gradient may join both sides
    return [tuple(p) for p in parts.values()], apart


def _long_cuts(steps: Stepwise, always: frozenset[str]) -> tuple[str, ...]:
    """Adjoints through which all that is open passes, one in every `LONGEST`."""
    gradients = {o.name for o in steps.op.differentiable}
    last_read: dict[str, int] = {}
    for k, adjoint in enumerate(steps.adjoints):
        for name in adjoint.reads:
            if adjoint.of not in gradients:  # nothing depends on a gradient, so what it reads is not held open
                last_read[name] = k
    cuts: list[str] = []
    open_names: set[str] = set()
    length = 0
    for k, adjoint in enumerate(steps.adjoints):
        open_names = {n for n in open_names if last_read.get(n, -1) > k}
        length += 1
        carries_all = not open_names and last_read.get(adjoint.target.name, -1) > k and adjoint.value != 0
        if adjoint.of in always:
            length = 0
        elif carries_all and length >= LONGEST and adjoint.of not in gradients and _given(steps, adjoint):
            cuts.append(adjoint.of)
            length = 0
        if adjoint.of not in always and adjoint.of not in cuts and adjoint.of not in gradients:
            open_names.add(adjoint.target.name)
    return tuple(cuts)


def _given(steps: Stepwise, adjoint: Adjoint) -> bool:
    """Whether the user wrote the forward tensor, which is not the inside of something, and its adjoint is its own."""
    equation = steps.op.equation(adjoint.of)
    return equation is not None and equation.given and not is_broadcast(adjoint)
