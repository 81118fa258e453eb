"""The annotations of a spec's inputs: `tensor[..., d]`, `constant[n]`, `index(c)[n]`, `length(h)`, `scalar`."""

from __future__ import annotations

import inspect
import math
from typing import Any

from sympy import Expr

from derive.errors import DeriveError
from derive.ir.equations import Operand
from derive.ir.terms.axes import PACK, Axis
from derive.notation.handles import RECORDING


def title(op: str) -> str:
    """An op's name as that of a class."""
    return "".join(part.capitalize() for part in op.split("_"))


class Kind:
    """An annotation: `tensor[..., d]`, `constant[n]`, `index(c)[n]`."""

    def __init__(
        self,
        kind: str,
        ranges_over: Axis | None = None,
        axes: tuple[Axis, ...] | None = None,
        assumed: str | None = None,
    ):
        self.kind, self.ranges_over, self.axes, self.assumed = kind, ranges_over, axes, assumed

    @property
    def nonzero(self) -> Kind:
        """The same, with no value 0: `gamma: tensor[d].nonzero`."""
        return Kind(self.kind, self.ranges_over, self.axes, "nonzero")

    @property
    def positive(self) -> Kind:
        """The same, with every value above 0."""
        return Kind(self.kind, self.ranges_over, self.axes, "positive")

    def __getitem__(self, key: Any) -> Kind:
        key = key if isinstance(key, tuple) else (key,)
        made = tuple(PACK if k is Ellipsis else k for k in key)
        if made.count(PACK) > 1:
            raise DeriveError(f"`...` stands twice in {self.kind}[…]", fix="write it once, and an axis for each other")
        if self.kind in ("scalar", "length"):
            raise DeriveError(f"{self.kind}[…] has axes", fix="a number has none: write scalar, or tensor[…]")
        for axis in made:
            if not isinstance(axis, Axis):
                raise _no_axis(axis, self.kind)
        return Kind(self.kind, self.ranges_over, made)

    def __call__(self, *axes: Any) -> Kind:
        raise DeriveError(f"{self.kind}(…) is called", fix=f"write axes in square brackets: {self.kind}[n, d]")


def _no_axis(given: Any, kind: str) -> DeriveError:
    """What to say of something else where the axes of an input stand."""
    if isinstance(given, int):
        return DeriveError(f"{given} is not an axis", fix=f'name an axis of that length: p = axes("p={given}")')
    if isinstance(given, tuple) and all(isinstance(a, Axis) for a in given):
        merge = f"({', '.join(a.base for a in given)})"
        return DeriveError(
            f"{merge} merges axes where {kind}[…] declares them",
            fix=f"declare one axis, and take it apart in an equation: f.z[…, {merge[1:-1]}] = x[…, {merge}]",
        )
    if isinstance(given, slice):
        return DeriveError("a slice `:` is not an axis", fix=f"name every axis: {kind}[n, d]")
    if isinstance(given, str):
        return DeriveError(f"{given!r} is not an axis", fix="write its name without quotes")
    if isinstance(given, Expr):
        return DeriveError(f"{given} is not an axis", fix="declare an axis of its own: its length is that of the input")
    return DeriveError(f"{given!r} is not an axis", fix='declare it with axes("…")')


tensor = Kind("tensor")
constant = Kind("constant")
scalar = Kind("scalar", axes=())


class Length:
    """A whole number that is the length of an axis, `heads: length(h)`; in a body `length(u, size(t) + 1)` says it."""

    def __call__(self, axis: Axis, places: Any = None) -> Kind | None:
        if not isinstance(axis, Axis):
            raise DeriveError(f"length({axis!r}): not an axis", fix='declare it with axes("…")')
        recorder = RECORDING.get()
        if recorder is None and places is None:
            return Kind("length", axis, axes=())
        if recorder is None or places is None:
            missing = "outside a spec" if recorder is None else "in its body without one"
            fix = "an argument is heads: length(h), and above the equations stands length(u, size(t) + 1)"
            raise DeriveError(f"length({axis}{'' if places is None else ', …'}) stands {missing}", fix=fix)
        recorder.say_length(axis, places)
        return None

    def __getitem__(self, key: Any) -> Kind:
        raise DeriveError("length[…] has axes", fix="name the axis in round brackets: length(h)")


length = Length()


class Index:
    """An integer tensor whose values run over an axis: `index(c)[n]`."""

    def __call__(self, axis: Axis) -> Kind:
        if not isinstance(axis, Axis):
            raise DeriveError(f"index({axis!r}): not an axis", fix='declare it with axes("…")')
        return Kind("index", axis)

    def __getitem__(self, key: Any) -> Kind:
        raise DeriveError("index[…] does not say what its values run over", fix="name that axis first: index(c)[n]")


index = Index()


# --- from a signature -------------------------------------------------------------------------------------


def operand(parameter: inspect.Parameter) -> Operand:
    """An input of an op, from its signature. Raises DeriveError where its annotation or its name cannot be."""
    kind = parameter.annotation
    if not isinstance(kind, Kind) or kind.axes is None:
        raise _no_kind(parameter.name, kind)
    has_default = parameter.default is not inspect.Parameter.empty
    if kind.kind not in ("scalar", "length") and has_default:
        raise DeriveError(
            f"input {parameter.name} is a tensor with a default", fix="only scalars and lengths take defaults"
        )
    default = parameter.default if has_default else None
    if has_default:
        _check_default(parameter.name, kind.kind, default)
    return Operand(
        parameter.name, kind.kind, _distinct(kind.axes), kind.ranges_over, default, has_default, kind.axes, kind.assumed
    )


def _no_kind(name: str, given: Any) -> DeriveError:
    """What to say of an annotation that is none, or that lacks its axes."""
    if isinstance(given, Kind):
        whole = f"index({given.ranges_over})" if given.ranges_over is not None else given.kind
        fix = f"write {name}: {whole}[n, d], or {name}: {whole}[()] where it has none"
        return DeriveError(f"input {name} is {whole} without its axes", fix=fix)
    if isinstance(given, str):
        return DeriveError(f"the kind of input {name} is a text", fix=f"write it without quotes: {name}: {given}")
    if isinstance(given, Index | Length):
        fix = f"write {name}: index(c)[n]" if isinstance(given, Index) else f"write {name}: length(h)"
        return DeriveError(f"input {name} does not say which axis it is of", fix=fix)
    return DeriveError(
        f"input {name} has no kind", fix=f"annotate it: {name}: tensor[n, d], index(c)[n], constant[n] or scalar"
    )


def _check_default(name: str, kind: str, default: Any) -> None:
    number = isinstance(default, int | float) and not math.isnan(default)
    if kind == "scalar" and not number:
        raise DeriveError(f"the default of {name} is {default!r}, no number", fix=f"write {name}: scalar = 1e-5")
    if kind == "length" and (not isinstance(default, int) or isinstance(default, bool) or default < 0):
        raise DeriveError(f"the default of {name} is {default!r}, no length", fix=f"write a whole number: {name} = 4")


def _distinct(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """An axis declared twice, as in `tensor[n, n]`, is two axes of one length."""
    out: list[Axis] = []
    for axis in axes:
        number, name = 2, axis
        while name in out:
            name, number = axis.renamed(f"{axis.base}{number}"), number + 1
        out.append(name)
    return tuple(out)
