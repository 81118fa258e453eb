"""Instruction selection by value: a call stands where a program computes what the call means, in whatever form.

A row's meaning and a part of the program are the same function where they agree at random places
(`facts/instances.py`; so TASO, Jia et al., 2019, finds its substitutions). A backward is compared over all that the
forward has: where a call reads another tensor than the collapsed backward, the forward saves that one instead. A call
is taken where both programs together cost fewer passes over memory with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations, islice, product
from math import isfinite

from derive.backends.torch.instructions import BY_NAME, Instruction, bound, in_full, of_several, result
from derive.facts.instances import Instance, agree, drawings, near
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.nodes.arithmetic import ONE, multiplied
from derive.ir.nodes.leftovers import given_what_it_reads, made_otherwise, without_unread
from derive.ir.nodes.products import is_tensor, product_factors
from derive.ir.nodes.substituting import put, under_names
from derive.ir.nodes.walking import node_axes, reads, walk
from derive.ir.program import CONDITIONS, Assign, AxisValue, Call, Node, Num, Program, Read, Reduce, Scal, base
from derive.ir.terms.names import free_name
from derive.pipeline import Derivation
from derive.primitives import PRIMITIVES

_MOST, _MOST_OF_SEVERAL = 4_000, 160_000
"""How many bindings of a row's variables are compared with a part of a program; nearly all differ at once."""

_PLACES = 6
"""How many places tell most of what is not the same apart."""

_MANY = 5
"""Numbers of which no quotients are tried, but of 1."""

_SLOW = 3
"""Passes that a dear function, or a choice, counts as."""


def with_instructions(d: Derivation, rows: Iterable[Instruction]) -> Derivation:
    """The derivation with calls of these rows in both programs, and what the forward saves for them."""
    rows = tuple(rows)
    taken = d.forward.names | d.backward.names
    apart = {n: free_name(n, taken, "_") for n in sorted(made_otherwise(d.forward, d.backward))}
    own = tuple(under_names(s, apart) for s in d.backward.statements)  # a name says one thing in both programs
    first = pair = _Pair(d, d.forward, replace(d.backward, statements=own))
    for backward in (True, False):
        while rows and (better := next(_better(pair, rows, backward), None)) is not None:
            pair = better
    if pair is first:
        return d
    kept = set(pair.forward.returns)
    return replace(
        d,
        forward=pair.forward,
        backward=pair.backward,
        conditions=tuple(c for c in d.conditions if c.name in kept),
        local=tuple(e for e in d.local if e.name in kept),
        functions=tuple(s for s in d.functions if s.name in kept),
    )


@dataclass(frozen=True)
class _Pair:
    """Both programs of an op."""

    d: Derivation
    forward: Program
    backward: Program

    @cached_property
    def made(self) -> Mapping[str, Assign]:
        """What says what a tensor holds: a call of an instruction by its meaning."""
        both = self.backward.assigned | self.forward.assigned
        return {name: replace(s, value=in_full(s.value)) for name, s in both.items()}

    @cached_property
    def behind_cotangents(self) -> frozenset[str]:
        """The tensors that depend on a cotangent."""
        found = {c.target.name for c in self.d.steps.cotangents}
        for s in self.backward.statements:
            if not found.isdisjoint(reads(s.value)) or getattr(s, "onto", None) in found:
                found.add(s.name)
        return frozenset(found)

    @cached_property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """The axes of every real tensor that has one place for each."""
        whole = {c.name for c in self.d.conditions} | {o.name for o in self.d.op.operands if o.kind == "index"}
        whole |= {e.name for e in self.d.named.equations if e.target.is_integer}
        found = dict((*self.forward.given, *self.backward.given))
        for s in (*self.forward.statements, *self.backward.statements):
            if all(isinstance(a, str) for a in s.axes) and not _is_condition(s.value):
                found[s.name] = tuple(map(str, s.axes))
        return {n: axes for n, axes in found.items() if n not in whole}

    def cost(self) -> float:
        """Passes over memory, and what is kept that nobody holds."""
        lengths = nominal(self.d.named).unweighted
        axes = dict(self.backward.given)
        held = {*self.d.op.outputs, *(o.name for o in self.d.op.operands)}
        kept = sum(lengths.elements(axes[n]) for n in self.forward.returns if n in axes and n not in held)
        statements = (*self.forward.statements, *self.backward.statements)
        return kept + sum(_work(n, lengths) for s in statements for n in walk(s.value) if isinstance(n, Call | Reduce))

    def putting(self, s: Assign, old: Node, new: Node, backward: bool) -> _Pair:
        """With another node in a statement, and the forward saving what the backward reads then."""
        program = self.backward if backward else self.forward
        by = replace(s, value=put(s.value, old, new))
        program = replace(program, statements=tuple(by if x is s else x for x in program.statements))
        forward, back = (self.forward, program) if backward else (program, self.backward)
        outputs = forward.returns[: len(self.d.op.outputs)]
        cotangents = [c.target.name for c in self.d.steps.cotangents]
        held = (*forward.returns[len(outputs) :], *(n for n, _ in forward.given), *(x.name for x in forward.statements))
        axes = self.axes | dict((*self.forward.given, *self.backward.given))
        back = given_what_it_reads(back, cotangents, held, axes, [o.name for o in self.d.op.operands])
        kept = (n for n, _ in back.given[len(cotangents) :])
        return _Pair(self.d, without_unread(replace(forward, returns=(*outputs, *kept))), back)


@dataclass(frozen=True, eq=False)
class _Part:
    """What a variable may be, with its values at a few places: nearly all that is not the same differs there."""

    node: Node
    places: Sequence[tuple[Instance, Mapping[str, int]]]

    @cached_property
    def values(self) -> list[float | None]:
        full = in_full(self.node)
        return [d.number(full, at) for d, at in self.places]

    @cached_property
    def along(self) -> dict[str, list[list[float | None]]]:
        """Of each axis, and each of the places, the values along it."""
        full, axes = in_full(self.node), self.places[0][1]
        return {a: [[d.number(full, {**at, **p}) for p in d.places((a,))] for d, at in self.places] for a in axes}


def _may_mean(row: Instruction, args: Sequence[_Part], axes: Sequence[str], node: _Part) -> bool:
    """Whether a row means of its arguments what a node is at these places, where all are numbers."""
    for k, found in enumerate(node.values):
        given = [a.values[k] for a in args]
        if found is not None and None not in given:
            lines = [list(zip(*(a.along[x][k] for a in args), strict=True)) for x in axes]
            if not any(None in line for line in chain(*lines)):
                meant = row.of_numbers(*given, *lines)
                if meant is None or not near(found, meant):
                    return False
    return True


def _better(pair: _Pair, rows: tuple[Instruction, ...], backward: bool) -> Iterator[_Pair]:
    """The pair with one more call, the largest parts of a statement first, where that costs less."""
    made, before = pair.made, pair.cost()
    rows = tuple(row for row in rows if backward or not row.of_a_backward)
    program = pair.backward if backward else pair.forward
    seen = {x.name for x in pair.forward.statements} | {n for p in (pair.forward, pair.backward) for n, _ in p.given}
    seen = seen if backward else {n for n, _ in pair.forward.given}
    for s in program.statements:
        if isinstance(s, Assign):
            numbers = _numbers(s.value, made)
            many = drawings(made, [float(n.value) for n in numbers if isinstance(n, Num)])
            for node in dict.fromkeys(n for n in walk(s.value) if isinstance(n, Call | Reduce) and _may_be(n)):
                single = [row for row in rows if len(row.results) == 1]
                calls = _calls(node, single, pair, seen, numbers, many)
                found = [pair.putting(s, node, call, backward) for call in calls]
                best = min(found, key=_Pair.cost, default=None)
                if best is not None and best.cost() < before:
                    yield best
            several = (_several(s, row, pair, seen, numbers, many, backward) for row in rows if len(row.results) > 1)
            yield from (found for found in several if found is not None and found.cost() < before)
        seen = seen | {s.name}


def _may_be(n: Node) -> bool:
    """Whether a part of a value is a tensor of real numbers, over each of its axes once."""
    bases = [base(a) for a in node_axes(n)]
    return is_tensor(n) and bool(bases) and len(set(bases)) == len(bases) and not _is_condition(n) and not _is_call(n)


def _is_call(n: Node) -> bool:
    return isinstance(n, Call) and n.fn in BY_NAME


def _is_condition(n: Node) -> bool:
    return isinstance(n, Call) and n.fn in CONDITIONS


def _calls(
    node: Node, rows: Sequence[Instruction], pair: _Pair, seen: set[str], numbers: list[Node], many: list[Instance]
) -> Iterator[Call]:
    """The calls of these rows that compute a node."""
    own = {base(a): a for a in node_axes(node)}
    full = in_full(node)
    tensors = list(dict.fromkeys((*_parts(node, own, pair.axes), *_tensors(node, own, pair, seen))))
    places = [(d, next(d.places(tuple(own.values())))) for d in many[:_PLACES]]
    here, *parts = (_Part(n, places) for n in (node, *tensors))
    numerals = [_Part(n, places) for n in numbers]
    for row in rows:
        kinds = [[p for p in parts if _may_stand(v, row, p.node, pair)] for v in row.tensors]
        kinds += [[p for p in numerals if _is_taken(v, row, p.node)] for v in row.scalars]
        for axes in product(own.values(), repeat=len(row.axes)):
            for some in islice(product(*kinds), _MOST):
                if _may_mean(row, some, axes, here):
                    args = (*(p.node for p in some), *map(AxisValue, axes))
                    same = (full, in_full(bound(row, args)), node_axes(node), many, _parts_of(args))
                    if _are_apart(row, args) and agree(*same):
                        yield Call(row.name, args)


def _several(
    s: Assign, row: Instruction, pair: _Pair, seen: set[str], numbers: list[Node], many: list[Instance],
    backward: bool,
) -> _Pair | None:  # fmt: skip
    """The pair with a row of several results where a statement is the first, and others are those after it."""
    if not s.axes or not all(isinstance(a, str) for a in s.axes) or set(node_axes(s.value)) != set(s.axes):
        return None
    order, full = tuple(map(str, s.axes)), in_full(s.value)
    found = [
        _with_results(s, row, args, pair, many, backward)
        for k in range(1, len(order))
        for args in islice(product(*_kinds(s, row, pair, seen, numbers, k)), _MOST_OF_SEVERAL)
        if _are_apart(row, args) and agree(full, in_full(bound(row, args)), order, many, _parts_of(args))
    ]
    return min(found, key=_Pair.cost, default=None)


def _kinds(
    s: Assign, row: Instruction, pair: _Pair, seen: set[str], numbers: list[Node], k: int
) -> Iterator[Sequence[Node]]:
    """What each variable of a row may be, whose reductions are along the last `k` axes of a statement."""
    order = tuple(map(str, s.axes))
    others, along = order[:-k], order[-k:]
    for v in row.tensors:
        vector, statistic = (v in names.split() for names in (row.vectors, row.statistics))
        axes = along if vector else others if statistic else order
        read = dict.fromkeys(_tensors(s.value, {a: a for a in axes}, pair, seen))
        fit = (n for n in read if isinstance(n, Read) and n.index[-len(axes) :] == axes)
        yield [n for n in fit if _may_stand(v, row, n, pair)]
    yield from [numbers] * len(row.scalars)
    yield from ([AxisValue(a)] for a in along)


def _parts_of(args: tuple[Node, ...]) -> frozenset[Node]:
    """What a call is of: its arguments, and the factors of those that are products."""
    return frozenset(in_full(f) for a in args if is_tensor(a) for f in (a, *product_factors(a)))


def _are_apart(row: Instruction, args: tuple[Node, ...]) -> bool:
    """Whether a row's tensors are different ones."""
    return len(set(args[: len(row.tensors)])) == len(row.tensors)


def _with_results(
    first: Assign, row: Instruction, args: tuple[Node, ...], pair: _Pair, many: list[Instance], backward: bool
) -> _Pair:
    """The pair with a call for a statement, and for each that is another of its results."""
    found = pair.putting(first, first.value, result(row, args, 0), backward)
    for s in (pair.backward if backward else pair.forward).statements:
        for k in range(1, len(row.results)):
            meant = bound(row, args, k)
            if isinstance(s, Assign) and s is not first and set(s.axes) == set(node_axes(meant)):
                here = found.backward if backward else found.forward
                same = (in_full(s.value), in_full(meant), node_axes(meant), many, _parts_of(args))
                if s in here.statements and agree(*same):
                    found = found.putting(s, s.value, result(row, args, k), backward)
                    break
    return found


def _may_stand(variable: str, row: Instruction, node: Node, pair: _Pair) -> bool:
    """Whether a variable may be this: of what a backward calls, `g` alone depends on cotangents."""
    return not row.of_a_backward or (variable == "g") == (not pair.behind_cotangents.isdisjoint(reads(node)))


def _is_taken(variable: str, row: Instruction, number: Node) -> bool:
    """Whether a call takes a number: a caller's may be any."""
    return variable not in row.above_0.split() or (isinstance(number, Num) and number.value > 0)


def _parts(node: Node, own: Mapping[str, str], real: Collection[str]) -> Iterator[Node]:
    """Parts of a value over all of its axes: of a product, also some of its factors together."""
    factors = product_factors(node)
    for k in range(1, len(factors)) if len(factors) < 6 else ():
        for some in combinations(factors, k):
            together = multiplied(list(some))
            if len(some) > 1 and set(node_axes(together)) == set(own.values()):
                yield together
    for n in walk(node):
        if n is node or not isinstance(n, Read | Call | Reduce) or (isinstance(n, Read) and n.name not in real):
            continue
        if is_tensor(n) and not _is_condition(n) and set(node_axes(n)) == set(own.values()):
            yield n


def _tensors(node: Node, own: Mapping[str, str], pair: _Pair, seen: set[str]) -> Iterator[Node]:
    """Tensors over the axes of a node that it depends on, and inputs and outputs of the op."""
    below, pending = dict[str, None](), list(sorted(reads(node)))
    made = pair.backward.assigned | pair.forward.assigned
    while pending:
        name = pending.pop(0)
        if name not in below:
            below[name] = None
            pending += sorted(reads(made[name].value)) if name in made else ()
    for name in (*below, *pair.d.op.outputs, *(o.name for o in pair.d.op.operands)):
        axes = pair.axes.get(name)
        if axes is not None and name in seen and sorted(axes) == sorted(own):
            yield Read(name, tuple(own[a] for a in axes))


def _numbers(node: Node, made: Mapping[str, Assign]) -> list[Node]:
    """The numbers that a value is made of, under all names, their quotients, and what is opposite."""
    found, pending, names = dict[Node, None](), [node], set[str]()
    while pending:
        for n in walk(pending.pop()):
            if isinstance(n, Read) and n.name in made and n.name not in names:
                names.add(n.name)
                pending.append(made[n.name].value)
            elif isinstance(n, Scal) or (isinstance(n, Num) and n.value != 0 and isfinite(n.value)):
                found[n] = None
    numbers = [ONE, *(n for n in found if n != ONE)]
    said = [n.value for n in numbers if isinstance(n, Num)]
    quotients = (a / b for a in said for b in said if a != b and (len(said) < _MANY or 1 in (a, b)))
    others = dict.fromkeys(map(Num, (*quotients, *(-a for a in said))))
    return [*numbers, *(n for n in others if n not in numbers)]


def _work(n: Call | Reduce, lengths: Nominal) -> float:
    made = of_several(n)
    if made is not None and (isinstance(n, Reduce) or BY_NAME[made.fn][1] > 0):  # a result of a call that is counted
        return 0.0
    axes = node_axes(n.body) if isinstance(n, Reduce) else node_axes(n)
    slow = isinstance(n, Call) and (n.fn == "where" or (n.fn in PRIMITIVES and PRIMITIVES[n.fn].dear))
    return (_SLOW if slow else 1) * lengths.elements(axes) if is_tensor(n) else 0.0
