"""The stretches of a backward put together, by the laws that speak of all of them, each where it is cheaper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sympy import Expr, S

from derive.adjoint.chain_rule import Stepwise
from derive.collapse.carried import carried
from derive.collapse.chain import Laws, Step
from derive.collapse.domain import divided_by, divisors, outside_domain, undivided
from derive.collapse.known import by_products, products
from derive.collapse.local_search import Candidate
from derive.collapse.openings import bodies, opened, with_definitions
from derive.collapse.reassociate import (
    Found,
    by_adjoints,
    by_factors,
    by_what_adjoints_are,
    is_partly,
    matrix_products,
    products_of,
    reassociated,
)
from derive.collapse.saving import Policy, with_kept
from derive.collapse.sums_of_adjoints import sums_of_adjoints, weighted_sums_of_adjoints
from derive.collapse.sums_of_multiples import sums_named, sums_of_multiples
from derive.collapse.supports import of_definition, reason_of, without_masks
from derive.collapse.together import Whole, cheapest, priced, with_changed
from derive.ir.algebra import normal
from derive.ir.equations import Op
from derive.ir.matching import match
from derive.ir.terms.elements import At, tensor_names
from derive.ir.terms.reductions import Sigma
from derive.rules.expressions import names_of, rewritings
from derive.rules.tables.algebra import GRADIENTS
from derive.schedule.definitions import Definition, circular


def whole_form(steps: Stepwise, parts: list[Candidate], laws: Laws, facts: Laws, policy: Policy) -> Whole:
    """The stretches after the laws that speak of all of them."""
    best = list(parts)
    for k, candidate in enumerate(best):
        everything = [d for c in best for d in c.definitions]
        elsewhere = frozenset(n for i, c in enumerate(best) if i != k for n in c.kept.names)
        best[k] = _identities(steps, _reassociate(steps, candidate, everything, laws, elsewhere, policy), policy)
    best = _summed(steps, _unmasked(steps, best, facts), policy)
    whole = priced(steps, _carried(steps, best, laws, policy), policy)
    asked = {a.target.name for a in steps.adjoints if a.of in laws.gradients}
    ways = sums_named(whole.definitions, products_of(steps.op), asked, steps.op.names)
    whole = cheapest(steps, whole, "reassociate", ways, policy)
    return cheapest(steps, whole, "multiple", sums_of_multiples(whole.definitions, steps.op, whole.kept.names), policy)


def _reassociate(
    steps: Stepwise,
    found: Candidate,
    everything: list[Definition],
    laws: Laws,
    held: frozenset[str],
    policy: Policy,
) -> Candidate:
    """Take sums over matrix products by way of forward tensors or adjoints, each where that is cheaper."""
    found = _priced(steps, found, policy, held)
    own = {d.name for d in found.definitions}
    elsewhere = [d for d in everything if d.name not in own]
    made = [(steps.by_name[d.name].left, d) for d in everything]
    for put, because in _everywhere(_in_another_order(steps, found, made, laws)):
        changed = [replace(d, value=normal(d.value.xreplace(put))) for d in found.definitions]
        if not any(c.value == 0 != d.value for d, c in zip(found.definitions, changed, strict=True)):
            ways = [("reassociate", changed, because)]  # gradients of inputs stay as they are asked for
            found = _cheaper(steps, found, ways, policy, elsewhere, held)
    return found


def _priced(steps: Stepwise, found: Candidate, policy: Policy, held: frozenset[str] = frozenset()) -> Candidate:
    """A stretch with what it keeps as it is defined now, and what that costs."""
    names = tuple(d.name for d in found.definitions)
    return replace(found, kept=with_kept(steps, list(found.definitions), names, held, policy))


def _cheaper(
    steps: Stepwise,
    found: Candidate,
    ways: Iterable[tuple[str, list[Definition], str]],
    policy: Policy,
    elsewhere: Sequence[Definition] | None = None,
    held: frozenset[str] = frozenset(),
) -> Candidate:
    """A stretch in the first of these ways, each by a law and with its reason, that is cheaper.

    With the definitions `elsewhere`, where sums are taken otherwise, it divides by nothing more and needs nothing in a
    circle; of two ways that cost the same the one that reads fewer tensors twice is better.
    """
    summed = elsewhere is not None
    allowed = divisors(steps) | {n for d in found.definitions for n in divided_by(d.value)}
    for law, changed, reason in ways:
        if summed and (circular([*changed, *(elsewhere or ())]) or outside_domain(changed, allowed)):
            continue
        other = _priced(steps, replace(found, definitions=tuple(changed)), policy, held)
        more = other.kept.total - found.kept.total
        if more < 0 or (summed and more == 0 and _read_twice(changed) < _read_twice(found.definitions)):
            both = [(d, c) for d, c in zip(found.definitions, changed, strict=True) if d != c]
            told = (Step(law, steps.by_name[d.name].left, d.value, c.value, reason) for d, c in both)
            return replace(other, steps=(*found.steps, *told))
    return found


def _with_value(
    found: Candidate, k: int, ways: Iterable[tuple[str, Expr, str]]
) -> Iterator[tuple[str, list[Definition], str]]:
    """The definitions of a stretch with each of these values for one of them."""
    for law, value, reason in ways:
        yield law, [replace(d, value=value) if i == k else d for i, d in enumerate(found.definitions)], reason


def _read_twice(definitions: Iterable[Definition]) -> int:
    """How many tensors are read in a sum and beside it: all of one has to be there before it is read again."""
    return sum(
        len(tensor_names(d.value.xreplace({s: S.One for s in sums})) & {n for s in sums for n in tensor_names(s)})
        for d in definitions
        for sums in (d.value.atoms(Sigma),)
    )


def _everywhere(ways: list[tuple[Sigma, Found]]) -> Iterator[tuple[dict[Expr, Expr], str]]:
    """Each way for a sum, taken for what is the same sum at other places too: one that is left would be computed."""
    by_sum: dict[Sigma, list[Found]] = {}
    for s, way in ways:
        by_sum.setdefault(s, []).append(way)
    for s, own in by_sum.items():
        alike = [o for o, others in by_sum.items() if len(others) == len(own) and match(s, o) is not None]
        for k, (_, because) in enumerate(own):
            yield {o: by_sum[o][k][0] for o in alike}, because


def _in_another_order(
    steps: Stepwise, found: Candidate, made: list[tuple[At, Definition]], laws: Laws
) -> list[tuple[Sigma, Found]]:
    """Each sum of the definitions with every way to take it through what the forward or the backward has."""
    products, forward = matrix_products([d for _, d in made]), products_of(steps.op)
    within = undivided(laws.relations, divisors(steps))
    sums = sorted({s for d in found.definitions for s in d.value.atoms(Sigma)}, key=lambda s: s.sort_key())
    ways: list[tuple[Sigma, Found]] = []
    for s in sums:
        ways += [(s, way) for way in reassociated(s, products, within)]
        ways += [(s, way) for way in by_adjoints(s, forward, made)]
        if not any(is_partly(s, d.value) for d in found.definitions):
            ways += [(s, way) for way in by_what_adjoints_are(s, made, within)]
    return ways + [(s, by) for s, way in ways for by in by_factors(way, steps.op, made)]


def _identities(steps: Stepwise, found: Candidate, policy: Policy) -> Candidate:
    """The same with each of these laws where it is cheaper."""
    found = _priced(steps, found, policy)
    known, forward, names = bodies(steps.op), products(steps.op), names_of(steps.op)
    for k in range(len(found.definitions)):
        for rows in GRADIENTS:
            moves = rewritings(found.definitions[k].value, rows, names, normal)
            ways = ((m.row.name, m.value, m.reason) for m in moves)
            found = _cheaper(steps, found, _with_value(found, k, ways), policy)
        values = by_products(found.definitions[k].value, forward)
        ways = (("product", value, "the forward has this product") for value in values)
        found = _cheaper(steps, found, _with_value(found, k, ways), policy)
        bodied = opened(found.definitions[k].value, with_definitions(known, list(found.definitions[:k])))
        ways = (("open", value, reason) for value, reason in bodied)
        found = _cheaper(steps, found, _with_value(found, k, ways), policy)
    return found


def _summed(steps: Stepwise, parts: list[Candidate], policy: Policy) -> list[Candidate]:
    """The parts with sums of named adjoints as that, where it is cheaper."""
    out: list[Candidate] = []
    named: list[tuple[At, Definition]] = []
    made = [(steps.by_name[d.name].left, d) for part in parts for d in part.definitions]
    for i, part in enumerate(parts):
        others = [d for p in (*out, *parts[i + 1 :]) for d in p.definitions]
        for k, d in enumerate(part.definitions):
            if ways := [("reassociate", value, reason) for value, reason in _as_sums(d, named, made, steps.op)]:
                fresh = _priced(steps, part, policy)
                part = _cheaper(steps, fresh, _with_value(part, k, ways), policy, others)
            named.append((steps.by_name[d.name].left, part.definitions[k]))
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
        for s in sorted(value.atoms(Sigma), key=lambda s: s.sort_key()):
            for way, why in by_adjoints(s, forward, made):
                yield value.xreplace({s: way}), f"{reason}; {why}"


def _unmasked(steps: Stepwise, parts: list[Candidate], laws: Laws) -> list[Candidate]:
    """The parts without masks of what vanishes there because of another definition."""
    known, out = dict(laws.supports), []
    for part in parts:
        definitions, history = [], list(part.steps)
        for d in part.definitions:
            value, why = without_masks(d.value, known, laws.values)
            if value != d.value:
                history.append(Step("support", steps.by_name[d.name].left, d.value, value, reason_of(why)))
                d = replace(d, value=value)
            known[d.name] = of_definition(d, known)
            definitions.append(d)
        out.append(replace(part, definitions=tuple(definitions), steps=tuple(history)))
    return out


def _carried(steps: Stepwise, parts: list[Candidate], laws: Laws, policy: Policy) -> list[Candidate]:
    """The parts with adjoints named together with what all their readers multiply them by, where it is cheaper."""
    allowed = divisors(steps) | {n for part in parts for d in part.definitions for n in divided_by(d.value)}
    adjoints = {a.target.name for a in steps.adjoints if a.of not in laws.gradients}
    for name in [d.name for part in parts for d in part.definitions if d.name in adjoints]:
        everything = [d for part in parts for d in part.definitions]
        before = None
        for way in carried(everything, name, steps.op.names):
            changed = way.within(everything)
            if circular(changed) or outside_domain(changed, allowed):
                continue
            before = before or with_kept(steps, everything, tuple(d.name for d in everything), policy=policy)
            after = with_kept(steps, changed, tuple(d.name for d in changed), policy=policy)
            if after.total < before.total:
                before_by_name = {d.name: way.before[n] for n, d in way.of.items() if d is not None}
                parts = with_changed(steps, parts, changed, "carried", way.reason, policy, before_by_name)
                break
    return parts
