"""The forward as data, checked: operands, equations, ops.

An equation is pointwise, or one reduction of a pointwise body times a scale without tensors
(`loss = -1/N * sum(...)`). A reduction nested inside something else is split off into an equation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sympy import Basic, Expr, Mul, S

from derive.ir.display import display
from derive.ir.terms.axes import Axis, Size, free_axes, sorted_axes
from derive.ir.terms.elements import At, Scalar, Tensor, at_index, reads_of
from derive.ir.terms.indices import Merge
from derive.ir.terms.names import free_name
from derive.ir.terms.reductions import Reduce


@dataclass(frozen=True)
class Operand:
    """One input of an op: a real tensor, an integer tensor whose values run over an axis, or a number."""

    name: str
    kind: str  # "tensor", "constant" (real, no gradient), "index", "scalar", "length" (of `ranges_over`)
    axes: tuple[Axis, ...] = ()
    ranges_over: Axis | None = None
    default: Any = None
    has_default: bool = False
    declared: tuple[Axis, ...] = ()  # the axes as they were written, where one may stand twice
    assumed: str | None = None  # "nonzero" or "positive", where the spec declares it
    carried: bool = False  # no input of the caller's, but what a recurrence has made (`Recurrence`)

    @property
    def tensor(self) -> Tensor:
        """The operand's name with what is assumed of its values."""
        if self.kind == "index":
            return Tensor(self.name, integer=True)  # of any sign: what a condition leaves out may be negative
        return Tensor(self.name, **({self.assumed: True} if self.assumed else {}))

    @property
    def differentiable(self) -> bool:
        return self.kind == "tensor"

    @property
    def is_tensor(self) -> bool:
        return self.kind not in ("scalar", "length")

    def __str__(self) -> str:
        default = f" = {self.default}" if self.has_default else ""
        if self.kind == "scalar":
            return f"{self.name}: scalar{default}"
        if self.kind == "length" and self.ranges_over is not None:
            return f"{self.name}: length({self.ranges_over.base}){default}"
        axes = ", ".join(a.base for a in self.declared or self.axes)
        head = f"index({self.ranges_over.base})" if self.ranges_over is not None else self.kind
        return f"{self.name}: {head}[{axes or '()'}]" + (f".{self.assumed}" if self.assumed else "")


@dataclass(frozen=True)
class Grouping:
    """The terms of a sum in the order they were written in, without their numbers; what stood in brackets is one."""

    terms: tuple[Expr | Grouping, ...]

    def changed(self, change: Callable[[Expr], Expr]) -> Grouping:
        """The same grouping of other terms."""
        return Grouping(tuple(t.changed(change) if isinstance(t, Grouping) else change(t) for t in self.terms))

    @property
    def leaves(self) -> tuple[Expr, ...]:
        """The terms, those in brackets among them."""
        return tuple(leaf for t in self.terms for leaf in (t.leaves if isinstance(t, Grouping) else (t,)))


@dataclass(frozen=True)
class Equation:
    """`target[index] = scale * kind(body, over)`, or `target[index] = body` where `kind` is None."""

    target: Tensor
    index: tuple[Expr, ...]
    body: Expr
    kind: str | None = None
    over: tuple[Axis, ...] = ()
    scale: Expr = S.One
    given: bool = True  # written by the user, not split off by us
    called: bool = False  # inside an op that the spec calls: the user has not named it
    normal: bool = False  # a body in normal form, to be factored where it is printed, and not as somebody wrote it
    guard: bool = False  # places, 0 where a condition fails: what is read there reaches nothing
    first: bool = False  # a sum that is taken before a number is added to it, and never put in its place by a law
    free: bool = False  # a number that cancels wherever it is read: no gradient goes through it
    ties: At | None = None  # of a maximum over what an index puts at each place: how many elements share it
    sums: tuple[Grouping, ...] = ()  # how the sums of three terms and more in it were written

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes on the left, merged ones taken apart."""
        return tuple(a for i in self.index for a in _axes_of(i))

    @property
    def is_plain(self) -> bool:
        """Whether every index on the left is an axis (nothing merged)."""
        return all(isinstance(i, Axis) for i in self.index)

    @property
    def names_its_body(self) -> bool:
        """Whether the tensor is its right side under a name: no sum, and nothing that it repeats along an axis."""
        return self.kind is None and self.is_plain and set(self.axes) == free_axes(self.body)

    @property
    def is_over_axes(self) -> bool:
        """Whether every index on the left is an axis, or several merged."""
        return all(isinstance(i, Axis | Merge) for i in self.index)

    @property
    def left(self) -> At:
        return At(self.target, *self.index)

    def at(self, index: Sequence[Expr]) -> Expr:
        """The body at another index than the axes on the left."""
        return at_index(self.body, self.axes, index)

    def substituted(self, put: Mapping[Basic, Basic]) -> Equation:
        """The same with others for its axes, their lengths and its tensors, wherever they stand."""

        def new(e: Expr) -> Expr:
            return e.xreplace(put)

        target, over = put.get(self.target, self.target), tuple(put.get(a, a) for a in self.over)
        index, sums = tuple(map(new, self.index)), tuple(g.changed(new) for g in self.sums)
        body, scale = new(self.body), new(self.scale)
        return replace(self, target=target, index=index, body=body, over=over, scale=scale, sums=sums)

    @property
    def right(self) -> Expr:
        return self.body if self.kind in (None, "concat") else self.scale * Reduce(self.kind, self.body, *self.over)

    @property
    def weight(self) -> Expr:
        """What the sum over the body is multiplied by: a mean is a sum over the lengths of its axes."""
        return self.scale / Mul(*(Size(a) for a in self.over)) if self.kind == "mean" else self.scale

    @cached_property
    def reads(self) -> tuple[At, ...]:
        return reads_of(self.body)

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"

    def _repr_latex_(self) -> str:
        return display(self)


def _axes_of(index: Expr) -> tuple[Axis, ...]:
    if isinstance(index, Merge):
        return tuple(index.args)
    return (index,) if isinstance(index, Axis) else tuple(sorted_axes(free_axes(index)))


@dataclass(frozen=True)
class SizeRule:
    """Where the length of an axis is read: a dimension of an operand, a formula over other sizes, an argument."""

    axis: Axis
    operand: str | None = None
    position: int = 0
    formula: Expr | None = None
    given: str | None = None  # the argument that is this length
    said: bool = False  # by the body: length(u, …)
    around: Axis | None = None  # whose places it has, and others in front of them or behind


@dataclass(frozen=True)
class Requirement:
    """`left relation right` between lengths, checked as the op runs: what `what` (an axis, a read) must satisfy.

    `relation` is "==", "%" (a multiple of) or ">=", which asks that a read fits into `where`.
    """

    equation: str
    what: str
    left: Expr
    relation: str
    right: Expr
    where: str = ""


@dataclass(frozen=True)
class Recurrence:
    """A state that is carried along an axis: its equation, read one place earlier through an operand `before`.

    At the first place `before` is `start`, an equation without the axis; `last` is what the last place leaves, and the
    start where there is none. Backwards the first place is the one at the end.
    """

    state: str
    start: str
    axis: Axis
    forwards: bool
    before: Operand
    last: Operand

    def under(self, names: Mapping[str, str]) -> Recurrence:
        """The same of tensors under other names."""
        before, last = (replace(o, name=names.get(o.name, o.name)) for o in (self.before, self.last))
        state, start = (names.get(n, n) for n in (self.state, self.start))
        return replace(self, state=state, start=start, before=before, last=last)

    def place(self, of: Sequence[Expr]) -> tuple[Expr, ...]:
        """The index of the state at which `before` reads it, where it is read at another itself."""
        step = -1 if self.forwards else 1
        return tuple(i + step if d == self.axis else i for i, d in zip(of, self.before.axes, strict=True))


@dataclass(frozen=True)
class Op:
    """A checked forward pass: operands in order, equations in order, the names of its outputs."""

    name: str
    doc: str
    operands: tuple[Operand, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[str, ...]
    sizes: tuple[SizeRule, ...]
    requirements: tuple[Requirement, ...] = ()
    stepwise: bool = False  # also emit the uncollapsed backward, which returns every adjoint
    source: str = ""  # where the spec stands, for the header of generated files
    tensors: dict[str, tuple[Expr, ...]] = field(default_factory=dict, compare=False)
    recurrences: tuple[Recurrence, ...] = ()

    @property
    def names(self) -> set[str]:
        """All that a new name must differ from."""
        return {o.name for o in (*self.operands, *self.carried)} | {e.name for e in self.equations}

    @property
    def carried(self) -> tuple[Operand, ...]:
        """What recurrences carry, as far as an equation reads it."""
        read = {at.name for e in self.equations for at in e.reads}
        return tuple(o for r in self.recurrences for o in (r.before, r.last) if o.name in read)

    @property
    def cut(self) -> Op:
        """The same without its recurrences: what they carry are inputs, and what it is made of are outputs.

        A recurrence is a circle of such an op's outputs into its inputs. What is derived of the op holds of whatever
        inputs, and so of these.
        """
        if not self.recurrences:
            return self
        made = (n for r in self.recurrences for n in (r.state, r.start))
        outputs = tuple(dict.fromkeys((*self.outputs, *made)))
        return replace(self, operands=(*self.operands, *self.carried), outputs=outputs, recurrences=())

    @cached_property
    def merged(self) -> dict[str, tuple[Axis, ...]]:
        """The axes that each merged dimension is made of, by a name for it that no axis has: `t_e` for `(t, e)`."""
        found: dict[str, tuple[Axis, ...]] = {}
        axes = {rule.axis.base for rule in self.sizes}
        for i in dict.fromkeys(i for e in self.equations for i in e.index if isinstance(i, Merge)):
            found[free_name("_".join(a.base for a in i.args), axes | found.keys(), "_")] = tuple(i.args)
        return found

    def dims(self, name: str) -> tuple[str, ...]:
        """The dimensions of a forward tensor, a merged one under the name of its parts."""
        operand = self.operand(name)
        if operand is not None:
            return tuple(a.name for a in operand.axes)
        equation = self.equation(name)
        assert equation is not None
        return tuple(self.axis_of(i) for i in equation.index)

    def axis_of(self, index: Expr) -> str:
        """The axis that a dimension runs over, by its name; a merged one has a name of its own."""
        if isinstance(index, Merge):
            return next(name for name, axes in self.merged.items() if axes == index.args)
        assert isinstance(index, Axis)
        return index.base

    def operand(self, name: str) -> Operand | None:
        return self._operands.get(name)

    def equation(self, name: str) -> Equation | None:
        return self._equations.get(name)

    @cached_property
    def _operands(self) -> dict[str, Operand]:
        return {o.name: o for o in reversed((*self.operands, *self.carried))}

    @cached_property
    def _equations(self) -> dict[str, Equation]:
        return {e.name: e for e in reversed(self.equations)}

    @cached_property
    def _hash(self) -> int:
        parts = (self.operands, self.equations, self.outputs, self.sizes, self.requirements, self.recurrences)
        return hash((self.name, *parts))

    def __hash__(self) -> int:
        """Of what is known of an op by caches, which ask for it at every step of a search."""
        return self._hash

    def written_for(self, e: Equation) -> str:
        """The name of the equation that a spec wrote, of which this one is a part."""
        after = self.equations[self.equations.index(e) :]
        return next((own.name for own in after if own.given), e.name)

    def _repr_latex_(self) -> str:
        return display(self)

    @property
    def differentiable(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.differentiable)

    @property
    def unread(self) -> tuple[Operand, ...]:
        """Inputs that no equation reads, nor any length: a slip, most likely, or a signature that others share."""
        found = {s for e in self.equations for part in (e.body, e.scale) for s in part.free_symbols}
        read = {s.name for s in found if isinstance(s, Tensor | Scalar)} | {rule.operand for rule in self.sizes}
        inputs = tuple(o for o in self.operands if o.kind != "length")
        parts: list[Basic] = [i for e in self.equations for i in (*e.index, *e.over, e.body, e.scale)]
        parts += [r.formula for r in self.sizes if r.formula is not None]
        parts += [a for o in inputs for a in (*o.axes, o.ranges_over) if a is not None]
        found = {s for part in parts for s in part.atoms(Axis, Size)}
        axes = {(s.axis if isinstance(s, Size) else s).base for s in found}
        read |= {rule.given for rule in self.sizes if rule.axis.base in axes}
        return tuple(o for o in self.operands if o.name not in read)

    @property
    def turned(self) -> tuple[tuple[Operand, At], ...]:
        """Inputs that are read by their own axes in another order, which are one length then: a slip, most likely."""
        reads = {at: o for e in self.equations for at in e.reads for o in self.operands if o.name == at.name}
        own = {o: o.declared or o.axes for o in reads.values()}
        return tuple((o, at) for at, o in reads.items() if set(at.index) == set(own[o]) and at.index != own[o])

    def __str__(self) -> str:
        lines = [f"{self.name}({', '.join(map(str, self.operands))})"]
        lines += [f"  {e}" for e in self.equations]
        return "\n".join([*lines, f"  return {', '.join(self.outputs)}"])


def inline(value: Expr, equations: Mapping[str, Equation]) -> Expr:
    """The value with what these equations say in the place of their tensors."""
    return value.xreplace({at: equations[at.name].at(at.index) for at in value.atoms(At) if at.name in equations})
