"""The torch backend: a program over named axes becomes lines of PyTorch, one statement a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sympy import Expr

from derive.backends.code import PRODUCT, Code, Name, Text, as_code, call, method, together
from derive.backends.torch.assignments import assigned
from derive.backends.torch.chains import is_long, led, with_minus
from derive.backends.torch.distances import DISTANCE, along_diagonals
from derive.backends.torch.dtypes import Dtypes, is_read
from derive.backends.torch.fusions import fused, identity, off_diagonal, triangle
from derive.backends.torch.instructions import BY_NAME, in_full, of_several, printed
from derive.backends.torch.joins import joined
from derive.backends.torch.kept_above import kept_above
from derive.backends.torch.layout import Layouts, is_product
from derive.backends.torch.loops import loop_lines
from derive.backends.torch.memory import Memory, is_wide
from derive.backends.torch.one_place import at_one_place
from derive.backends.torch.pointwise import (
    broadcast,
    call_code,
    cast,
    device_of,
    dtype_of,
    is_slow_at_once,
    written_over,
)
from derive.backends.torch.powers import powers
from derive.backends.torch.reads.ranges import repeated_named
from derive.backends.torch.reads.read import read
from derive.backends.torch.reductions.reduction import reduction
from derive.backends.torch.reductions.runs import run_sum
from derive.backends.torch.reductions.scans import running
from derive.backends.torch.reductions.scatters import scatter
from derive.backends.torch.reductions.shares import shares_code
from derive.backends.torch.scalars import large_number, number_code
from derive.backends.torch.sizes import Sizes, fixed
from derive.backends.torch.slopes import sloped
from derive.backends.values import Dims, Line, Value, align, is_pack, position, squeeze
from derive.decisions import FEW
from derive.ir.nodes.arithmetic import ONE
from derive.ir.nodes.loops import Loop, items
from derive.ir.nodes.ties import told_by_sign
from derive.ir.nodes.walking import node_axes, reads, walk
from derive.ir.program import (
    COMPARISONS,
    AxisValue,
    Call,
    Join,
    Node,
    Num,
    Program,
    Read,
    Reduce,
    Run,
    Scal,
    Scan,
    Scatter,
    Shares,
    SizeOf,
    Window,
    base,
)

_COUNTED = ("add", "sub", "mul", "pow")
"""Arithmetic whose values may be much larger than an index."""


@dataclass(kw_only=True)
class Printer:
    """Prints one program. `names` and `size_names` map the program's names to Python's."""

    program: Program
    layouts: Layouts
    names: dict[str, str]
    size_names: dict[str, str]
    merged: Mapping[str, tuple[str, ...]]  # the axes that a dimension is made of
    slow: Callable[[str], int]  # see Sizes
    tight: Callable[[str, Window], bool]
    behind: Callable[[str, Window], Expr | None]
    fuse: bool  # whether two operations may become one call
    like: str  # a tensor whose device and dtype new tensors take
    integers: frozenset[str] = frozenset()  # tensors that hold integers or truth values
    indices: frozenset[str] = frozenset()  # the inputs among them
    places: Mapping[str, str] = field(default_factory=dict)  # those that name a place of this axis, whatever is asked
    outputs: frozenset[str] = frozenset()  # of the inputs' dtype, also where they count
    results: frozenset[str] = frozenset()  # what a forward returns, and what that is made of: see `exact`
    said: frozenset[str] = frozenset()  # axes that are as long as the caller says
    twice: frozenset[str] = frozenset()  # what forward and backward may both make, to be rounded alike
    used_sizes: dict[str, None] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    spent: frozenset[str] = frozenset()
    at: int = 0  # which statement is printed
    top: Node | None = None  # the value of the statement being printed
    first: str | None = None  # see Memory.first_at
    counts: bool = False  # whether the statement being printed makes whole numbers
    distances: tuple[Code, ...] = ()  # from which to which distance of places a table has something
    long: bool = False  # whether the expression being printed makes several large tensors

    def __post_init__(self) -> None:
        known = (self.slow, self.tight, self.behind, self.indices)
        self.sizes = Sizes(self.size, self.number, lambda: device_of(self.like), set(), *known)
        self.dtypes = Dtypes(self.program, self.integers, self.outputs)
        few = (a for a, size in self.size_names.items() if size.isdigit() and int(size) <= FEW)
        self.memory = Memory(self.program, self.dtypes, frozenset(few))
        self.told_by_sign = told_by_sign((s.name, s.value) for s in self.program.statements)

    @property
    def exact(self) -> bool:
        """Whether 0 times what is infinite may be added nowhere: in what a forward returns."""
        return self.name in self.results

    @property
    def name(self) -> str:
        """What the statement that is printed computes."""
        return self.program.statements[self.at].name

    # --- names ---------------------------------------------------------------------------------------------

    def size(self, axis: str) -> str:
        if base(axis) not in self.size_names:  # several axes as one dimension
            return f"({' * '.join(self.number(SizeOf(a)) for a in self.merged[base(axis)])})"
        self.used_sizes[base(axis)] = None
        return self.size_names[base(axis)]

    def known(self, axis: str) -> int | None:
        """The length of an axis, where the spec says it: no line is needed for that."""
        said = self.size_names.get(base(axis), "")
        return int(said) if said.isdecimal() else None

    def number(self, node: Node) -> str:
        """A length or a place; of axes of fixed lengths, the number that it is."""
        whole = fixed(node, self.size_names) if isinstance(node, Call) else None
        return str(self.value(node, ()).code if whole is None else whole)

    def named(self, name: str) -> Name:
        """A tensor's variable, or that of a loop (`turn`), which no tensor has."""
        own = self.names.get(name, name)
        return Name(own if " " not in own else self.unused(own.replace(" ", "_").replace("'", "_")))

    def stored(self, name: str) -> Value:
        return Value(self.named(name), self.layouts[name])

    # --- expressions ---------------------------------------------------------------------------------------

    def value(self, node: Node, order: Dims) -> Value:
        """Code that broadcasts against `order`."""
        if isinstance(node, Read):
            return self.elements(node, order)
        if isinstance(node, Num):
            return number_code(node)
        if isinstance(node, Scal):
            return Value(self.named(node.name), scalar=True)
        if isinstance(node, SizeOf):
            size = self.size(node.axis)
            return Value(Text(f"math.prod({size})") if is_pack(node.axis) else as_code(size), scalar=True)
        if isinstance(node, AxisValue) and node.axis == DISTANCE:
            of = {"device": device_of(self.like), "dtype": dtype_of(self.like)}
            return align(Value(call("torch.arange", *self.distances, **of), (DISTANCE,)), order)
        if isinstance(node, AxisValue):
            dtype = None if self.counts else dtype_of(self.like)
            return align(Value(self.sizes.arange(node.axis, dtype), (node.axis,)), order)
        if isinstance(node, Reduce):
            keepdim = None in order or bool(set(node.axes) & set(order))
            value = align(reduction(self, node, order, keepdim), order)
            return self.owned(node, value) if is_product(node) else value
        if isinstance(node, Join):
            return joined(self, node, order)
        if isinstance(node, Run):
            return run_sum(self, node, order)
        if isinstance(node, Shares):
            return self.owned(node, shares_code(self, node, order))
        if isinstance(node, Scan):
            inside = tuple(node.over if d == node.to else d for d in order)
            return align(running(node, squeeze(self.value(node.body, inside)), self.size), order)
        if (table := along_diagonals(self, node, order)) is not None:
            return self.owned(node, table)
        return self.in_its_own_axes(node, order) or self.at_once(node, order) or self.call(node, order)

    def elements(self, node: Read, order: Dims) -> Value:
        """Elements of a tensor; the whole of one may be written over where nothing reads it any more."""
        value = align(read(self.stored(node.name), node, self.sizes, self.value, order), order)
        whole = value.code == self.named(node.name) and value.dims == order
        return replace(value, owned=whole and node.name in self.spent)

    def at_once(self, node: Call, order: Dims) -> Value | None:
        """Several operations as one call of torch, where it has one."""
        if node.fn in BY_NAME:
            return self.instructed(node, order)
        in_steps = (kept_above, fused, at_one_place, sloped) if self.fuse else ()
        in_one = (triangle, off_diagonal, powers, *in_steps, identity)
        return next((v for one in in_one if (v := one(self, node, order)) is not None), None)

    def instructed(self, node: Call, order: Dims) -> Value:
        """An instruction's call, its tensors in one order of their axes."""
        axes = node_axes(node)
        dims = tuple(d for d in order if d in axes)
        return align(self.owned(node, Value(self.issue(node, dims), dims)), order)

    def issue(self, node: Call, dims: Dims) -> Code:
        """The code of an instruction's call."""
        row, _ = BY_NAME[node.fn]
        by: dict[str, Code] = {}
        last = dims[-sum(isinstance(a, AxisValue) for a in node.args) :]
        for v, a in zip(row.variables, node.args, strict=False):
            if isinstance(a, AxisValue):
                by[v] = Text(str(position(dims, dims.index(a.axis))))
            else:
                by[v] = self.value(a, last if v in row.vectors.split() else dims).code
        return printed(row, by)

    def several(self, made: Call) -> list[Line]:
        """The line of a call with several results; nothing where an earlier statement has it."""
        row, _ = BY_NAME[made.fn]
        of = {k: c for k, s in enumerate(self.program.statements) if (c := of_several(s.value)) is not None}
        at = {c.fn: k for k, c in of.items() if c.fn in row.results and c.args == made.args}
        if min(at.values()) < self.at:
            return []
        statements = self.program.statements
        names = [str(self.named(statements[at[r]].name)) if r in at else "_" for r in row.results]
        order = next(d for d in map(self.layouts.__getitem__, reads(made)) if set(d) == set(node_axes(made)))
        notes = [str(replace(statements[k], value=in_full(statements[k].value))) for k in sorted(at.values())]
        part_of = frozenset(at.values())
        return [Line(self.issue(made, order), Text(", ".join(names)), note="; ".join(notes), part_of=part_of)]

    def call(self, node: Call, order: Dims) -> Value:
        """One operation, written over one of its arguments where that spares a large tensor."""
        top = node == self.top
        node = self.with_sign_inside(node)
        if self.long:
            node = led(node, self.memory.is_large, self.spent)
        args = self.arguments(node, order)
        if top and args:  # `e` and `pi` have none
            args[0] = self.own(node.args[0], args[0], order)
        over = written_over(node, args, self.long) if self.fuse and not self.negates_little(node, args) else None
        return over or self.owned(node, call_code(node, args, self.like))

    def arguments(self, node: Call, order: Dims) -> list[Value]:
        """What an operation takes, whole numbers made real where torch would go on counting."""
        if node.fn in COMPARISONS:
            return self.compared(node, order)
        args = [self.value(a, order) for a in node.args]
        if node.fn in _COUNTED and not self.dtypes.is_real(node):  # int32 would overflow
            wide = [isinstance(a, Read) and a.name in self.indices for a in node.args]
            args = [v.method("long") if w else v for v, w in zip(args, wide, strict=True)]
        if self.dtypes.leaves_integers(node):
            args = [self.real(v) if is_read(a) else v for a, v in zip(node.args, args, strict=True)]
        if self.dtypes.is_real(node) and not self.counts:  # the number 1e9 is a float, and would make them so
            args = [large_number(a) or v for a, v in zip(node.args, args, strict=True)]
        return args

    def issued(self, node: Call, name: str, operands: Sequence[Node], order: Dims, **options: object) -> Value | None:
        """One call over several tensors, in the memory of the first where that is ours; None where it would be slow."""
        one = Value(method(self.like, "new_ones", "()"))
        values = [one if n == ONE else cast(self.value(n, order), self.like) for n in operands]
        if node == self.top and operands[0] not in operands[1:]:
            values[0] = self.own(operands[0], values[0], order)
        dims = broadcast(values)
        if self.memory.is_large(node) and is_slow_at_once(values, dims):
            return None
        if values[0].owned and values[0].dims == dims:
            return replace(values[0].method(f"{name}_", *values[1:], **options), owned=True)  # type: ignore[arg-type]
        return self.owned(node, Value(call(f"torch.{name}", *values, **options), dims))

    def in_its_own_axes(self, node: Call, order: Dims) -> Value | None:
        """What small tensors make together, and only then spread over the other axes, as each would be otherwise."""
        axes = node_axes(node)
        small = tuple(d for d in order if d in axes)
        below = list(walk(node))
        found = [n for n in below if isinstance(n, Read)]
        if not small or order[len(order) - len(small) :] == small or len(found) < 2:
            return None
        if any(isinstance(n, Reduce | Join | Scan | Shares | AxisValue) for n in below):
            return None
        if any(n.index != found[0].index or self.layouts[n.name] != found[0].index for n in found):
            return None
        return align(self.value(node, small), order)

    def own(self, node: Node, value: Value, order: Dims) -> Value:
        """What a statement begins with, ours to be written over where nothing reads it behind the statement."""
        first = isinstance(node, Read) and node.name == self.first and value.code == self.named(node.name)
        return replace(value, owned=True) if first and value.dims == order else value

    def as_real(self, node: Node, value: Value) -> Value:
        """What torch multiplies as matrices, convolves or averages, in the dtype of the inputs, whatever it counts."""
        real = self.dtypes.is_real(node) and not value.boolean and not value.weak
        return value if real else self.real(value)

    def real(self, value: Value) -> Value:
        """Whole numbers or truth values in the dtype of the inputs."""
        return cast(value, self.like) if value.boolean else value.method("to", dtype_of(self.like))

    def compared(self, node: Call, order: Dims) -> list[Value]:
        """The sides of a comparison: places that are compared with one another, or alone, stay whole numbers."""
        before, of_counts = self.counts, self.dtypes.compares_counts(node)
        args = []
        for side in node.args:
            self.counts = before or of_counts or isinstance(side, AxisValue)
            args.append(self.value(side, order))
        self.counts = before
        return args

    def with_sign_inside(self, node: Call) -> Call:
        """`-(a / 2)` as `a / -2`, `-(a * b)` as `a * -b` where `b` is small: one pass over a large tensor less."""
        inner, is_large = node.args[0] if node.fn == "neg" else None, self.memory.is_large
        if not self.fuse or not isinstance(inner, Call) or inner.fn not in ("mul", "div") or not is_large(inner):
            return node
        return with_minus(inner, is_large) or node

    def negates_little(self, node: Call, args: list[Value]) -> bool:
        """Whether a minus sign is best left in front of a product, where it negates a small first factor alone."""
        if node.fn != "neg" or args[0].code.strength != PRODUCT:
            return False
        first = node.args[0]
        while isinstance(first, Call) and first.fn in ("mul", "div"):
            first = first.args[0]
        return not self.memory.is_large(first)

    def owned(self, node: Node, value: Value) -> Value:
        """The result of a call, which nothing else holds: it may be written over, where that spares a large tensor."""
        mine = self.fuse and not is_wide(node) and not value.scalar and not value.boolean and None not in value.dims
        return replace(value, owned=mine and self.memory.is_large(node) and self.dtypes.is_real(node))

    def full(self, node: Node, order: Dims) -> Value:
        """The value with every axis of `order` present, in the dtype of the inputs."""
        value = self.value(node, order)
        if value.boolean:
            value = cast(value, self.like)
        elif isinstance(node, Reduce) and not self.dtypes.is_real(node) and is_read(node):  # a count
            value = value.method("to", dtype_of(self.like))
        return value if value.dims == order and not value.scalar else self.spread(value, order)

    def spread(self, value: Value, dims: Dims) -> Value:
        """The value expanded to all of `dims`; a view."""
        if value.scalar:
            is_zero = value.code == Text("0") and any(d is not None for d in dims)
            made = ("new_zeros",) if is_zero else ("new_full", value)
            return Value(method(self.like, made[0], self.shape(dims), *made[1:]), dims)
        return value.method("expand", *self.lengths(dims), dims=dims)

    def zeros(self, dims: Dims) -> Code:
        """A tensor of zeros."""
        return method(self.like, "new_zeros", *self.lengths(dims))

    def shape(self, dims: Dims) -> Code:
        """The lengths as one argument."""
        own, lengths = [d for d in dims if d is not None], self.lengths(dims)
        return as_code(lengths[0]) if len(own) == 1 and is_pack(own[0]) else together(lengths)

    def line(self, to: Code | str | None, value: object, sign: str = "=", note: str = "", depth: int = 0) -> None:
        """One more line."""
        self.lines.append(Line(as_code(value), None if to is None else as_code(to), sign, note, depth=depth))

    def lengths(self, dims: Dims) -> list[str]:
        own = [d for d in dims if d is not None]
        if len(own) == 1 and is_pack(own[0]):
            return [self.size(own[0])]  # as one argument, which may be empty
        return [f"*{self.size(d)}" if is_pack(d) else self.size(d) for d in own]

    # --- statements ----------------------------------------------------------------------------------------

    def print(self) -> list[Line]:
        for k in items(self.program):
            if isinstance(k, Loop):
                self.lines += loop_lines(self, k)
                continue
            statement = self.program.statements[k]
            self.at, before = k, len(self.lines)
            self.spent = self.memory.spent_at(k) if self.fuse else frozenset()
            self.counts = statement.name in self.integers
            self.top, self.first = statement.value, self.memory.first_at(k) if self.fuse else None
            self.long = self.fuse and is_long(statement.value, self.memory.is_large, self.spent)
            if isinstance(statement, Scatter):
                scatter(self, statement)
            elif (made := of_several(statement.value)) is not None:
                self.lines += self.several(made)
            else:
                self.lines += assigned(self, statement)
            self.lines[before:] = (replace(line, part_of=line.part_of | {k}) for line in self.lines[before:])
        given, indices = ({self.names.get(n, n) for n in own} for own in (dict(self.program.given), self.indices))
        return repeated_named(self.lines, given, indices, self.unused)

    def unused(self, name: str) -> str:
        """A name for a tensor that no equation has."""
        taken = {*self.layouts.dims, *self.names.values(), *self.size_names.values(), *self.program.scalars}
        while name in taken:
            name += "_"
        return name
