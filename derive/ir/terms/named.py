"""What functions of our own have in common: how they are typeset, and that real numbers go to real numbers."""

from __future__ import annotations

from typing import Any

from sympy import Function


class Named(Function):
    """A function that is typeset by its name, an exponent between that and what it is of."""

    latex_name: str

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        power = rf"^{{{exp}}}" if exp else ""
        return rf"{self.latex_name}{power}\left({', '.join(printer.doprint(a) for a in self.args)}\right)"


class OfOneReal(Named):
    """A function of one number that is real of real numbers."""

    nargs = 1

    def _eval_is_real(self) -> bool | None:
        return self.args[0].is_extended_real

    def _eval_is_extended_real(self) -> bool | None:
        return self.args[0].is_extended_real
