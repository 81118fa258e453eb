"""What is chosen at the ends of an axis is joined to what is chosen between them: slices, and no condition.

`where(eq(t, 0), x[n, size(t) - 1], x[n, t - 1])`, a boundary that is periodic, is
`concat(x[n, size(t) - 1], x[n, t_inner], along=t)`, and so are `where(t >= 1, x[n, t - 1], x[n, t])`, which repeats the
first place, and a choice inside another for the other end. Where nothing is chosen at the ends, or what stands
everywhere, zeros do (`inner_choices.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sympy import Add, Basic, Expr, Integer, Not, S, expand

from derive.facts.lengths.ends import Ends, about_one_end
from derive.facts.lengths.requirements import strongest
from derive.facts.lengths.sizes import dimensions, size_of
from derive.ir.equations import Equation, Op, Requirement, SizeRule
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import Concat, Where, conjuncts
from derive.ir.terms.elements import At, Tensor, reads_of
from derive.ir.terms.indices import Merge, Part
from derive.ir.terms.names import free_name, new_name
from derive.rules.index.guards import without_guards
from derive.rules.index.inner_axes import InnerAxes

_FRONT, _BETWEEN, _BEHIND = range(3)


def joined_at_ends(op: Op) -> Op:
    """The same op with such choices as tensors that are joined, and what these ask of lengths."""
    return _Joins(op).rewritten()


@dataclass
class _Joins:
    op: Op
    sizes: dict[Axis, SizeRule] = field(default_factory=dict)
    needs: dict[tuple[Expr, Expr], Requirement] = field(default_factory=dict)
    made: dict[Expr, At] = field(default_factory=dict)  # what is joined, by the choice that it is

    def __post_init__(self) -> None:
        self.inner = InnerAxes(self.op, lambda between: between)
        self.dims = dimensions(self.op.operands, self.op.equations)
        self.taken = self.op.names
        self.axes = {r.axis.base for r in self.op.sizes}
        self.asked = {(r.left, r.right) for r in self.op.requirements if r.relation == ">="}

    def rewritten(self) -> Op:
        equations = [part for e in self.op.equations for part in self.apart(e)]
        if tuple(equations) == self.op.equations:
            return self.op
        made = without_guards(self.op, equations, [*self.inner.sizes, *self.sizes.values()], self.needs.values())
        return replace(made, requirements=strongest(made.requirements))

    def apart(self, e: Equation) -> Iterator[Equation]:
        """The equation, behind what it reads of what is joined."""
        if e.target.is_integer or not e.is_plain or e.kind == "concat":
            yield e
            return
        body = e.body
        waiting = list(_outermost(body))
        for choice in waiting:
            if choice not in self.made and (whole := self.joined(choice, e)) is not None:
                if choice == e.body and e.kind is None and set(whole.index) == set(e.index):
                    yield replace(whole, target=e.target, index=e.index, given=e.given, called=e.called)
                    return
                yield whole
                self.made[choice] = whole.left
            if choice in self.made:
                body = body.xreplace({choice: self.made[choice]})
            else:  # by values, perhaps, between choices by place
                waiting += [w for value in choice.args[1:] for w in _outermost(value)]
        yield replace(e, body=body)

    def joined(self, choice: Where, e: Equation) -> Equation | None:
        """A tensor of what is chosen, its ends joined to what is between; None where the choice is none by ends."""
        axes = sorted(free_axes(choice), key=lambda a: [*e.axes, *e.over].index(a))
        for axis in axes:
            if not axis.is_pack and (ends := _ends(choice, axis)) is not None and self.reads_neighbours(choice, axis):
                pieces = self.pieces(choice, ends, e)
                if pieces is None:
                    continue
                target = Tensor(new_name(f"{e.name}_joined", self.taken))
                body = Concat(axis, *(value for _, value in pieces))
                return Equation(target, tuple(axes), body, "concat", tuple(a for a, _ in pieces), given=False)
        return None

    def reads_neighbours(self, choice: Where, axis: Axis) -> bool:
        """Whether windows that a condition keeps inside are read along an axis, and something else is at its end."""
        _, value, other = choice.args
        guarded = [i for at in choice.atoms(At) for i in at.index if self.inner.window(i) and axis in free_axes(i)]
        merged = any(axis in free_axes(i) for i in choice.atoms(Merge, Part))
        return bool(guarded) and not merged and not _is_added(other, value) and not _is_added(value, other)

    def pieces(self, choice: Where, ends: Ends, e: Equation) -> list[tuple[Axis, Expr]] | None:
        """What is joined: over an axis of its own each, at one place where that is all."""
        out: list[tuple[Axis, Expr]] = []
        for segment, count in ((_FRONT, ends.first), (_BETWEEN, None), (_BEHIND, ends.last)):
            if count == 0:
                continue
            axis = self.inner.axis(ends) if count is None else self.places(ends.axis, count, segment)
            start = {_FRONT: S.Zero, _BETWEEN: Integer(ends.first), _BEHIND: Size(ends.axis) - ends.last}[segment]
            place = start if count == 1 else expand(axis + start)
            value = _resolved(choice, segment, ends)
            there = None if value is None else self.at(value, {ends.axis: place}, segment, ends)
            if there is None or not (free_axes(there) - {axis} <= free_axes(choice)):
                return None
            if axis in free_axes(there):
                out.append((axis, there))
            elif count is None:
                return None
            else:  # the same at each place
                out += [(self.places(ends.axis, 1, segment), there)] * count
        for _, there in out:
            self.ask(there, e)
        self.need(f"axis {ends.axis.base}", Size(ends.axis), Integer(ends.first + ends.last), e)
        return out

    def places(self, axis: Axis, count: int, segment: int) -> Axis:
        """An axis of so many places at an end."""
        name = f"{axis.base}_{'first' if segment == _FRONT else 'last'}"
        every = (*self.sizes, *(r.axis for r in self.op.sizes))
        known = next((a for a in every if a.base.startswith(name) and a.fixed == count), None)
        own = known or Axis(free_name(name, self.axes), fixed=count)
        self.axes.add(own.base)
        self.sizes.setdefault(own, SizeRule(own, formula=Integer(count)))
        return own

    def at(self, value: Expr, places: Mapping[Basic, Expr], segment: int, ends: Ends) -> Expr | None:
        """A value at the places of one segment, its windows read as they are; None where one may leave its axis."""
        conditions = [own[0] for at in value.atoms(At) for i in at.index if (own := self.inner.window(i)) is not None]
        parts = {c for condition in conditions for c in conjuncts(condition)}
        there = self.inner.moved(value, places, [c for c in parts if _holds(c, segment, ends)])
        guarded = any(self.inner.window(i) for at in there.atoms(At) for i in at.index if not free_axes(i))
        return None if guarded or ends.axis in free_axes(there) else there

    def ask(self, value: Expr, e: Equation) -> None:
        """That the places which are read exist."""
        for at in reads_of(value):
            for i, dim in zip(at.index, self.dims[at.name], strict=True):
                own = expand(i)
                behind = expand(size_of(dim) - own)
                least = own + 1 if isinstance(own, Integer) else behind if isinstance(behind, Integer) else None
                if least is not None and least > 0:
                    self.need(str(at), size_of(dim), least, e, f"axis {dim}")

    def need(self, what: str, length: Expr, least: Expr, e: Equation, where: str = "") -> None:
        """That a length is at least so long, where the spec's own reads do not ask for it."""
        sure = isinstance(length, Integer) and isinstance(least, Integer) and length >= least
        if not sure and (length, least) not in self.asked:
            need = Requirement(self.op.written_for(e), what, length, ">=", least, where)
            self.needs.setdefault((length, least), need)


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


def _ends(choice: Where, axis: Axis) -> Ends | None:
    """How many places at the ends of an axis are told apart by this choice and those in it; None where others are."""
    found = []
    for w in (choice, *_inside(choice)):
        if axis in free_axes(w.condition):
            own = _about(w.condition, axis)
            if own is None:
                return None
            found += own[1]
    first = {count for at_end, count in found if not at_end}
    last = {count for at_end, count in found if at_end}
    if len(first) > 1 or len(last) > 1 or 0 in first | last or not found:
        return None
    ends = Ends(axis, max(first, default=0), max(last, default=0))
    return None if axis.fixed is not None and axis.fixed <= ends.first + ends.last else ends


def _inside(choice: Where) -> Iterator[Where]:
    for value in choice.args[1:]:
        for w in _outermost(value):
            yield w
            yield from _inside(w)


def _about(condition: Basic, axis: Axis) -> tuple[bool, list[tuple[bool, int]]] | None:
    """Whether a condition holds between ends or at them, and which places, by end, it tells apart."""
    for between, asked in ((True, condition), (False, Not(condition))):
        own = [about_one_end(c) if free_axes(c) == {axis} else None for c in conjuncts(asked)]
        if all(own):
            return between, [o for o in own if o is not None]
    return None


def _resolved(value: Basic, segment: int, ends: Ends) -> Expr | None:
    """What is chosen at the places of a segment."""
    if isinstance(value, Where) and (own := _about(value.condition, ends.axis)) is not None:
        between, told = own
        holds = all(_is_between(end, segment) for end in told)
        return _resolved(value.args[1 if holds == between else 2], segment, ends)
    if not value.args or isinstance(value, At):
        return value
    return value.func(*(_resolved(a, segment, ends) for a in value.args))


def _is_between(end: tuple[bool, int], segment: int) -> bool:
    return segment != (_BEHIND if end[0] else _FRONT)


def _holds(part: Basic, segment: int, ends: Ends) -> bool:
    """Whether a condition on the place holds throughout a segment: it, or what it denies, may be about either end.

    Of three places `x >= 2` leaves out the first two, and is where `x + 1 < 3` fails, which leaves out the last.
    """
    if free_axes(part) != {ends.axis}:
        return False
    between, beyond = about_one_end(part), about_one_end(Not(part))
    if between is not None and _is_between(between, segment) and between[1] <= _left_out(ends, between):
        return True
    return beyond is not None and not _is_between(beyond, segment) and beyond[1] >= _left_out(ends, beyond)


def _left_out(ends: Ends, end: tuple[bool, int]) -> int:
    return ends.last if end[0] else ends.first
