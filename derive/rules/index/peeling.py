"""Boundary peeling: what conditions tell apart at the ends of an axis is computed between these, over slices.

- A sum that they keep from the ends, `sum(where(t + 1 < size(t), (x[n, t + 1] - x[n, t]) ** 2, 0), over=t)`, is the sum
  over `t_inner`, which has one place less, of the differences of two slices.
- What is 0 at the ends, `where(t >= 1, x[n, t] - x[n, t - 1], 0)`, is a difference over `t_inner` added to zeros; of
  `where(t >= 1, x[n, t] + a * x[n, t - 1], x[n, t])` only `a * x[n, t - 1]` is under the condition. One element alone
  is left to be read of a tensor with zeros around it.
- What is something else there is joined to what is between: `where(eq(t, 0), x[n, size(t) - 1], x[n, t - 1])`, a
  boundary that is periodic, is `concat(x[n, size(t) - 1], x[n, t_inner], along=t)`, as is a choice inside another for
  the other end. So it is with each place of an axis that has a few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace

from sympy import Add, And, Basic, Dummy, Expr, Integer, Mul, Not, S, expand

from derive.decisions import PLACES_SAID
from derive.facts.domains import Ends, Segment, about_one_end, bounds_of, ends_of, says_only_inside
from derive.facts.interpreter import facts_of
from derive.facts.lengths.requirements import strongest
from derive.facts.lengths.sizes import dimensions, size_of
from derive.ir.equations import Equation, Op, Requirement, SizeRule
from derive.ir.terms.axes import Axis, Rest, Size, free_axes
from derive.ir.terms.choices import Concat, Where, conjuncts
from derive.ir.terms.elements import At, Delta, Tensor, reads_of
from derive.ir.terms.indices import Merge, Part, Prefix
from derive.ir.terms.names import free_name, new_name
from derive.rules.index.guards import guards_of_places, window_of, with_lengths, without_guards


def peeled(op: Op) -> Op:
    """The same op with such sums and choices between ends, and what these ask of lengths."""
    for kind in (_Joined, _Sums, _Choices):
        op = kind(op).rewritten()
    return op


@dataclass
class _Peeling:
    """The axes of the places between ends, and what is read at these."""

    op: Op
    made: dict[Expr, Axis] = field(default_factory=dict)  # by how many places it has
    sizes: dict[Axis, SizeRule] = field(default_factory=dict)
    needs: dict[tuple[Expr, Expr], Requirement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.guards = guards_of_places(self.op.equations)
        self.dims = dimensions(self.op.operands, self.op.equations)
        self.names = self.op.names
        self.axes = {a.base for own in self.dims.values() for i in own for a in free_axes(i)}
        self.axes |= {a.base for e in self.op.equations for a in e.over}
        self.known = {r.axis: r.formula for r in self.op.sizes}

    def rewritten(self) -> Op:
        equations = [part for e in self.op.equations for part in self.apart(e)]
        if tuple(equations) == self.op.equations:
            return self.op
        sizes = sorted(self.sizes.values(), key=lambda r: r.axis.fixed is not None)
        return without_guards(self.op, equations, sizes, self.needs.values())

    def apart(self, e: Equation) -> Iterator[Equation]:
        """The equation, behind what it has between ends, or with that."""
        raise NotImplementedError

    def length(self, between: Expr) -> Expr:
        """Of the places that are left, by how many these are: none where an axis is shorter than what is left out."""
        return Rest(between)

    def inner(self, ends: Ends) -> Axis:
        """The axis of the places that are left."""
        between, name = ends.between, f"{ends.axis.base}_inner"
        if between not in self.made:
            lengths = (between, Rest(between))
            known = next((a for a, length in self.known.items() if a.base.startswith(name) and length in lengths), None)
            self.made[between] = known or Axis(new_name(name, self.axes))
            if known is None:
                self.sizes[self.made[between]] = SizeRule(self.made[between], formula=self.length(between))
        return self.made[between]

    def between(self, e: Equation, found: Collection[Ends], gone: Collection[Basic], value: Expr) -> Equation:
        """A sum over the places between the ends; along an axis that is kept, what is there is added to zeros."""
        inner = {ends.axis: self.inner(ends) for ends in found}
        places = {ends.axis: inner[ends.axis] + ends.first for ends in found}
        added = {a: own for a, own in inner.items() if a in e.axes}
        deltas = Mul(*(Delta(a, Prefix(places[a])) for a in added))
        over = (*added.values(), *(inner.get(a, a) for a in e.over))
        return replace(e, body=deltas * self.moved(value, places, gone), kind="sum", over=over, scale=e.weight)

    def moved(self, expr: Expr, places: Mapping[Basic, Expr], held: Collection[Basic]) -> Expr:
        """An expression at other places, read by what guards have where their conditions hold throughout."""
        return expr.xreplace({at: self._element(at, places, held) for at in expr.atoms(At)}).xreplace(places)

    def _element(self, at: At, places: Mapping[Basic, Expr], held: Collection[Basic]) -> At:
        return At(at.tensor, *(self._index(i, places, held) for i in at.index))

    def _index(self, i: Expr, places: Mapping[Basic, Expr], held: Collection[Basic]) -> Expr:
        found = window_of(i, self.guards)
        if found is not None and set(conjuncts(found[0])) <= set(held):
            i = found[1]
        if isinstance(i, At):
            return self._element(i, places, held)
        plain = i.args[0] if isinstance(i, Prefix) else i
        there = expand(plain.xreplace(places)) if free_axes(i) & places.keys() else i
        return Prefix(there) if there != i else there

    def windows(self, value: Expr, axes: Set[Axis]) -> Iterator[tuple[Basic, Expr]]:
        """The guarded places that a value is read at along these axes."""
        for i in (i for at in value.atoms(At) for i in at.index if free_axes(i) & axes):
            if (found := window_of(i, self.guards)) is not None:
                yield found

    def need(self, what: str, length: Expr, least: Expr, e: Equation, where: str = "") -> None:
        """That a length is at least so long."""
        need = Requirement(self.op.written_for(e), what, length, ">=", least, where)
        self.needs.setdefault((length, least), need)


# --- sums --------------------------------------------------------------------------------------------------


class _Sums(_Peeling):
    """Sums over axes from whose ends conditions keep them."""

    def length(self, between: Expr) -> Expr:
        """Where one place is left out, of an axis that has a place at all, which the op checks."""
        return between if between.as_coeff_Add()[0] == -1 else Rest(between)

    def apart(self, e: Equation) -> Iterator[Equation]:
        factors = Mul.make_args(e.body) if e.kind in ("sum", "mean") else ()
        asked = [c for f in factors if isinstance(f, Where) and f.args[2] == 0 for c in conjuncts(f.condition)]
        found = [ends for a in e.over if not a.is_pack and (ends := ends_of(a, asked)) is not None]
        if not found:
            yield e
            return
        for ends in found:
            if ends.first + ends.last == 1 and not ends.axis.fixed:
                self.need(f"axis {ends.axis.base}", Size(ends.axis), S.One, e)
        gone = _told_by(found, asked)
        yield self.between(e, found, gone, Mul(*(_without(f, gone) for f in factors)))


def _told_by(found: Collection[Ends], asked: Collection[Basic]) -> list[Basic]:
    """The conditions that hold between these ends."""
    return [c for c in asked if free_axes(c) <= {ends.axis for ends in found} and about_one_end(c)]


def _without(factor: Expr, gone: Collection[Basic]) -> Expr:
    """A factor without the conditions that hold wherever it is taken."""
    if not isinstance(factor, Where) or factor.args[2] != 0:
        return factor
    return Where(And(*(c for c in conjuncts(factor.condition) if c not in gone)), factor.args[1], S.Zero)


# --- choices between something and nothing more ------------------------------------------------------------


class _Choices(_Peeling):
    """Choices that leave nothing at the ends of axes, or what stands everywhere."""

    def apart(self, e: Equation) -> Iterator[Equation]:
        if e.kind not in (None, "sum", "mean") or not e.is_plain or e.target.is_integer:
            yield e
            return
        terms = {t: self.chosen(t, e) for t in Add.make_args(e.body)}
        found = {t: c for t, c in terms.items() if c is not None}
        if len(terms) == len(found) == 1 and [c.everywhere for c in found.values()] == [0]:
            ((_, only),) = found.items()
            yield self.between(e, only.ends, only.gone, only.inside)
            return
        rest = [t for t in terms if t not in found]
        for c in found.values() if e.kind is None else ():
            own = replace(e, target=Tensor(new_name(f"{e.name}_around", self.names)), given=False)
            yield self.between(own, c.ends, c.gone, c.inside)
            rest += [own.left, c.everywhere]
        yield replace(e, body=Add(*rest)) if e.kind is None else e

    def chosen(self, term: Expr, e: Equation) -> _Chosen | None:
        """What a term is between the ends of axes of the equation and elsewhere, where it reads neighbours there."""
        for choice in (f for f in Mul.make_args(term) if isinstance(f, Where)):
            condition, a, b = choice.args
            for way in (choice, Where(Not(condition), b, a)):
                if (found := self.of_choice(way, term / choice, e)) is not None:
                    return found
        return None

    def of_choice(self, choice: Where, others: Expr, e: Equation) -> _Chosen | None:
        """The same of a choice and what it is multiplied by; None where it is no such choice."""
        value, other = choice.args[1:]
        terms, everywhere = Add.make_args(value), [] if other == 0 else Add.make_args(other)
        asked = conjuncts(choice.condition)
        free = [a for a in e.axes if not a.is_pack and e.axes.count(a) == 1]
        ends = tuple(own for a in free if (own := ends_of(a, asked)) is not None)
        axes = {own.axis for own in ends}
        if not ends or any(t not in terms for t in everywhere) or _has_merged(choice * others, axes):
            return None
        gone = _told_by(ends, asked)
        value = Add(*(t for t in terms if t not in everywhere))
        added = bool(everywhere) or (len(Add.make_args(e.body)) > 1 and _is_multiple(others * value))
        if not (any(self.windows(value, axes)) if added else self.stays(value, gone)):
            return None
        inside = Where(And(*(c for c in asked if c not in gone)), value, S.Zero)
        return _Chosen(ends, gone, others * inside, others * other)

    def stays(self, value: Expr, conditions: Collection[Basic]) -> bool:
        """Whether one of the conditions under which neighbours are read says more than that zeros are around these."""
        inside = {at: self.inside(at) for at in value.atoms(At)}
        asked = [c for c in conditions if any(set(bounds_of(c)) & set(own) for own in inside.values())]
        return any(not says_only_inside(c, value, inside, facts_of(self.op)) for c in asked)

    def inside(self, at: At) -> list[Expr]:
        """What is at least 0 where a read through guarded windows is inside."""
        dims = zip(at.index, self.dims[at.name], strict=True)
        found = [(own[1], dim) for i, dim in dims if (own := window_of(i, self.guards)) is not None]
        return [expand(gap) for i, dim in found for gap in (i, size_of(dim) - 1 - i)]


@dataclass(frozen=True)
class _Chosen:
    """What is under a condition on the ends of some axes, and what stands everywhere."""

    ends: tuple[Ends, ...]
    gone: Collection[Basic]  # the conditions that hold between the ends
    inside: Expr
    everywhere: Expr


def _has_merged(value: Expr, axes: Set[Axis]) -> bool:
    """Whether one of these axes stands in a merged index."""
    return any(free_axes(i) & axes for i in value.atoms(Merge, Part))


def _is_multiple(value: Expr) -> bool:
    """Whether a value is one element times numbers: added in place, it needs no tensor of its own."""
    factors = [f for f in Mul.make_args(value) if f.atoms(At)]
    return len(factors) == 1 and isinstance(factors[0], At)


# --- choices between two things ----------------------------------------------------------------------------


class _Joined(_Peeling):
    """Choices that have something else at an end of an axis, as tensors that are joined."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.joined: dict[Expr, At] = {}  # by the choice that it is

    def rewritten(self) -> Op:
        made = super().rewritten()
        return made if made is self.op else replace(made, requirements=strongest(made.requirements))

    def length(self, between: Expr) -> Expr:
        return between

    def apart(self, e: Equation) -> Iterator[Equation]:
        if e.target.is_integer or not e.is_plain or e.kind == "concat":
            yield e
            return
        body = e.body
        waiting = list(_outermost(body))
        for choice in waiting:
            if choice not in self.joined and (whole := self.whole(choice, e)) is not None:
                if choice == e.body and e.kind is None and set(whole.index) == set(e.index):
                    yield replace(whole, target=e.target, index=e.index, given=e.given, called=e.called)
                    return
                yield whole
                self.joined[choice] = whole.left
            if choice in self.joined:
                body = body.xreplace({choice: self.joined[choice]})
            else:  # by values, perhaps, between choices by place
                waiting += [w for value in choice.args[1:] for w in _outermost(value)]
        yield replace(e, body=body)

    def whole(self, choice: Where, e: Equation) -> Equation | None:
        """A tensor of what is chosen, its ends joined to what is between; None where the choice is none by ends."""
        axes = sorted(free_axes(choice), key=lambda a: [*e.axes, *e.over].index(a))
        for axis in axes:
            ends = None if axis.is_pack or not self.reads_neighbours(choice, axis) else _told_apart(choice, axis)
            if ends is not None and (pieces := self.pieces(choice, ends, e)):
                target = Tensor(new_name(f"{e.name}_joined", self.names))
                body = Concat(axis, *(value for _, value in pieces))
                return Equation(target, tuple(axes), body, "concat", tuple(a for a, _ in pieces), given=False)
        return None

    def reads_neighbours(self, choice: Where, axis: Axis) -> bool:
        """Whether windows that a condition keeps inside are read along an axis, and something else is at its end."""
        _, value, other = choice.args
        added = _is_added(other, value) or _is_added(value, other)
        return not added and any(self.windows(choice, {axis})) and not _has_merged(choice, {axis})

    def pieces(self, choice: Where, ends: Ends, e: Equation) -> list[tuple[Axis, Expr]]:
        """What is joined: over an axis of its own each, at one place where that is all; nothing where it cannot be."""
        out: list[tuple[Axis, Expr]] = []
        for s in ends.segments:
            axis = self.inner(ends) if s.count is None else self.places(s, s.count)
            there = self.at(_chosen_in(choice, s), s.start if s.count == 1 else expand(axis + s.start), s)
            if there is None or not free_axes(there) - {axis} <= free_axes(choice):
                return []
            if axis in free_axes(there):
                out.append((axis, there))
            elif s.count is None:
                return []
            else:  # the same at each place
                out += [(self.places(s, 1), there)] * s.count
        for _, there in out:
            self.ask(there, e)
        self.need(f"axis {ends.axis.base}", Size(ends.axis), Integer(ends.first + ends.last), e)
        return out

    def places(self, s: Segment, count: int) -> Axis:
        """An axis of so many places at an end."""
        name = f"{s.axis.base}_{'first' if s.start == 0 else 'last'}"
        known = (a for a in (*self.sizes, *self.known) if a.base.startswith(name) and a.fixed == count)
        own = next(known, None) or Axis(free_name(name, {a.base for a in (*self.sizes, *self.known)}), fixed=count)
        self.sizes.setdefault(own, SizeRule(own, formula=Integer(count)))
        return own

    def at(self, value: Expr, place: Expr, s: Segment) -> Expr | None:
        """A value at the places of a segment, its windows read as they are; None where one may leave its axis."""
        asked = {c for condition, _ in self.windows(value, {s.axis}) for c in conjuncts(condition)}
        there = self.moved(value, {s.axis: place}, [c for c in asked if s.holds(c)])
        guarded = any(window_of(i, self.guards) for at in there.atoms(At) for i in at.index if not free_axes(i))
        return None if guarded or s.axis in free_axes(there) else there

    def ask(self, value: Expr, e: Equation) -> None:
        """That the places which are read exist."""
        for at in reads_of(value):
            for i, dim in zip(at.index, self.dims[at.name], strict=True):
                behind = expand(size_of(dim) - i)
                least = i + 1 if isinstance(i, Integer) else behind if isinstance(behind, Integer) else S.Zero
                if least > 0:
                    self.need(str(at), size_of(dim), least, e, f"axis {dim}")

    def need(self, what: str, length: Expr, least: Expr, e: Equation, where: str = "") -> None:
        """The same, where the spec's own reads do not ask for it."""
        sure = isinstance(length, Integer) and length >= least
        asked = any((r.left, r.right, r.relation) == (length, least, ">=") for r in self.op.requirements)
        if not sure and not asked:
            super().need(what, length, least, e, where)


def _outermost(value: Basic) -> Iterator[Where]:
    """The choices of an expression that stand in no other."""
    if isinstance(value, Where):
        yield value
    elif not isinstance(value, At):
        for a in value.args:
            yield from _outermost(a)


def _is_added(everywhere: Expr, value: Expr) -> bool:
    """Whether what is chosen is nothing, or what the other value is a sum of, so that it stands everywhere."""
    if everywhere == 0:
        return True
    return not isinstance(everywhere, Where) and set(Add.make_args(everywhere)) <= set(Add.make_args(value))


def _told_apart(choice: Where, axis: Axis) -> Ends | None:
    """The ends that this choice and those in it tell from what is between; None where they ask for other places."""
    counts: tuple[set[int], set[int]] = set(), set()
    for condition in (w.condition for w in choice.atoms(Where) if axis in free_axes(w.condition)):
        ways = ([about_one_end(c) for c in conjuncts(asked)] for asked in (condition, Not(condition)))
        told = next((way for way in ways if all(way)), None)
        if told is None or free_axes(condition) != {axis}:
            return None
        for at_end, count in (end for end in told if end is not None):
            counts[at_end].add(count)
    if any(len(c) > 1 or 0 in c for c in counts) or not any(counts):
        return None
    ends = Ends(axis, *(max(c, default=0) for c in counts))
    return None if axis.fixed is not None and axis.fixed <= ends.first + ends.last else ends


def _chosen_in(value: Basic, s: Segment) -> Expr:
    """What is chosen at the places of a segment."""
    if isinstance(value, Where) and (holds := s.holds(value.condition)) is not None:
        return _chosen_in(value.args[1 if holds else 2], s)
    if not value.args or isinstance(value, At):
        return value
    return value.func(*(_chosen_in(a, s) for a in value.args))


# --- each place of a few -----------------------------------------------------------------------------------


def said_for_each_place(op: Op) -> Op:
    """The same op with what depends on the place along an axis of a few places said for each, and joined.

    Where `r` has two places, `where(eq(r, 0), -z[t, 1], z[t, 0])` is `concat(-z[t, 1], z[t, 0], along=r)`. As it is
    written both would be computed at both places, and the gradient of each summed over what is 0.
    """
    taken, names = {r.axis.base for r in op.sizes}, op.names
    one = [Axis(free_name(f"place_{k}", taken), fixed=1) for k in range(PLACES_SAID)]
    equations = [part for e in op.equations for part in _for_each_place(e, one, names)]
    places = dict.fromkeys(a for e in equations if e.kind == "concat" for a in e.over if a in one)
    return with_lengths(op, equations, map(SizeRule, places), ())


def _for_each_place(e: Equation, one: list[Axis], names: set[str]) -> Iterator[Equation]:
    """The equation with a piece for each place of an axis; `one` are axes of one place. What is merged, is so then."""
    asked = free_axes(e.body.xreplace({at: Dummy() for at in e.reads}))
    for axis in e.axes if e.kind is None and e.is_over_axes and not e.target.is_integer else ():
        own = [i for at in e.reads for i in at.index if axis in free_axes(i)]
        few = axis.fixed is not None and 1 < axis.fixed <= PLACES_SAID and axis in asked
        if few and all(free_axes(i) == {axis} and not i.atoms(At) for i in own):
            pieces = [e.body.xreplace({axis: Integer(k)}) for k in range(axis.fixed or 0)]
            if all(free_axes(p) == set(e.axes) - {axis} for p in pieces):
                over = tuple(one[: len(pieces)])
                joined = replace(e, index=e.axes, body=Concat(axis, *pieces), kind="concat", over=over)
                if not e.is_plain:
                    joined = replace(joined, target=Tensor(new_name(f"{e.name}_apart", names)), given=False)
                    yield joined
                yield joined if e.is_plain else replace(e, body=joined.left)
                return
    yield e
