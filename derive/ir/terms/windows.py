"""Axis arithmetic in an index: `s*t + d*k + c`, a window with stride `s` and dilation `d`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from sympy import Expr, Max, Min, Mod, Poly, S, default_sort_key, expand, floor, fraction
from sympy.polys.polyerrors import PolynomialError
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from derive.errors import DeriveError
from derive.ir.terms.axes import Axis, Size, free_axes, sorted_axes
from derive.ir.terms.elements import At
from derive.ir.terms.indices import Merge, Part, Prefix, Slot


@dataclass(frozen=True)
class Affine:
    """`offset + sum(step * axis)`: whole steps; the offset may hold sizes."""

    steps: tuple[tuple[Axis, int], ...]
    offset: Expr

    def __str__(self) -> str:
        """What is added first: `t - s`."""
        terms = [f"{step}*{axis.base}" for axis, step in sorted(self.steps, key=lambda s: -s[1])]
        terms += [str(self.offset)] if self.offset != 0 else []
        return " + ".join(terms).replace("+ -", "- ").replace("- 1*", "- ").removeprefix("1*").replace(" 1*", " ")


class _Written(StrPrinter):
    """Axis arithmetic as a spec has it: `(t + 1) % size(t)`, `t // 2`."""

    def _print_Mod(self, expr: Mod) -> str:
        return self._of_two(" % ", *expr.args)

    def _print_floor(self, expr: floor) -> str:
        return self._of_two(" // ", *fraction(expr.args[0]))

    def _print_Max(self, expr: Max) -> str:
        return self._of_several("maximum", expr)

    def _print_Min(self, expr: Min) -> str:
        return self._of_several("minimum", expr)

    def parenthesize(self, item: Expr, level: int, strict: bool = False) -> str:
        """`2*(t // 2)` is not `2*t // 2`."""
        if isinstance(item, Mod | floor) and level >= PRECEDENCE["Mul"]:
            return f"({self.doprint(item)})"
        return str(super().parenthesize(item, level, strict))

    def _of_several(self, word: str, expr: Max | Min) -> str:
        first, *others = sorted(expr.args, key=default_sort_key)
        return reduce(lambda a, b: f"{word}({a}, {self.doprint(b)})", others, self.doprint(first))

    def _of_two(self, operator: str, *of: Expr) -> str:
        return operator.join(self.parenthesize(part, PRECEDENCE["Mul"], strict=False) for part in of)


def as_written(arithmetic: Expr) -> str:
    """Arithmetic of axes and lengths in the words of a spec."""
    return str(_Written().doprint(arithmetic))


_WHOLE = "write whole multiples of axes, such as 2*t + k, or read an index(...)"
_REPEATED = 'repeat each place by a merge on the left: f.y[…, (h, p)] = x[…, h], with p = axes("p=2") for twice'
_TURNED = (
    "on a circle go by whole numbers and axes of fixed length, (t + k - 1) % size(t), join the places in their new "
    "order: f.z[…, k] = concat(…, along=k), or read an index(...)"
)


def affine(index: Expr) -> Affine:
    """Read axis arithmetic as whole steps over axes and an offset. Raises DeriveError where it is neither."""
    index = index.replace(Prefix, lambda axis: axis)
    axes = sorted_axes(free_axes(index))
    wrong = DeriveError(
        f"index {as_written(index)} is not axis arithmetic",
        fix=_REPEATED if any(free_axes(f) for f in index.atoms(floor)) else _TURNED if index.has(Mod) else _WHOLE,
    )
    if not axes:
        return Affine((), index)
    try:
        poly = Poly(expand(index), *axes)
    except PolynomialError:
        raise wrong from None
    if poly.total_degree() > 1:
        raise wrong
    steps = []
    for axis in axes:
        step = poly.coeff_monomial(axis)
        if not step.is_Integer:
            raise wrong
        steps.append((axis, int(step)))
    return Affine(tuple(steps), poly.coeff_monomial(1))


def strided(merge: Merge) -> Expr:
    """A merge with one place of some of its axes as axis arithmetic, where the lengths are numbers: `(u, 1)` of two."""
    lengths = [a.length if isinstance(a, Slot) else Size(a) for a in merge.args[1:] if isinstance(a, Slot | Axis)]
    fixed = [a for a in merge.args if isinstance(a, Slot) and not free_axes(a) and not a.atoms(At)]
    plain = all(isinstance(a, Axis) or a in fixed for a in merge.args)
    if not fixed or not plain or not all(n.is_Integer for n in lengths):
        return merge
    out: Expr = S.Zero
    for a, length in zip(merge.args, (S.One, *lengths), strict=True):
        out = out * length + (a.index if isinstance(a, Slot) else a)
    return out


def longest(form: Affine, axis: Axis, length: Expr) -> Expr:
    """How long an axis of a window may be over a dimension of this length."""
    step = dict(form.steps)[axis]
    ahead = [(a, c) for a, c in form.steps if a != axis and (c > 0) == (step > 0)]  # what runs the same way
    reach = sum(((Size(a) - 1) * c for a, c in ahead), form.offset)
    span = length - 1 - reach if step > 0 else reach
    return (span if abs(step) == 1 else floor(span / abs(step))) + 1


def is_window(index: Expr) -> bool:
    """Whether an index is axis arithmetic: neither a plain axis, nor a merge, nor a gather."""
    return not isinstance(index, Axis | Merge | Part | At) and not index.atoms(At, Merge, Part)


def is_gather(index: Expr) -> bool:
    """Whether an index is read from an integer tensor."""
    return bool(index.atoms(At))
