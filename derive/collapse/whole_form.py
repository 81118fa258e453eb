"""The stretches of a backward put together, by the laws that speak of all of them, each where it is cheaper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from sympy import Expr, S

from derive.adjoint.chain_rule import Stepwise
from derive.collapse.carried import Carried, carried
from derive.collapse.chain import Laws, Step
from derive.collapse.complements import both_sides, by_other_side, complements, slopes, tangents
from derive.collapse.denominators import cancelled
from derive.collapse.domain import divided_by, divisors, outside_domain, undivided
from derive.collapse.known_products import by_products, products
from derive.collapse.local_search import Candidate
from derive.collapse.magnitudes import magnitudes
from derive.collapse.openings import bodies, opened, with_definitions
from derive.collapse.reassociate import (
    Found,
    by_adjoints,
    by_what_adjoints_are,
    is_partly,
    matrix_products,
    products_of,
    reassociated,
)
from derive.collapse.saving import Policy, with_kept
from derive.collapse.sums_named import sums_named
from derive.collapse.sums_of_adjoints import sums_of_adjoints
from derive.collapse.sums_of_multiples import sums_of_multiples
from derive.collapse.supports import of_definition, reason_of, without_masks
from derive.collapse.together import Whole, cheapest, merged, priced
from derive.ir.algebra import normal
from derive.ir.matching import match
from derive.ir.terms.elements import At, Tensor, tensor_names
from derive.ir.terms.reductions import Sigma
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
    names = tuple(d.name for d in found.definitions)
    found = replace(found, kept=with_kept(steps, list(found.definitions), names, held, policy))
    allowed = divisors(steps) | {n for d in found.definitions for n in divided_by(d.value)}
    adjoints = {a.target.name: a.left for a in steps.adjoints}
    made = [(adjoints[d.name], d) for d in everything]
    for put, because in _everywhere(_in_another_order(steps, found, made, laws)):
        changed = [replace(d, value=normal(d.value.xreplace(put))) for d in found.definitions]
        gone = any(c.value == 0 != d.value for d, c in zip(found.definitions, changed, strict=True))
        if circular({d.name: d for d in (*everything, *changed)}.values()) or gone:
            continue  # gradients of inputs stay as they are asked for
        kept = with_kept(steps, changed, tuple(d.name for d in changed), held, policy)
        better = (kept.total, _read_twice(changed)) < (found.kept.total, _read_twice(found.definitions))
        if better and not outside_domain(changed, allowed):
            new = [
                Step("reassociate", adjoints[d.name], d.value, c.value, because)
                for d, c in zip(found.definitions, changed, strict=True) if d != c
            ]  # fmt: skip
            found = Candidate(found.choice, tuple(changed), (*found.steps, *new), kept)
    return found


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
    return ways


_Identity = tuple[str, Callable[[Expr], Iterator[Expr]], str]
_IDENTITIES: tuple[_Identity, ...] = (
    ("complement", complements, "1 - sigmoid(u) = sigmoid(-u)"),
    ("complement", tangents, "1 - 2*sigmoid(u) = tanh(-u/2)"),
    ("complement", slopes, "[u > 0] - sign(u)*sigmoid(-|u|) = sigmoid(u)"),
    ("denominator", cancelled, "a/b - c/b**2 = (a*b - c)/b**2"),
)
"""Laws of single definitions, each taken where it is cheaper."""


def _identities(steps: Stepwise, found: Candidate, policy: Policy) -> Candidate:
    """The same with each of these laws where it is cheaper."""
    returns = tuple(d.name for d in found.definitions)
    found = replace(found, kept=with_kept(steps, list(found.definitions), returns, policy=policy))
    known = bodies(steps.op)
    magnitude: _Identity = ("magnitude", partial(magnitudes, op=steps.op), "sign(u) * abs(u) = u")
    sides = both_sides(steps.op)
    other: _Identity = ("complement", partial(by_other_side, other=sides), "sigmoid(u) + sigmoid(-u) = 1")
    named: _Identity = ("product", partial(by_products, known=products(steps.op)), "the forward has this product")
    for k in range(len(found.definitions)):
        for law, values, reason in (other, *_IDENTITIES, magnitude, named):
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
    for i, part in enumerate(parts):
        others = [d for p in (*out, *parts[i + 1 :]) for d in p.definitions]
        allowed = divisors(steps) | {n for d in part.definitions for n in divided_by(d.value)}
        for k, definition in enumerate(part.definitions):
            for value, reason in sums_of_adjoints(definition, named):
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


def _unmasked(steps: Stepwise, parts: list[Candidate], laws: Laws) -> list[Candidate]:
    """The parts without masks of what vanishes there because of another definition."""
    known, out = dict(laws.supports), []
    lefts = {a.target.name: a.left for a in steps.adjoints}
    for part in parts:
        definitions, history = [], list(part.steps)
        for d in part.definitions:
            value, why = without_masks(d.value, known, laws.finite)
            if value != d.value:
                history.append(Step("support", lefts[d.name], d.value, value, reason_of(why)))
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
                parts = _with_carried(steps, parts, way, policy)
                break
    return parts


def _with_carried(steps: Stepwise, parts: list[Candidate], way: Carried, policy: Policy) -> list[Candidate]:
    """The parts with this change, those that it changes as one: what it names is no adjoint that one gives another."""
    inside = [part for part in parts if any(d.name in way.of for d in part.definitions)]
    before = [d for part in inside for d in part.definitions]
    changes = [(way.before[d.name], way.of[d.name]) for d in before if d.name in way.of]
    history = [
        Step("carried", At(Tensor(d.name), *d.axes), b, d.value, way.reason) for b, d in changes if d is not None
    ]
    after = way.within(before)
    kept = with_kept(steps, after, tuple(d.name for d in after), policy=policy)
    one = Candidate(merged(inside), tuple(after), (*(s for p in inside for s in p.steps), *history), kept)
    return [one if part is inside[0] else part for part in parts if part not in inside[1:]]
