"""Cost decides: the backward stretch by stretch, then the laws that speak of a whole form, each where it is cheaper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from sympy import Add, Expr

from derive.adjoint import Stepwise
from derive.algebra import normal
from derive.collapse.chain import Choice, Laws, Step, forced
from derive.collapse.complements import complements, tangents
from derive.collapse.denominators import cancelled
from derive.collapse.domain import conditions, divided_by, divisors, outside_domain, undivided
from derive.collapse.inversions import Inversion, definitions_of, inversions, subtracted
from derive.collapse.local_search import Candidate
from derive.collapse.magnitudes import magnitudes
from derive.collapse.masked import masked
from derive.collapse.openings import bodies, opened, with_definitions
from derive.collapse.reassociate import (
    by_adjoints,
    by_factors,
    by_what_adjoints_are,
    matrix_products,
    products_of,
    reassociated,
)
from derive.collapse.relations import Relation, by_names, relations
from derive.collapse.segments import segments
from derive.collapse.stretches import beside_each_other, solved
from derive.collapse.sums_of_adjoints import sums_of_adjoints, weighted_sums_of_adjoints
from derive.collapse.supports import of_definition, reason_of, supports, without_masks
from derive.collapse.symmetries import in_one_order
from derive.collapse.vanishing import vanishing
from derive.collapse.wholes import wholes
from derive.equations import Op
from derive.lengths.nominal import nominal
from derive.lowering.definitions import Definition, circular
from derive.saving import POLICIES, Kept, Policy, recompute, with_kept
from derive.terms.elements import At, Scalar
from derive.terms.reductions import Sigma


@dataclass(frozen=True)
class Closed:
    """A closed form: its definitions, what the forward keeps for it, what it costs, and how it was reached."""

    choices: tuple[Choice, ...]
    definitions: tuple[Definition, ...]
    kept: Kept
    steps: tuple[Step, ...]
    inversions: tuple[Inversion, ...]
    relations: tuple[Relation, ...]
    conditions: tuple[Inversion, ...] = ()  # eliminations in use that do not hold everywhere


def search(steps: Stepwise, policy: Policy) -> Closed:
    """The cheapest closed form that local changes reach from the one that keeps everything as the chain rule has it."""
    steps, turned = in_one_order(steps)
    known = inversions(steps.op)
    lossy = {} if policy.conditional else {i: subtracted(i, steps.op) for i in known if i.nonzero is None}
    valid = known if policy.conditional else tuple(i for i in lossy if not _is_number(lossy[i]))
    valid += definitions_of(steps.op, nominal(steps.op).carriers)
    identities = relations(steps.op, known)
    gradients = frozenset(o.name for o in steps.op.differentiable)
    everywhere = undivided(by_names(identities), divisors(steps))
    facts = Laws(valid, everywhere, supports(steps.op), wholes(steps.op), forced(steps), gradients, masked(steps.op))
    steps, gone = vanishing(steps, facts)
    stretches, cuts = segments(steps, forced(steps))
    always = forced(steps) | frozenset(cuts)
    laws = replace(facts, relations=by_names(identities), always=always, subtracted=lossy, memo={})
    allowed = divisors(steps) | (conditions(known) if policy.conditional else set())
    parts = solved(steps, stretches, cuts, laws, allowed, policy)
    whole = _whole(steps, [p.best for p in parts], laws, facts, policy)
    beside = beside_each_other(steps, parts, allowed, policy)
    if [c.choice for c in beside] != [p.best.choice for p in parts]:
        other = _whole(steps, beside, laws, facts, policy)
        whole = other if other.kept.total < _CLEARLY * whole.kept.total else whole
    definitions = tuple(d for c in whole.parts for d in c.definitions)
    history = (*turned, *gone, *(s for c in whole.parts for s in c.steps))
    choices = tuple(c.choice for c in whole.parts)
    return Closed(choices, definitions, whole.kept, history, known, identities, _used(whole.parts, known))


_CLEARLY = 0.99
"""What the cost of another form must be below: closer ones are one to what is counted."""


@dataclass(frozen=True)
class _Whole:
    """The form of every stretch, and what they cost together with what is computed again."""

    parts: tuple[Candidate, ...]
    kept: Kept


def _whole(steps: Stepwise, parts: list[Candidate], laws: Laws, facts: Laws, policy: Policy) -> _Whole:
    """The stretches after the laws that speak of all of them."""
    best = list(parts)
    for k, candidate in enumerate(best):
        everything = [d for c in best for d in c.definitions]
        elsewhere = frozenset(n for i, c in enumerate(best) if i != k for n in c.kept.names)
        best[k] = _identities(steps, _reassociate(steps, candidate, everything, laws, elsewhere, policy), policy)
    best = _summed(steps, _unmasked(steps, best, facts), policy)
    again = _recomputed(steps, best, policy)
    kept = with_kept(steps, [*again, *(d for c in best for d in c.definitions)], policy=policy)
    return _Whole(tuple(best), kept)


def _is_number(lost: Expr) -> bool:
    """Whether a term of what is subtracted reads nothing, so that nothing could make it vanish again."""
    return any(t != 0 and not t.atoms(At, Scalar) for t in Add.make_args(lost))


def _used(parts: tuple[Candidate, ...], known: tuple[Inversion, ...]) -> tuple[Inversion, ...]:
    """The eliminations in use that hold only under a condition."""
    used = {through for p in parts for through in p.choice.eliminate}
    return tuple(i for i in known if i.through in used and i.nonzero is not None)


def _reassociate(
    steps: Stepwise,
    found: Candidate,
    everything: list[Definition],
    laws: Laws,
    held: frozenset[str],
    policy: Policy,
) -> Candidate:
    """Take sums over matrix products by way of forward tensors or adjoints, each where that is cheaper."""
    products = matrix_products(everything)
    found = replace(
        found, kept=with_kept(steps, list(found.definitions), tuple(d.name for d in found.definitions), held, policy)
    )
    sums = sorted({s for d in found.definitions for s in d.value.atoms(Sigma)}, key=lambda s: s.sort_key())
    allowed = divisors(steps) | {n for d in found.definitions for n in divided_by(d.value)}
    within = undivided(laws.relations, divisors(steps))
    adjoints = {a.target.name: a.left for a in steps.adjoints}
    made = [(adjoints[d.name], d) for d in everything]
    forward = products_of(steps.op)
    ways = [
        (s, way)
        for s in sums
        for way in (
            *reassociated(s, products, within),
            *by_adjoints(s, forward, made),
            *by_what_adjoints_are(s, made, within),
        )
    ]
    ways += [(s, way) for s, found_so in ways for way in by_factors(found_so, steps.op, made)]
    for s, (value, because) in ways:
        changed = [replace(d, value=normal(d.value.xreplace({s: value}))) for d in found.definitions]
        if circular({d.name: d for d in (*everything, *changed)}.values()) or any(d.value == 0 for d in changed):
            continue  # gradients of inputs stay as they are asked for
        kept = with_kept(steps, changed, tuple(d.name for d in changed), held, policy)
        if kept.total < found.kept.total and not outside_domain(changed, allowed):
            new = [
                Step("reassociate", adjoints[d.name], d.value, c.value, because)
                for d, c in zip(found.definitions, changed, strict=True) if d != c
            ]  # fmt: skip
            found = Candidate(found.choice, tuple(changed), (*found.steps, *new), kept)
    return found


_Identity = tuple[str, Callable[[Expr], Iterator[Expr]], str]
_IDENTITIES: tuple[_Identity, ...] = (
    ("complement", complements, "1 - sigmoid(u) = sigmoid(-u)"),
    ("complement", tangents, "1 - 2*sigmoid(u) = tanh(-u/2)"),
    ("denominator", cancelled, "a/b - c/b**2 = (a*b - c)/b**2"),
)
"""Laws of single definitions, each taken where it is cheaper."""


def _identities(steps: Stepwise, found: Candidate, policy: Policy) -> Candidate:
    """The same with each of these laws where it is cheaper."""
    returns = tuple(d.name for d in found.definitions)
    found = replace(found, kept=with_kept(steps, list(found.definitions), returns, policy=policy))
    known = bodies(steps.op)
    magnitude: _Identity = ("magnitude", partial(magnitudes, op=steps.op), "sign(u) * abs(u) = u")
    for k in range(len(found.definitions)):
        for law, values, reason in (*_IDENTITIES, magnitude):
            ways = ((value, reason) for value in values(found.definitions[k].value))
            found = _cheaper(steps, found, k, law, ways, policy)
        names = with_definitions(known, list(found.definitions[:k]))
        found = _cheaper(steps, found, k, "open", opened(found.definitions[k].value, names), policy)
    return found


def _cheaper(
    steps: Stepwise, found: Candidate, k: int, law: str, ways: Iterator[tuple[Expr, str]], policy: Policy
) -> Candidate:
    """The same with the first of these values for one definition that is cheaper, if any is."""
    returns = tuple(d.name for d in found.definitions)
    definition = found.definitions[k]
    for value, reason in ways:
        changed = [*found.definitions]
        changed[k] = replace(definition, value=value)
        kept = with_kept(steps, changed, returns, policy=policy)
        if kept.total < found.kept.total:
            left = next(a.left for a in steps.adjoints if a.target.name == definition.name)
            step = Step(law, left, definition.value, value, reason)
            return Candidate(found.choice, tuple(changed), (*found.steps, step), kept)
    return found


def _summed(steps: Stepwise, parts: list[Candidate], policy: Policy) -> list[Candidate]:
    """The parts with sums of named adjoints as that, where it is cheaper."""
    out: list[Candidate] = []
    named: list[tuple[At, Definition]] = []
    lefts = {a.target.name: a.left for a in steps.adjoints}
    made = [(lefts[d.name], d) for part in parts for d in part.definitions]
    for i, part in enumerate(parts):
        others = [d for p in (*out, *parts[i + 1 :]) for d in p.definitions]
        allowed = divisors(steps) | {n for d in part.definitions for n in divided_by(d.value)}
        for k, definition in enumerate(part.definitions):
            for value, reason in _as_sums(definition, named, made, steps.op):
                changed = (*part.definitions[:k], replace(definition, value=value), *part.definitions[k + 1 :])
                names = tuple(d.name for d in changed)
                before, kept = (with_kept(steps, list(ds), names, policy=policy) for ds in (part.definitions, changed))
                sound = not circular([*changed, *others]) and not outside_domain(list(changed), allowed)
                if kept.total < before.total and sound:
                    step = Step("reassociate", lefts[definition.name], definition.value, value, reason)
                    part = replace(part, definitions=changed, steps=(*part.steps, step), kept=kept)
                    break
            named.append((lefts[definition.name], part.definitions[k]))
        out.append(part)
    return out


def _as_sums(
    definition: Definition, named: list[tuple[At, Definition]], made: list[tuple[At, Definition]], op: Op
) -> Iterator[tuple[Expr, str]]:
    """A definition as a sum of adjoints that have names, or of their products with what the forward has at hand."""
    yield from sums_of_adjoints(definition, named)
    forward = products_of(op)
    products = [e.left for e in op.equations if e.name in forward]
    for value, reason in weighted_sums_of_adjoints(definition, named, products):
        for s in value.atoms(Sigma):
            for way, why in by_adjoints(s, forward, made):
                yield value.xreplace({s: way}), f"{reason}; {why}"


def _unmasked(steps: Stepwise, parts: list[Candidate], laws: Laws) -> list[Candidate]:
    """The parts without masks of what vanishes there because of another definition."""
    known, out = dict(laws.supports), []
    lefts = {a.target.name: a.left for a in steps.adjoints}
    for part in parts if known else ():
        definitions, history = [], list(part.steps)
        for d in part.definitions:
            value, why = without_masks(d.value, known)
            if value != d.value:
                history.append(Step("support", lefts[d.name], d.value, value, reason_of(why)))
                d = replace(d, value=value)
            known[d.name] = of_definition(d, known)
            definitions.append(d)
        out.append(replace(part, definitions=tuple(definitions), steps=tuple(history)))
    return out or parts


_SMALL = 40
"""Equations up to which what is computed again is decided for the whole backward at once, not stretch by stretch."""


def _recomputed(steps: Stepwise, parts: list[Candidate], policy: Policy) -> list[Definition]:
    """What the backward computes again instead of keeping it; in a long one, tensors that one stretch alone reads."""
    small = len(steps.op.equations) <= _SMALL
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
