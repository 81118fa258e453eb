"""The normal form that loops are printed from: every statement writes one element, or folds into one.

    loop  ::=  name[slots] = value  |  name[slots] (+, max, min)= value  |  name[slots] = kind(value, over=axes)

Values are pointwise: a reduction nested in an expression is given a name, a mean is a sum and a division, a
concatenation is one loop a part, a scatter is a loop of zeros and a loop of additions, or of `-oo` and of maxima.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from derive.backends.cpu.statements.merges import split_merged
from derive.facts.lengths.nominal import ALIKE, Nominal
from derive.ir.nodes.arithmetic import ONE, ZERO
from derive.ir.nodes.products import is_matrix_product
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import axes_along, index_axes, node_axes, places, reads, walk
from derive.ir.program import (
    CONDITIONS,
    Assign,
    AxisValue,
    Call,
    Index,
    Join,
    Merged,
    Node,
    PartOf,
    Place,
    Program,
    Read,
    Reduce,
    Run,
    Scan,
    Scatter,
    SizeOf,
    Window,
    base,
)
from derive.ir.terms.names import free_name

FOLDS = ("sum", "amax", "amin")
CHANGES = {"add": "sum", "raise": "amax", "lower": "amin"}
"""Loops that change what stands at a place already, and how they fold a value into it."""
_SIGNS = {"add": "+=", "raise": "max=", "lower": "min="}


class Unsupported(Exception):
    """What this backend has no loop for; the torch form runs instead. The text names the construct."""


@dataclass(frozen=True)
class Loop:
    """One statement: `kind` is "set", a fold over `over`, or "add", "raise", "lower": one value more at a place.

    Of kind "scan", the value is a sum or maximum up to a place, of what lies in memory.
    """

    name: str
    slots: tuple[Index, ...]
    value: Node
    kind: str = "set"
    over: tuple[str, ...] = ()
    note: str = ""

    @property
    def free(self) -> tuple[str, ...]:
        """The axes that the written place depends on."""
        return _free(self.slots)

    @property
    def domain(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.free, *self.over)))

    @property
    def is_fold(self) -> bool:
        return self.kind in FOLDS

    @property
    def changes(self) -> bool:
        """Whether it changes what stands at a place already: it adds to that, or takes the larger or the smaller."""
        return self.kind in CHANGES

    @property
    def is_product(self) -> bool:
        """Whether it is a contraction that a matrix product computes."""
        return self.kind == "sum" and is_matrix_product(Reduce("sum", self.over, self.value))

    def reads(self) -> list[Read]:
        """Every read, those inside indices included."""
        found = [n for n in walk(self.value) if isinstance(n, Read)]
        return found + [n for i in self.slots for n in walk(i) if isinstance(n, Read)]

    def __str__(self) -> str:
        left = f"{self.name}[{', '.join(map(str, self.slots))}]"
        if self.is_fold:
            return f"{left} = {self.kind}({self.value}, over={' '.join(self.over)})"
        return f"{left} {_SIGNS.get(self.kind, '=')} {self.value}"


@dataclass(frozen=True)
class Running:
    """`name[slots] = scan`, whose body is read from memory."""

    name: str
    slots: tuple[Index, ...]
    scan: Scan
    note: str

    def __str__(self) -> str:
        return f"{self.name} = {self.scan}"

    @property
    def reads(self) -> frozenset[str]:
        return reads(self.scan)


@dataclass
class Normal:
    """A program's loops, and the dimensions of every tensor in memory (each an axis or a merge of axes)."""

    program: Program
    loops: list[Loop] = field(default_factory=list)
    dims: dict[str, tuple[Index, ...]] = field(default_factory=dict)
    booleans: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    integers: frozenset[str] = frozenset()  # inputs whose elements are indices
    numbers: tuple[str, ...] = ()  # inputs of one real number that stays as it is: a variable holds each
    places: Mapping[str, str] = field(default_factory=dict)  # where loops begin along axes, if not at 0
    starts: frozenset[str] = frozenset()  # variables from which loops count such places
    nominal: Nominal = ALIKE  # how long axes may be taken to be
    joined: dict[str, tuple[str, str]] = field(default_factory=dict)  # axes that are two others, the first slower
    fixed: Mapping[str, int] = field(default_factory=dict)  # lengths that are known as the kernel is printed

    def type(self, name: str) -> str:
        """The C type of elements in memory: of what is chosen by a `bool` from there GCC makes no vectors."""
        return "int64_t" if name in self.integers else "uint8_t" if name in self.booleans else "real"

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet."""
        name = self.unused(stem)
        self.taken.add(name)
        return name

    def unused(self, stem: str) -> str:
        """A name that nothing has yet, and that others may still take."""
        return free_name(stem, self.taken, "_")

    def add(self, loop: Loop) -> None:
        self.dims.setdefault(loop.name, loop.slots)
        if loop.kind == "set" and is_boolean(loop.value, self.booleans):
            self.booleans.add(loop.name)
        self.loops.append(loop)


def normal(
    program: Program, integers: frozenset[str] = frozenset(), conditions: frozenset[str] = frozenset(),
    nominal: Nominal = ALIKE, fixed: Mapping[str, int] = MappingProxyType({}),
) -> Normal:  # fmt: skip
    """The loops of a program, `fixed` lengths as numbers. Raises Unsupported where a construct has none."""
    program = split_merged(program, fixed)
    out = Normal(program, booleans=set(conditions), integers=integers, nominal=nominal, fixed=fixed)
    out.dims.update(program.given)
    out.taken.update(out.dims, program.scalars, (s.name for s in program.statements))
    for s in program.statements:
        if isinstance(s, Scatter):
            _scatter(s, out)
        else:
            _assign(s, out)
    others = integers | out.booleans | {s.name for s in out.loops}
    out.numbers = tuple(n for n, dims in program.given if not dims and n not in others)
    return out


def _assign(s: Assign, out: Normal) -> None:
    note = str(s)
    if isinstance(s.value, Join):
        out.dims[s.name] = s.axes
        for slots, value in _parts(s, s.value):
            out.add(Loop(s.name, slots, _pointwise(value, out, s.name, _free(slots)), note=note))
        return
    if isinstance(s.value, Reduce):
        _fold(s.name, s.axes, s.value, out, note)
        return
    if isinstance(s.value, Scan):
        _scan(s, s.value, out)
        return
    out.add(Loop(s.name, s.axes, _pointwise(s.value, out, s.name, _free(s.axes)), note=note))


def _fold(name: str, axes: tuple[Index, ...], node: Reduce, out: Normal, note: str) -> None:
    body = _pointwise(node.body, out, name, (*_free(axes), *node.axes))
    if node.kind == "mean":
        total = out.fresh(f"{name}_sum")
        out.add(Loop(total, axes, body, "sum", node.axes, note))
        value: Node = Read(total, axes)
        for a in node.axes:
            value = Call("div", (value, SizeOf(a)))
        out.add(Loop(name, axes, value))
    elif node.kind in FOLDS:
        out.add(Loop(name, axes, body, node.kind, node.axes, note))
    else:
        raise Unsupported(f"the reduction {node.kind}")


def _scan(s: Assign, scan: Scan, out: Normal) -> None:
    """A sum or maximum up to a place, of a tensor; the body is one first where it is no read."""
    order = tuple(scan.over if a == scan.to else a for a in _free(s.axes))
    body = _pointwise(scan.body, out, s.name, order)
    if not isinstance(body, Read) or body.name in out.booleans | out.integers:
        name, axes = out.fresh(f"{s.name}_terms"), tuple(a for a in order if a in node_axes(body))
        out.add(Loop(name, axes, body, note=f"{name}[{', '.join(axes)}] = {body}"))
        out.booleans.discard(name)
        body = Read(name, axes)
    out.add(Loop(s.name, s.axes, replace(scan, body=body), "scan", (scan.over,), str(s)))


def _free(slots: tuple[Index, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(axes_along(slots)))


def _pointwise(node: Node, out: Normal, stem: str, order: tuple[str, ...]) -> Node:
    """The node with every reduction and concatenation in it under a name of its own.

    Its axes are as they lie in the one tensor that a reduction is of, else in the given order.
    """
    if isinstance(node, Reduce | Join | Scan):
        own = node_axes(node)
        lies = axes_along(node.body.index) if isinstance(node, Reduce) and isinstance(node.body, Read) else ()
        axes = tuple(a for a in (lies if set(own) <= set(lies) else order) if a in own)
        name = out.fresh(f"{stem}_{'parts' if isinstance(node, Join) else node.kind}")
        _assign(Assign(name, axes, node), out)
        return Read(name, axes)
    if isinstance(node, Call):
        return replace(node, args=tuple(_pointwise(a, out, stem, order) for a in node.args))
    return node


def _parts(s: Assign, join: Join) -> list[tuple[tuple[Index, ...], Node]]:
    """Where each part of a concatenation is written, and what."""
    offset: Node = ZERO
    parts = []
    for value, own in zip(join.parts, join.own, strict=True):
        at = Window(((own, 1),) if own else (), offset)  # no axis of its own: one place
        parts.append((tuple(_placed(i, join.axis, at) for i in s.axes), value))
        width: Node = SizeOf(own) if own else ONE
        offset = width if offset == ZERO else Call("add", (offset, width))
    return parts


def _placed(slot: Index, axis: str, at: Index) -> Index:
    """A slot with a place for an axis, also where that is part of a merge."""
    if isinstance(slot, Merged):
        return Merged(tuple(Place(at, SizeOf(axis)) if a == axis else a for a in slot.axes))
    return at if slot == axis else slot


def _scatter(s: Scatter, out: Normal) -> None:
    note = str(s)
    if s.onto != s.name:
        start: Node = s.start if s.onto is None else Read(s.onto, s.axes)
        out.add(Loop(s.name, s.axes, start, note=f"{s.name}[{', '.join(s.axes)}] = {s.onto or s.start}"))
    free = _free(s.slots)
    value = _pointwise(s.value, out, s.name, free)
    rest = tuple(a for a in node_axes(value) if a not in free)
    if rest:  # what is added to one place comes from several: an axis was taken apart, and the place has not all parts
        total = out.fresh(f"{s.name}_sum")
        out.add(Loop(total, free, value, s.kind, rest, note))
        value = Read(total, free)
    out.add(Loop(s.name, s.slots, value, next(k for k, fold in CHANGES.items() if fold == s.kind), note=note))


# --- what is known of nodes --------------------------------------------------------------------------------


def is_boolean(node: Node, booleans: set[str]) -> bool:
    """Whether the values of a node are true or false."""
    if isinstance(node, Read):
        return node.name in booleans
    return isinstance(node, Call) and node.fn in CONDITIONS


def rewritten(node: Node | Index, change: Callable[[Node | Index], Node | Index]) -> Node | Index:
    """The tree with `change` applied to every node and index, children first."""
    if isinstance(node, Call):
        node = replace(node, args=tuple(rewritten(a, change) for a in node.args))  # type: ignore[misc]
    elif isinstance(node, Read):
        node = replace(node, index=tuple(rewritten(i, change) for i in node.index))  # type: ignore[misc]
    elif isinstance(node, Merged):
        node = Merged(tuple(rewritten(a, change) for a in node.axes))  # type: ignore[misc]
    elif isinstance(node, Run):
        node = replace(node, body=rewritten(node.body, change), same=rewritten(node.same, change))  # type: ignore[arg-type]
    elif isinstance(node, Scan):
        node = replace(node, body=rewritten(node.body, change))  # type: ignore[arg-type]
    elif isinstance(node, PartOf):
        node = replace(node, whole=rewritten(node.whole, change))  # type: ignore[arg-type]
    return change(node)


def as_one(axes: tuple[str, ...], loops: Sequence[Loop], form: Normal) -> bool:
    """Whether axes lie one after another, in this order, in all that loops read and write with them.

    The first may be the last of a merge, and all of them a merge's last.
    """

    def together(read: Read) -> bool:
        at = [k for k, i in enumerate(read.index) if not isinstance(i, Read) and set(index_axes(i)) & set(axes)]
        if not at:
            return True
        first, *others = (read.index[k] for k in at)
        dims = [form.dims[read.name][k] for k in at[1:]]
        own = all(isinstance(d, str) and base(d) == base(str(i)) for d, i in zip(dims, others, strict=True))
        found = (*(first.axes if isinstance(first, Merged) else (first,)), *others)
        before = set(axes_along(found[: -len(axes)]))
        return found[-len(axes) :] == axes and not before & set(axes) and at[-1] - at[0] == len(at) - 1 and own

    nodes = [n for s in loops for n in walk(s.value)]
    nodes += [n for s in loops for i in s.slots for n in walk(i)]
    places = all(n.axis not in axes for n in nodes if isinstance(n, AxisValue))
    written = [Read(s.name, s.slots) for s in loops]
    return places and all(together(n) for n in (*nodes, *written) if isinstance(n, Read))


def in_memory_order(axes: tuple[str, ...], loops: Sequence[Loop]) -> tuple[str, ...]:
    """The axes as the operand with most of them has them in memory."""
    best: tuple[str, ...] = ()
    for loop in loops:
        reads = (n for n in walk(loop.value) if isinstance(n, Read))
        for m in (axes_along(loop.slots), *(axes_along(r.index) for r in reads)):
            here = tuple(dict.fromkeys(a for a in m if a in axes))
            best = here if len(here) > len(best) else best
    return (*best, *(a for a in axes if a not in best))


@dataclass(frozen=True)
class Places:
    """An index that is itself computed: integers filled in before the loops, checked, and read like an input's.

    `z[n, r[n]]` with `r[n] = where(y[n] != ignore_index, y[n], 0)`, in terms of integer inputs.
    """

    name: str
    axes: tuple[str, ...]
    value: Node
    note: str


def with_places(program: Program, integers: frozenset[str]) -> tuple[Program, tuple[Places, ...]]:
    """The program with computed indices as if they were given, and these. Raises Unsupported for what is no integer."""
    made = {s.name: s for s in program.statements if isinstance(s, Assign)}
    found: dict[str, Places] = {}
    for name in sorted(places(program) - integers):
        s = made.get(name)
        if s is None or name in program.returns or not all(isinstance(a, str) for a in s.axes):
            raise Unsupported(f"an index by {name}, which is no integer input")
        axes = tuple(str(a) for a in s.axes)
        found[name] = Places(name, axes, _in_inputs(s.value, made, integers), str(s))
    given = (*program.given, *((p.name, p.axes) for p in found.values()))
    statements = tuple(s for s in program.statements if s.name not in found)
    return replace(program, given=given, statements=statements), tuple(found.values())


def _in_inputs(value: Node, made: Mapping[str, Assign], integers: frozenset[str]) -> Node:
    """A value in terms of integer inputs alone. Raises Unsupported where it has others."""
    while others := [n for n in walk(value) if isinstance(n, Read) and n.name not in integers]:
        s = made.get(others[0].name)
        if s is None or s.axes != others[0].index:
            raise Unsupported(f"an index that is computed of {others[0].name}")
        value = put(value, others[0], s.value)
    return value
