r"""Names as LaTeX: `x` in italics, a Greek name as its letter (`gamma`), others upright; `xhat` is `\hat{x}`.

An adjoint, `dx`, is `\mathrm{d}x`: which names are adjoints is data that the printer holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sympy.core.alphabets import greeks

_CAPITALS = ("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega")
_GREEK = {name: rf"\{name}" for name in (*greeks, *_CAPITALS) if name != "omicron"}
_GREEK |= {"eps": r"\varepsilon", "lam": r"\lambda", "lamda": r"\lambda"}
_ACCENTS = {"hat": r"\hat", "bar": r"\bar", "tilde": r"\tilde"}


def name_latex(name: str) -> str:
    """The name of a tensor, a scalar or an axis."""
    if len(name) == 1:
        return name
    if name in _GREEK:
        return _GREEK[name]
    for suffix, accent in _ACCENTS.items():
        stem = name.removesuffix(suffix)
        if stem != name and (len(stem) == 1 or stem in _GREEK):
            return rf"{accent}{{{name_latex(stem)}}}"
    return r"\mathrm{" + name.replace("_", r"\_") + "}"


class _Element(Protocol):
    """An element of a tensor: its name and its index."""

    @property
    def name(self) -> str: ...

    @property
    def index(self) -> Sequence[Any]: ...


def tensor_latex(at: _Element, printer: Any) -> str:
    """One element of a tensor, its index as a subscript; `printer.adjoints`, if any, are the adjoints."""
    name = at.name
    if name in getattr(printer, "adjoints", ()) and name.startswith("d") and len(name) > 1:
        head = r"\mathrm{d}" + name_latex(name[1:])
    else:
        head = name_latex(name)
    index = ",".join(printer.doprint(i) for i in at.index)
    return f"{head}_{{{index}}}" if index else head
