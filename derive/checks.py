"""What one equation must satisfy, and the errors that say what would be right."""

from __future__ import annotations

from difflib import get_close_matches

from sympy import Basic, Expr, S
from sympy.core.function import AppliedUndef, Function

from derive.errors import DeriveError
from derive.terms import PACK, At, Axis, Concat, free_axes, sorted_axes
from derive.windows import affine, is_window

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


def check_read(at: At, dims: tuple[Expr, ...] | None, known: list[str], ranges: dict[str, Axis], equation: str) -> None:
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
