"""What an index may be beside an axis: several axes as one, one of those again, the first places of a dimension."""

from __future__ import annotations

from typing import Any

from sympy import Basic, Expr, Integer, S, expand

from derive.ir.terms.axes import Axis, Size


class Merge(Expr):
    """Several axes read as one, first axis slowest: `(t, e)` is `t * size(e) + e`."""

    is_commutative = True
    is_integer = True
    is_nonnegative = True

    def __new__(cls, *axes: Any) -> Expr:
        first = axes[0]
        if len(axes) == 1:
            return first
        parts = isinstance(first, Part) and len(first.lengths) == len(axes)
        if parts and axes == tuple(Part(first.whole, k, *first.lengths) for k in range(len(axes))):
            return first.whole
        return Expr.__new__(cls, *axes)

    def _xreplace(self, rule: Any) -> tuple[Basic, bool]:
        """An index that is put for one of the axes keeps that axis's length beside it."""
        if self in rule:
            return rule[self], True
        new = [a._xreplace(rule) for a in self.args]
        if not any(changed for _, changed in new):
            return self, False
        pairs = zip(self.args, (n for n, _ in new), strict=True)
        return Merge(*(Slot(b, Size(a)) if isinstance(a, Axis) else b for a, b in pairs)), True

    def _sympystr(self, printer: Any) -> str:
        return "(" + ", ".join(printer.doprint(a) for a in self.args) + ")"

    def _latex(self, printer: Any) -> str:
        return "(" + r"\,".join(printer.doprint(a) for a in self.args) + ")"


def blocks(index: Expr) -> Expr:
    """`t * size(e) + e` as the merge `(t, e)` that it is; any other index as it stands."""
    rest, axes = expand(index), list[Axis]()
    if not rest.atoms(Size):
        return index
    stride: Expr = S.One
    while rest != 0:
        found = [a for a in rest.atoms(Axis) - set(axes) if not (rest - a * stride).expand().has(a) and not a.is_pack]
        if len(found) != 1:
            return index
        axes.insert(0, found[0])
        rest, stride = expand(rest - found[0] * stride), stride * Size(found[0])
    return Merge(*axes)


class Slot(Expr):
    """An index inside a merge that is no axis of its own: it stands for an axis of the given length."""

    is_commutative = True
    is_integer = True
    is_nonnegative = True

    def __new__(cls, index: Any, length: Any) -> Expr:
        return index if isinstance(index, Axis | Part | Merge | Slot) else Expr.__new__(cls, index, length)

    @property
    def index(self) -> Expr:
        return self.args[0]

    @property
    def length(self) -> Expr:
        return self.args[1]

    def _sympystr(self, printer: Any) -> str:
        return str(printer.doprint(self.index))

    def _latex(self, printer: Any) -> str:
        return str(printer.doprint(self.index))


class Part(Expr):
    """One axis back out of a merged one: `Part(m, k, *lengths)` is the k-th of the indices that `m` merges."""

    is_commutative = True
    is_integer = True
    is_nonnegative = True

    def __new__(cls, whole: Any, position: Any, *lengths: Any) -> Expr:
        if isinstance(whole, Merge) and len(whole.args) == len(lengths):
            own = whole.args[int(position)]
            return own.index if isinstance(own, Slot) else own
        return Expr.__new__(cls, whole, Integer(position), *lengths)

    @property
    def whole(self) -> Expr:
        return self.args[0]

    @property
    def position(self) -> int:
        return int(self.args[1])

    @property
    def lengths(self) -> tuple[Expr, ...]:
        return self.args[2:]

    def _sympystr(self, printer: Any) -> str:
        return f"part({printer.doprint(self.whole)}, {self.position})"

    def _latex(self, printer: Any) -> str:
        return rf"{{{printer.doprint(self.whole)}}}_{{({self.position + 1})}}"


class Prefix(Expr):
    """An axis that reads only the first places of a longer dimension: `x[t]` beside `x[t + 1]`.

    What else is put in its place reads what it reads.
    """

    is_commutative = True
    is_integer = True
    is_nonnegative = True

    def __new__(cls, axis: Any) -> Expr:
        return Expr.__new__(cls, axis) if isinstance(axis, Axis) else axis

    def _sympystr(self, printer: Any) -> str:
        return str(printer.doprint(self.args[0]))

    def _latex(self, printer: Any) -> str:
        return str(printer.doprint(self.args[0]))
