"""The chain rule over equations: one adjoint equation for every forward equation, last to first.

The local derivative is scalar calculus (`calculus.py`); the rest is index bookkeeping (`pull_back.py`).
"""

from __future__ import annotations

import keyword
from dataclasses import dataclass, replace
from functools import cached_property

from sympy import Add, Derivative, Expr, Mul, S

from derive.adjoint.calculus import local_derivative
from derive.adjoint.pull_back import pull_back
from derive.errors import DeriveError
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import Concat
from derive.ir.terms.elements import At, Delta, Tensor, tensor_names
from derive.ir.terms.indices import Prefix
from derive.rules.index.asked_places import Inside, Ranges, in_a_window, indices_inside, place_of


@dataclass(frozen=True)
class Contribution:
    """What one read of a tensor adds to its adjoint."""

    through: str
    read: At
    local: Expr
    value: Expr
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Adjoint:
    """`target[axes]`, the gradient of the loss with respect to the tensor `of`, as the sum of its contributions."""

    of: str
    target: Tensor
    axes: tuple[Axis, ...]
    contributions: tuple[Contribution, ...]
    cotangent: At | None = None  # the caller's share, where an output is also read inside the op

    @property
    def left(self) -> At:
        return At(self.target, *self.axes)

    @cached_property
    def value(self) -> Expr:
        own = [] if self.cotangent is None else [self.cotangent]
        return Add(*own, *(c.value for c in self.contributions))

    @cached_property
    def reads(self) -> frozenset[str]:
        """The names of the tensors that the adjoint is computed from."""
        return frozenset(tensor_names(self.value))

    def __str__(self) -> str:
        return f"{self.left} = {self.value}"


@dataclass(frozen=True)
class Cotangent:
    """The gradient with respect to an output, given by the caller."""

    of: str
    target: Tensor
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Stepwise:
    """The uncollapsed backward: the cotangents it is given, and an adjoint a tensor, in the order they are computed."""

    op: Op
    cotangents: tuple[Cotangent, ...]
    adjoints: tuple[Adjoint, ...]
    sums: tuple[tuple[str, tuple[str, ...]], ...] = ()  # adjoints that are added up in parts, and these, by name
    carried: tuple[Cotangent, ...] = ()  # of states and of starts, which recurrences give

    @property
    def cut(self) -> Stepwise:
        """The same of the op without its recurrences, which is given these as well."""
        own = {c.of: c for c in (*self.cotangents, *self.carried)}
        return replace(self, op=self.op.cut, cotangents=tuple(own[o] for o in self.op.cut.outputs), carried=())

    @cached_property
    def by_name(self) -> dict[str, Adjoint]:
        """The adjoints by their own names."""
        return {a.target.name: a for a in self.adjoints}

    @cached_property
    def _hash(self) -> int:
        return hash((self.op, self.cotangents, self.adjoints, self.sums, self.carried))

    def __hash__(self) -> int:
        """Of what is known of a backward by caches, which ask for it at every step of a search."""
        return self._hash

    def adjoint(self, of: str) -> Adjoint | None:
        return next((a for a in self.adjoints if a.of == of), None)

    def __str__(self) -> str:
        return "\n".join(str(a) for a in self.adjoints)


def stepwise(op: Op, powers_from_output: bool = True) -> Stepwise:
    """Walk the equations backwards and write the adjoint of every tensor that a gradient needs.

    A power's derivative is given by its output (`rstd**3`) or, as autograd has it, by its base (`(var + eps)**(-3/2)`).
    """
    axes = {o.name: o.axes for o in op.operands}
    for equation in op.equations:
        axes[equation.name] = adjoint_axes(equation, op)
    names = _adjoint_names(op)
    needed = _needed(op)
    ranges: Ranges = {o.name: o.ranges_over for o in op.operands if o.kind == "index"}
    inside = indices_inside(op)
    cotangents = tuple(Cotangent(o, Tensor(names[o]), axes[o]) for o in dict.fromkeys(op.outputs))
    reached: dict[str, list[Contribution]] = {}
    adjoints: dict[str, Adjoint] = {}
    elements: dict[str, Tensor] = {c.of: c.target for c in cotangents}
    for equation in reversed(op.equations):
        name = equation.name
        if name in reached or (name in needed and name not in elements):
            given = None
            target = Tensor(names[name])
            if name in op.outputs:
                given = At(elements[name], *axes[name])
                target = Tensor(f"{names[name]}_total")
            adjoints[name] = Adjoint(name, target, axes[name], tuple(reached.get(name, ())), given)
            elements[name] = target
        if name not in elements:
            continue
        target = elements[name]
        for contribution, of in contributions(equation, target, axes, needed, ranges, inside, powers_from_output):
            reached.setdefault(of, []).append(contribution)
    for operand in op.differentiable:
        found = tuple(reached.get(operand.name, ()))
        adjoints[operand.name] = Adjoint(operand.name, Tensor(names[operand.name]), operand.axes, found)
    return Stepwise(op, cotangents, tuple(adjoints.values()))


def adjoint_axes(equation: Equation, op: Op) -> tuple[Axis, ...]:
    """The axes of a tensor's adjoint: its own; a merged dimension takes the name it is first read by."""
    out: list[Axis] = []
    for position, i in enumerate(equation.index):
        if isinstance(i, Axis):
            out.append(i)
            continue
        reads = [at for e in op.equations for at in e.reads if at.name == equation.name]
        plain = [at.index[position] for at in reads if isinstance(at.index[position], Axis)]
        free = [a for a in plain if a not in out and a not in equation.index]
        out.append(free[0] if free else Axis(op.axis_of(i)))
    return tuple(out)


def _adjoint_names(op: Op) -> dict[str, str]:
    taken = op.names
    names: dict[str, str] = {}
    for name in [o.name for o in op.operands] + [e.name for e in op.equations]:
        new = f"d{name}"
        while new in taken or keyword.iskeyword(new):
            new = f"grad_{name}" if not new.startswith("grad_") else f"{new}_"
        taken.add(new)
        names[name] = new
    return names


def _needed(op: Op) -> set[str]:
    """The tensors that some differentiable input flows through."""
    needed = {o.name for o in op.differentiable}
    constant = {e.ties.name for e in op.equations if e.ties is not None} | {e.name for e in op.equations if e.free}
    for equation in op.equations:
        if equation.name not in constant and any(at.name in needed for at in equation.reads):
            needed.add(equation.name)
    return needed


def contributions(
    equation: Equation,
    adjoint: Tensor,
    axes: dict[str, tuple[Axis, ...]],
    needed: set[str],
    ranges: Ranges,
    inside: Inside = frozenset(),
    powers_from_output: bool = True,
) -> list[tuple[Contribution, str]]:
    """What this equation adds to the adjoint of each tensor that it reads."""
    out = []
    for piece, upstream in pieces(equation, adjoint):
        out += _contributions(piece, upstream, axes, needed, ranges, inside, powers_from_output)
    return out


def pieces(equation: Equation, adjoint: Tensor) -> list[tuple[Equation, At]]:
    """The equation with its cotangent's element; a concatenation as one equation a piece, each read at its place."""
    if not isinstance(equation.body, Concat):
        return [(equation, At(adjoint, *equation.index))]
    out, offset = [], S.Zero
    for piece, own in zip(equation.body.pieces, equation.over, strict=True):
        along = equation.body.along
        place = Prefix(own) if offset == 0 else own + offset
        if own not in free_axes(piece):  # one place
            place = offset
        index = tuple(place if i == along else i for i in equation.index)
        out.append((Equation(equation.target, index, piece), At(adjoint, *index)))
        offset += Size(own)
    return out


def _contributions(
    equation: Equation, upstream: At, axes: dict[str, tuple[Axis, ...]], needed: set[str], ranges: Ranges,
    inside: Inside, powers_from_output: bool,
) -> list[tuple[Contribution, str]]:  # fmt: skip
    out = []
    for read in equation.reads:
        if read.name not in needed or read.tensor.is_integer:
            continue
        local = local_of(equation, read, powers_from_output)
        if local == 0:
            continue
        summed = set(equation.axes) - free_axes(read)
        local_there = _at_its_place(local, read, summed, ranges, inside)
        value, rules = pull_back(equation, read, upstream * local_there, axes[read.name])
        out.append((Contribution(equation.name, read, local, value, rules), read.name))
    return out


def local_of(equation: Equation, read: At, powers_from_output: bool = True) -> Expr:
    """The local derivative of an equation by an element. Raises DeriveError where it has none."""
    local = local_derivative(equation, read, powers_from_output)
    if local.atoms(S.ComplexInfinity.func, S.NaN.func):
        raise DeriveError(
            f"the derivative by {read} is not finite", equation=equation.name,
            fix="choose with where(…) what stands in its place there",
        )  # fmt: skip
    if local.atoms(Derivative):
        raise DeriveError(
            f"SymPy knows no derivative by {read}", equation=equation.name,
            fix="use functions of it that have one, or pass its value as an input without gradient (constant[...])",
        )  # fmt: skip
    return local


def _at_its_place(local: Expr, read: At, summed: set[Axis], ranges: Ranges, inside: Inside) -> Expr:
    """A derivative that is 0 but at the place that an index names, with a delta: it is read there, or added there.

    That is a place where something is read by it, or all that is asked of it is which: another may lie outside. Of a
    sum, each term.
    """
    if isinstance(local, Add):
        return Add(*(_at_its_place(term, read, summed, ranges, inside) for term in local.args))
    out = []
    for factor in Mul.make_args(local):
        place, value = place_of(factor, ranges)
        if place is not None and _is_reached(place, local * read, summed):
            axis, index = place
            if index in read.index or (index.name, axis.base) in inside:
                factor = Delta(axis, index) * value
        out.append(factor)
    return Mul(*out)


def _is_reached(place: tuple[Axis, At], value: Expr, summed: set[Axis]) -> bool:
    """Whether a sum runs over the axis, or over those of the index: in windows, only what is read by the axis stays."""
    axis, index = place
    return not summed.isdisjoint({axis, *free_axes(index)}) and not in_a_window(axis, value)
