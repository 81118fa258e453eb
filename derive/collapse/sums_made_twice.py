"""A small sum that both passes take of the same tensors is handed on: of `r @ K @ r` the forward has the `K @ r`.

It costs few bytes, and to take it again a pass over all that it sums.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from derive.collapse.autograd.saved import BYTES
from derive.collapse.conditions import Handed
from derive.decisions import SMALL_SUM
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.matching import reading
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import renamed
from derive.ir.nodes.walking import node_axes, reads
from derive.ir.program import Assign, Read, Reduce


def with_sums_made_twice(known: Handed, cotangents: Collection[str], most: float, nominal: Nominal) -> Handed:
    """The same, with each such sum of the forward handed on, as far as `most` bytes go."""
    out = known
    for name in [s.name for s in known.backward.statements]:
        s = out.backward.assigned.get(name)
        twin = None if s is None else _twin(s, out, cotangents, nominal)
        if s is None or twin is None:
            continue
        trial = _handed(twin, s, out)
        held = [axes for n, axes in trial.backward.given if n not in cotangents]
        if BYTES["real"] * sum(nominal.elements(axes) for axes in held) <= most:
            out = trial
    return replace(out, forward=check(out.forward), backward=check(out.backward))


def _twin(s: Assign, known: Handed, cotangents: Collection[str], nominal: Nominal) -> Assign | None:
    """The forward's statement of such a sum, which nothing of the backward has the name of."""
    own, theirs = known.forward.assigned, known.backward.assigned
    made = {x.name for x in known.backward.statements}
    again = {n for n in made if n in own and n in theirs and own[n].value == theirs[n].value}
    if not isinstance(s.value, Reduce) or reads(s.value) & ({*cotangents, *made} - again):
        return None
    if nominal.weighted(node_axes(s.value)) * SMALL_SUM > nominal.elements((*node_axes(s.value), *s.value.axes)):
        return None
    alike = (t for t in own.values() if t.name == s.name or t.name not in known.backward.names)
    return next((t for t in alike if reading(t, s.value) == Read(t.name, s.axes)), None)


def _handed(twin: Assign, s: Assign, known: Handed) -> Handed:
    """The forward's sum as what the backward is given, in place of its own statement for it."""
    statements = tuple(renamed(x, {s.name: twin.name}) for x in known.backward.statements if x.name != s.name)
    slots = [i for x in statements for i in x.slots]
    wanted = {n for part in (*(x.value for x in statements), *slots) for n in reads(part)}
    gone = {n for n in dict(known.backward.given) if n in reads(s.value) and n not in wanted}
    given = [(n, a) for n, a in known.backward.given if n not in gone]
    if twin.name not in dict(given):
        given.append((twin.name, tuple(map(str, twin.axes))))
    returns = known.forward.returns
    kept = [n for n in returns[known.outputs :] if n not in gone]
    forward = replace(known.forward, returns=(*returns[: known.outputs], *dict.fromkeys((*kept, twin.name))))
    backward = replace(known.backward, given=tuple(given), statements=statements)
    return replace(known, forward=forward, backward=backward, functions=tuple(dict.fromkeys((*known.functions, twin))))
