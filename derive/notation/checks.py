"""What one equation must satisfy, and the errors that say what would be right."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from sympy import Add, Basic, Expr, Integer, Mul, Number, NumberSymbol, Pow, S, Symbol
from sympy.core.function import AppliedUndef, Function
from sympy.core.numbers import ImaginaryUnit
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

from derive.errors import DeriveError
from derive.facts.lengths.sizes import size_of
from derive.ir.equations import Operand
from derive.ir.terms.axes import PACK, Axis, Size, free_axes, sorted_axes
from derive.ir.terms.choices import Concat, Where
from derive.ir.terms.elements import At, Delta, Scalar
from derive.ir.terms.functions import CLASSES
from derive.ir.terms.indices import Merge, Prefix
from derive.ir.terms.reductions import Reduce, TakenFirst
from derive.ir.terms.windows import affine, is_window
from derive.notation.constants import check_constant
from derive.notation.recurrences import unstarted
from derive.notation.values import expression
from derive.primitives import meaning, row

OF_AXES = frozenset({"floor", "Mod"})
"""Functions without a derivative, which axes and numbers may stand in, but no element."""

FUNCTIONS = frozenset(CLASSES) - OF_AXES
"""What an expression may call."""

_INSTEAD = {
    "cot": "write 1 / tan(x)", "csc": "write 1 / sin(x)", "sec": "write 1 / cos(x)", "coth": "write 1 / tanh(x)",
    "csch": "write 1 / sinh(x)", "sech": "write 1 / cosh(x)",
    "sinc": "write sinc(x / pi) with the `sinc` of derive, which is sin(pi*x) / (pi*x)",
}  # fmt: skip

_STEPS = {"floor", "Mod", "ceiling", "frac", "round"}


def check_functions(expr: Basic, equation: str) -> None:
    """Refuse what is no part of the notation, and functions without a derivative that a backward could use."""
    if expr.has(S.ComplexInfinity, S.NaN):
        raise DeriveError("divides by zero, or holds nan", equation=equation, fix="write an expression that is finite")
    if any(value in (S.Infinity, S.NegativeInfinity) for value in (expr, *(r.body for r in expr.atoms(Reduce)))):
        cause = "is infinite at every place: what is calculated with oo is oo"
        fix = "write an expression that is finite: oo stands alone, such as in where(c, x[n], -oo)"
        raise DeriveError(cause, equation=equation, fix=fix)
    for node in _parts(expr):
        asked = next((v for v in _values(node) if isinstance(v, Boolean) and not isinstance(v, Symbol)), None)
        if asked is not None:
            raise DeriveError(
                f"calculates with a condition, {asked}", equation=equation, fix="write where(condition, 1, 0)"
            )
        if isinstance(node, Function) and not isinstance(node, AppliedUndef):
            _check_function(node, equation)
        elif isinstance(node, AppliedUndef) or (isinstance(node, Symbol) and not isinstance(node, Axis | Scalar)):
            raise DeriveError(
                f"{node} is no axis, input or equation of this op", equation=equation,
                fix='declare an axis with axes("…"), or a number as an input: scalar',
            )  # fmt: skip
        elif not isinstance(node, (*_KNOWN, ImaginaryUnit)):
            raise DeriveError(
                f"{type(node).__name__} is no part of the notation", equation=equation,
                fix="use the words of derive: sum, where, delta and the functions",
            )  # fmt: skip
        check_constant(node, equation)


def _check_function(call: Function, equation: str) -> None:
    name = type(call).__name__
    if name == "power" and call.args[0].is_number and call.args[0].is_negative:
        raise DeriveError(
            f"{call.args[0]} ** … is real of whole exponents alone", equation=equation,
            fix="write where(eq(d % 2, 0), 1, -1) for a sign that changes with the place",
        )  # fmt: skip
    is_known = name in FUNCTIONS or (name in OF_AXES and not call.atoms(At))
    if is_known and (isinstance(call, CLASSES[name]) or call == meaning(row(name))(*call.args)):  # not a namesake
        return
    if name in _STEPS or not hasattr(type(call), "fdiff"):
        raise DeriveError(
            f"{name} has no derivative that a backward could use",
            equation=equation,
            fix="use differentiable functions, or pass its value as an input without gradient (constant[...])",
        )
    raise DeriveError(
        f"{name} is no function of the notation", equation=equation,
        fix=_INSTEAD.get(name, "use exp, log, powers, sin, tanh, erf and the like"),
    )  # fmt: skip


_KNOWN = (
    Add, Mul, Pow, Number, NumberSymbol, Relational, Boolean, At, Axis, Scalar, Size, Where, Delta, Reduce, TakenFirst,
    Concat, Merge, Prefix,
)  # fmt: skip


def _parts(expr: Basic) -> Iterator[Basic]:
    """The expression and all below it, but for the names inside elements, sizes and reductions."""
    yield expr
    below: tuple[Basic, ...] = expr.args
    if isinstance(expr, At):
        below = expr.index
    elif isinstance(expr, Size):
        below = ()
    elif isinstance(expr, Reduce):
        below = (expr.body,)
    for part in below:
        yield from _parts(part)


def _values(node: Basic) -> tuple[Basic, ...]:
    """What a part of an expression calculates with."""
    if isinstance(node, Where):
        return node.args[1:]
    if isinstance(node, Reduce):
        return (node.body,)
    return node.args if isinstance(node, Function | Add | Mul | Pow | Relational | Concat | TakenFirst) else ()


def from_the_end(at: At, index: Expr, dim: Expr) -> Expr:
    """A whole number below 0 as the place that it counts to from the end of a dimension; any other index as it is."""
    if not index.is_Integer or index >= 0 or dim == PACK:
        return index
    length = size_of(dim)
    if length.is_Integer and length + index < 0:
        where = f"axis {dim.base}, whose length is {length}" if isinstance(dim, Axis) else str(dim)
        fix = "the first place is 0, and -1 the last"
        raise DeriveError(f"{at} reads before the first place of {where}", fix=fix)
    return length + index


def check_derivative(y: Any, x: Any) -> None:
    """A derivative is of one element by one element, both of real tensors."""
    for value, role, named in ((y, "of", _NAMED_OF), (x, "by", _NAMED_BY)):
        value = expression(value)  # a tensor without its axes says so itself
        cause = f"the derivative {role} {value} is"
        if isinstance(value, Scalar):
            fix = f"declare {value} as a tensor of one number, {value}: constant[()], and write {value}[()]"
            raise DeriveError(f"{cause} {role} a number of the caller's", fix=fix)
        if not isinstance(value, At):
            raise DeriveError(f"{cause} not {role} one element of a tensor", fix=named.format(value=value))
        if value.tensor.is_integer:
            raise DeriveError(f"{cause} {role} integers", fix=_REAL[role])


_NAMED_OF = "give it an equation, f.u[…] = {value}, and write f.u[…] in its place"
_NAMED_BY = "give it an equation before what reads it, f.v[…] = {value}, and write f.v[…] here and there"
_REAL = {
    "of": "differentiate a real tensor, such as f.u[n]",
    "by": "differentiate by a real tensor: an input of tensor[…] or constant[…], or an equation",
}


def check_inputs(operands: tuple[Operand, ...]) -> None:
    """An op has an input that its outputs can be differentiated by."""
    if not any(o.differentiable for o in operands):
        raise DeriveError("no input has a gradient", fix="declare an input as tensor[…]")


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
            fix=f"put {name} on the left, or say how it is reduced: sum(…, over={name}); its length is size({name})",
        )


def check_index(
    inner: At, dim: Expr, ranges: dict[str, Axis], equation: str, read: At, dims: tuple[Expr, ...], made: bool
) -> None:
    """What stands in an index is an integer input whose values run over that dimension.

    `read` is what is read, of these dimensions, and `made` says whether an equation of the spec has made it and could
    name its axes otherwise.
    """
    if inner.name not in ranges:
        declared = f"{inner.name}: index({dim})[{', '.join(map(str, inner.index)) or '()'}]"
        raise DeriveError(
            f"{inner} stands in an index but holds no integers",
            equation=equation,
            fix=f"declare {declared}; for a value between two places, pass both places so, and its weight as a tensor",
        )
    if isinstance(dim, Axis) and ranges[inner.name] != dim:
        own = ranges[inner.name].base
        fix = f"declare {inner.name}: index({dim.base})[…], or read the tensor's dimensions in their order"
        along = [str(d) for i, d in zip(read.index, dims, strict=True) if isinstance(i, At) and i.name == inner.name]
        if made:
            axes = ", ".join(own if i == inner else str(i) for i in read.index)
            fix = f"give that axis one name: write f.{read.name}[{axes}] = …, or {fix.partition(', or')[0]}"
        elif own in along:  # places of one axis, in two dimensions
            axes = ", ".join(own if str(d) in along else str(d) for d in dims)
            fix = f"declare {read.name}: tensor[{axes}], whose dimensions have the same places"
        raise DeriveError(
            f"{inner.name} runs over axis {own} but is read as an index of axis {dim.base}", equation=equation, fix=fix
        )


def check_read(
    at: At,
    dims: tuple[Expr, ...] | None,
    known: list[str],
    ranges: dict[str, Axis],
    equation: str,
    declared: tuple[Expr, ...] = (),
) -> None:
    """A read names a defined tensor and gives one index a dimension; `declared` are an input's axes as written."""
    if dims is None:
        raise _not_defined(at, known, equation)
    if PACK in at.index and PACK not in dims:
        raise DeriveError(
            f"{at.name} has axes [{', '.join(map(str, dims))}] and no `...`, but is read as {at}", equation=equation,
            fix=f"read {at.name}[{', '.join(map(str, dims)) or '()'}], or declare it with `...`",
        )  # fmt: skip
    if len(at.index) != len(dims):
        raise _not_as_many(at, dims, equation)
    for i, dim, named in zip(at.index, dims, declared or dims, strict=True):
        _check_place(i, dim, at, equation)
        if isinstance(i, At):  # of `hashes[ids[n, t]]` it is `hashes` that says what its values run over
            check_index(i, named, ranges, equation, at, declared or dims, made=not declared)


def _not_defined(at: At, known: list[str], equation: str) -> DeriveError:
    if (error := unstarted(at, equation)) is not None:
        return error
    if at.name == equation:
        return DeriveError(
            f"{at.name} is read by its own equation",
            equation=equation,
            fix="give each step a name of its own, or carry it along an axis: read f.h[…, t - 1], and write its start, "
            "f.h[…, -1] = …, first",
        )
    close = get_close_matches(at.name, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"define {at.name} in an equation before this one"
    return DeriveError(f"reads {at.name}, which no equation defines", equation=equation, fix=hint)


def _not_as_many(at: At, dims: tuple[Expr, ...], equation: str) -> DeriveError:
    """What to say of a read with more or fewer indices than dimensions."""
    axes = ", ".join(str(d) if not isinstance(d, Axis) else d.base for d in dims)
    fix = f"give {at.name} exactly {len(dims)} {'index' if len(dims) == 1 else 'indices'}"
    if not dims:
        fix = f"it has none: read it as {at.name}[()]"
    if len(at.index) > len(dims) and PACK in dims and PACK in at.index:
        axes_read = ", ".join(map(str, at.index))
        fix = f"`...` is no axis that can be named apart: declare {at.name} with the axes [{axes_read}]"
    elif len(at.index) > len(dims) > 0 and all(isinstance(i, Axis) for i in at.index):
        merged = Merge(*at.index[len(dims) - 1 :])
        example = ", ".join([*map(str, at.index[: len(dims) - 1]), f"{merged}{',' if len(dims) == 1 else ''}"])
        fix += f"; axes merged into one stand in brackets of their own: {at.name}[{example}]"
    return DeriveError(f"{at.name} has axes [{axes}] but is read as {at}", equation=equation, fix=fix)


def _instead_of_moved(i: Expr, dim: Expr, at: At) -> str:
    """What to write for a place beside one that is read: the tensor moved by as much, read at the latter."""
    by, place = i.as_coeff_Add()
    fix = "pass the places themselves as an input, index(…)[…]"
    if not (isinstance(place, At) and isinstance(by, Integer) and isinstance(dim, Axis)):
        return fix
    inside = f"{dim} + {by} < size({dim})" if by > 0 else f"{dim} >= {-by}"
    moved = f"f.moved[…, {dim}] = where({inside}, {at.name}[…, {dim + by}], 0)"
    return f"{fix}, or move what is read: {moved}, then f.moved[…, {place}]"


def _check_place(i: Expr, dim: Expr, at: At, equation: str) -> None:
    """An index is `...` where the dimension is, a whole number, and no arithmetic on what is read."""
    if (i == PACK) != (dim == PACK) and PACK in (i, dim):
        raise DeriveError(
            f"`...` of {at.name} is read as {at}", equation=equation, fix="write `...` where the tensor has `...`"
        )
    if not isinstance(i, At) and i.atoms(At):
        raise DeriveError(
            f"index {i} of {at.name} calculates with what is read", equation=equation, fix=_instead_of_moved(i, dim, at)
        )  # fmt: skip
    if isinstance(i, Scalar):
        raise DeriveError(
            f"{i} is a number of the caller's and stands in an index", equation=equation,
            fix=f"declare it as a place, {i}: index({dim})[()], and read it as {i}[()]",
        )  # fmt: skip
    if is_window(i) and not affine(i).offset.is_integer:
        raise DeriveError(f"index {i} is no whole number", equation=equation, fix="index by axes and whole numbers")
