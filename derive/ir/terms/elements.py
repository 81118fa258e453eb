"""Tensors, their elements, numbers given by the caller, and deltas of indices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sympy import Add, Basic, Expr, Integer, S, Symbol, sympify
from sympy.logic.boolalg import Boolean

from derive.ir.terms.asked import Above, NotAbove
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.indices import Prefix
from derive.ir.terms.latex import name_latex, tensor_latex


class Tensor(Symbol):
    """The name of a tensor; its elements are `At(tensor, *index)`. Assumptions stand on the name."""

    def __new__(cls, name: str, **assumptions: bool | None) -> Tensor:
        known = {key: value for key, value in assumptions.items() if value is not None}
        if not known.get("integer"):
            known.setdefault("real", True)
        return Symbol.__xnew__(cls, name, **known)

    @classmethod
    def of_any_value(cls, name: str) -> Tensor:
        """A tensor of which nothing is known, not even that its elements are finite."""
        return Symbol.__xnew__(cls, name)

    def _sympystr(self, printer: Any) -> str:
        return str(self.name)

    def _latex(self, printer: Any) -> str:
        return name_latex(self.name)


class Scalar(Symbol):
    """A number given by the caller, such as `eps`."""

    def __new__(cls, name: str, **assumptions: bool | None) -> Scalar:
        known = {key: value for key, value in assumptions.items() if value is not None}
        return Symbol.__xnew__(cls, name, **{"real": True, **known})


class _Indexed(Expr):
    """Something of indices. A window at one place, `3*i + d` at `i = 0`, reads the first places, not all of them."""

    def _xreplace(self, rule: Any) -> tuple[Any, bool]:
        windows = [i for i in self.args if isinstance(i, Add) and len(free_axes(i)) > 1]
        if not windows or self in rule:
            return super()._xreplace(rule)
        put = [i._xreplace(rule) for i in self.args]
        if not any(changed for _, changed in put):
            return self, False
        both = zip(self.args, put, strict=True)
        return self.func(*(Prefix(p) if i in windows and isinstance(p, Axis) else p for i, (p, _) in both)), True


class At(_Indexed):
    """One element of a tensor: `x[n, d]`. Each index is an axis, a merge, axis arithmetic, or an integer element."""

    is_commutative = True

    def __new__(cls, tensor: Tensor, *index: Any) -> At:
        return Expr.__new__(cls, tensor, *(sympify(i) for i in index))

    @property
    def tensor(self) -> Tensor:
        return self.args[0]

    @property
    def name(self) -> str:
        return self.args[0].name

    @property
    def index(self) -> tuple[Expr, ...]:
        return self.args[1:]

    def _eval_is_real(self) -> bool | None:
        return self.tensor.is_real

    def _eval_is_extended_real(self) -> bool | None:
        return self.tensor.is_extended_real

    def _eval_is_positive(self) -> bool | None:
        return self.tensor.is_positive

    def _eval_is_nonnegative(self) -> bool | None:
        return self.tensor.is_nonnegative

    def _eval_is_zero(self) -> bool | None:
        return False if self.tensor.is_positive or self.tensor.is_nonzero else None

    def _eval_is_integer(self) -> bool | None:
        return self.tensor.is_integer

    def _eval_is_finite(self) -> bool | None:
        return True

    def __gt__(self, other: Any) -> Boolean:
        return Above(self, S.Zero) if other == 0 else super().__gt__(other)

    def __le__(self, other: Any) -> Boolean:
        return NotAbove(self, S.Zero) if other == 0 else super().__le__(other)

    def _eval_derivative(self, s: Any) -> Expr:
        return S.One if s == self else S.Zero

    _diff_wrt = True

    def _sympystr(self, printer: Any) -> str:
        return f"{self.name}[{', '.join(printer.doprint(i) for i in self.index)}]"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = tensor_latex(self, printer)
        return rf"{{{body}}}^{{{exp}}}" if exp else body


class Delta(_Indexed):
    """Kronecker's delta of two indices: 1 where they are equal, else 0."""

    is_commutative = True
    is_nonnegative = True
    is_real = True

    def __new__(cls, a: Any, b: Any) -> Expr:
        a, b = sympify(a), sympify(b)
        if a == b:
            return S.One
        if isinstance(a, Integer) and isinstance(b, Integer):
            return S.Zero
        if Basic.compare(a, b) > 0:
            a, b = b, a
        return Expr.__new__(cls, a, b)

    def _eval_power(self, exponent: Any) -> Expr | None:
        return self if exponent.is_positive else None

    def _eval_derivative(self, s: Any) -> Expr:
        return S.Zero

    def _sympystr(self, printer: Any) -> str:
        return f"delta({printer.doprint(self.args[0])}, {printer.doprint(self.args[1])})"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return rf"\delta_{{{printer.doprint(self.args[0])},\,{printer.doprint(self.args[1])}}}"


@lru_cache(maxsize=200_000)
def reads_of(expr: Basic) -> tuple[At, ...]:
    """The elements that an expression reads, in a fixed order."""
    return tuple(sorted(expr.atoms(At), key=lambda at: at.sort_key()))


@lru_cache(maxsize=200_000)
def tensor_names(expr: Basic) -> frozenset[str]:
    """The names of the tensors an expression reads."""
    return frozenset(at.name for at in expr.atoms(At))


def at_index(value: Expr, axes: Sequence[Axis], index: Sequence[Expr]) -> Expr:
    """What stands over some axes at the index of a read, each axis put at its place: `u[n]*w[d]` at `[n, y[n]]`."""
    return value.xreplace(dict(zip(axes, index, strict=True)))
