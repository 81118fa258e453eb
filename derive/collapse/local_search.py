"""One stretch of the backward: try each elimination and each name, keep what makes it cheaper."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace

from derive.adjoint.chain_rule import Adjoint, Stepwise
from derive.collapse.chain import Choice, Laws, Step, close
from derive.collapse.domain import divided_by, outside_domain, undivided
from derive.collapse.inversions import Inversion
from derive.collapse.saving import Kept, Policy, with_kept
from derive.decisions import NAME_GAIN
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.terms.elements import tensor_names
from derive.schedule.definitions import Definition


@dataclass(frozen=True)
class Candidate:
    """One stretch of the backward under one choice."""

    choice: Choice
    definitions: tuple[Definition, ...]
    steps: tuple[Step, ...]
    kept: Kept


def search_part(
    steps: Stepwise,
    part: tuple[Adjoint, ...],
    laws: Laws,
    allowed: Set[str],
    policy: Policy,
    held: frozenset[str] = frozenset(),
) -> Candidate:
    """The cheapest form of a stretch that changes of one elimination or one name lead to; others keep what is held."""
    seen: dict[Choice, Candidate | None] = {}
    known = nominal(steps.op)

    def evaluate(choice: Choice) -> Candidate | None:
        if choice not in seen:
            if in_a_circle(choice, laws.inversions):
                seen[choice] = None
                return None
            definitions, history = close(part, choice, laws)
            outside = outside_domain(definitions, allowed)
            returns = tuple(d.name for d in definitions)
            kept = None if outside else with_kept(steps, definitions, returns, held, policy)
            seen[choice] = None if kept is None else Candidate(choice, tuple(definitions), tuple(history), kept)
        return seen[choice]

    best = evaluate(Choice())
    within = undivided(laws.relations, allowed)
    if best is None and within != laws.relations:  # what is positive may still underflow to 0
        return search_part(steps, part, replace(laws, relations=within, memo={}), allowed, policy, held)
    if best is None:  # the chain rule's own form divides by something that it writes in another way
        own = {name for d in close(part, Choice(), laws)[0] for name in divided_by(d.value)}
        return search_part(steps, part, replace(laws, memo={}), allowed | own, policy, held)
    mentioned = {name for a in part for name in a.reads}
    mentioned |= {name for rs in laws.relations.values() for r in rs for name in tensor_names(r.value)}
    near = _reachable(mentioned, laws.inversions)
    through = [i.through for i in near]
    best = _improve(best, through, _toggle_elimination(near), evaluate, known)
    if policy.conditional:  # an elimination may pay only together with the next, which leads to the output
        pairs = [f"{i.through}+{j.through}" for i in near for j in near if j.of in tensor_names(i.value)]
        best = _improve(best, pairs, lambda c, m: Choice(c.eliminate | set(m.split("+")), c.named), evaluate, known)
    names = [a.of for a in part if a.of not in laws.always and a.of not in laws.gradients]
    best = _improve(best, names, lambda c, n: Choice(c.eliminate, c.named ^ {n}), evaluate, known)
    return _improve(best, through, _toggle_elimination(near), evaluate, known)


def in_a_circle(choice: Choice, known: tuple[Inversion, ...]) -> bool:
    """Whether what one elimination puts in is, by way of others, what it takes out: none of these would be gone."""
    leads = {i.of: tensor_names(i.value) for i in known if i.through in choice.eliminate}
    while leads:
        last = [name for name, into in leads.items() if not into & set(leads)]
        if not last:
            return True
        leads = {name: into for name, into in leads.items() if name not in last}
    return False


def _reachable(mentioned: set[str], known: tuple[Inversion, ...]) -> tuple[Inversion, ...]:
    """The inversions that can touch these tensors, directly or after another."""
    names, out = set(mentioned), {}
    grew = True
    while grew:
        grew = False
        for i in known:
            if i.of in names and i.through not in out:
                out[i.through] = i
                names |= tensor_names(i.value)
                grew = True
    return tuple(i for i in known if i.through in out and out[i.through] == i)


def _toggle_elimination(valid: tuple[Inversion, ...]) -> Callable[[Choice, str], Choice]:
    of = {i.through: i.of for i in valid}

    def toggle(choice: Choice, through: str) -> Choice:
        if through in choice.eliminate:
            return Choice(choice.eliminate - {through}, choice.named)
        rivals = {t for t in choice.eliminate if of[t] == of[through]}
        return Choice(choice.eliminate - rivals | {through}, choice.named)

    return toggle


def _improve(
    best: Candidate,
    moves: list[str],
    move: Callable[[Choice, str], Choice],
    evaluate: Callable[[Choice], Candidate | None],
    known: Nominal,
) -> Candidate:
    """Each move in turn, kept where it is cheaper; a second round where any was."""
    for _ in range(2):
        before = best.choice
        for m in dict.fromkeys(moves):
            candidate = evaluate(move(best.choice, m))
            if candidate is not None and candidate.kept.total < _limit(best, candidate, known):
                best = candidate
        if best.choice == before:
            break
    return best


def _limit(best: Candidate, other: Candidate, known: Nominal) -> float:
    """What the other must cost less than, to be better."""
    names = {d.name for d in best.definitions}
    more = (d for d in other.definitions if d.name not in names)
    wait = len(other.definitions) > len(best.definitions)
    return best.kept.total - (NAME_GAIN * sum(known.elements(a.name for a in d.axes) for d in more) if wait else 0.0)
