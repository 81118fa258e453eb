"""Law: an adjoint that is not worth a name is put in its place, and the sum-normal form takes it from there.

Some adjoints are always named ("materialised"): what a matrix product, a scatter or a reshape reads or makes, since
distributing those over a sum would do their work several times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from sympy import Add, Expr, Mul, Pow, S

from derive.adjoint.chain_rule import Adjoint, Stepwise
from derive.collapse.drawn_out import drawn_out
from derive.collapse.emptied import Total
from derive.collapse.inversions import Inversion
from derive.collapse.known import Gathers, Sums, cancelled, use_gathers
from derive.collapse.left_over import left_over, marked
from derive.collapse.masked import Masked, use_masked
from derive.collapse.raised import raised
from derive.collapse.relations import Relations, use_relations
from derive.collapse.sides_taken import Extrema, use_sides
from derive.collapse.supports import Support, reason_of, without_masks
from derive.decisions import MOST_TERMS, MOST_TERMS_IN_FULL
from derive.facts.interpreter import Facts
from derive.ir.algebra import is_contraction, normal, substitute
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At, Delta, Scalar, tensor_names
from derive.ir.terms.products import factors_of, without
from derive.ir.terms.reductions import Sigma
from derive.rules.expressions import Names, rewritten
from derive.rules.tables.algebra import WHOLES
from derive.rules.tables.piecewise import GUARDS
from derive.schedule.definitions import Definition


@dataclass(frozen=True)
class Step:
    """One application of a law: what stood before, what stands after, and why that holds."""

    law: str
    subject: At
    before: Expr
    after: Expr
    reason: str


@dataclass(frozen=True)
class Choice:
    """What a person would decide: which forward tensors to eliminate, which adjoints to name."""

    eliminate: frozenset[str] = frozenset()  # the equations used for it
    named: frozenset[str] = frozenset()


def forced(steps: Stepwise, scaled: bool = False) -> frozenset[str]:
    """The adjoints that are named in every form, because of what reads or makes them.

    With `scaled`, one that is another times what has no axes is put in its place: products of it are scaled, not it.
    """
    adjoint_of = {a.target.name: a.of for a in steps.adjoints}
    out: set[str] = set()
    for adjoint in steps.adjoints:
        contractions = [s for s in adjoint.value.atoms(Sigma) if is_contraction(without(s.body, Delta))]
        read = {name for s in (*contractions, *_scattered(adjoint.value)) for name in tensor_names(s)}
        read |= {at.name for at in adjoint.value.atoms(At) if not all(isinstance(i, Axis) for i in at.index)}
        out |= {adjoint_of[n] for n in read if n in adjoint_of}
        out |= {adjoint.of} if contractions else set()
    plain = {a.of for a in steps.adjoints if is_alias(a.value) or (scaled and _is_scaled(a))}
    light = plain | {a.of for a in steps.adjoints if is_broadcast(a)}
    products = {a.target.name for a in steps.adjoints if _is_product(a.value)}
    for adjoint in steps.adjoints[::-1]:  # one that only renames another, or repeats a sum, passes this on to it
        if adjoint.of in out & light:
            passed = tensor_names(adjoint.value) - (set() if adjoint.of in plain else products)
            out |= {adjoint_of[n] for n in passed if n in adjoint_of}
    return frozenset(out - light)


def _scattered(value: Expr) -> list[Sigma]:
    """The sums that a value multiplies, whose terms a delta puts into their places."""
    return [s for term in Add.make_args(value) for s in factors_of(term, Sigma) if factors_of(s.body, Delta)]


Memo = dict[object, tuple[Expr, tuple[Step, ...]]]


@dataclass(frozen=True)
class Laws:
    """What is known of the forward: eliminations that hold everywhere, and identities. `memo` spares repeated work."""

    inversions: tuple[Inversion, ...]
    relations: Relations
    supports: dict[str, tuple[Support, ...]]
    names: Names
    always: frozenset[str]
    gradients: frozenset[str]
    masked: Masked = field(default_factory=dict)
    gathers: Gathers = field(default_factory=dict)  # for what vanishes: elsewhere one tensor more to keep
    subtracted: dict[Inversion, Expr] = field(default_factory=dict)  # what an elimination must not leave behind
    sums: Sums = field(default_factory=dict)
    extrema: Extrema = field(default_factory=dict)
    totals: dict[str, Total] = field(default_factory=dict)
    values: Facts = field(default_factory=Facts)  # of the forward, where its inputs are finite
    memo: Memo = field(default_factory=dict, compare=False)


def close(adjoints: tuple[Adjoint, ...], choice: Choice, laws: Laws) -> tuple[list[Definition], list[Step]]:
    """The definitions under a choice: one for each named adjoint and each gradient, and how they came."""
    eliminated = {i.of: i for i in laws.inversions if i.through in choice.eliminate}
    inlined: dict[str, tuple[tuple[Axis, ...], Expr]] = {}
    definitions: list[Definition] = []
    history: list[Step] = []
    for adjoint in adjoints:
        value, steps = _closed(adjoint, inlined, eliminated, laws)
        history += steps
        have = laws.always | {a.of for a in adjoints if a.target.name in {d.name for d in definitions}}
        changed, why = cancelled(value, (a for a in laws.sums.get(adjoint.of, ()) if a.of in have))
        if changed != value:
            history.append(Step("known", adjoint.left, value, changed, why))
            value = changed
        whole = free_axes(value) == set(adjoint.axes)  # else it is a smaller thing, broadcast: no tensor worth a name
        named = (adjoint.of in choice.named and whole) or _is_long(value, set(adjoint.axes))
        if adjoint.of in laws.gradients | laws.always or (named and not is_alias(value)):
            definitions.append(Definition(adjoint.target.name, adjoint.axes, value))
        else:
            inlined[adjoint.target.name] = (adjoint.axes, value)
    return definitions, history


def _is_long(value: Expr, axes: set[Axis]) -> bool:
    """Whether it has more terms than are distributed; those that only what lacks an axis tells apart are one."""
    terms = Add.make_args(value)
    if not MOST_TERMS < len(terms) <= MOST_TERMS_IN_FULL:
        return len(terms) > MOST_TERMS
    large = {Mul(*(f for f in Mul.make_args(t) if free_axes(f) >= axes)) for t in terms}
    small = [t for t in terms if not any(free_axes(f) >= axes for f in Mul.make_args(t))]
    return len(large - {S.One}) + len(small) > MOST_TERMS


def _closed(
    adjoint: Adjoint,
    inlined: dict[str, tuple[tuple[Axis, ...], Expr]],
    eliminated: dict[str, Inversion],
    laws: Laws,
) -> tuple[Expr, tuple[Step, ...]]:
    """The value of an adjoint with others in place, without eliminations that leave a difference of larger values."""
    names = sorted(n for n in tensor_names(adjoint.value) if n in inlined)
    key = (adjoint.of, tuple((n, inlined[n]) for n in names), tuple(sorted(eliminated.items(), key=lambda i: i[0])))
    if key not in laws.memo:
        start = substitute(adjoint.value, {n: inlined[n] for n in names})
        left = {n for n, i in eliminated.items() if isinstance(i.value, Add) and _is_squared(n, start)}
        while True:
            taken = {n: i for n, i in eliminated.items() if n not in left}
            value, steps = collapsed(adjoint, start, taken, laws)
            lost = _lost(start, value, taken, laws)
            if not lost:
                break
            left |= lost
        if start != adjoint.value:
            steps = (Step("chain", adjoint.left, adjoint.value, start, f"put in {', '.join(names)}"), *steps)
        laws.memo[key] = value, steps
    return laws.memo[key]


def _is_squared(name: str, value: Expr) -> bool:
    """Whether a value has a power of a tensor: that of a sum is more terms than it has, `1 - (c + m)**2`."""
    powers = (p for p in value.atoms(Pow) if isinstance(p.base, At) and p.base.name == name)
    return any(p.exp.is_Integer and p.exp > 1 for p in powers)


def _lost(start: Expr, value: Expr, taken: dict[str, Inversion], laws: Laws) -> set[str]:
    """What was eliminated and has left in the value what that subtracts."""
    subtracted = {n: laws.subtracted.get(i, S.Zero) for n, i in taken.items()}
    told = {n: marked(taken[n], lost) for n, lost in subtracted.items() if _atoms(lost) & _atoms(value)}
    if not told:
        return set()
    *_, (_, with_marks, _) = _changes(start, {**taken, **told}, laws)
    return left_over(value, with_marks) & set(told)


def collapsed(
    adjoint: Adjoint, value: Expr, eliminated: dict[str, Inversion], laws: Laws
) -> tuple[Expr, tuple[Step, ...]]:
    """A value after eliminations and all that is known of sums, shares and masks."""
    steps: list[Step] = []
    for law, after, reason in _changes(value, eliminated, laws):
        if after != value:
            steps.append(Step(law, adjoint.left, value, after, reason))
        value = after
    return value, tuple(steps)


def _changes(value: Expr, eliminated: dict[str, Inversion], laws: Laws) -> Iterator[tuple[str, Expr, str]]:
    """What each law in turn makes of a value, and why."""
    if laws.gathers:
        value, places = use_gathers(value, laws.gathers)
        yield "gather", value, "; ".join(places)
    for _ in range(len(eliminated) + 1):
        present = sorted(tensor_names(value) & set(eliminated))
        if not present:
            break
        by = "; ".join(f"{eliminated[n].left} = {eliminated[n].value}" for n in present)
        value = substitute(value, {n: (eliminated[n].axes, eliminated[n].value) for n in present})
        yield "eliminate", value, by
    value, factors = drawn_out(value, laws.values)
    yield "factor", value, "; ".join(factors)
    value, used = use_relations(normal(value), laws.relations)
    yield "relation", value, "; ".join(str(r) for r in used)
    value, powers = raised(value)
    yield "power", value, "; ".join(powers)
    value, why = rewritten(value, WHOLES, laws.names)
    yield "whole", value, why
    value, why = rewritten(value, GUARDS)  # a name of a choice is shorter than what it is chosen from
    yield "guard", value, why
    value, sides = use_sides(value, laws.extrema)
    yield "side", value, "; ".join(sides)
    if laws.masked:
        value, equations = use_masked(value, laws.masked)
        yield "support", value, "; ".join(equations)
    if laws.supports:
        before = value
        value, facts = without_masks(value, laws.supports, laws.values)
        yield "support", value, reason_of(facts)
        if value != before:  # what was summed under a mask may be all of it
            value, used = use_relations(normal(value), laws.relations)
            yield "relation", value, "; ".join(str(r) for r in used)


@lru_cache(maxsize=20_000)
def _atoms(value: Expr) -> frozenset[str]:
    """The tensors and numbers that a value reads."""
    return tensor_names(value) | {s.name for s in value.atoms(Scalar)}


def is_broadcast(adjoint: Adjoint) -> bool:
    """Whether it is one term that lacks an axis: put into a sum over that axis, it leaves the sum."""
    return not isinstance(adjoint.value, Add) and not free_axes(adjoint.value) >= set(adjoint.axes)


def _is_scaled(adjoint: Adjoint) -> bool:
    """Whether it is one tensor times what has no axes."""
    whole = [f for f in Mul.make_args(adjoint.value) if free_axes(f)]
    return len(whole) == 1 and isinstance(whole[0], At) and free_axes(whole[0]) == set(adjoint.axes)


def _is_product(value: Expr) -> bool:
    return not isinstance(value, Add) and not value.atoms(Sigma)


def is_alias(value: Expr) -> bool:
    """One element as it is: renaming, not work."""
    return value == 0 or isinstance(value, At)
