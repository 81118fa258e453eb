"""Cost decides: the backward stretch by stretch, then the laws that speak of a whole form, each where it is cheaper."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from sympy import Add, Expr

from derive.adjoint.chain_rule import Stepwise
from derive.collapse.chain import Choice, Laws, Step, forced
from derive.collapse.domain import conditions, divisors, undivided
from derive.collapse.emptied import totals
from derive.collapse.inversions import Inversion, definitions_of, inversions, subtracted
from derive.collapse.known import gathers, sums_before
from derive.collapse.local_search import Candidate
from derive.collapse.masked import masked
from derive.collapse.relations import Relation, by_names, of_what_is_chosen, relations
from derive.collapse.saving import Kept, Policy, reached
from derive.collapse.segments import segments
from derive.collapse.sides_taken import extrema
from derive.collapse.stretches import Told, beside_each_other, silent, solved
from derive.collapse.supports import supports
from derive.collapse.symmetries import in_one_order
from derive.collapse.together import Whole, added_up, of_whole_sums
from derive.collapse.vanishing import vanishing
from derive.collapse.whole_form import whole_form
from derive.decisions import FORM_GAIN, STRETCHES_ALONE
from derive.facts.costs.cost import made_again
from derive.facts.interpreter import facts_of
from derive.facts.lengths.nominal import nominal
from derive.ir.terms.elements import At, Scalar
from derive.rules.expressions import names_of
from derive.schedule.definitions import Definition


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


def search(steps: Stepwise, policy: Policy, told: Told = silent) -> Closed:
    """The cheapest closed form that local changes reach from the one that keeps everything as the chain rule has it.

    `told` is called with what is searched next.
    """
    steps, turned = in_one_order(steps)
    known = inversions(steps.op)
    lossy = {} if policy.conditional else {i: subtracted(i, steps.op) for i in known if i.nonzero is None}
    valid = known if policy.conditional else tuple(i for i in lossy if not _is_number(lossy[i]))
    valid += definitions_of(steps.op, nominal(steps.op).carriers)
    identities = of_what_is_chosen(relations(steps.op, known), divisors(steps))
    gradients = frozenset(o.name for o in steps.op.differentiable)
    everywhere = undivided(by_names(identities), divisors(steps))
    facts = Laws(
        valid, everywhere, supports(steps.op), names_of(steps.op), forced(steps), gradients, masked(steps.op),
        values=facts_of(steps.op), extrema=extrema(steps.op),
    )  # fmt: skip
    steps, gone = vanishing(steps, replace(facts, totals=totals(steps.op), gathers=gathers(steps.op)))
    laws = replace(facts, relations=by_names(identities), subtracted=lossy, sums=sums_before(steps))
    allowed = divisors(steps) | (conditions(known) if policy.conditional else set())
    found = [
        _with_named(steps, named, laws, facts, allowed, policy, told)
        for named in dict.fromkeys((forced(steps), forced(steps, scaled=True)))
    ]
    whole, apart = min(found, key=lambda w: w[0].kept.total)
    definitions = tuple(reached(added_up(whole.definitions, apart), whole.kept.program.returns))
    history = (*turned, *gone, *of_whole_sums((s for c in whole.parts for s in c.steps), apart))
    choices = tuple(c.choice for c in whole.parts)
    return Closed(choices, definitions, whole.kept, history, known, identities, _used(whole.parts, known))


def _with_named(
    steps: Stepwise, named: frozenset[str], laws: Laws, facts: Laws, allowed: Set[str], policy: Policy,
    told: Told,
) -> tuple[Whole, Stepwise]:
    """The cheapest form in which these adjoints are named in any case, and the chain rule that it is of."""
    found = segments(steps, named)
    steps, cuts, parts_of_sums = found.steps, found.cuts, (name for _, names in found.steps.sums for name in names)
    always, gradients = named | found.named | frozenset(cuts), laws.gradients | frozenset(parts_of_sums)
    laws = replace(laws, always=always, gradients=gradients, memo={})
    parts = solved(steps, found.parts, cuts, laws, allowed, policy, told)
    told("the stretches together")
    whole = whole_form(steps, [p.best for p in parts], laws, facts, policy)
    beside = beside_each_other(steps, parts, allowed, policy)
    best = [p.best for p in parts]
    changed = [k for k, c in enumerate(beside) if best[k].choice != c.choice]
    # two that change for each other's sake may each give up what the other changes for: then one of them does
    alone = [[k] for k in changed] if 1 < len(changed) <= STRETCHES_ALONE else []
    trials = [changed, *alone] if changed else []
    for those in trials:
        mixed = [beside[k] if k in those else best[k] for k in range(len(best))]
        other = whole_form(steps, mixed, laws, facts, policy)
        if _cost(whole, steps) - _cost(other, steps) > FORM_GAIN * sum(best[k].kept.total for k in those):
            return other, steps
    return whole, steps


def _cost(whole: Whole, steps: Stepwise) -> float:
    """What a form costs, its stretches sharing the elementary functions that they have in common."""
    return whole.kept.total - made_again(whole.kept.program, nominal(steps.op))


def _is_number(lost: Expr) -> bool:
    """Whether a term of what is subtracted reads nothing, so that nothing could make it vanish again."""
    return any(t != 0 and not t.atoms(At, Scalar) for t in Add.make_args(lost))


def _used(parts: tuple[Candidate, ...], known: tuple[Inversion, ...]) -> tuple[Inversion, ...]:
    """The eliminations in use that hold only under a condition."""
    used = {through for p in parts for through in p.choice.eliminate}
    return tuple(i for i in known if i.through in used and i.nonzero is not None)
