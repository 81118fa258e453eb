"""The backward in independent stretches, so that the search for a closed form grows with the graph and no faster.

An adjoint that every form names (a matrix product's, a scatter's) separates what comes before from what comes after.
A stretch without such a boundary is cut where a single adjoint carries everything, once it has grown long. What hangs
together all the same is cut where the fewest adjoints are read across, and these have names. The gradient of a weight
that each of many steps reads holds nothing together: it is added up stretch by stretch, of adjoints that have names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sympy import S

from derive.adjoint.chain_rule import Adjoint, Contribution, Stepwise
from derive.collapse.chain import is_alias, is_broadcast
from derive.ir.terms.elements import Tensor, tensor_names
from derive.ir.terms.names import new_name

LONGEST = 6
"""Adjoints in a stretch before it is cut at the next adjoint that everything passes through."""

MOST = 3 * LONGEST
"""Adjoints that are searched as one stretch, and contributions that are: the search takes their square."""

_Stretch = tuple[Adjoint, ...]


@dataclass(frozen=True)
class Stretches:
    """A backward in stretches, by a chain rule in which long sums are added up stretch by stretch."""

    steps: Stepwise
    parts: list[_Stretch]
    cuts: tuple[str, ...]  # the adjoints at which long stretches were cut, each of which may turn out to need no name
    named: frozenset[str]  # those that need one because another stretch reads them


def segments(steps: Stepwise, always: frozenset[str]) -> Stretches:
    """The stretches in order, none longer than `MOST`."""
    parts, cuts = _apart(steps, always)
    long = _long_sums(steps, parts)
    if not long and all(len(p) <= MOST for p in parts):
        return Stretches(steps, parts, cuts, frozenset())
    parts, cuts = _apart(steps, always, long)
    parts = [piece for p in parts for piece in (_pieces(p) if len(p) > MOST else [p])]
    home = {a.target.name: k for k, p in enumerate(parts) for a in p}
    of = {a.target.name: a.of for a in steps.adjoints}
    heavy = {a.target.name for a in steps.adjoints if not is_alias(a.value) and not is_broadcast(a)}
    named = {of[n] for k, p in enumerate(parts) for a in p for n in a.reads if home.get(n, k) != k} - set(cuts)
    named |= {of[n] for a in steps.adjoints if a.of in long for n in a.reads & heavy}
    named |= long
    parts, steps = _added_up(steps, parts, home, long)
    return Stretches(steps, parts, tuple(c for c in cuts if c not in named), frozenset(named) - always)


def _apart(
    steps: Stepwise, always: frozenset[str], without: Collection[str] = ()
) -> tuple[list[_Stretch], tuple[str, ...]]:
    """What hangs together by adjoints that have no name in any case, and the adjoints at which it was cut."""
    made = _long_cuts(steps, always, without)
    cuts = {*always, *made}
    adjoints = [a for a in steps.adjoints if a.of not in without]
    target_of = {a.target.name: a.of for a in adjoints}
    group: dict[str, str] = {a.of: a.of for a in adjoints}

    def root(name: str) -> str:
        while group[name] != name:
            group[name] = name = group[group[name]]
        return name

    readers: dict[str, list[str]] = {cut: [] for cut in made}
    for adjoint in adjoints:
        for name in sorted(adjoint.reads):
            source = target_of.get(name)
            if source is not None and source not in cuts:
                group[root(adjoint.of)] = root(source)
            elif source in readers:
                readers[source].append(adjoint.of)
    parts: dict[str, list[Adjoint]] = {}
    for adjoint in adjoints:
        parts.setdefault(root(adjoint.of), []).append(adjoint)
    apart = tuple(c for c in made if any(root(r) != root(c) for r in readers[c]))  # a gradient may join both sides
    return [tuple(p) for p in parts.values()], apart


def _long_cuts(steps: Stepwise, always: frozenset[str], without: Collection[str]) -> tuple[str, ...]:
    """Adjoints through which all that is open passes, one in every `LONGEST`."""
    idle = {*(o.name for o in steps.op.differentiable), *without}
    last_read: dict[str, int] = {}
    for k, adjoint in enumerate(steps.adjoints):
        for name in adjoint.reads:
            if adjoint.of not in idle:  # nothing depends on a gradient, so what it reads is not held open
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
        elif carries_all and length >= LONGEST and adjoint.of not in idle and _given(steps, adjoint):
            cuts.append(adjoint.of)
            length = 0
        if adjoint.of not in always and adjoint.of not in cuts and adjoint.of not in idle:
            open_names.add(adjoint.target.name)
    return tuple(cuts)


def _given(steps: Stepwise, adjoint: Adjoint) -> bool:
    """Whether the user wrote the forward tensor, which is not the inside of something, and its adjoint is its own."""
    equation = steps.op.equation(adjoint.of)
    return equation is not None and equation.given and not is_broadcast(adjoint)


def _pieces(part: _Stretch) -> Iterator[_Stretch]:
    """A stretch in pieces of `LONGEST` to twice that, each up to where the fewest adjoints are read across.

    An adjoint that none of these reads, a gradient, is with what it reads.
    """
    places = {a.target.name: k for k, a in enumerate(part)}
    read = {n for a in part for n in a.reads}
    last = {a.target.name: max((places[n] for n in a.reads if n in places), default=k) for k, a in enumerate(part)}
    order = sorted(part, key=lambda a: places[a.target.name] if a.target.name in read else last[a.target.name] + 0.5)
    last_read = {n: k for k, a in enumerate(order) for n in a.reads if n in places}
    open_names: set[str] = set()
    across: list[int] = []
    for k, adjoint in enumerate(order):
        open_names = {n for n in {*open_names, adjoint.target.name} if last_read.get(n, -1) > k}
        across.append(len(open_names))
    start = 0
    while start < len(order):
        ends = range(start + LONGEST, min(start + 2 * LONGEST, len(order) - LONGEST) + 1)
        end = min(ends, key=lambda e: across[e - 1]) if len(order) - start > MOST else len(order)
        yield tuple(sorted(order[start:end], key=lambda a: places[a.target.name]))
        start = end


def _long_sums(steps: Stepwise, parts: list[_Stretch]) -> frozenset[str]:
    """Adjoints of more contributions than are searched at once, or of three and more from all over a long stretch."""
    found = {a.of for a in steps.adjoints if len(a.contributions) > MOST}
    for part in (p for p in parts if len(p) > MOST):
        places = {a.target.name: k for k, a in enumerate(part)}
        for adjoint in (a for a in part if len(a.contributions) > 2):
            reads = [places[n] for n in adjoint.reads if n in places]
            if reads and max(reads) - min(reads) > 2 * LONGEST:
                found.add(adjoint.of)
    return frozenset(found)


def _added_up(
    steps: Stepwise, parts: list[_Stretch], home: dict[str, int], long: Collection[str]
) -> tuple[list[_Stretch], Stepwise]:
    """The stretches, each with its part of these sums, and the chain rule that says so."""
    taken = steps.op.names | {a.target.name for a in steps.adjoints}
    added: dict[int, list[Adjoint]] = {k: list(p) for k, p in enumerate(parts)}
    adjoints: list[Adjoint] = []
    sums: list[tuple[str, tuple[str, ...]]] = []
    for adjoint in steps.adjoints:
        if adjoint.of in long:
            groups: dict[int, list[Contribution]] = {}
            for k, one in enumerate(adjoint.contributions):
                there = [home[n] for n in tensor_names(one.value) if n in home]
                groups.setdefault(max(there, default=-1 - k // LONGEST), []).append(one)
            own = []
            for where, contributions in groups.items():
                name = new_name(f"{adjoint.target.name}_part", taken)
                part = replace(
                    adjoint, of=name, target=Tensor(name), contributions=tuple(contributions), cotangent=None
                )
                added.setdefault(where if where >= 0 else len(added), []).append(part)
                own.append(part)
            adjoints += own
            sums.append((adjoint.target.name, tuple(p.target.name for p in own)))
            adjoint = replace(adjoint, contributions=tuple(_whole(p) for p in own))
            added[len(added)] = [adjoint]
        adjoints.append(adjoint)
    return [tuple(p) for p in added.values()], replace(steps, adjoints=tuple(adjoints), sums=tuple(sums))


def _whole(part: Adjoint) -> Contribution:
    """A part of a sum as what it adds to it."""
    return Contribution(part.of, part.left, S.One, part.left, ())
