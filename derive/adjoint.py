"""The chain rule over equations: one adjoint equation for every forward equation, last to first.

The local derivative is SymPy's `diff` of a scalar expression. The rest is index bookkeeping, and these few rules
are all of it: an axis that an operand lacks is summed (the forward broadcast it); an axis that a reduction summed is
broadcast back; a gather becomes a scatter-add and a window shifts back (both a delta between the operand's index and
where it was read); a diagonal scatters onto the diagonal; merged axes are taken apart, and parts merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sympy import Add, Derivative, Expr, Function, Integer, Mul, Pow, S, cos, cosh, sin, sinh, tan, tanh

from derive.algebra import sigma
from derive.asked import Alike
from derive.equations import Equation, Op
from derive.errors import DeriveError
from derive.terms.axes import Axis, Size, free_axes, sorted_axes
from derive.terms.choices import Concat, Where
from derive.terms.elements import At, Delta, Tensor, tensor_names
from derive.terms.indices import Merge, Part, Prefix

_SUMMED = 900  # copies that stand for an equation's own axes while they are being summed


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
        for contribution, of in contributions(equation, elements[name], axes, needed, powers_from_output):
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
        out.append(free[0] if free else Axis("_".join(a.base for a in i.args)))
    return tuple(out)


def _adjoint_names(op: Op) -> dict[str, str]:
    taken = {o.name for o in op.operands} | {e.name for e in op.equations}
    names: dict[str, str] = {}
    for name in [o.name for o in op.operands] + [e.name for e in op.equations]:
        new = f"d{name}"
        while new in taken:
            new = f"grad_{name}" if not new.startswith("grad_") else f"{new}_"
        taken.add(new)
        names[name] = new
    return names


def _needed(op: Op) -> set[str]:
    """The tensors that some differentiable input flows through."""
    needed = {o.name for o in op.differentiable}
    for equation in op.equations:
        if any(at.name in needed for at in equation.reads):
            needed.add(equation.name)
    return needed


def contributions(
    equation: Equation,
    adjoint: Tensor,
    axes: dict[str, tuple[Axis, ...]],
    needed: set[str],
    powers_from_output: bool = True,
) -> list[tuple[Contribution, str]]:
    """What this equation adds to the adjoint of each tensor that it reads."""
    out = []
    for piece, upstream in pieces(equation, adjoint):
        out += _contributions(piece, upstream, axes, needed, powers_from_output)
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
    equation: Equation, upstream: At, axes: dict[str, tuple[Axis, ...]], needed: set[str], powers_from_output: bool
) -> list[tuple[Contribution, str]]:
    out = []
    for read in equation.reads:
        if read.name not in needed or read.tensor.is_integer:
            continue
        local = local_derivative(equation, read, powers_from_output)
        if local == 0:
            continue
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
        value, rules = pull_back(equation, read, upstream * local, axes[read.name])
        out.append((Contribution(equation.name, read, local, value, rules), read.name))
    return out


# --- the local derivative: scalar calculus ----------------------------------------------------------------


def local_derivative(equation: Equation, read: At, powers_from_output: bool = True) -> Expr:
    """d target / d read, a scalar expression over the equation's own axes."""
    inner = _as_tangents(equation.body.diff(read))
    if equation.kind is None:
        return from_output(equation, inner, powers_from_output)
    if equation.kind == "sum":
        return equation.scale * inner
    if equation.kind == "mean":
        return equation.scale * inner / Mul(*(Size(a) for a in equation.over))
    if equation.kind in ("amax", "amin"):
        tie = Where(Alike(equation.body, equation.left), S.One, S.Zero)
        return inner * tie / sigma(tie, equation.over)
    raise DeriveError(
        f"{equation.kind} has no derivative rule", equation=equation.name, fix="write it with sum or mean"
    )


def _as_tangents(value: Expr) -> Expr:
    """`sinh(u) / cosh(u)` as `tanh(u)`, finite where both of them overflow, and `sin(u) / cos(u)` as `tan(u)`."""
    for above, below, quotient in ((sinh, cosh, tanh), (sin, cos, tan)):
        for f in sorted(value.atoms(above), key=lambda f: f.sort_key()):
            (u,) = f.args
            if value.has(1 / below(u)):
                value = value.subs(f / below(u), quotient(u))
    return value


def from_output(equation: Equation, local: Expr, powers: bool = True) -> Expr:
    """The local derivative in terms of the equation's own output, where that is simply what the derivative holds.

    `tanh(x)` is the output `y`, so `1 - tanh(x)**2` is `1 - y**2`. The same for `a*F(x)` with a number `a`, and for
    powers: where `y = (v + eps)**(-1/2)`, `(v + eps)**(-3/2)` is `y**3`. Not for `a*F(x) + b`: a small `F(x)` is lost
    in a large `b`.
    """
    factor, core = equation.body.as_independent(*equation.body.atoms(At), as_Add=False)
    if not isinstance(core, Function | Pow) or factor.atoms(Axis) or isinstance(core, Where):
        return local
    value = equation.left / factor
    if hasattr(core, "slope_at_value"):
        slope = core.fdiff()
        put = {} if slope.is_number else {slope: core.slope_at_value(value)}  # a 1 may be a place
        return local.xreplace({**put, core: value})
    if isinstance(core, Pow) and not core.is_Function:
        return _power_from_output(core, value, local) if powers else local
    return local.xreplace({core: value})


def _power_from_output(core: Pow, value: Expr, local: Expr) -> Expr:
    base, exponent = core.as_base_exp()
    if not exponent.is_Rational or (exponent.is_Integer and exponent.is_positive):
        return local

    def same_base(e: Expr) -> bool:
        return isinstance(e, Pow) and e.base == base and (e.exp / exponent).is_Integer

    local = local.replace(same_base, lambda e: value ** (e.exp / exponent))
    constant, inner = base.as_independent(*base.atoms(At), as_Add=True)
    if isinstance(inner, Function) and local.has(inner) and (1 / exponent).is_Integer:
        local = local.xreplace({inner: value ** (1 / exponent) - constant})
    return local


# --- index bookkeeping ------------------------------------------------------------------------------------


def pull_back(equation: Equation, read: At, value: Expr, axes: tuple[Axis, ...]) -> tuple[Expr, tuple[str, ...]]:
    """Carry `value`, which stands over the equation's axes, to the axes of the tensor that was read."""
    rename: dict[Expr, Expr] = {}
    deltas: list[tuple[Axis, Expr]] = []
    rules: list[str] = []
    for slot, (axis, i) in enumerate(zip(axes, read.index, strict=True)):
        if isinstance(i, Axis) and i not in rename:
            rename[i] = axis
        elif isinstance(i, Merge) and not any(a in rename for a in i.args):
            lengths = [Size(a) for a in i.args]
            rename |= {a: Part(axis, k, *lengths) for k, a in enumerate(i.args)}
            rules.append("merged axes are taken apart")
        elif isinstance(i, Part) and isinstance(i.whole, Axis):
            whole = _whole(i, read.index, axes, slot)
            if whole is not None:
                rename[i.whole] = whole
                rules.append("parts are merged again")
            elif i.whole not in rename:
                deltas.append((axis, i))
        else:
            deltas.append((axis, i))
            rules.append(_delta_rule(i))
    own = sorted_axes((set(equation.axes) | set(equation.over) | free_axes(value)) - set(rename))
    fresh = {a: a.copied(_SUMMED + k) for k, a in enumerate(own)}
    rename |= fresh
    spread = Mul(*(Delta(axis, i.xreplace(rename)) for axis, i in deltas))
    if own:
        rules.append(f"summed over {', '.join(a.base for a in own)}, which {read.name} lacks")
    kept = [a.base for a in equation.over if a not in own]
    if kept:
        rules.append(f"broadcast back over {', '.join(kept)}")
    return sigma(value.xreplace(rename) * spread, fresh.values()), tuple(rules)


def _whole(part: Part, index: tuple[Expr, ...], axes: tuple[Axis, ...], slot: int) -> Expr | None:
    """The merge that undoes a full run of parts starting here."""
    count = len(part.lengths)
    run = index[slot : slot + count]
    if part.position == 0 and run == tuple(Part(part.whole, k, *part.lengths) for k in range(count)):
        return Merge(*axes[slot : slot + count])
    return None


def _delta_rule(i: Expr) -> str:
    if i.atoms(At):
        return "a gather becomes a scatter-add"
    if isinstance(i, Axis):
        return "a diagonal scatters onto the diagonal"
    return "one position is scattered to" if isinstance(i, Integer) else "a window shifts back"
