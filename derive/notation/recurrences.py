"""Recurrences as a spec writes them: a start, `f.h[n, -1, d] = …`, and an equation that reads `f.h[n, t - 1, d]`.

What is read one place earlier is an operand that the recurrence carries, so that every equation reads all places of an
axis at once, as any other does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sympy import Expr, Integer

from derive.errors import DeriveError
from derive.ir.circles import circles
from derive.ir.equations import Equation, Operand, Recurrence
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.elements import At

Carried = Callable[[str, tuple[Any, ...]], Operand]
"""Makes an operand under that name, or one like it, over these axes."""


@dataclass(frozen=True)
class State:
    """A tensor whose start is written: `index` is that of the start, with what stands for the axis at `slot`."""

    name: str
    start: str
    index: tuple[Expr, ...]
    slot: int
    axis: Axis | None = None
    before: Operand | None = None
    last: Operand | None = None
    made: bool = False

    @property
    def forwards(self) -> bool:
        return self.index[self.slot] == -1

    @property
    def step(self) -> int:
        """From a place to the one that it reads."""
        return -1 if self.forwards else 1

    def at(self, i: object, f: str = "f.") -> str:
        """How the state is read at a place of the axis."""
        index = (*map(str, self.index[: self.slot]), str(i), *map(str, self.index[self.slot + 1 :]))
        return f"{f}{self.name}[{', '.join(index)}]"


@dataclass
class States:
    """The states of a spec, by name."""

    carried: Carried
    found: dict[str, State] = field(default_factory=dict)

    def begin(self, name: str, start: str, key: tuple[Expr, ...], slots: Sequence[int]) -> None:
        """Take a start: what stands at one end of an axis, which the equation of that name tells."""
        if len(slots) > 1:
            raise DeriveError(
                f"{name} starts along two axes", fix="carry a state along one: give the other an axis on the left"
            )
        old, new = self.found.get(name), State(name, start, key, slots[0])
        if old is not None:
            what = "two starts" if old.forwards == new.forwards else "a start at both ends"
            ways = dict.fromkeys((old.at(old.index[old.slot]), new.at(key[slots[0]])))
            raise DeriveError(f"{name} has {what}", fix=f"write one: {' or '.join(ways)}")
        if not all(isinstance(i, Axis) for k, i in enumerate(key) if k != slots[0]):
            raise DeriveError(
                f"the start of {name} has merged axes", fix="give the state an axis for each, and merge them afterwards"
            )
        self.found[name] = new

    def step(self, name: str, key: tuple[Expr, ...]) -> None:
        """Take the equation of a state, whose axes are those of its start and one more."""
        state = self.found[name]
        rest = tuple(i for k, i in enumerate(key) if k != state.slot)
        own = tuple(i for k, i in enumerate(state.index) if k != state.slot)
        axis = key[state.slot] if len(key) == len(state.index) else None
        if rest != own or not isinstance(axis, Axis) or (state.axis or axis) != axis:
            raise DeriveError(
                f"{name} starts as {state.at(state.index[state.slot])} but is written as "
                f"f.{name}[{', '.join(map(str, key))}]",
                fix=f"give both the same axes: {state.at(state.axis or 't')}",
            )
        self.along(name, axis)
        self.found[name] = replace(self.found[name], made=True)

    def along(self, name: str, axis: Axis) -> State:
        """The state, whose axis is known by now."""
        state = self.found[name]
        if state.axis is not None:
            return state
        if axis in state.index or axis.is_pack:
            raise DeriveError(f"{name} is carried along {axis}, which its start has", fix="carry it along another axis")
        end = state.index[state.slot]
        if not state.forwards and end != Size(axis):
            raise DeriveError(
                f"{name} starts at {end}, and is carried along {axis}",
                fix=f"write what stands behind the last place: {state.at(f'size({axis})')}",
            )
        others = state.index[: state.slot], state.index[state.slot + 1 :]
        ends = ("prev", "last") if state.forwards else ("next", "first")
        before = self.carried(f"{name}_{ends[0]}", (*others[0], axis, *others[1]))
        last = self.carried(f"{name}_{ends[1]}", (*others[0], *others[1]))
        self.found[name] = replace(state, axis=axis, before=before, last=last)
        return self.found[name]

    def read(self, name: str, key: tuple[Expr, ...]) -> At | None:
        """What a read of a state is of: what is carried; None where it is one of the finished tensor."""
        state = self.found[name]
        if len(key) != len(state.index):
            self._check_whole(state, key)
            return None
        i = key[state.slot]
        others = key[: state.slot], key[state.slot + 1 :]
        axes = sorted(free_axes(i), key=str)
        axis = axes[0] if len(axes) == 1 else None
        if axis is not None and i - axis == state.step and state.axis in (None, axis):
            before = self.along(name, axis).before
            assert before is not None
            return At(before.tensor, *others[0], axis, *others[1])
        end = Integer(-1) if state.forwards else state.index[state.slot]
        if i == end:
            last = f"size({state.axis or 't'}) - 1" if state.forwards else "0"
            raise DeriveError(
                f"{state.at(i)} is the start, and is read",
                fix=f"the last place is {state.at(last)}; give the start an equation of its own, and read that",
            )
        if state.made and state.axis is not None and i == (Size(state.axis) - 1 if state.forwards else 0):
            assert state.last is not None
            return At(state.last.tensor, *others[0], *others[1])
        if not state.made:
            raise self._not_made(state, i, axis, [j for j in (*others[0], *others[1]) if not isinstance(j, Axis)])
        return None

    def _check_whole(self, state: State, key: tuple[Expr, ...]) -> None:
        if not state.made:
            raise DeriveError(
                f"{state.name} is read as f.{state.name}[{', '.join(map(str, key))}]",
                fix=f"read it as its start is written, {state.at('t - 1' if state.forwards else 't + 1')}",
            )

    def _not_made(self, state: State, i: Expr, axis: Axis | None, others: Sequence[Expr]) -> DeriveError:
        """What to say of a read of a state inside its own step; `others` are its other indices, but for plain axes."""
        own = state.axis or axis or "t"
        before = state.at(f"{own} {'-' if state.forwards else '+'} 1")
        if i.atoms(At):
            return DeriveError(
                f"{state.at(i)} reads a place of {own} by an index inside a step",
                fix=f"a step reads the place before alone: {before}",
            )
        if axis is None:
            return DeriveError(f"{state.at(i)} reads a place that is not made yet", fix=f"read {before}")
        by = i - axis
        second = [a for a in ([axis] if state.axis not in (None, axis) else []) if by != 0]
        second += [a for j in others if by == 0 and j.is_Add for a in free_axes(j)]
        if second:
            return DeriveError(
                f"{state.name} is carried along two axes, {own} and {second[0]}", fix=f"carry it along one: {before}"
            )
        if by == 0:
            return DeriveError(
                f"{state.at(i)} is read before its equation, a circle within one place",
                fix=f"read the place before, {before}, or write the equation of {state.name} first",
            )
        if by.is_Integer and by * state.step > 0:
            prev = f"f.prev[{', '.join(map(str, (*state.index[: state.slot], own, *state.index[state.slot + 1 :])))}]"
            return DeriveError(
                f"{state.at(i)} reads {abs(by)} places back",
                fix=f"carry a second state, with a start of its own, {prev} = {before}, and read that one place back",
            )
        if by == -state.step:
            return DeriveError(
                f"{state.name} is carried in both directions: {state.at(i)} is not made yet",
                fix=f"read {before}, or carry another state the other way",
            )
        return DeriveError(f"{state.at(i)} reads a place that is not made yet", fix=f"read {before}")

    def recurrences(self, equations: Iterable[Equation]) -> tuple[Recurrence, ...]:
        """All of them, once the spec is read. Raises DeriveError where one is none."""
        equations = tuple(equations)
        read = {at.name for e in equations for at in e.reads}
        found = []
        for state in self.found.values():
            if not state.made or state.axis is None or state.before is None or state.last is None:
                end = state.at(state.axis or "t")
                if state.index[state.slot].is_Integer and not state.forwards:
                    raise DeriveError(
                        f"the left side holds {state.index[state.slot]}, which is no axis", equation=state.name,
                        fix="say what stands at each place: where(eq(d, 0), a, b), or concat(a, b, along=d)",
                    )  # fmt: skip
                raise DeriveError("a start is written, and no equation", equation=state.name, fix=f"write {end} = …")
            if not {state.before.name, state.last.name} & read:
                before = state.at(f"{state.axis} {'-' if state.forwards else '+'} 1")
                raise DeriveError(
                    f"nothing reads {before}, nor the start", equation=state.name, fix="leave the start out"
                )
            found.append(Recurrence(state.name, state.start, state.axis, state.forwards, state.before, state.last))
        return tuple(found)

    def renamed(self, names: Mapping[str, str]) -> None:
        """Other names for tensors, wherever they stand."""

        def under(o: Operand | None) -> Operand | None:
            return o if o is None else replace(o, name=names.get(o.name, o.name))

        for name, s in list(self.found.items()):
            own, start = (names.get(n, n) for n in (name, s.start))
            del self.found[name]
            self.found[own] = replace(s, name=own, start=start, before=under(s.before), last=under(s.last))


def starts_at(key: Sequence[Expr]) -> list[int]:
    """The indices on a left side that stand before the first place of an axis, or behind the last."""
    return [k for k, i in enumerate(key) if i == -1 or isinstance(i, Size) or (i.is_Integer and i > 1)]


def unstarted(at: At, equation: str) -> DeriveError | None:
    """What to say of a read one place earlier or later of what no start is written of; None for another read."""
    for k, i in enumerate(at.index):
        axes = sorted(free_axes(i), key=str)
        by = i - axes[0] if len(axes) == 1 else Integer(0)
        if by in (1, -1):
            end = "-1" if by == -1 else f"size({axes[0]})"
            start = f"f.{at.name}[{', '.join([*map(str, at.index[:k]), end, *map(str, at.index[k + 1 :])])}] = …"
            return DeriveError(
                f"{at} is read, and {at.name} has no start", equation=equation,
                fix=f"write what stands {'before the first' if by == -1 else 'behind the last'} place first: {start}",
            )  # fmt: skip
    return None


def check_steps(equations: Sequence[Equation], groups: Sequence[Sequence[Recurrence]]) -> None:
    """Every circle of equations goes along one axis and one way, a place at a time.

    The first of the groups are the spec's own recurrences, each other one those of an op that is called.
    """
    recurrences = [r for group in groups for r in group]
    reads: dict[str, set[str]] = {}
    for e in equations:
        reads.setdefault(e.name, set()).update(at.name for at in e.reads)
    reads |= {r.before.name: {r.state} for r in recurrences}
    by_before = {r.before.name: r for r in recurrences}
    for circle in map(set, circles(reads)):
        own = [by_before[n] for n in by_before if n in circle]
        if sum(any(r in own for r in group) for group in groups) > 1:
            inner = next(r for group in groups[1:] for r in group if r in own)
            raise DeriveError(
                f"an op with a recurrence is called inside a step along {own[0].axis}", equation=inner.state,
                fix="write its equations into the step",
            )  # fmt: skip
        ways = {(r.axis, r.forwards) for r in own}
        if len(ways) > 1:
            names = " and ".join(sorted(r.state for r in own))
            axes = sorted({r.axis.base for r in own})
            what = f"two axes, {' and '.join(axes)}" if len(axes) > 1 else f"both directions of {axes[0]}"
            raise DeriveError(
                f"{names} read one another along {what}", equation=own[0].state,
                fix="carry what reads one another along one axis, one way",
            )  # fmt: skip
        for e in equations if own else ():
            if e.name in circle:
                for cause in _against(e, own[0].axis, circle):
                    raise DeriveError(
                        cause, equation=e.name, fix="in a step read the place itself, or the one before it, alone"
                    )


def _against(e: Equation, axis: Axis, circle: set[str]) -> Iterator[str]:
    """What an equation of a circle does but read one place at a time."""
    if axis in e.over:
        yield f"reduces over {axis} inside a step along it"
    if axis not in e.index:
        yield f"has no axis {axis}, and stands inside a step along it"
    for at in e.reads:
        if at.name in circle and axis not in at.index:
            yield f"{at} is read inside a step along {axis}"


def carried_operand(name: str, axes: tuple[Axis, ...]) -> Operand:
    """What a recurrence carries, as an input of its op."""
    return Operand(name, "tensor", axes, declared=axes, carried=True)
