"""What is kept only for what the forward makes of it is kept as that.

`y = where(x > 0, x, slope * x)` hands on `x > 0` under a name, a byte an element, and not `x`. Where the backward
reads `o` in `sigmoid(o)` alone, and the forward has that, `sigmoid(o)` is handed on, and not computed twice. Nor is
what takes PyTorch as long as `tanh(a * x)` does: it is handed on beside an `x` that is read elsewhere too. Of a tensor
that the backward reads at some places alone, `cos[n, y[n]]`, no more is handed on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from derive.collapse.autograd.saved import BYTES
from derive.facts.costs.cost import ELEMENTARY, is_dear
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.naming import name_of
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of, put, renamed
from derive.ir.nodes.walking import axes_along, by_axes, children, reads, uses, walk
from derive.ir.program import COMPARISONS, CONDITIONS, Assign, Call, Node, Num, Program, Read, Scal, Scatter


@dataclass(frozen=True)
class Handed:
    """A forward, which returns its outputs and what it hands on, its backward, and what of that stands for a tensor."""

    forward: Program
    backward: Program
    outputs: int  # how many of what the forward returns
    conditions: tuple[Assign, ...] = ()  # of tensors that the backward only compares
    functions: tuple[Assign, ...] = ()  # of those that it only reads in one function, or that take long


def with_conditions(
    forward: Program, backward: Program, outputs: int, real: Collection[str], nominal: Nominal
) -> Handed:
    """The two, with conditions handed on in place of those `real` tensors that the backward only compares."""
    out = Handed(forward, backward, outputs)
    for name in (n for n in forward.returns[outputs:] if n in real and n not in forward.returns[:outputs]):
        asked = _only_asked(name, out.backward, CONDITIONS - {"not"})  # what fails is known by what holds
        made = {n for s in out.forward.statements for n in walk(s.value)} if asked else ()
        if not asked or not all(_is_plain(c) and all(part in made for part in _parts(c)) for c in asked):
            continue
        axes = next(axes for given, axes in backward.given if given == name)
        if BYTES["mask"] * sum(nominal.elements(axes_of(c)) for c in asked) < BYTES["real"] * nominal.elements(axes):
            for condition in asked:
                out = _handed(condition, name, out)
    return replace(out, forward=check(out.forward), backward=check(out.backward))


def _parts(condition: Node) -> Iterator[Node]:
    """What is compared in a condition, comparison by comparison."""
    if isinstance(condition, Call) and condition.fn in CONDITIONS - COMPARISONS:
        yield from (part for a in condition.args for part in _parts(a))
    else:
        yield condition


def with_functions(known: Handed, names: Collection[str], nominal: Nominal) -> Handed:
    """The same, with a function of a tensor handed on in place of it where the backward reads no more of `names`.

    Not one over more axes, as a table of `exp(c[i] - c[j])` is.
    """
    out = known
    for name in (n for n in known.forward.returns[known.outputs :] if n in names):
        asked = _only_asked(name, out.backward, ELEMENTARY)
        if len(asked) != 1 or reads(asked[0]) != {name} or not _is_plain(asked[0]):
            continue
        if not any(asked[0] in walk(s.value) for s in out.forward.statements):
            continue
        axes = dict(out.backward.given)[name]
        if nominal.elements(axes_of(asked[0])) <= nominal.elements(axes):
            out = _handed(asked[0], name, out)
    return replace(out, forward=check(out.forward), backward=check(out.backward))


def with_elements(known: Handed, names: Collection[str], nominal: Nominal) -> Handed:
    """The same, with the elements at some places handed on for a tensor of which the backward reads no others."""
    out = known
    for name in (n for n in known.forward.returns[known.outputs :] if n in names):
        asked = dict.fromkeys(read for _, read in uses(name, out.backward.statements))
        if len(asked) != 1:
            continue
        (one,) = asked
        made = {n for s in out.forward.statements for n in walk(s.value)}
        smaller = nominal.elements(axes_of(one)) < nominal.elements(dict(out.backward.given)[name])
        if one in made and smaller and not _is_place(name, out.backward):
            out = _handed(one, name, out)
    return replace(out, forward=check(out.forward), backward=check(out.backward))


def _is_place(name: str, program: Program) -> bool:
    """Whether a tensor says where others are added to, or is added to itself."""
    return any(
        any(name in reads(i) for i in s.slots) or (isinstance(s, Scatter) and s.onto == name)
        for s in program.statements
    )


def with_dear(known: Handed, cotangents: Collection[str], most: float, nominal: Nominal) -> Handed:
    """The same, with functions that take long handed on where both passes compute them, as far as `most` bytes go."""
    out = known
    inside: dict[int, tuple[Node, set[Call]]] = {}  # of values by identity: one that is handed on changes a few

    def dear(program: Program) -> set[Call]:
        for s in program.statements:
            if id(s.value) not in inside:
                inside[id(s.value)] = s.value, {n for n in walk(s.value) if isinstance(n, Call) and is_dear(n)}
        return set().union(*(inside[id(s.value)][1] for s in program.statements))

    for call in dict.fromkeys(c for c in _called(known.backward) if is_dear(c)):
        made, asked = dear(out.forward), dear(out.backward)
        near = next((n for n in out.forward.returns[known.outputs :] if n in reads(call)), None)
        twice = call in made & asked and reads(call) <= set(dict(out.backward.given))
        if twice and near is not None and _is_plain(call):
            trial = _handed(call, near, out)
            held = (axes for n, axes in trial.backward.given if n not in cotangents)
            if BYTES["real"] * sum(nominal.elements(axes) for axes in held) <= most:
                out = trial
    return replace(out, forward=check(out.forward), backward=check(out.backward))


def _called(program: Program) -> Iterator[Call]:
    return (n for s in program.statements for n in walk(s.value) if isinstance(n, Call))


def _only_asked(name: str, program: Program, functions: Collection[str]) -> list[Call]:
    """The calls of some functions of a tensor in a program; none where it is read for anything else."""
    found = dict[Call, None]()
    for s in (s for s in program.statements if name in reads(s.value)):
        tops = list(_calls(s.value, functions))
        inside = sum(1 for c in tops for n in walk(c) if isinstance(n, Read) and n.name == name)
        if inside != sum(1 for n in walk(s.value) if isinstance(n, Read) and n.name == name):
            return []
        found.update((c, None) for c in tops if name in reads(c))
    return [] if name in program.returns or _is_place(name, program) else list(found)


def _calls(node: Node, functions: Collection[str]) -> Iterator[Call]:
    """The outermost calls of some functions in a node."""
    if isinstance(node, Call) and node.fn in functions:
        yield node
        return
    for child in children(node):
        if not isinstance(child, str):
            yield from _calls(child, functions)  # type: ignore[arg-type]


def _is_plain(condition: Call) -> bool:
    """Whether a condition is of whole tensors and numbers, so that its axes are those of what it reads."""
    return all(isinstance(n, Call | Num | Scal | str) or _is_whole(n) for n in walk(condition))


def _is_whole(n: object) -> bool:
    return isinstance(n, Read) and by_axes(n)


def _handed(condition: Call | Read, name: str, known: Handed) -> Handed:
    """The condition as a statement of the forward, before it is first asked, and as what the backward is given."""
    own, theirs = (_statement_of(condition, p) for p in (known.forward, known.backward))
    if own is not None and own.name in {s.name for s in known.backward.statements if s != theirs}:
        return known  # the backward calls something else by that name
    made = own or _named(condition, theirs, known)
    forward = _with_statement(known.forward, made)
    backward, gone = _given(known.backward, made, theirs)
    outputs, kept = forward.returns[: known.outputs], forward.returns[known.outputs :]
    handed = [m for n in kept for m in ([made.name] if n == name else []) + ([] if n in gone else [n])]
    new = replace(known, forward=replace(forward, returns=(*outputs, *dict.fromkeys(handed))), backward=backward)
    if isinstance(condition, Call) and condition.fn in CONDITIONS:
        return replace(new, conditions=tuple(dict.fromkeys((*known.conditions, made))))
    return replace(new, functions=tuple(dict.fromkeys((*known.functions, made))))


def _named(condition: Call | Read, theirs: Assign | None, known: Handed) -> Assign:
    """A statement for the condition: the backward's, or one by a name that is free in both."""
    if theirs is not None and theirs.name not in known.forward.names:
        return theirs
    name = name_of(condition, known.forward.names | known.backward.names)
    return Assign(name, axes_of(condition) if theirs is None else theirs.axes, condition)


def _with_statement(forward: Program, made: Assign) -> Program:
    """The forward with a statement, before the first that asks for its value if it is new; the others read it."""
    read = Read(made.name, made.axes)
    statements = [s if s == made else replace(s, value=put(s.value, made.value, read)) for s in forward.statements]
    if made not in statements:
        parts = set(_parts(made.value))
        statements.insert(next(k for k, s in enumerate(forward.statements) if parts & set(walk(s.value))), made)
    return replace(forward, statements=tuple(statements))


def _given(backward: Program, made: Assign, theirs: Assign | None) -> tuple[Program, set[str]]:
    """The backward with the statement's value given, in place of its own statement for it; what it no longer reads."""
    same = theirs is not None and theirs.axes == made.axes
    names = {theirs.name: made.name} if theirs is not None and same and theirs.name != made.name else {}
    rest = [renamed(s, names) for s in backward.statements if s != theirs or not same]
    after = tuple(replace(s, value=put(s.value, made.value, Read(made.name, made.axes))) for s in rest)
    slots = [i for s in after for i in s.slots]
    wanted = {n for part in (*(s.value for s in after), *slots) for n in reads(part)}
    gone = {n for n in dict(backward.given) if n in reads(made.value) and n not in wanted}
    given = [(n, a) for n, a in backward.given if n not in gone and n != made.name]
    numbers = tuple(n for n in backward.scalars if any(m == Scal(n) for s in after for m in walk(s.value)))
    axes = tuple(str(a) for a in made.axes)
    return replace(backward, given=(*given, (made.name, axes)), scalars=numbers, statements=after), gone


def _statement_of(condition: Call | Read, program: Program) -> Assign | None:
    """The statement that gives a condition a name already, and does not repeat it along an axis."""
    named = (s for s in program.statements if isinstance(s, Assign) and s.value == condition)
    return next((s for s in named if set(axes_along(s.axes)) == set(axes_of(condition))), None)
