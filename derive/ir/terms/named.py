"""What functions of our own have in common: how they are typeset, and that real numbers go to real numbers."""

from __future__ import annotations

from typing import Any

from sympy import Function
from sympy.core.logic import fuzzy_and

from derive.primitives import PRIMITIVES, Primitive


class Named(Function):
    """A function that is real of real numbers, and typeset as its row says."""

    @property
    def row(self) -> Primitive:
        return PRIMITIVES[type(self).__name__]

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        power, inner = rf"^{{{exp}}}" if exp else "", ", ".join(printer.doprint(a) for a in self.args)
        latex = self.row.latex or rf"\operatorname{{{self.row.name}}}"
        return latex.format(x=inner, power=power) if "{x}" in latex else rf"{latex}{power}\left({inner}\right)"

    def _eval_is_extended_real(self) -> bool | None:
        return fuzzy_and(a.is_extended_real for a in self.args)

    _eval_is_real = _eval_is_extended_real

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.row.low >= 0 and all(a.is_extended_real for a in self.args) else None
