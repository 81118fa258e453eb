"""What runs over axes of its own: a reduction as a spec says it, and a sum in normal form."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sympy import Basic, Expr, Symbol, Tuple, sympify

from derive.ir.terms.axes import Axis, Size


class _Bound(Expr):
    """What binds axes: they are not free in it, and its sign is that of what it runs over."""

    is_commutative = True

    @property
    def kind(self) -> str:
        return "sum"

    @property
    def body(self) -> Expr:
        raise NotImplementedError

    @property
    def over(self) -> tuple[Axis, ...]:
        raise NotImplementedError

    @property
    def free_symbols(self) -> set[Basic]:
        return self.body.free_symbols - set(self.over)

    def _eval_is_real(self) -> bool | None:
        return True

    def _eval_is_positive(self) -> bool | None:
        return self.body.is_positive

    def _eval_is_nonnegative(self) -> bool | None:
        return self.body.is_nonnegative

    def _sympystr(self, printer: Any) -> str:
        over = ", ".join(a.name for a in self.over)
        over = f"({over})" if len(self.over) > 1 else over
        return f"{self.kind}({printer.doprint(self.body)}, over={over})"


class TakenFirst(_Bound):
    """A sum that is taken before a number or a difference is added to it: `(1 - p) + 1e-8`, `(p - q) - (u - v)`."""

    @property
    def body(self) -> Expr:
        return self.args[0]

    @property
    def over(self) -> tuple[Axis, ...]:
        return ()

    def _sympystr(self, printer: Any) -> str:
        return f"({printer.doprint(self.body)})"


class Reduce(_Bound):
    """A reduction as a spec says it: `sum`, `mean`, `amax`, `amin` of a body over axes (still by their own names)."""

    kinds = ("sum", "mean", "amax", "amin", "prod")

    def __new__(cls, kind: Any, body: Any, *axes: Axis) -> Reduce:
        kind = Symbol(kind) if isinstance(kind, str) else kind
        return Expr.__new__(
            cls, kind, sympify(body), Tuple(*axes) if not axes or not isinstance(axes[0], Tuple) else axes[0]
        )

    @property
    def kind(self) -> str:
        return self.args[0].name

    @property
    def body(self) -> Expr:
        return self.args[1]

    @property
    def over(self) -> tuple[Axis, ...]:
        return tuple(self.args[2])

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = printer.doprint(self.body)
        if self.body.is_Add:
            body = rf"\left({body}\right)"
        axes = ",".join(printer.doprint(a) for a in self.over)
        size = "".join(printer.doprint(Size(a)) for a in self.over)
        head = {
            "sum": rf"\sum_{{{axes}}}",
            "mean": rf"\frac{{1}}{{{size}}}\sum_{{{axes}}}",
            "amax": rf"\max_{{{axes}}}",
            "amin": rf"\min_{{{axes}}}",
            "prod": rf"\prod_{{{axes}}}",
        }[self.kind]
        text = rf"{head} {body}"
        return rf"\left({text}\right)^{{{exp}}}" if exp else text


class Sigma(_Bound):
    """A sum in normal form: one product, summed over bound axes. Build it with `algebra.sigma`, never directly."""

    def __new__(cls, body: Any, *axes: Axis) -> Sigma:
        return Expr.__new__(cls, sympify(body), *axes)

    @property
    def body(self) -> Expr:
        return self.args[0]

    @property
    def over(self) -> tuple[Axis, ...]:
        return self.args[1:]

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        axes = ",".join(printer.doprint(a) for a in self.over)
        body = printer.doprint(self.body)
        if self.body.is_Add:
            body = rf"\left({body}\right)"
        text = rf"\sum_{{{axes}}} {body}"
        return rf"\left({text}\right)^{{{exp}}}" if exp else text


@lru_cache(maxsize=200_000)
def sums_of(expr: Expr) -> frozenset[Sigma]:
    """The sums that stand in an expression."""
    return frozenset(expr.atoms(Sigma))


@lru_cache(maxsize=200_000)
def has_sums(expr: Expr) -> bool:
    """Whether a sum, or a reduction as a spec says it, stands in an expression."""
    return bool(expr.has(Sigma, Reduce))
