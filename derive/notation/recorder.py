"""What a spec has said so far: each equation is checked and split as it is written."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sympy import Basic, Expr, Max, Min
from sympy.logic.boolalg import Boolean

from derive.adjoint.jacobian import Derived, Known, derivative_of
from derive.errors import DeriveError
from derive.facts.interpreter import facts_by, signs
from derive.facts.lengths.sizes import closed, size_of, told
from derive.ir.equations import Equation, Op, Operand, Recurrence
from derive.ir.terms.axes import Axis, Rest, Size, free_axes, sorted_axes
from derive.ir.terms.choices import Concat, Where
from derive.ir.terms.elements import At, Scalar, Tensor, reads_of
from derive.ir.terms.indices import Merge, Prefix
from derive.ir.terms.kinks import maximum, minimum
from derive.ir.terms.names import free_name
from derive.ir.terms.reductions import Reduce
from derive.notation.checks import (
    check_axes,
    check_derivative,
    check_functions,
    check_no_concat,
    check_read,
    from_the_end,
)
from derive.notation.handles import Handle
from derive.notation.mistakes import hidden_axis
from derive.notation.questions import unwatched
from derive.notation.recorded import as_recorded, may_be_infinite, unsigned
from derive.notation.recurrences import States, carried_operand, check_steps, starts_at
from derive.notation.sums_first import Written, groupings
from derive.notation.values import expression
from derive.notation.wrapped import Around, Wrapped, around, wrapped
from derive.rules.index.guards import guarded, guarded_behind, guards_of_places, unguarded
from derive.rules.index.read_forward import read_forward
from derive.rules.order import DIGITS, said_in_full
from derive.rules.splitting import conditions_split, scaled_reduction, split, taken_apart


@dataclass
class Recorder:
    """What a spec has said so far."""

    name: str
    operands: dict[str, Operand] = field(default_factory=dict)
    equations: list[Equation] = field(default_factory=list)
    tensors: dict[str, tuple[Tensor, tuple[Expr, ...]]] = field(default_factory=dict)
    results: set[str] = field(default_factory=set)  # outputs of calls, which the spec names one by one
    written: list[At] = field(default_factory=list)  # every read, in order, also what cancels
    infinite: set[str] = field(default_factory=set)  # equations whose elements may be -oo or oo
    invented: set[str] = field(default_factory=set)  # equations that the spec did not write, under names of ours
    added: Written = field(default_factory=dict)  # what was added to what
    conditions: dict[str, tuple[tuple[Expr, ...], Boolean]] = field(default_factory=dict)  # names for them, with axes
    lengths: dict[Axis, Expr] = field(default_factory=dict)  # of axes, as the body says them
    circled: dict[tuple[str, int, int, int], str] = field(default_factory=dict)  # what has the other end around it
    derived: Derived = field(default_factory=Derived)  # by `derivative`, for those that ask again
    entries: set[str] = field(default_factory=set)  # equations that `derivative` has made, without the spec's names
    calls: int = 0  # of ops, each numbered once: a result that is named leaves its number to nobody
    called: list[tuple[Recurrence, ...]] = field(default_factory=list)  # those of each op that is called

    def __post_init__(self) -> None:
        self.states = States(self._carry)

    def _carry(self, name: str, axes: tuple[Axis, ...]) -> Operand:
        """An operand that a recurrence carries; an author's tensor of its name comes first."""
        made = carried_operand(free_name(name, self.taken), axes)
        self._hold_carried(made)
        return made

    def _hold_carried(self, made: Operand) -> None:
        self.operands[made.name], self.tensors[made.name] = made, (made.tensor, made.axes)
        self.invented.add(made.name)

    def recurrences(self) -> tuple[Recurrence, ...]:
        """Those that the spec writes, and those of the ops that it calls. Raises DeriveError where one is none."""
        try:
            own = self.states.recurrences(self.equations)
            check_steps(self.equations, [own, *self.called])
            return tuple(r for each in (own, *self.called) for r in each)
        except DeriveError as error:
            raise error.within(self.name) from None

    @property
    def ranges(self) -> dict[str, Axis]:
        """The axis that the values of each integer input run over."""
        return {n: o.ranges_over for n, o in self.operands.items() if o.is_tensor and o.ranges_over is not None}

    @property
    def taken(self) -> set[str]:
        """The names that no other equation may have, those of numbers among them."""
        return set(self.tensors) | set(self.operands) | set(self.conditions)

    def read(self, name: str, key: tuple[Expr, ...]) -> Expr | Boolean:
        if name in self.conditions:
            return self._asked(name, key)
        if name in self.states.found:
            with unwatched():
                carried = self.states.read(name, key)
            if carried is not None:
                self.written.append(carried)
                return carried
        known = self.tensors.get(name)
        if known and len(known[1]) == len(key):
            key = tuple(from_the_end(At(known[0], *key), i, d) for i, d in zip(key, known[1], strict=True))
            if windows := around(key, known[1]):
                return self._around(name, key, windows[0])
            if turns := wrapped(key, known[1]):
                return self._turned(name, key, turns)
        made = self._equation(name)
        tensor = unsigned(made, self.infinite) if made else known[0] if known else Tensor(name)
        self.written.append(At(tensor, *key))  # checked with its equation, which is not known yet
        return self.written[-1]

    def _asked(self, name: str, key: tuple[Expr, ...]) -> Boolean:
        """A condition that has a name, asked by other axes."""
        axes, condition = self.conditions[name]
        if len(key) != len(axes) or not all(isinstance(i, Axis) for i in key):
            own, read = (", ".join(map(str, index)) or "()" for index in (axes, key))
            raise DeriveError(
                f"{name} is a condition over [{own}] but is read as {name}[{read}]", op=self.name,
                fix=f"give it one axis for each, or a number of it an equation, where(f.{name}[{own}], 1, 0)",
            )  # fmt: skip
        made: Boolean = condition.xreplace(dict(zip(axes, key, strict=True)))
        return made

    def _name_condition(self, name: str, key: tuple[Expr, ...], asked: Boolean, known: Mapping[Basic, Tensor]) -> None:
        """An equation whose right side is a condition: a name for it. What it reduces is a tensor, made once."""
        axes = self._check_left(name, key)
        if axes != key:
            raise DeriveError("a condition is over merged axes", fix="name it over each: f.c[t, e], not f.c[(t, e),]")
        for r in sorted(asked.atoms(Reduce), key=lambda r: r.sort_key()):
            if asked.has(r):  # and not only in one that has a name by now
                made = free_name(f"{name}_{r.kind}", self.taken | {name})
                own = tuple(sorted_axes(free_axes(r)))
                self._invent(made, own, as_recorded(r, known))
                asked = asked.xreplace({r: self.read(made, own)})
        recorded = as_recorded(asked, known)
        self._check_reads(recorded, name)
        check_axes(axes, recorded, (), name)
        self.conditions[name] = (axes, asked)

    def _turned(self, name: str, key: tuple[Expr, ...], turns: list[Wrapped]) -> Expr:
        """A read that goes on at the other end of an axis; along a second axis, of a tensor that is turned already."""
        turn, *others = turns
        if others:
            dims = self.tensors[name][1]
            target = free_name(f"{name}_turned", self.taken)
            self._invent(target, dims, self.read(name, (*dims[: turn.slot], key[turn.slot], *dims[turn.slot + 1 :])))
            return self.read(target, (*key[: turn.slot], turn.axis, *key[turn.slot + 1 :]))
        ways = [self.read(name, (*key[: turn.slot], place, *key[turn.slot + 1 :])) for place in turn.places]
        return Where(turn.inside, *ways) if turn.by else ways[0]

    def _around(self, name: str, key: tuple[Expr, ...], windows: Around) -> Expr:
        """A read of a tensor that has the places of the other end around it."""
        dims, slot = self.tensors[name][1], windows.slot
        index = windows.index + windows.before
        circled = (name, slot, windows.before, windows.behind)
        if circled in self.circled:
            return self.read(self.circled[circled], (*key[:slot], index, *key[slot + 1 :]))
        axes = {a.base for _, index in self.tensors.values() for i in index for a in free_axes(i)}
        along = Axis(free_name(f"{windows.axis.base}_around", axes))
        pieces: list[Expr] = [At(self.tensors[name][0], *dims)]
        for (count, first), end in zip(windows.ends, ("before", "behind"), strict=True):
            if count:
                place = Axis(f"{along.base}_{end}", fixed=count)
                end_place = place + first if first != 0 else Prefix(place)
                piece = self.read(name, (*dims[:slot], end_place, *dims[slot + 1 :]))
                pieces = [piece, *pieces] if end == "before" else [*pieces, piece]
        target = free_name(f"{name}_around", self.taken)
        self._invent(target, (*dims[:slot], along, *dims[slot + 1 :]), Concat(along, *pieces))
        self.circled[circled] = target
        return self.read(target, (*key[:slot], index, *key[slot + 1 :]))

    def _invent(self, name: str, key: tuple[Expr, ...], value: Expr) -> None:
        """An equation that the spec does not write, before the one that reads it."""
        self.define(name, key, value)
        self.equations[-1] = replace(self.equations[-1], given=False)
        self.invented.add(name)

    def derivative(self, y: Any, x: Any) -> Expr:
        """The word `derivative`: an entry of the Jacobian, whose equations stand before the one that reads it."""
        try:
            with unwatched():
                check_derivative(y, x)
                for read in (y, x):
                    self._check_reads(read, "")
                self._check_no_state(y, x)
                put = self._in_all_digits([at.name for at in (y, x) if at.name not in self.operands])
                y, x = (At(put.get(at.name, at.tensor), *at.index) for at in (y, x))
                equations = unguarded(self.equations, guards_of_places)
                known = Known(equations, self.tensors, self.operands, self.lengths, self.derived, self._derive)
                found = derivative_of(y, x, known)
                return found.xreplace({e.target: unsigned(e, self.infinite) for e in self.equations})
        except DeriveError as error:
            raise error.within(self.name) from None

    def _check_no_state(self, y: At, x: At) -> None:
        """Refuse the derivative of what a recurrence makes, to which every place before it adds."""
        read = {y.name} - {x.name}
        for e in reversed(self.equations):
            read |= {at.name for at in e.reads} - {x.name} if e.name in read else set()
        if any(self.operands[name].carried for name in read & self.operands.keys()):
            raise DeriveError(
                f"derivative({y}, {x}) goes through a recurrence, of which a spec has none yet",
                fix="take it of what reads no state, or of one step: by the state one place earlier",
            )

    def _in_all_digits(self, names: list[str]) -> dict[str, Tensor]:
        """The tensors that stand for those of these names where a spec's own formulas overflow or lose digits.

        The derivative reads what it is of, and `exp(z)/sum(exp(z))` is computed otherwise only where nothing else does.
        The maxima that are taken off cancel: no derivative goes through them.
        """
        read = set(names)
        for e in reversed(self.equations):
            read |= {at.name for at in e.reads} if e.name in read else set()
        own = {e.name: e for e in self.equations if e.name in read}
        op = Op(self.name, "", tuple(self.operands.values()), tuple(own.values()), tuple(names), ())
        swap: dict[Basic, Basic] = {}
        free: set[str] = set()
        for e in said_in_full(op, DIGITS).equations:
            new = e.substituted({t: s for t, s in swap.items() if t != e.target})
            if new == own.get(e.name):
                continue
            same = next((o for o in self.equations if o.right == new.right and o.index == new.index), None)
            if same is None:
                target = Tensor(free_name(e.name, self.taken), **e.target._assumptions_orig)
                cancels = e.name not in own and (e.kind in ("amax", "amin") or {at.name for at in new.reads} <= free)
                same = replace(new, target=target, given=False, free=cancels)
                self._add([same])
                self.invented.add(same.name)
                free |= {same.name} if cancels else set()
            swap[e.target] = same.target
        return {t.name: s for t, s in swap.items() if isinstance(t, Tensor) and isinstance(s, Tensor)}

    def _derive(self, stem: str, key: tuple[Expr, ...], value: Expr) -> Tensor:
        """An equation of a derivative, under a name of ours."""
        name = free_name(stem, self.taken)
        self._invent(name, key, value)
        self.entries.add(name)
        return self.tensors[name][0]

    def say_length(self, axis: Axis, places: Any) -> None:
        """`length(u, size(t) + 1)` in the body. Raises DeriveError where that is no length, or a second one."""
        with unwatched():
            length = expression(places).replace(maximum, _larger).replace(minimum, Min)
            if axis.is_pack or axis.fixed is not None or axis in self.lengths:
                known = "is that of several axes" if axis.is_pack else f"is {axis.fixed or self.lengths[axis]} already"
                raise DeriveError(f"the length of {axis} {known}", op=self.name, fix="say it of one axis, once")
            of_others = length.xreplace({Size(a): n for a, n in self.lengths.items()})
            if of_others.has(Size(axis)) or not isinstance(length, Expr) or length.atoms(Axis, Scalar, At, Reduce):
                raise DeriveError(
                    f"{length} is no length of axis {axis}", op=self.name,
                    fix="write it of other lengths and whole numbers: length(u, size(t) + 1)",
                )  # fmt: skip
            self.lengths[axis] = length

    def _equation(self, name: str) -> Equation | None:
        return next((e for e in self.equations if e.name == name), None)

    def define(self, name: str, key: tuple[Expr, ...], value: Any) -> None:
        try:
            with unwatched():
                known = {unsigned(e, self.infinite): e.target for e in self.equations}
                found = expression(value)
                if name in self.invented and name in self.operands:  # what is carried has a name of the author's
                    old, new = self.tensors[name][0], free_name(name, self.taken)
                    self._swap({name: new})
                    found = found.xreplace({old: self.tensors[new][0]})
                    known = {unsigned(e, self.infinite): e.target for e in self.equations}
                starts = starts_at(key)
                if isinstance(found, Boolean) and not isinstance(found, Expr):  # a number's symbol may be either
                    if name in self.states.found or starts:
                        raise DeriveError(
                            f"the state {name} is a condition", fix=f"carry a number: f.{name}[…] = where(…, 1, 0)"
                        )
                    self._name_condition(name, key, found, known)
                    return
                if self._is_entry(found, key):
                    self.entries.discard(found.name)
                    self.rename(found.name, name)
                    self.equations[:] = [replace(e, given=True) if e.name == name else e for e in self.equations]
                    self.invented.discard(name)
                    return
                before = len(self.equations)
                if starts:
                    name, key = self._start(name, key, starts)
                elif name in self.states.found and not self.states.found[name].made:
                    self.states.step(name, key)
                self._define(name, key, as_recorded(found, known))
                self.invented |= {name} if starts else set()
                sums = tuple(g.changed(lambda t: as_recorded(t, known)) for g in groupings(found, self.added))
                self.equations[before:] = [replace(e, sums=sums) for e in self.equations[before:]]
        except DeriveError as error:
            raise error.within(self.name, name) from None

    def _is_entry(self, value: Basic, key: tuple[Expr, ...]) -> bool:
        """Whether a right side is no more than a derivative that has no name of the spec's yet."""
        made = isinstance(value, At) and value.name in self.entries
        return made and value.index == key == self.tensors[value.name][1]

    def _start(self, name: str, key: tuple[Expr, ...], slots: list[int]) -> tuple[str, tuple[Expr, ...]]:
        """The equation of what stands before the first place of a state, or behind the last: its name and its axes."""
        self._check_new(name)
        start = free_name(f"{name}_start", self.taken | {name})
        self.states.begin(name, start, key, slots)
        return start, tuple(i for k, i in enumerate(key) if k != slots[0])

    def _define(self, name: str, key: tuple[Expr, ...], rhs: Expr) -> None:
        left = self._check_left(name, key)
        self._check_reads(rhs, name)
        check_functions(rhs, name)
        before = len(self.equations)
        dims = {n: index for n, (_, index) in self.tensors.items()}
        dims |= {n: o.declared for n, o in self.operands.items() if o.declared}  # of `[t, t]` both are as long as `t`
        plain = read_forward(rhs, dims, facts_by(self.operands.values(), self.equations))
        rhs, indices = guarded(plain, self.equations, self.taken | {name}, dims)
        if any(e.body.atoms(Reduce) for e in indices):  # the condition of a guard is itself read by name
            plain, sums = conditions_split(Tensor(name), left, plain, self.taken, self.written)
            self._add(sums)
            rhs, indices = guarded(plain, self.equations, self.taken | {name}, dims)
        self._add(indices)
        if not isinstance(rhs, At) or left != key:  # what only takes apart is such an equation itself
            rhs, apart = taken_apart(rhs, self.equations, self.taken | {name})
            self._add(apart)
        self.invented |= {e.name for e in self.equations[before:]}
        target = Tensor(name, **signs(rhs))
        for equation in split(target, key, rhs, self.taken, self.written):
            if not isinstance(equation.body, Concat):
                check_no_concat(equation.body, name)
                check_axes(equation.axes, equation.body, equation.over, name)
            if scaled_reduction(equation.body) is not None:
                raise DeriveError("a reduction was left inside an equation", fix="give it an equation of its own")
            self._add([equation])
            self.invented |= {equation.name} - {name}

    def _check_reads(self, rhs: Basic, name: str) -> None:
        """Every element that the right side of an equation reads is one of a tensor that is known by then."""
        for at in reads_of(rhs):
            own = self._as_indexed(at, self.tensors[at.name][1]) if at.name in self.tensors else None
            declared = self.operands[at.name].declared if at.name in self.operands else ()
            check_read(at, own, list(self.tensors), self.ranges, name, declared)

    def _check_left(self, name: str, key: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The axes on the left of an equation, merged ones taken apart."""
        self._check_new(name)
        left = tuple(a for i in key for a in (i.args if isinstance(i, Merge) else (i,)))
        for a in left:
            if not isinstance(a, Axis):
                raise DeriveError(f"the left side holds {a}, which is no axis", fix=_left_instead(a))
        if len(set(left)) != len(left):
            raise DeriveError(
                "an axis stands twice on the left",
                fix="use delta(i, j) on the right for a diagonal, or another axis for all pairs: f.y[i, j]",
            )
        return left

    def _as_indexed(self, at: At, dims: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """What the dimensions of a tensor run over, each that is as long as its index tells by the axis of that.

        `requirements` asks for the same once all equations are known, which may make an axis shorter.
        """
        if at.name in self.operands or len(at.index) != len(dims):
            return dims
        over = [self.ranges.get(i.name) if isinstance(i, At) else None for i in at.index]
        if all(axis in (None, dim) for axis, dim in zip(over, dims, strict=True)):
            return dims
        rules = told(tuple(self.operands.values()), tuple(self.equations), self.lengths)
        pairs = zip(over, dims, strict=True)
        return tuple(a if a and closed(Size(a), rules) == closed(size_of(dim), rules) else dim for a, dim in pairs)

    def _add(self, equations: list[Equation]) -> None:
        for equation in equations:
            self.equations.append(equation)
            self.tensors[equation.name] = (equation.target, equation.index)
            if may_be_infinite(equation, self.infinite):
                self.infinite.add(equation.name)

    def _check_new(self, name: str) -> None:
        if name in self.invented:  # the author's names come first
            self._swap({name: free_name(name, self.taken)})
        if name in self.taken:
            what = "an input" if name in self.operands else "defined already"
            raise DeriveError(f"{name} is {what}", fix="give the equation another name")
        if keyword.iskeyword(name) or name.startswith("_"):
            raise DeriveError(f"{name} cannot name a tensor", fix="choose another name")

    def guard(self, outputs: tuple[str, ...]) -> None:
        """Guard what only the branches of conditions read, once all readers are known."""
        equations, self.equations = self.equations, []
        self._add(guarded_behind(equations, outputs, set(self.operands)))

    def hold(self, equations: list[Equation]) -> None:
        """Other equations in the place of those so far, for the same tensors."""
        self.equations[:] = equations
        self.tensors |= {e.name: (e.target, e.index) for e in equations}

    def rename(self, old: str, new: str) -> None:
        """Give the result of a call its name, and the call's own intermediates that name as a prefix."""
        self._check_new(new)
        if old not in self.tensors:
            raise DeriveError(f"{old} is defined by no equation, or has another name by now", fix="name a result once")
        call = old.rpartition("__")[0]
        names = {old: new}
        for equation in self.equations:
            own = equation.name not in self.results and call and equation.name.startswith(f"{call}__")
            if own and equation.name not in names:
                stem = f"{new}_{equation.name.rpartition('__')[2]}"
                names[equation.name] = free_name(stem, self.taken | set(names.values()))
        for carried in [n for n in self.operands if call and n.startswith(f"{call}__")]:
            names[carried] = free_name(f"{new}_{carried.rpartition('__')[2]}", self.taken | set(names.values()))
        self._swap(names)

    def _swap(self, names: Mapping[str, str]) -> None:
        """Other names for tensors, wherever they are read."""
        swap = {self.tensors[a][0]: Tensor(b, **self.tensors[a][0]._assumptions_orig) for a, b in names.items()}
        self.equations[:] = [e.substituted(swap) for e in self.equations]
        for a, b in names.items():
            target, key = self.tensors.pop(a)
            self.tensors[b] = (swap[target], key)
            if a in self.operands:
                self.operands[b] = replace(self.operands.pop(a), name=b)
        self.states.renamed(names)
        self.called = [tuple(r.under(names) for r in each) for each in self.called]
        self.infinite = {names.get(n, n) for n in self.infinite}
        self.invented = {names.get(n, n) for n in self.invented}
        self.entries = {names.get(n, n) for n in self.entries}
        self.derived = self.derived.renamed(names, swap)
        self.circled = {(names.get(k[0], k[0]), *k[1:]): names.get(n, n) for k, n in self.circled.items()}

    def bind(self, inlined: list[Equation], outputs: tuple[str, ...], recurrences: tuple[Recurrence, ...]) -> Any:
        self._add(inlined)
        for r in recurrences:
            self._hold_carried(r.before)
            self._hold_carried(r.last)
        self.called += [recurrences] if recurrences else []
        self.results |= set(outputs)
        handles = tuple(Handle(self, name) for name in outputs)
        return handles[0] if len(handles) == 1 else handles


def _larger(one: Expr, other: Expr) -> Expr:
    """The larger of two lengths; what is left of one, where the other is 0."""
    return Rest(other if one == 0 else one) if 0 in (one, other) else Max(one, other)


def _left_instead(index: Expr) -> str:
    """What to write for an index on the left that is no axis: an equation gives all places of its tensor at once."""
    if index.atoms(At):
        return "add up what goes to a place: f.y[…, c] = sum(where(eq(…, c), …, 0), over=…)"
    if isinstance(index, Size):
        return hidden_axis(index)
    if index.is_number:
        each = "say what stands at each place: where(eq(d, 0), a, b), or concat(a, b, along=d)"
        unneeded = "leave an axis of length 1 out, tensors broadcast by the names of axes; or "
        return f"{unneeded if index == 1 else ''}{each}"
    return "write axes, or (t, e) to merge two; concat puts places before or behind others"
