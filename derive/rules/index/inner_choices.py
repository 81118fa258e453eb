"""What a condition leaves of the ends of an axis is computed between them, and added there to what stands everywhere.

`where(t >= 1, x[n, t] - x[n, t - 1], 0)` is 0 at the first place, and behind it the difference of two slices over
`t_inner`, which has one place less. Of `where(t >= 1, x[n, t] + a * x[n, t - 1], x[n, t])` only `a * x[n, t - 1]` is
under the condition. One element alone is left to be read of a tensor with zeros around it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass, field, replace

from sympy import Add, And, Basic, Expr, Mul, Not, S, expand

from derive.facts.interpreter import facts_of
from derive.facts.lengths.ends import Ends, about_one_end, ends_of
from derive.facts.lengths.kept_inside import gaps, says_only_inside
from derive.facts.lengths.sizes import dimensions, size_of
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, Rest, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, Tensor
from derive.ir.terms.indices import Merge, Part, Prefix
from derive.ir.terms.names import new_name
from derive.rules.index.guards import without_guards
from derive.rules.index.inner_axes import InnerAxes, asked_of


def chosen_between_ends(op: Op) -> Op:
    """The same op with what such choices choose over fewer places, and the lengths of the axes that have these."""
    return _Choices(op).rewritten()


@dataclass(frozen=True)
class _Chosen:
    """What is under a condition on the ends of some axes, and what stands everywhere."""

    ends: tuple[Ends, ...]
    gone: tuple[Basic, ...]  # the conditions that hold between the ends
    inside: Expr
    everywhere: Expr


@dataclass
class _Choices:
    op: Op
    taken: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.inner = InnerAxes(self.op, Rest)
        self.dims = dimensions(self.op.operands, self.op.equations)
        self.values = facts_of(self.op)
        self.taken = self.op.names

    def rewritten(self) -> Op:
        equations = [part for e in self.op.equations for part in self.apart(e)]
        return without_guards(self.op, equations, self.inner.sizes, ()) if self.inner.made else self.op

    def apart(self, e: Equation) -> Iterator[Equation]:
        """The equation, what it has between the ends apart where it has something else as well."""
        if e.kind not in (None, "sum", "mean") or not e.is_plain or e.target.is_integer:
            yield e
            return
        terms = {t: self.chosen(t, e) for t in Add.make_args(e.body)}
        found = {t: c for t, c in terms.items() if c is not None}
        if len(terms) == len(found) == 1 and [c.everywhere for c in found.values()] == [0]:
            yield self.between(e, *found.values())
            return
        rest = [t for t in terms if t not in found]
        for chosen in found.values() if e.kind is None else ():
            own = replace(e, target=self.named(f"{e.name}_around"), given=False)
            yield self.between(own, chosen)
            rest += [own.left, chosen.everywhere]
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
        asked = asked_of(choice)
        free = [a for a in e.axes if not a.is_pack and e.axes.count(a) == 1]
        ends = tuple(own for a in free if (own := ends_of(a, asked)) is not None)
        axes = {own.axis for own in ends}
        if not ends or any(t not in terms for t in everywhere) or _has_merged(choice * others, axes):
            return None
        gone = tuple(c for c in asked if free_axes(c) <= axes and about_one_end(c))
        value = Add(*(t for t in terms if t not in everywhere))
        added = bool(everywhere) or (len(Add.make_args(e.body)) > 1 and _is_multiple(others * value))
        if not (self.reads_windows(value, axes) if added else self.stays(value, gone)):
            return None
        kept = [c for c in asked if c not in gone]
        inside = Where(And(*kept), value, S.Zero) if kept else value
        return _Chosen(ends, gone, others * inside, others * other)

    def reads_windows(self, value: Expr, axes: Set[Axis]) -> bool:
        """Whether a value reads neighbours along these axes."""
        return any(self.inner.window(i) and free_axes(i) & axes for at in value.atoms(At) for i in at.index)

    def stays(self, value: Expr, conditions: Collection[Basic]) -> bool:
        """Whether one of the conditions under which neighbours are read says more than that zeros are around these."""
        inside = {at: self.windows(at) for at in value.atoms(At)}
        asked = [c for c in conditions if any(set(gaps([c])) & set(own) for own in inside.values())]
        return any(not says_only_inside(c, value, inside, self.values) for c in asked)

    def windows(self, at: At) -> list[Expr]:
        """What is at least 0 where a read through guarded windows is inside."""
        dims = zip(at.index, self.dims[at.name], strict=True)
        found = [(own[1], dim) for i, dim in dims if (own := self.inner.window(i)) is not None]
        return [expand(gap) for i, dim in found for gap in (i, size_of(dim) - 1 - i)]

    def between(self, e: Equation, chosen: _Chosen) -> Equation:
        """What is between the ends, added to zeros at its places."""
        made = {own.axis: self.inner.axis(own) for own in chosen.ends}
        places = {own.axis: made[own.axis] + own.first for own in chosen.ends}
        value = self.inner.moved(chosen.inside, places, chosen.gone)
        deltas = Mul(*(Delta(a, Prefix(p) if isinstance(p, Axis) else p) for a, p in places.items()))
        return replace(e, body=deltas * value, kind="sum", over=(*made.values(), *e.over), scale=e.weight)

    def named(self, name: str) -> Tensor:
        return Tensor(new_name(name, self.taken))


def _has_merged(value: Expr, axes: Set[Axis]) -> bool:
    """Whether one of these axes stands in a merged index."""
    return any(free_axes(i) & axes for i in value.atoms(Merge, Part))


def _is_multiple(value: Expr) -> bool:
    """Whether a value is one element times numbers: added in place, it needs no tensor of its own."""
    factors = [f for f in Mul.make_args(value) if f.atoms(At)]
    return len(factors) == 1 and isinstance(factors[0], At)
