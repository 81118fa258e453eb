"""The forward as data, checked: operands, equations, ops.

An equation is pointwise, or one reduction of a pointwise body times a scale without tensors
(`loss = -1/N * sum(...)`). A reduction nested inside something else is split off into an equation of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from sympy import Add, Basic, Expr, Min, Mul, Pow, S, floor
from sympy.core.function import AppliedUndef, Function

from derive.errors import DeriveError
from derive.terms import PACK, At, Axis, Concat, Merge, Prefix, Reduce, Size, Tensor, free_axes, sorted_axes
from derive.windows import affine, is_window


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

    @property
    def tensor(self) -> Tensor:
        """The operand's name with what is assumed of its values."""
        if self.kind == "index":
            return Tensor(self.name, integer=True, nonnegative=True)
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
class Equation:
    """`target[index] = scale * kind(body, over)`, or `target[index] = body` where `kind` is None."""

    target: Tensor
    index: tuple[Expr, ...]
    body: Expr
    kind: str | None = None
    over: tuple[Axis, ...] = ()
    scale: Expr = S.One
    given: bool = True  # written by the user, not split off by us

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
    def left(self) -> At:
        return At(self.target, *self.index)

    @property
    def right(self) -> Expr:
        return self.body if self.kind in (None, "concat") else self.scale * Reduce(self.kind, self.body, *self.over)

    @property
    def reads(self) -> list[At]:
        return sorted(self.body.atoms(At), key=lambda at: at.sort_key())

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"

    def _repr_latex_(self) -> str:
        from derive.live import equation_display  # for notebooks; the whole road stands above this module

        return equation_display(self)


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


@dataclass(frozen=True)
class Op:
    """A checked forward pass: operands in order, equations in order, the names of its outputs."""

    name: str
    doc: str
    operands: tuple[Operand, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[str, ...]
    sizes: tuple[SizeRule, ...]
    stepwise: bool = False  # also emit the uncollapsed backward, which returns every adjoint
    source: str = ""  # where the spec stands, for the header of generated files
    tensors: dict[str, tuple[Expr, ...]] = field(default_factory=dict, compare=False)

    def operand(self, name: str) -> Operand | None:
        return next((o for o in self.operands if o.name == name), None)

    def equation(self, name: str) -> Equation | None:
        return next((e for e in self.equations if e.name == name), None)

    @cached_property
    def derivation(self) -> Any:
        """The op's `Derivation`, made once."""
        from derive.pipeline import derive_op  # the whole road stands above this module

        return derive_op(self)

    def _repr_latex_(self) -> str:
        return str(self.derivation._repr_latex_())

    @property
    def differentiable(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.differentiable)

    def __str__(self) -> str:
        lines = [f"{self.name}({', '.join(map(str, self.operands))})"]
        lines += [f"  {e}" for e in self.equations]
        return "\n".join([*lines, f"  return {', '.join(self.outputs)}"])


# --- checks on one equation -------------------------------------------------------------------------------

_NOT_DIFFERENTIABLE = {"floor", "ceiling", "Mod", "frac", "gamma", "zeta"}


def check_functions(expr: Basic, equation: str) -> None:
    """Refuse functions without a derivative that a backward could use."""
    for call in expr.atoms(Function):
        name = type(call).__name__
        if isinstance(call, AppliedUndef) or name in _NOT_DIFFERENTIABLE:
            raise DeriveError(
                f"{name} has no derivative that a backward could use",
                equation=equation,
                fix="use differentiable functions, or pass its value as an input without gradient (constant[...])",
            )
    if expr.has(S.ComplexInfinity, S.NaN):
        raise DeriveError("divides by zero", equation=equation, fix="write an expression that is finite")


def check_no_concat(expr: Basic, equation: str) -> None:
    """Concatenation is an equation of its own."""
    if expr.atoms(Concat):
        raise DeriveError("concat stands inside an expression", equation=equation, fix="give it an equation of its own")


def check_axes(left_axes: tuple[Axis, ...], right: Expr, over: tuple[Axis, ...], equation: str) -> None:
    """Every axis on the right is on the left or reduced; none is both."""
    both = [a for a in over if a in left_axes]
    if both:
        raise DeriveError(
            f"axis {both[0].base} is reduced and also stands on the left",
            equation=equation,
            fix=f"drop {both[0].base} from one of the two, or reduce over an axis of another name",
        )
    stray = sorted_axes(free_axes(right) - set(left_axes) - set(over))
    if stray:
        name = stray[0].base
        raise DeriveError(
            f"axis {name} stands on the right only",
            equation=equation,
            fix=f"put {name} on the left, or say how it is reduced: sum(…, over={name})",
        )


def check_index(inner: At, dim: Expr, ranges: dict[str, Axis], equation: str) -> None:
    """What stands in an index is an integer input whose values run over that dimension."""
    if inner.name not in ranges:
        raise DeriveError(
            f"{inner} stands in an index but holds no integers",
            equation=equation,
            fix=f"declare {inner.name}: index(…)[…]",
        )
    if isinstance(dim, Axis) and ranges[inner.name] != dim:
        raise DeriveError(
            f"{inner.name} runs over axis {ranges[inner.name].base} but is read as an index of axis {dim.base}",
            equation=equation,
            fix=f"declare {inner.name}: index({dim.base})[…], or read the tensor's dimensions in their order",
        )


def check_read(
    at: At, dims: tuple[Expr, ...] | None, known: list[str], ranges: dict[str, Axis], equation: str
) -> None:
    """A read names a defined tensor and gives one index a dimension."""
    if dims is None:
        close = get_close_matches(at.name, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"define {at.name} in an equation before this one"
        raise DeriveError(f"reads {at.name}, which no equation defines", equation=equation, fix=hint)
    if len(at.index) != len(dims):
        axes = ", ".join(str(d) if not isinstance(d, Axis) else d.base for d in dims)
        raise DeriveError(
            f"{at.name} has axes [{axes}] but is read as {at}",
            equation=equation,
            fix=f"give {at.name} exactly {len(dims)} {'index' if len(dims) == 1 else 'indices'}",
        )
    for i, dim in zip(at.index, dims, strict=True):
        if (i == PACK) != (dim == PACK) and PACK in (i, dim):
            raise DeriveError(
                f"`...` of {at.name} is read as {at}", equation=equation, fix="write `...` where the tensor has `...`"
            )
        if is_window(i) and not affine(i).offset.is_integer:
            raise DeriveError(f"index {i} is no whole number", equation=equation, fix="index by axes and whole numbers")
        for inner in i.atoms(At):
            check_index(inner, dim, ranges, equation)


# --- splitting into one-operation equations ---------------------------------------------------------------


def scaled_reduction(rhs: Expr) -> tuple[Expr, Reduce] | None:
    """`rhs` as a tensor-free scale times one reduction, where it is one."""
    if isinstance(rhs, Reduce):
        return S.One, rhs
    if isinstance(rhs, Mul):
        reduces = [a for a in rhs.args if isinstance(a, Reduce)]
        rest = [a for a in rhs.args if not isinstance(a, Reduce)]
        if len(reduces) == 1 and reduces[0].kind in ("sum", "mean"):
            scale = Mul(*rest)
            if not scale.atoms(At, Reduce, Axis):
                return scale, reduces[0]
    return None


def _nested(expr: Basic) -> list[Reduce]:
    """Innermost reductions first, in a fixed order."""
    return sorted((r for r in expr.atoms(Reduce) if not r.body.atoms(Reduce)), key=lambda r: r.sort_key())


def split_name(target: str, reduce: Reduce, taken: set[str]) -> str:
    """A name for a split-off reduction: after what it reduces, else after the equation it comes from."""
    body = reduce.body
    stem = body.name if isinstance(body, At) else target
    name = base = f"{stem}_{reduce.kind.removeprefix('a')}"
    number = 2
    while name in taken:
        name, number = f"{base}{number}", number + 1
    return name


def order_axes(axes: set[Axis], like: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Axes in the order they stand on the left, the others after them by name."""
    ordered = [a for a in like if a in axes]
    return tuple(ordered + sorted_axes(axes - set(ordered)))


def split(target: Tensor, index: tuple[Expr, ...], rhs: Expr, taken: set[str]) -> list[Equation]:
    """The equations that `target[index] = rhs` stands for: nested reductions first, each under a name of its own."""
    left = tuple(a for i in index for a in (i.args if isinstance(i, Merge) else (i,)))
    out: list[Equation] = []
    taken = set(taken) | {target.name}
    plain = all(isinstance(i, Axis) for i in index)
    if isinstance(rhs, Concat):
        return [_concatenation(target, index, rhs, left)]
    while True:
        top = scaled_reduction(rhs) if plain else None
        inner = [r for r in _nested(rhs) if top is None or r != top[1]]
        if not inner:
            break
        reduce = inner[0]
        name = split_name(target.name, reduce, taken)
        taken.add(name)
        axes = order_axes(free_axes(reduce.body) - set(reduce.over), left)
        tensor = Tensor(name, **signs(reduce))
        out.append(Equation(tensor, axes, reduce.body, reduce.kind, reduce.over, given=False))
        rhs = rhs.xreplace({reduce: At(tensor, *axes)})
    top = scaled_reduction(rhs) if plain else None
    if top is not None:
        scale, reduce = top
        out.append(Equation(target, index, reduce.body, reduce.kind, reduce.over, scale))
    else:
        out.append(Equation(target, index, rhs))
    return out


def _concatenation(target: Tensor, index: tuple[Expr, ...], rhs: Concat, left: tuple[Axis, ...]) -> Equation:
    own = []
    for piece in rhs.pieces:
        axis = rhs.own_axis(piece, left)
        if axis is None or piece.atoms(Reduce, Concat) or rhs.along not in left:
            raise DeriveError(
                f"{piece} is no piece along {rhs.along.base}",
                equation=target.name,
                fix=f"give each piece one axis that does not stand on the left, in place of {rhs.along.base}",
            )
        own.append(axis)
    return Equation(target, index, rhs, "concat", tuple(own))


# --- what is known of signs -------------------------------------------------------------------------------


def signs(rhs: Expr) -> dict[str, bool | None]:
    """What the right-hand side proves of its sign: assumptions for the tensor it defines."""
    if is_positive(rhs):
        return {"positive": True}
    if rhs.is_nonnegative:
        return {"nonnegative": True}
    return {}


def is_positive(expr: Expr) -> bool:
    """Positive wherever the forward is real: SymPy's answer, and negative fractional powers of anything."""
    if expr.is_positive:
        return True
    if isinstance(expr, Pow) and expr.exp.is_Rational and not expr.exp.is_Integer and expr.exp.q % 2 == 0:
        return bool(expr.exp.is_negative)
    if isinstance(expr, Mul):
        return all(is_positive(a) for a in expr.args)
    if isinstance(expr, Add):
        return all(is_positive(a) for a in expr.args)
    if isinstance(expr, Reduce) and expr.kind != "prod":
        return is_positive(expr.body)
    return False


# --- sizes ------------------------------------------------------------------------------------------------


def size_rules(operands: tuple[Operand, ...], equations: tuple[Equation, ...], op: str) -> tuple[SizeRule, ...]:
    """One rule an axis: the first operand dimension that carries it, else as long as its reads and windows allow."""
    rules: dict[Axis, SizeRule] = {}
    dims: dict[str, tuple[Expr, ...]] = {}
    for operand in operands:
        if operand.kind == "length" and operand.ranges_over is not None:
            rules[operand.ranges_over] = SizeRule(operand.ranges_over, given=operand.name)
    for operand in operands:
        dims[operand.name] = operand.axes
        for position, axis in enumerate(operand.axes):
            rules.setdefault(axis, SizeRule(axis, operand.name, position))
    for equation in equations:
        dims[equation.name] = equation.index
    for _ in range(len(equations) + 1):
        for e in equations:
            lengths = [Size(a) for a in e.over]
            if isinstance(e.body, Concat) and e.body.along not in rules and all(s.axis in rules for s in lengths):
                rules[e.body.along] = SizeRule(e.body.along, formula=Add(*lengths))
        found: dict[Axis, list[Expr]] = {}
        for at in (at for equation in equations for at in equation.reads):
            for axis, formula in _sizes_of_read(at, dims[at.name], rules):
                if axis not in rules and not any(s.axis not in rules for s in formula.atoms(Size)):
                    found.setdefault(axis, []).append(formula)
        if not found:
            break
        rules |= {axis: SizeRule(axis, formula=_shortest(formulas)) for axis, formulas in found.items()}
    ranged = {o.ranges_over for o in operands if o.ranges_over is not None}
    for equation in equations:
        for axis in sorted_axes(set(equation.axes) | set(equation.over) | ranged):
            if axis not in rules:
                raise DeriveError(
                    f"no input carries axis {axis.base}, so its size is unknown",
                    op=op,
                    equation=str(equation.name),
                    fix=f"give an input the axis {axis.base}, or an argument {axis.base}_length: length({axis.base})",
                )
    return tuple(rules.values())


def _shortest(formulas: list[Expr]) -> Expr:
    """What all the windows over an axis allow; dimensions it merely reads agree, which the op checks as it runs."""
    plain = [f for f in formulas if isinstance(f, Size)]
    windows = [f for f in formulas if not isinstance(f, Size)]
    return Min(*windows, *plain[:1]) if windows else plain[0]


def read_prefixes(equation: Equation, dims: dict[str, tuple[Expr, ...]], sizes: tuple[SizeRule, ...]) -> Equation:
    """The equation with every plain read of a longer dimension marked as a read of its first places."""
    shorter = {r.axis: r.formula for r in sizes if r.formula is not None and not isinstance(r.formula, Size)}
    put: dict[Basic, Basic] = {}
    for at in equation.reads:
        index = [
            Prefix(i) if isinstance(i, Axis) and isinstance(d, Axis) and i in shorter and i != d else i
            for i, d in zip(at.index, dims[at.name], strict=True)
        ]
        if tuple(index) != at.index and all(
            shorter[p.args[0]] != Size(d) for p, d in zip(index, dims[at.name], strict=True) if isinstance(p, Prefix)
        ):
            put[at] = At(at.tensor, *index)
    return replace(equation, body=equation.body.xreplace(put)) if put else equation


def _sizes_of_read(at: At, dims: tuple[Expr, ...], rules: dict[Axis, SizeRule]) -> list[tuple[Axis, Expr]]:
    found: list[tuple[Axis, Expr]] = []
    for i, dim in zip(at.index, dims, strict=True):
        length = size_of(dim)
        if isinstance(i, Axis):
            if not isinstance(dim, Axis) or dim in rules:
                found.append((i, length))
        elif isinstance(i, Merge):
            unknown = [a for a in i.args if a not in rules]
            if len(unknown) == 1:
                found.append((unknown[0], length / Mul(*(Size(a) for a in i.args if a != unknown[0]))))
        elif not i.atoms(At):
            found += _window_size(i, length, rules)
    return found


def _window_size(i: Expr, length: Expr, rules: dict[Axis, SizeRule]) -> list[tuple[Axis, Expr]]:
    """The one unknown axis of `s*t + d*k + c` is as long as the window allows."""
    form = affine(i)
    unknown = [(a, c) for a, c in form.steps if a not in rules]
    if len(unknown) != 1:
        return []
    axis, step = unknown[0]
    reach = sum(((Size(a) - 1) * c for a, c in form.steps if a != axis), form.offset)
    span = length - 1 - reach
    return [(axis, (span if step == 1 else floor(span / step)) + 1)]


def size_of(index: Expr) -> Expr:
    """The length of what an index runs over."""
    if isinstance(index, Merge):
        return Mul(*(Size(a) for a in index.args))
    return Size(index)
