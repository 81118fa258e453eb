"""From definitions in normal form to a program: sums named once, terms factored, deltas turned into scatters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sympy import Add, Expr, Function, Mul, S, polygamma

from derive.errors import DeriveError
from derive.ir import placed
from derive.ir.algebra import is_contraction, opened_by_name, sigma
from derive.ir.lowering import lower
from derive.ir.lowering.lower_factored import factored
from derive.ir.matching import match
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import numbered_in_order
from derive.ir.program import Assign, Call, Join, Node, Num, Program, Read, Reduce, Scatter, Statement
from derive.ir.terms.axes import Axis, free_axes, sorted_axes
from derive.ir.terms.elements import At, Delta, Tensor, reads_of
from derive.ir.terms.functions import power
from derive.ir.terms.indices import Merge
from derive.ir.terms.names import new_name
from derive.ir.terms.reductions import Reduce as SpecReduce
from derive.ir.terms.reductions import Sigma, has_sums
from derive.schedule.definitions import Definition
from derive.schedule.merged_sums import count_sums, means_among, merge_sums, with_means
from derive.schedule.positions import (
    every_place,
    grouped,
    has_delta,
    places_meet,
    slots_of,
    spread_over,
    value_at_places,
)


@dataclass(frozen=True)
class _Sum:
    name: str
    pattern: Expr
    axes: tuple[Axis, ...]


def schedule(
    name: str,
    definitions: list[Definition],
    given: tuple[tuple[str, tuple[str, ...]], ...],
    scalars: tuple[str, ...],
    returns: tuple[str, ...],
    again: frozenset[str] = frozenset(),
) -> Program:
    """The statements that compute `returns`, each definition just before it is first needed.

    Those named in `again` are tensors of the forward, whose sums keep the order in which it adds them.
    """
    builder = _Builder(definitions, {n for n, _ in given} | set(scalars), again)
    for wanted in returns:
        builder.ensure(wanted)
    statements = numbered_in_order(builder.statements, builder.stems)
    return check(Program(name, given, scalars, tuple(statements), returns))


class _Builder:
    """Collects statements; holds the sums that already have a name."""

    def __init__(self, definitions: list[Definition], taken: set[str], again: frozenset[str]):
        self.again = again
        self.definitions = {d.name: d for d in definitions}
        self.taken = taken | set(self.definitions)
        self.stems: dict[str, str] = {}  # of the names that this gives, without their numbers
        self.statements: list[Statement] = []
        self.done: set[str] = set()
        counts = count_sums([d.value for d in definitions])
        own = {d.value: d for d in definitions if isinstance(d.value, Sigma) and not has_delta(d.value)}
        # one that repeats its sum along an axis would bring that axis to where the sum stands alone
        self.sums = [_Sum(d.name, s, d.axes) for s, d in own.items() if set(d.axes) <= free_axes(s)]
        self.shared = {s for s, n in counts.items() if n > 1} | set(own)
        values = {d.name: merge_sums(d.value, self.shared) for d in definitions}
        means = means_among(values.values(), set(own))
        for d in definitions:
            value = values[d.name]
            if value not in own or own[value].name != d.name:
                value = with_means(value, means)
            self.definitions[d.name] = replace(d, value=value)

    def ensure(self, name: str) -> None:
        """Emit a definition, after those it reads."""
        if name in self.done or name not in self.definitions:
            return
        self.done.add(name)
        definition = self.definitions[name]
        self.reads(definition.value)
        try:
            self.emit(definition)
        except DeriveError as error:
            raise error.within(equation=name) from None

    def reads(self, value: Expr) -> None:
        for at in reads_of(value):
            self.ensure(at.name)

    def emit(self, d: Definition) -> None:
        largest = placed.slots(d.value.body, d.axes) if isinstance(d.value, SpecReduce) else None
        if largest is not None and isinstance(d.value, SpecReduce):
            value = value_at_places(d.value.kind, *largest, d.value.over)
            self.statements.append(self.scattered(d, largest[0], value, d.value.kind))
            return
        at_places = [t for t in Add.make_args(d.value) if has_delta(t) and slots_of(d, t)[0] != d.axes]
        if isinstance(d.value, Sigma | SpecReduce) and not at_places:
            self.statements.append(self.assign(d, self.reduction(d.value, set(d.axes))))
            return
        spread = grouped(at_places)
        plain = Add(*(t for t in Add.make_args(d.value) if t not in at_places))
        places = every_place(d, spread) if plain == 0 else None
        if places is not None:
            self.statements.append(self.assign(d, self.stacked(d, *places)))
            return
        scatters = self.scatters(d, spread)
        if plain != 0 and (many := [s for s in scatters if places_meet(s.slots)]):
            plain += self.apart(d, many)
            scatters = [s for s in scatters if s not in many]
        onto = None
        if plain != 0 or not scatters:
            value = self.value(d, plain) if plain != 0 else Num(lower.ZERO.value)
            self.statements.append(self.assign(d, value))
            onto = d.name
        else:
            scatters.sort(key=lambda s: (not places_meet(s.slots), _is_taken_off(s)))
        for s in scatters:
            self.statements.append(replace(s, onto=onto))
            onto = d.name

    def apart(self, d: Definition, scatters: list[Scatter]) -> Expr:
        """Scatters of places that meet, onto zeros of their own, which are read beside the rest."""
        name = new_name(f"{d.name}_scattered", self.taken)
        for k, s in enumerate(scatters):
            self.statements.append(replace(s, name=name, onto=name if k else None))
        return At(Tensor(name), *d.axes)

    def value(self, d: Definition, plain: Expr) -> Node:
        """What is no sum of its own. A tensor of the forward is rounded as the forward rounds it: not factored."""
        if d.name in self.again and not has_sums(plain):
            return lower.node(plain)
        return factored(plain, self.hoister(d), d.name in self.again)

    def assign(self, d: Definition, value: Node) -> Assign:
        return Assign(d.name, tuple(a.name for a in d.axes), value)

    def stacked(self, d: Definition, axis: Axis, values: list[Expr]) -> Node:
        """Values for every place of one axis: nothing is filled with zeros first."""
        part = replace(d, axes=tuple(a for a in d.axes if a != axis))
        nodes = [
            self.reduction(v, set(part.axes)) if isinstance(v, Sigma | SpecReduce) else factored(v, self.hoister(part))
            for v in (merge_sums(v, self.shared) for v in values)
        ]
        return Join(axis.name, tuple(nodes), ("",) * len(nodes))

    # --- sums ----------------------------------------------------------------------------------------------

    def hoister(self, d: Definition) -> lower.Hoist:
        full = set(d.axes)

        def hoist(expr: Expr) -> Node:
            if (
                isinstance(expr, Sigma)
                and expr not in self.shared
                and free_axes(expr) == full
                and is_contraction(expr.body)
            ):
                return self.reduction(expr, full)
            return self.named_sum(expr)

        return hoist

    def named_sum(self, expr: Expr) -> Node:
        """A sum under a name of its own, its statement written if it is not there yet."""
        for known in self.sums:
            found = _match(known.pattern, expr)
            if found is not None:
                self.ensure(known.name)
                return Read(known.name, tuple(lower.index(found.get(a, a)) for a in known.axes))
        axes = _axes_of_sum(expr)
        d = Definition(self.fresh_name(expr), axes, expr)
        self.sums.append(_Sum(d.name, expr, axes))
        self.definitions[d.name] = d
        self.ensure(d.name)
        return Read(d.name, tuple(a.name for a in axes))

    def reduction(self, expr: Expr, avoid: set[Axis], hoist: lower.Hoist | None = None) -> Node:
        if not isinstance(expr, Sigma | SpecReduce):  # a factor came out of the sum, or it fell apart
            return factored(expr, hoist or self.named_sum)
        as_sum = expr if isinstance(expr, Sigma) else Sigma(expr.args[1], *expr.args[2])
        kind = "sum" if isinstance(expr, Sigma) else expr.args[0].name
        body, bound = opened_by_name(as_sum, avoid | free_axes(as_sum))
        inner = factored(body, self.named_sum)
        return Reduce(kind, tuple(a.name for a in bound), inner)

    def fresh_name(self, expr: Expr) -> str:
        stem = stem_of_sum(expr)
        name = new_name(stem, self.taken, "_")
        self.stems[name] = stem
        return name

    # --- scatters ------------------------------------------------------------------------------------------

    def scatters(self, d: Definition, terms: list[Expr]) -> list[Scatter]:
        """Terms with deltas as additions at the positions that the deltas name; terms at the same positions as one."""
        groups: dict[tuple[Expr, ...], dict[frozenset[Axis], Expr]] = {}
        for term in terms:
            slots, body = slots_of(d, term)
            summed = frozenset(free_axes(body) - spread_over(slots))
            parts = groups.setdefault(slots, {})
            parts[summed] = parts.get(summed, S.Zero) + body
        return [self.scatter(d, slots, parts) for slots, parts in groups.items()]

    def scatter(self, d: Definition, slots: tuple[Expr, ...], parts: dict[frozenset[Axis], Expr]) -> Scatter:
        """`parts` holds values by the axes that they are summed over, each over its own."""
        value: Node
        if any(parts):
            total = merge_sums(Add(*(sigma(body, summed) for summed, body in parts.items())), self.shared)
            spread = replace(d, axes=tuple(sorted_axes(spread_over(slots))))  # a product of matrices is added as it is
            value = self.reduction(total, set(spread.axes), self.hoister(spread))
        else:
            value = factored(parts[frozenset()], self.hoister(d))
        return self.scattered(d, slots, value)

    def scattered(self, d: Definition, slots: tuple[Expr, ...], value: Node, kind: str = "sum") -> Scatter:
        return Scatter(d.name, tuple(a.name for a in d.axes), tuple(lower.index(i) for i in slots), value, kind=kind)


def _is_taken_off(s: Scatter) -> bool:
    """Whether what a scatter puts into a slice is read with a minus: the first of several is copied among zeros."""
    return isinstance(s.value, Call) and s.value.fn == "neg" and not any(isinstance(i, Read) for i in s.slots)


def stem_of_sum(expr: Expr) -> str:
    """What a sum would be called, if nothing else were: `sum_dp_p`."""
    kind = "sum" if isinstance(expr, Sigma) else expr.kind
    factors = (f for f in Mul.make_args(expr.body) if not isinstance(f, Delta))  # what says where is no word of it
    words = sorted(map(_words, factors), key=lambda own: not own or not own[0].startswith("d"))
    return "_".join([kind, *dict.fromkeys(w for own in words for w in own)][:4])


def _words(factor: Expr) -> list[str]:
    """The tensors of a factor, adjoints first, behind the function that it is."""
    names = [at.name.rstrip("_") for at in reads_of(factor)]
    names.sort(key=lambda name: not name.startswith("d"))
    named = isinstance(factor, Function) and not isinstance(factor, At | power)
    return ["digamma" if isinstance(factor, polygamma) else factor.func.__name__, *names] if named else names


def _axes_of_sum(expr: Expr) -> tuple[Axis, ...]:
    """The free axes of a sum, in the order of the operand that has most of them."""
    free = free_axes(expr)
    best: tuple[Axis, ...] = ()
    for at in reads_of(expr):
        own = (a for i in at.index for a in (i.args if isinstance(i, Merge) else (i,)))
        here = tuple(dict.fromkeys(a for a in own if a in free))
        best = here if len(here) > len(best) else best
    return (*best, *sorted_axes(free - set(best)))


def _match(pattern: Expr, expr: Expr) -> Mapping[Axis, Expr] | None:
    if pattern == expr:
        return {}
    if isinstance(pattern, Sigma) and isinstance(expr, Sigma):
        return match(pattern, expr)
    return None
