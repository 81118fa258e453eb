"""The stretches of a backward together: what they cost, and laws that change any of their definitions at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import MappingProxyType

from sympy import Add, Expr, S

from derive.adjoint.chain_rule import Stepwise
from derive.collapse.chain import Choice, Step
from derive.collapse.domain import divided_by, divisors, outside_domain
from derive.collapse.local_search import Candidate
from derive.collapse.saving import POLICIES, Kept, Policy, recompute, with_kept
from derive.decisions import AGAIN_AT_ONCE
from derive.ir.terms.elements import At, Tensor, tensor_names
from derive.schedule.definitions import Definition, circular


@dataclass(frozen=True)
class Whole:
    """The form of every stretch, and what they cost together with what is computed again."""

    parts: tuple[Candidate, ...]
    kept: Kept

    @property
    def definitions(self) -> list[Definition]:
        return [d for part in self.parts for d in part.definitions]


def priced(steps: Stepwise, parts: Sequence[Candidate], policy: Policy) -> Whole:
    """The stretches together with what is computed again."""
    again = _recomputed(steps, parts, policy)
    definitions = added_up([d for c in parts for d in c.definitions], steps)
    return Whole(tuple(parts), with_kept(steps, [*again, *definitions], policy=policy))


def added_up(definitions: list[Definition], steps: Stepwise) -> list[Definition]:
    """The definitions with those that are the parts of a sum in it, but for parts that others read by name."""
    parts, totals = {name for _, names in steps.sums for name in names}, {name for name, _ in steps.sums}
    read = {n for d in definitions if d.name not in totals for n in tensor_names(d.value)}
    inside = {At(Tensor(d.name), *d.axes): d.value for d in definitions if d.name in parts - read}
    others = (d for d in definitions if d.name not in parts - read)
    return [replace(d, value=d.value.xreplace(inside)) if d.name in totals else d for d in others]


def _recomputed(steps: Stepwise, parts: Sequence[Candidate], policy: Policy) -> list[Definition]:
    """What the backward computes again instead of keeping it; in a long one, tensors that one stretch alone reads."""
    small = len(steps.op.equations) <= AGAIN_AT_ONCE
    if small or policy.again != POLICIES["cost"].again:
        everything = [d for part in parts for d in part.definitions]
        names = frozenset(n for part in parts for n in part.kept.names) | {e.name for e in steps.op.equations}
        return recompute(steps, everything, names, frozenset(), policy)
    readers: dict[str, int] = {}
    for part in parts:
        for name in part.kept.names:
            readers[name] = readers.get(name, 0) + 1
    again: list[Definition] = []
    for part in parts:
        alone = frozenset(n for n in part.kept.names if readers[n] == 1)
        shared = frozenset(n for n in readers if n not in alone)
        again += recompute(steps, list(part.definitions), alone, shared, policy)
    return again


def of_whole_sums(history: Iterable[Step], steps: Stepwise) -> list[Step]:
    """What was done to the parts of a sum as what was done to the sum, one step for each law, after all others."""
    total = {part: name for name, names in steps.sums for part in names}
    out: list[Step] = []
    done: dict[str, dict[str, list[Step]]] = {}
    for step in history:
        if step.subject.name in total:
            done.setdefault(total[step.subject.name], {}).setdefault(step.subject.name, []).append(step)
        else:
            out.append(step)
    for name, names in steps.sums:
        now = {part: steps.by_name[part].value for part in names}
        rest = steps.by_name[name].value.xreplace({steps.by_name[part].left: S.Zero for part in names})
        rounds = zip_longest(*(done.get(name, {}).get(part, []) for part in names))
        for some in rounds:
            for law in dict.fromkeys(s.law for s in some if s is not None):
                own = [s for s in some if s is not None and s.law == law]
                before = Add(rest, *now.values())
                now |= {s.subject.name: s.after for s in own}
                reason = "; ".join(dict.fromkeys(s.reason for s in own))
                out.append(Step(law, steps.by_name[name].left, before, Add(rest, *now.values()), reason))
    return out


def cheapest(
    steps: Stepwise, whole: Whole, law: str, ways: Iterable[tuple[list[Definition], str]], policy: Policy
) -> Whole:
    """The form with all definitions as the cheapest of these ways has them, where one is cheaper than it is."""
    best, allowed = whole, divisors(steps) | {n for d in whole.definitions for n in divided_by(d.value)}
    for changed, reason in ways:
        same = set(whole.definitions) <= set(changed)
        if same or outside_domain(changed, allowed) or circular(changed):
            continue
        other = priced(steps, with_changed(steps, whole.parts, changed, law, reason, policy), policy)
        best = min(best, other, key=lambda w: w.kept.total)
    return best


def with_changed(
    steps: Stepwise,
    parts: Sequence[Candidate],
    changed: list[Definition],
    law: str,
    reason: str,
    policy: Policy,
    before: Mapping[str, Expr] = MappingProxyType({}),
) -> list[Candidate]:
    """The parts with these definitions for their own, those that change as one: one may read what is new in another.

    `before` says what stood there of those that have another name now.
    """
    inside = [part for part in parts if not set(part.definitions) <= set(changed)]
    others = {d.name for part in parts if part not in inside for d in part.definitions}
    old = {**{d.name: d.value for part in inside for d in part.definitions}, **before}
    after = tuple(d for d in changed if d.name not in others)
    history = [Step(law, At(Tensor(d.name), *d.axes), old[d.name], d.value, reason)
               for d in after if d.name in before or (d.name in old and d.value != old[d.name])]  # fmt: skip
    kept = with_kept(steps, list(after), tuple(d.name for d in after), policy=policy)
    one = Candidate(merged(inside), after, (*(s for p in inside for s in p.steps), *history), kept)
    return [one if part is inside[0] else part for part in parts if part not in inside[1:]]


def merged(parts: Sequence[Candidate]) -> Choice:
    """The choices of some stretches, as one."""
    eliminate = frozenset(through for p in parts for through in p.choice.eliminate)
    return Choice(eliminate, frozenset(name for p in parts for name in p.choice.named))
