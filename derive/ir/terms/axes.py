"""Axes, free and bound, and their lengths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from sympy import Basic, Expr, Integer, S, Symbol, sympify

PACK_NAME = "..."


class Axis(Symbol):
    """A named index, 0 <= axis < size(axis). Copies of one axis (bound ones) share its size.

    `fixed` is its length where the spec gives it as a number; two axes of one name and other lengths are not equal.
    """

    base: str
    copy_number: int
    fixed: int | None

    def __new__(cls, base: str, copy_number: int = 0, fixed: int | None = None) -> Axis:
        name = base + "'" * copy_number if copy_number < 4 else f"{base}'{copy_number}"
        obj = Symbol.__xnew__(cls, name, integer=True, nonnegative=True)
        obj.base = base
        obj.copy_number = copy_number
        obj.fixed = fixed
        return obj

    def _hashable_content(self) -> tuple[Any, ...]:
        return (*super()._hashable_content(), self.fixed or 0)

    def copied(self, number: int) -> Axis:
        return Axis(self.base, number, self.fixed)

    def renamed(self, base: str) -> Axis:
        """An axis of another name and the same length."""
        return Axis(base, 0, self.fixed)

    @property
    def is_pack(self) -> bool:
        return self.base == PACK_NAME

    def __getnewargs_ex__(self) -> Any:
        return ((self.base, self.copy_number, self.fixed), {})

    def _latex(self, printer: Any) -> str:
        base = r"\ldots" if self.is_pack else self.base if len(self.base) == 1 else rf"\mathrm{{{_escaped(self.base)}}}"
        return base + "'" * self.copy_number


def _escaped(name: str) -> str:
    """A name for TeX, where a bare underscore begins an index."""
    return name.replace("_", r"\_")


PACK = Axis(PACK_NAME)
"""`...`: any number of leading axes, treated everywhere as one axis."""


class Size(Expr):
    """The length of an axis, a number where it is fixed.

    Copies of an axis have one size, and renaming an axis never renames a size.
    """

    is_commutative = True
    is_integer = True
    is_positive = True

    def __new__(cls, axis: Any) -> Expr:
        if isinstance(axis, Axis) and axis.fixed is not None:
            return Integer(axis.fixed)
        name = Symbol(axis.base) if isinstance(axis, Axis) else axis
        return Expr.__new__(cls, name)

    @property
    def axis(self) -> Axis:
        return Axis(self.args[0].name)

    def _sympystr(self, printer: Any) -> str:
        return f"size({self.args[0].name})"

    def _latex(self, printer: Any) -> str:
        name = self.args[0].name
        return r"|{\ldots}|" if name == PACK_NAME else rf"N_{{{_escaped(name)}}}"

    def _eval_derivative(self, s: Any) -> Expr:
        return S.Zero


class Rest(Expr):
    """What is left of a length: `size(t) - 1` places, and none where that is less, of an axis that has no place."""

    is_commutative = True
    is_integer = True
    is_nonnegative = True

    def __new__(cls, length: Any) -> Expr:
        length = sympify(length)
        return max(length, S.Zero) if isinstance(length, Integer) else Expr.__new__(cls, length)

    def _sympystr(self, printer: Any) -> str:
        return f"maximum(0, {printer.doprint(self.args[0])})"


@lru_cache(maxsize=200_000)
def free_axes(expr: Basic) -> frozenset[Axis]:
    """The axes an expression depends on: those of its indices and conditions, less the bound ones."""
    return frozenset(s for s in expr.free_symbols if isinstance(s, Axis))


def sorted_axes(axes: Iterable[Axis]) -> list[Axis]:
    """Axes in a fixed order: the pack first, then by name."""
    return sorted(axes, key=lambda a: (not a.is_pack, a.base, a.copy_number))


A = TypeVar("A")


def in_all_orders(best: Sequence[A], orders: Iterable[Sequence[A]]) -> tuple[A, ...] | None:
    """The axes of several tensors in an order in which none of them is transposed.

    It is the best one's, an axis that this lacks stands as late as it may: `n k d` for `x[n, d]` beside `b[k, d]`.
    None where two of them contradict each other.
    """
    orders, out = list(orders), list(best)
    for order in orders:
        for k, a in enumerate(order):
            if a not in out:
                out.insert(min((out.index(b) for b in order[k + 1 :] if b in out), default=len(out)), a)
    return tuple(out) if all(list(order) == [a for a in out if a in order] for order in orders) else None
