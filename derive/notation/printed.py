"""Programs printed as a file of specs: text that the notation reads back as ops that compute the same.

What a program says otherwise becomes an equation: a scatter is a sum of what an index puts at each place, a tensor that
is written twice has two names, a part of a merged axis is a merge on the left, an input that is returned is copied.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from typing import Any

from sympy import Expr, Integer

from derive.ir.equations import Operand
from derive.ir.nodes.arithmetic import ONE, ZERO
from derive.ir.nodes.loops import Loop, items
from derive.ir.nodes.other_axes import place, with_axes
from derive.ir.nodes.substituting import under_names
from derive.ir.nodes.walking import axes_along, index_axes, node_axes, places, reads, rebuilt, walk
from derive.ir.program import (
    CONDITIONS,
    NOTHING,
    Assign,
    AxisValue,
    Call,
    Carry,
    Index,
    Join,
    Merged,
    Node,
    Num,
    PartOf,
    Place,
    Program,
    Read,
    Reduce,
    Scatter,
    SizeOf,
    Statement,
    Window,
    base,
)
from derive.ir.terms.axes import PACK_NAME, Axis, Size
from derive.ir.terms.names import free_name
from derive.ir.terms.windows import as_written
from derive.notation import __all__ as words


@dataclass(frozen=True)
class Printable:
    """A program, the inputs that it is given, in order, and lengths of axes over those of others."""

    program: Program
    operands: tuple[Operand, ...]
    lengths: Mapping[str, Expr]


def spec_file(programs: Sequence[Printable], fixed: Mapping[str, int]) -> str:
    """The text of a file of specs, an op a program; `fixed` has the axes whose length is a number."""
    said = {a: Integer(fixed[a]) for p in programs for a in _first_places(p.program) if a in fixed}
    taken = {*words, *keyword.kwlist, "f", *(o.name for p in programs for o in p.operands)}
    axes = _Axes({a: n for a, n in fixed.items() if a not in said}, taken)
    functions = [line for p in programs for line in _function(replace(p, lengths={**p.lengths, **said}), axes)]
    called = {n.fn for p in programs for s in p.program.statements for n in walk(s.value) if isinstance(n, Call)}
    extra = sorted(called - {*words, *CONDITIONS, *_OPERATORS})
    names = sorted(axes.names.values())
    lengths = (f"{a}={axes.fixed[a]}" if a in axes.fixed else a for a in names)
    head = ["from derive import *", *([f"from sympy import {', '.join(extra)}"] if extra else [])]
    head += ["", f'{", ".join(names)} = axes("{" ".join(lengths)}")'] if names else []
    return "\n".join([*head, *functions]) + "\n"


_OPERATORS = frozenset({"add", "sub", "mul", "div", "neg", "pow", "floordiv", "mod", "absolute", "pi", "e"})


def _first_places(program: Program) -> Iterator[str]:
    """The axes that read the first places of a longer dimension: a length that the body says tells so."""
    for n in (m for s in program.statements for part in (s.value, *s.slots) for m in walk(part)):
        if isinstance(n, Window) and n.offset == ZERO and [step for _, step in n.steps] == [1]:
            yield n.steps[0][0]


@dataclass
class _Axes:
    """The axes of a file: what each axis of its programs is called."""

    fixed: dict[str, int]
    taken: set[str]
    names: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  # by the function that is being printed

    def named(self, axis: str) -> str:
        """The name of an axis in the file; a bound copy, `n'`, has one of its own."""
        if axis == PACK_NAME:
            return axis
        if axis not in self.names:
            self.names[axis] = free_name(base(axis), self.taken)
            self.taken.add(self.names[axis])
            if base(axis) in self.fixed:
                self.fixed[self.names[axis]] = self.fixed[base(axis)]
        self.used.add(axis)
        return self.names[axis]

    def under(self, n: Node | Index) -> Any:
        """A node or an index under the names of the file."""
        found = {a for m in walk(n) for a in own_axes(m)}
        sizes = {m.axis: self.named(base(m.axis)) for m in walk(n) if isinstance(m, SizeOf)}
        return with_axes(n, {a: self.named(a) for a in sorted(found)}, sizes)


def own_axes(n: Node | Index) -> Iterable[str]:
    """The axes that a node names itself, not by what it is made of."""
    if isinstance(n, str):
        return (n,)
    if isinstance(n, AxisValue):
        return (n.axis,)
    if isinstance(n, Join):
        return (n.axis, *filter(None, n.own))
    return index_axes(n) if isinstance(n, Window) else n.axes if isinstance(n, Reduce) else ()


def _function(p: Printable, axes: _Axes) -> Iterator[str]:
    """`@op` and the function: a statement a line."""
    axes.used.clear()
    equations = _Equations(p.program, [o.name for o in p.operands], axes)
    lines = list(map(str, equations.written()))
    operands = sorted(p.operands, key=lambda o: o.has_default)
    inputs = ", ".join(["f", *(_annotated(o, equations.names[o.name], axes) for o in operands)])
    yield from ("", "", "@op", f"def {p.program.name}({inputs}):")
    unused = {Size(Axis(a)): length for a, length in p.lengths.items() if a not in axes.used}
    for axis, length in p.lengths.items():
        if axis in axes.used:
            for _ in unused:  # an axis that no statement has is as long as its own says
                length = length.xreplace(unused)
            if any(s.axis.base not in axes.used for s in length.atoms(Size)):
                continue  # nothing there has it: the length of an input that its own axis tells
            own = {s: Size(Axis(axes.named(s.axis.name))) for s in length.atoms(Size)}
            yield f"    length({axes.named(axis)}, {as_written(length.xreplace(own))})"
    yield from (f"    {line}" for line in lines)
    yield f"    return {', '.join(equations.returned)}"


def _annotated(o: Operand, name: str, axes: _Axes) -> str:
    """An input as a signature declares it."""
    own = tuple(a.renamed(axes.named(a.name)) for a in o.declared or o.axes)
    over = o.ranges_over and o.ranges_over.renamed(axes.named(o.ranges_over.name))
    return str(replace(o, name=name, axes=own, declared=(), ranges_over=over))


class _Equations:
    """The statements of a program as those of a spec."""

    def __init__(self, program: Program, given: Sequence[str], axes: _Axes):
        self.program, self.axes, self.given = program, axes, set(given)
        self.names = {n: free_name(n.lstrip("_"), keyword.kwlist, "_") for n in given}  # how each is read by now
        self.taken = {*self.names.values(), *keyword.kwlist}
        self.dims: dict[str, tuple[Index, ...]] = {self.names[n]: own for n, own in program.given if n in self.names}
        self.carried = {n: axes for n, axes in program.given if n not in self.names}
        self.truths: set[str] = set()  # equations that are conditions
        self.indices = places(program)
        for s in reversed(program.statements):  # and what those are made of
            if s.name in self.indices and s.name not in self.given:
                self.indices |= reads(_chosen(s.value) or s.value)
        self.copies: dict[str, str] = {}  # states that are copied, by what is read of them one place earlier
        self.made_indices: dict[str, Assign] = {}  # those that are not given, said where something is read at them
        self.made: list[Assign] = []
        self.returned: list[str] = []

    def written(self) -> list[Assign]:
        """All of them, in order; what is returned is one each."""
        parts = list(_parts(self.program))
        later = Counter(g[0].name for g in parts if isinstance(g, list))
        self.taken |= {*later, *self.carried}
        for group in parts:
            if isinstance(group, _End):
                self.end(group)
                continue
            if isinstance(group, Loop):
                self.begin(group)
                continue
            name = group[0].name
            later[name] -= 1
            kept = not later[name] and name not in self.given
            own = name if kept else free_name(name.lstrip("_"), self.taken)
            first, *added = (under_names(s, self.names) for s in group)
            self.names[name] = f"f.{own}"
            if isinstance(first, Assign) and name in self.indices:
                self.made_indices[f"f.{own}"] = first
            elif isinstance(first, Assign) and self.is_truth(first.value) and name not in self.program.returns:
                self.write(_apart(replace(first, value=self.asked(first.value))), own)
                self.truths.add(f"f.{own}")
            else:
                self.write(_apart(self.equation([first, *added])), own)
        for name in self.program.returns:
            own = self.names[name]
            if not own.startswith("f.") or own in self.returned:
                dims = self.dims[own]
                own = self.write(Assign(name, dims, Read(own, dims)), free_name(name, self.taken))
            self.returned.append(own)
        return [replace(e, name=f"f.{e.name}") for e in self.made]

    def begin(self, loop: Loop) -> None:
        """What stands before the first place of each state of a loop, and the state one place earlier by a name."""
        for c in loop.carries:
            axes, state = self.carried[c.before], self.state_of(c, loop)
            slot = axes.index(c.axis)
            place: Node = Num(Fraction(-1)) if c.forwards else SizeOf(c.axis)
            start = under_names(Assign("", (), Read(c.start, (*axes[:slot], *axes[slot + 1 :]))), self.names).value
            self.write(Assign("", (*axes[:slot], Window((), place), *axes[slot + 1 :]), start), state)
            earlier = Window(((c.axis, 1),), Num(Fraction(-1 if c.forwards else 1)))
            there = Read(f"f.{state}", (*axes[:slot], earlier, *axes[slot + 1 :]))
            self.names[c.before] = self.write(Assign("", axes, there), c.before)

    def end(self, end: _End) -> None:
        """A state that is no equation of its loop as one, and what the last place leaves by a name."""
        for c in end.loop.carries:
            axes, state = self.carried[c.before], self.state_of(c, end.loop)
            slot = axes.index(c.axis)
            if state != c.after:
                copied = under_names(Assign("", axes, Read(c.after, axes)), self.names).value
                self.write(Assign("", axes, copied), state)
            last: Node = Call("sub", (SizeOf(c.axis), ONE)) if c.forwards else ZERO
            there = Read(f"f.{state}", (*axes[:slot], Window((), last), *axes[slot + 1 :]))
            self.names[c.last] = self.write(Assign("", (*axes[:slot], *axes[slot + 1 :]), there), c.last)

    def state_of(self, c: Carry, loop: Loop) -> str:
        """The equation that is a carry's state: that of its loop, or a copy where that is another's, or an input."""
        first = next(other for other in loop.carries if other.after == c.after)
        made = {self.program.statements[k].name for k in loop.statements}
        if first is c and c.after in made:
            return c.after
        if c.before not in self.copies:
            self.copies[c.before] = free_name(f"{c.before}_of", self.taken)
        return self.copies[c.before]

    def write(self, s: Assign, name: str) -> str:
        """One equation more, under the names of the file; how it is read."""
        self.taken.add(name)
        self.dims[f"f.{name}"] = s.axes
        value, left = self.axes.under(_settled(s.value)), tuple(map(self.axes.under, s.axes))
        self.made.append(Assign(name, left, value))
        return f"f.{name}"

    def equation(self, group: list[Statement]) -> Assign:
        """What is assigned, and added at places to it, in one equation."""
        first = group[0]
        terms: list[Node] = []
        if isinstance(first, Assign):
            terms.append(self.number(first.value))
        elif first.onto is not None:
            terms.append(Read(first.onto, first.axes))
        terms += [self.at_places(s) for s in group if isinstance(s, Scatter)]
        value = terms[0] if len(terms) == 1 else reduce(lambda a, b: Call("add", (a, b)), map(self.joins_apart, terms))
        if isinstance(value, Join):
            pieces = zip(value.parts, value.own, strict=True)
            value = replace(value, parts=tuple(_along(self.joins_apart(part), own) for part, own in pieces))
        else:
            value = self.joins_apart(value)
        return Assign(first.name, first.axes, value)

    def joins_apart(self, n: Node) -> Node:
        """What joins parts inside something else is an equation before it."""
        if not isinstance(n, Join):
            return rebuilt(n, self.joins_apart)
        dims = node_axes(n)
        joined = self.equation([Assign("", dims, n)])
        return Read(self.write(joined, free_name("joined", self.taken)), dims)

    def at_places(self, s: Scatter) -> Node:
        """What a scatter adds at each place of its tensor: a sum of what its index puts there."""
        own = {axis for axis, slot in zip(s.axes, s.slots, strict=True) if axis == slot}
        others = [(axis, slot) for axis, slot in zip(s.axes, s.slots, strict=True) if axis != slot]
        moved = [a for a in dict.fromkeys(axes_along(slot for _, slot in others)) if a not in own]
        names = {a: a + "'" * 5 if a in s.axes else a for a in moved}
        value = with_axes(self.number(s.value), names)
        asked = [c for axis, slot in others for c in self.at_place(with_axes(slot, names), axis)]
        if asked:
            value = Call("where", (_all(asked), value, NOTHING[s.kind]))
        return Reduce(s.kind, tuple(names.values()), value) if moved else value  # "put" is made in backends alone

    def at_place(self, slot: Index, axis: str) -> list[Node]:
        """The conditions that a slot is a place of an axis."""
        conditions, index = self.index(slot)
        return [*conditions, Call("eq", (place(index), AxisValue(axis)))]

    def index(self, i: Index) -> tuple[list[Node], Index]:
        """An index, and the conditions under which it is read at: one that is made goes by what it is made of."""
        if not isinstance(i, Read):
            return [], i
        made = self.made_indices.get(i.name)
        if made is None:
            inner = [self.index(j) for j in i.index]
            return [c for conditions, _ in inner for c in conditions], replace(i, index=tuple(j for _, j in inner))
        value = with_axes(made.value, dict(zip(axes_along(made.axes), i.index, strict=True)))
        conditions = []
        if (chosen := _chosen(value)) is not None:  # and 0 where the condition fails: nothing is read then
            conditions, value = [self.asked(value.args[0])], chosen
        more, index = self.index(value if isinstance(value, Read) else Window((), value))
        return [*conditions, *more], index

    def at_computed(self, n: Node) -> Node:
        """A tensor at a place computed from an index, `x[lo[n] + 1]`: the sum over its axis of what is there."""
        for k, i in enumerate(n.index if isinstance(n, Read) else ()):
            if isinstance(n, Read) and isinstance(i, Window) and reads(i.offset):
                axis = str(self.dims[n.name][k]) + "'" * 5
                rest = self.at_computed(replace(n, index=(*n.index[:k], axis, *n.index[k + 1 :])))
                asked = Call("eq", (place(i), AxisValue(axis)))
                return Reduce("sum", (axis,), Call("where", (asked, rest, ZERO)))
        return n

    def is_truth(self, n: Node) -> bool:
        """Whether a node is true or false."""
        return (isinstance(n, Call) and n.fn in CONDITIONS) or (isinstance(n, Read) and n.name in self.truths)

    def number(self, n: Node) -> Node:
        """A node as a number: 1 where it is true, else 0."""
        if self.is_truth(n):
            return Call("where", (self.asked(n), ONE, ZERO))
        if isinstance(n, Call) and n.fn == "where":
            return Call("where", (self.asked(n.args[0]), *map(self.number, n.args[1:])))
        if isinstance(n, Read):
            conditions, read = self.index(n)
            value = self.at_computed(place(read))
            return Call("where", (_all(conditions), value, ZERO)) if conditions else value
        return rebuilt(n, self.number)

    def asked(self, n: Node) -> Node:
        """A node as a condition: whether it is not 0."""
        if isinstance(n, Call) and n.fn in ("and", "or", "not"):
            return rebuilt(n, self.asked)
        if not self.is_truth(n):
            return Call("ne", (self.number(n), ZERO))
        return rebuilt(n, self.number) if isinstance(n, Call) else n


def _along(part: Node, own: str) -> Node:
    """A piece of what is joined, which shows the axis that it runs over: one that does not is one place."""
    if not own or own in node_axes(part):
        return part
    inside = Call("lt", (AxisValue(own), SizeOf(own)))
    return Call("where", (inside, part, ONE if part == ZERO else ZERO))


def _chosen(index: Node) -> Node | None:
    """What an index is under a condition."""
    return index.args[1] if isinstance(index, Call) and index.fn == "where" else None


def _all(conditions: list[Node]) -> Node:
    return conditions[0] if len(conditions) == 1 else Call("and", tuple(conditions))


@dataclass(frozen=True)
class _End:
    """Where a loop ends."""

    loop: Loop


def _parts(program: Program) -> Iterator[list[Statement] | Loop | _End]:
    """The groups of statements, and where loops begin and end."""
    run: list[Statement] = []
    for item in items(program):
        if isinstance(item, Loop):
            yield from _groups(run)
            yield item
            yield from _groups(program.statements[k] for k in item.statements)
            yield _End(item)
            run = []
        else:
            run.append(program.statements[item])
    yield from _groups(run)


def _groups(statements: Iterable[Statement]) -> Iterator[list[Statement]]:
    """Statements, each with what is added at places to it right behind."""
    group: list[Statement] = []
    for s in statements:
        onto = isinstance(s, Scatter) and s.kind == "sum" and s.onto == s.name
        read = {n for part in (s.value, *s.slots) for n in reads(part)}
        if group and onto and group[0].name == s.name and s.name not in read:
            group.append(s)
        else:
            yield from [group] if group else []
            group = [s]
    yield from [group] if group else []


def _apart(s: Assign) -> Assign:
    """An equation that reads parts of an axis over axes for the parts: `f.y[(h, k)] = x[h, k]`."""
    parts = {n.whole: n.lengths for n in walk(s.value) if isinstance(n, PartOf) and isinstance(n.whole, str)}
    taken = {*axes_along(s.axes), *(a for n in walk(s.value) for a in own_axes(n))}
    merges: dict[str, Index] = {}
    for whole, lengths in parts.items():
        own: list[str] = []
        for n in lengths:
            own.append(free_name(n.axis if isinstance(n, SizeOf) else f"{whole}_{n}", {*taken, *own}, "'"))
        merges[whole] = Merged(tuple(own))
    if not merges:
        return s
    return Assign(s.name, tuple(with_axes(i, merges) for i in s.axes), with_axes(s.value, merges))


def _settled(n: Node) -> Node:
    """A node whose indices the notation has: a place inside a merge is counted."""
    if isinstance(n, Read):
        return replace(n, index=tuple(map(_counted, n.index)))
    return rebuilt(n, _settled)


def _counted(i: Index) -> Index:
    merged = isinstance(i, Merged) and any(isinstance(a, Place) for a in i.axes)
    return Window((), place(i)) if merged else i
