"""From definitions in normal form to a program: sums named once, terms factored, deltas turned into scatters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sympy import Add, Expr, Mul, S

from derive import lower
from derive.algebra import is_contraction, match, normal, opened_by_name, sigma
from derive.errors import DeriveError
from derive.factoring import factored
from derive.program import Assign, Join, Node, Num, Program, Read, Reduce, Scatter, Statement, check
from derive.terms import At, Axis, Delta, Merge, Sigma, Size, free_axes, sorted_axes
from derive.terms import Reduce as SpecReduce


@dataclass(frozen=True)
class Definition:
    """`name[axes] = value` with the value in normal form."""

    name: str
    axes: tuple[Axis, ...]
    value: Expr


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
) -> Program:
    """The statements that compute `returns`, each definition just before it is first needed."""
    builder = _Builder(definitions, {n for n, _ in given} | set(scalars))
    for wanted in returns:
        builder.ensure(wanted)
    return check(Program(name, given, scalars, tuple(builder.statements), returns))


class _Builder:
    """Collects statements; holds the sums that already have a name."""

    def __init__(self, definitions: list[Definition], taken: set[str]):
        self.definitions = {d.name: d for d in definitions}
        self.taken = taken | set(self.definitions)
        self.statements: list[Statement] = []
        self.done: set[str] = set()
        counts = _count_sums([d.value for d in definitions])
        own = {d.value: d for d in definitions if isinstance(d.value, Sigma) and not _has_delta(d.value)}
        # one that repeats its sum along an axis would bring that axis to where the sum stands alone
        self.sums = [_Sum(d.name, s, d.axes) for s, d in own.items() if set(d.axes) <= free_axes(s)]
        self.shared = {s for s, n in counts.items() if n > 1} | set(own)
        values = {d.name: merge_sums(d.value, self.shared) for d in definitions}
        means = _means(values.values(), set(own))
        for d in definitions:
            value = values[d.name]
            if value not in own or own[value].name != d.name:
                value = _with_means(value, means)
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
        for at in sorted(value.atoms(At), key=lambda a: a.sort_key()):
            self.ensure(at.name)

    def emit(self, d: Definition) -> None:
        placed = [t for t in Add.make_args(d.value) if _has_delta(t) and _slots(d, t)[0] != d.axes]
        if isinstance(d.value, Sigma | SpecReduce) and not placed:
            self.statements.append(self.assign(d, self.reduction(d.value, set(d.axes))))
            return
        spread = _grouped(placed)
        plain = Add(*(t for t in Add.make_args(d.value) if t not in placed))
        places = _every_place(d, spread) if plain == 0 else None
        if places is not None:
            self.statements.append(self.assign(d, self.stacked(d, *places)))
            return
        scatters = self.scatters(d, spread)
        onto = None
        if plain != 0 or not scatters:
            value = factored(plain, self.hoister(d)) if plain != 0 else Num(lower.ZERO.value)
            self.statements.append(self.assign(d, value))
            onto = d.name
        for s in scatters:
            self.statements.append(replace(s, onto=onto))
            onto = d.name

    def assign(self, d: Definition, value: Node) -> Assign:
        return Assign(d.name, tuple(a.name for a in d.axes), value)

    def stacked(self, d: Definition, axis: Axis, values: list[Expr]) -> Node:
        """Values for every place of one axis: nothing is filled with zeros first."""
        part = replace(d, axes=tuple(a for a in d.axes if a != axis))
        nodes = [
            self.reduction(v, set(part.axes)) if isinstance(v, Sigma | SpecReduce) else factored(v, self.hoister(part))
            for v in values
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

    def reduction(self, expr: Expr, avoid: set[Axis]) -> Node:
        if not isinstance(expr, Sigma | SpecReduce):  # a factor came out of the sum, or it fell apart
            return factored(expr, self.named_sum)
        as_sum = expr if isinstance(expr, Sigma) else Sigma(expr.args[1], *expr.args[2])
        kind = "sum" if isinstance(expr, Sigma) else expr.args[0].name
        body, bound = opened_by_name(as_sum, avoid | free_axes(as_sum))
        inner = factored(body, self.named_sum)
        return Reduce(kind, tuple(a.name for a in bound), inner)

    def fresh_name(self, expr: Expr) -> str:
        body = expr.body
        kind = "sum" if isinstance(expr, Sigma) else expr.kind
        names = [at.name for f in Mul.make_args(body) for at in sorted(f.atoms(At), key=lambda a: a.sort_key())]
        stem = "_".join([kind, *dict.fromkeys(sorted(names, key=lambda n: not n.startswith("d")))][:4])
        name, number = stem, 2
        while name in self.taken:
            name, number = f"{stem}_{number}", number + 1
        self.taken.add(name)
        return name

    # --- scatters ------------------------------------------------------------------------------------------

    def scatters(self, d: Definition, terms: list[Expr]) -> list[Scatter]:
        """Terms with deltas as additions at the positions that the deltas name; terms at the same positions as one."""
        groups: dict[tuple[Expr, ...], dict[frozenset[Axis], Expr]] = {}
        for term in terms:
            slots, body = _slots(d, term)
            summed = frozenset(free_axes(body) - _spread(slots))
            parts = groups.setdefault(slots, {})
            parts[summed] = parts.get(summed, S.Zero) + body
        return [self.scatter(d, slots, parts) for slots, parts in groups.items()]

    def scatter(self, d: Definition, slots: tuple[Expr, ...], parts: dict[frozenset[Axis], Expr]) -> Scatter:
        """`parts` holds values by the axes that they are summed over, each over its own."""
        value: Node
        if any(parts):
            total = merge_sums(Add(*(sigma(body, summed) for summed, body in parts.items())), self.shared)
            value = self.reduction(total, _spread(slots))
        else:
            value = factored(parts[frozenset()], self.hoister(d))
        return Scatter(d.name, tuple(a.name for a in d.axes), tuple(lower.index(i) for i in slots), value)


def _slots(d: Definition, term: Expr) -> tuple[tuple[Expr, ...], Expr]:
    """Where a term with deltas stands along each axis of the definition, and its value there."""
    body, outer = term, S.One
    for f in Mul.make_args(term):
        if isinstance(f, Sigma) and _has_delta(f):
            body, outer = f, term / f
    if isinstance(body, Sigma):
        body, _ = opened_by_name(body, set(d.axes) | _bound(outer))
        body = body * outer
    slots: dict[Axis, Expr] = {}
    while True:
        deltas = [(f, _slot(f, d.axes, slots)) for f in Mul.make_args(body) if isinstance(f, Delta)]
        used = next(((f, *found) for f, found in deltas if found is not None), None)
        if used is None:
            return tuple(slots.get(a, a) for a in d.axes), body
        delta, axis, other = used
        slots = {a: i.xreplace({axis: other}) for a, i in slots.items()} | {axis: other}
        body = Mul(*(g for g in Mul.make_args(body) if g != delta)).xreplace({axis: other})


def _bound(expr: Expr) -> set[Axis]:
    """The axes that sums and means in an expression run over: what is put into one must not have such an axis free."""
    sums = {a for s in expr.atoms(Sigma) for a in s.over}
    return sums | {a for r in expr.atoms(SpecReduce) for a in r.over}


def _spread(slots: tuple[Expr, ...]) -> set[Axis]:
    """The axes over which values stand at these places."""
    return {a for i in slots for a in free_axes(i)}


def _axes_of_sum(expr: Expr) -> tuple[Axis, ...]:
    """The free axes of a sum, in the order of the operand that has most of them."""
    free = free_axes(expr)
    best: tuple[Axis, ...] = ()
    for at in sorted(expr.atoms(At), key=lambda a: a.sort_key()):
        own = (a for i in at.index for a in (i.args if isinstance(i, Merge) else (i,)))
        here = tuple(dict.fromkeys(a for a in own if a in free))
        best = here if len(here) > len(best) else best
    return (*best, *sorted_axes(free - set(best)))


def _slot(delta: Delta, axes: tuple[Axis, ...], slots: dict[Axis, Expr]) -> tuple[Axis, Expr] | None:
    for one, other in (delta.args, delta.args[::-1]):
        later = other in axes and axes.index(other) > axes.index(one) if one in axes else False
        if one in axes and one not in slots and one not in free_axes(other) and not later:
            return one, other
    return None  # a comparison of two values, which masks, such as `delta(ix[n, d], d)`


def _has_delta(expr: Expr) -> bool:
    return any(
        isinstance(f, Delta) or (isinstance(f, Sigma) and any(isinstance(g, Delta) for g in Mul.make_args(f.body)))
        for f in Mul.make_args(expr)
    )


def _every_place(d: Definition, spread: list[Expr]) -> tuple[Axis, list[Expr]] | None:
    """An axis of fixed length and the value at each of its places, where the terms stand at all of them."""
    values: dict[int, Expr] = {}
    found: set[Axis] = set()
    for term in spread:
        deltas = [f for f in Mul.make_args(term) if isinstance(f, Delta)]
        rest = Mul(*(f for f in Mul.make_args(term) if not isinstance(f, Delta)))
        if len(deltas) != 1 or any(_has_delta(t) for t in Add.make_args(rest)):
            return None
        place, axis = sorted(deltas[0].args, key=lambda a: not a.is_Integer)
        if not place.is_Integer or axis not in d.axes:
            return None
        found.add(axis)
        values[int(place)] = normal(rest.xreplace({axis: place}))
    if len(found) != 1:
        return None
    (axis,) = found
    return (
        (axis, [values[k] for k in range(len(values))])
        if axis.fixed and set(values) == set(range(axis.fixed))
        else None
    )


def _grouped(terms: list[Expr]) -> list[Expr]:
    """Terms at the same positions as one: `delta*a + delta*b = delta*(a + b)`."""
    groups: dict[Expr, list[Expr]] = {}
    alone: list[Expr] = []
    for term in terms:
        deltas = Mul(*(f for f in Mul.make_args(term) if isinstance(f, Delta)))
        if deltas == 1:
            alone.append(term)
        else:
            groups.setdefault(deltas, []).append(term / deltas)
    return [Mul(*Mul.make_args(deltas), Add(*rest), evaluate=False) for deltas, rest in groups.items()] + alone


def _match(pattern: Expr, expr: Expr) -> dict[Axis, Expr] | None:
    if pattern == expr:
        return {}
    if isinstance(pattern, Sigma) and isinstance(expr, Sigma):
        return match(pattern, expr)
    return None


def _count_sums(values: list[Expr]) -> dict[Expr, int]:
    """In how many terms each sum stands."""
    counts: dict[Expr, int] = {}
    for value in values:
        for term in Add.make_args(value):
            for s in term.atoms(Sigma):
                counts[s] = counts.get(s, 0) + 1
    return counts


def merge_sums(expr: Expr, shared: set[Expr]) -> Expr:
    """`c*sum(a) + c*sum(b) = c*sum(a + b)`: one reduction instead of two, unless one of them is needed by itself.

    Those of `c*sum(a) - c*sum(a*s)` with `s >= 0` are merged in any case: they may be nearly equal, and a sum of
    `a*(1 - s)` subtracts before it adds up.
    """
    groups: dict[tuple[Expr, tuple[Axis, ...]], list[tuple[Expr, Sigma]]] = {}
    out: list[Expr] = []
    for term in Add.make_args(expr):
        sums = [f for f in Mul.make_args(term) if isinstance(f, Sigma)]
        if len(sums) == 1 and not _has_delta(sums[0]) and not is_contraction(sums[0].body):
            outer = term / sums[0]
            number = outer.as_coeff_Mul()[0]
            groups.setdefault((outer / number, sums[0].over), []).append((number, sums[0]))
        else:
            out.append(term)
    for (outer, over), members in groups.items():
        merged = [m for m in members if m[1] not in shared or any(_nearly_equal(m, other) for other in members)]
        if len(merged) > 1:
            out.append(outer * Sigma(Add(*(n * s.body for n, s in merged)), *over))
        out += [n * outer * s for n, s in members if len(merged) < 2 or (n, s) not in merged]
    return Add(*out)


def _nearly_equal(one: tuple[Expr, Sigma], other: tuple[Expr, Sigma]) -> bool:
    """Whether two sums, each with its number, are subtracted and one has but a factor more, which is not negative."""
    powers = (other[1].body / one[1].body).as_powers_dict()
    part = any(all((sign * e).is_positive for e in powers.values()) for sign in (1, -1))
    not_negative = all(e.is_even or b.is_nonnegative for b, e in powers.items())
    return bool(part and one[1] != other[1] and (one[0] * other[0]).is_negative and not_negative)


def _means(values: object, own: set[Expr]) -> set[Expr]:
    """The sums that are divided by their axes' sizes wherever they stand: means."""
    found: dict[Expr, bool] = {}
    for value in values:  # type: ignore[attr-defined]
        for term in Add.make_args(value):
            powers = term.as_powers_dict()
            for s in term.atoms(Sigma):
                top = s in powers
                divided = top and all(powers.get(Size(a), 0) <= -1 for a in s.over)
                found[s] = found.get(s, True) and divided and s not in own and not _has_delta(s)
    return {s for s, is_mean in found.items() if is_mean}


def _with_means(value: Expr, means: set[Expr]) -> Expr:
    terms = []
    for term in Add.make_args(value):
        for s in [f for f in Mul.make_args(term) if f in means]:
            term = term / s * SpecReduce("mean", s.body, *s.over) * Mul(*(Size(a) for a in s.over))
        terms.append(term)
    return Add(*terms)
