"""What a forward takes, where no spec says so: as somebody writes it, by example, or guessed from its parameters."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from derive.errors import DeriveError
from derive.ir.equations import Operand, SizeRule
from derive.ir.terms.axes import PACK, PACK_NAME, Axis
from derive.verify.opaque import Constant, Opaque

_FIX = 'write it as --inputs "x: [..., d], w: [d], eps: 1e-5, t: index(d)[n]"'
_TENSOR = re.compile(r"(?:(tensor|constant)|index\((\w+)\))?\s*\[(.*)\](?:\.(positive|nonzero))?", re.S)
_SHAPE = re.compile(r"\d+(?:x\d+)+")
_SMALL_NUMBERS = ("eps", "epsilon")
_PATTERNS: Mapping[int, tuple[str, ...]] = {
    1: ("[..., d]", "[n, d]"),
    2: (
        *("[..., d]; [..., d]", "[..., d]; [d]", "[..., k]; [k, d]", "[..., k]; [d, k]"),
        *("[n, d]; index(d)[n]", "[n, d]; index(n)[m]"),
    ),
    3: (
        *("[..., d]; [..., d]; [..., d]", "[..., d]; [d]; [d]", "[..., k]; [k, d]; [d]", "[..., k]; [d, k]; [d]"),
        *("[n, d]; [m, d]; [m, e]", "[b, n, d]; [b, m, d]; [b, m, e]"),
    ),
    4: ("[..., d]; [..., d]; [..., d]; [..., d]", "[..., d]; [d]; [d]; [d]"),
}
"""Shapes that the tensors of a forward may have, by how many there are: a guess, which is printed."""


@dataclass(frozen=True)
class Taken:
    """One argument: a tensor over axes (numbers: lengths), an index, a number, or what every call is given."""

    name: str
    kind: str  # of an `Operand`, or "fixed"
    axes: tuple[str, ...] = ()
    ranges_over: str = ""
    value: Any = None
    assumed: str | None = None

    def __str__(self) -> str:
        if self.kind in ("scalar", "fixed"):
            shown = f"{list(self.value.shape)}" if isinstance(self.value, Tensor) else f"{self.value}"
            return f"{self.name} = {shown}"
        kind = f"index({self.ranges_over})" if self.ranges_over else "constant" if self.kind == "constant" else ""
        return f"{self.name} {kind}[{', '.join(self.axes)}]"


def written(text: str) -> tuple[Taken, ...]:
    """What `--inputs` says: `x: [..., d], n: [3, 5], t: index(d)[n], m: constant[d], eps: 1e-5`.

    Raises DeriveError where it cannot be read.
    """
    out = []
    for part in re.split(r",(?![^\[(]*[\])])", text):
        name, colon, what = (p.strip() for p in part.partition(":"))
        if not colon or not name.isidentifier() or not what:
            raise DeriveError(f"--inputs: {part.strip() or 'nothing'} is no argument", fix=_FIX)
        out.append(_one(name, what))
    return tuple(out)


def _one(name: str, what: str) -> Taken:
    what = f"[{what.replace('x', ', ')}]" if _SHAPE.fullmatch(what) else what
    found = _TENSOR.fullmatch(what)
    if found is None:
        try:
            return _plain(name, ast.literal_eval(what))
        except (ValueError, SyntaxError):
            raise DeriveError(f"--inputs: {name} is {what}, no shape and no number", fix=_FIX) from None
    kind, over, inside, assumed = found.groups()
    axes = tuple(a.strip() for a in inside.split(",")) if inside.strip() else ()
    for axis in axes:
        if axis != PACK_NAME and not axis.isidentifier() and not axis.isdigit():
            raise DeriveError(f"--inputs: {name} has an axis {axis or 'without a name'}", fix=_FIX)
    return Taken(name, "index" if over else kind or "tensor", axes, over or "", None, assumed)


def _plain(name: str, value: Any) -> Taken:
    """A float may be another in another call; what else is no tensor is as it is."""
    return Taken(name, "scalar" if isinstance(value, float) else "fixed", value=value)


def by_example(names: Sequence[str], values: Sequence[Any]) -> tuple[Taken, ...]:
    """What `example_inputs()` of the file returned: lengths that are equal are one axis."""
    lengths = sorted({n for v in values if isinstance(v, Tensor) for n in v.shape})
    out = []
    for name, value in zip(names, values, strict=False):
        if not isinstance(value, Tensor):
            out.append(_plain(name, value))
            continue
        axes = tuple(map(str, value.shape))
        if value.is_floating_point():
            positive = value.numel() > 3 and bool((value > 0).all())
            out.append(Taken(name, "tensor", axes, assumed="positive" if positive else None))
            continue
        whole = value.dtype == torch.int64 and value.numel() and int(value.min()) >= 0
        over = [n for n in lengths if whole and n > int(value.max())]
        out.append(Taken(name, "index", axes, str(over[0])) if over else Taken(name, "fixed", value=value))
    return tuple(out)


def guessed(parameters: Sequence[inspect.Parameter]) -> Iterator[tuple[Taken, ...]]:
    """What such parameters may be, the likeliest first: those without a default are tensors, or a small number."""
    plain, tensors = [], []
    for p in parameters:
        if p.default is not p.empty:
            plain.append(_plain(p.name, p.default))
        elif p.name in _SMALL_NUMBERS or p.annotation in (float, "float"):
            plain.append(Taken(p.name, "scalar", value=1e-5 if p.name in _SMALL_NUMBERS else 0.7))
        elif p.annotation in (int, bool, str, "int", "bool", "str"):
            return
        else:
            tensors.append(p.name)
    for pattern in _PATTERNS.get(len(tensors), ()):
        shapes = [_one(name, what.strip()) for name, what in zip(tensors, pattern.split(";"), strict=True)]
        yield (*shapes, *plain)


def opaque(
    name: str,
    function: Callable[..., Any],
    parameters: Sequence[inspect.Parameter],
    taken: Sequence[Taken],
    fixed: bool = False,
) -> Opaque:
    """An op of a function that takes these. Lengths given as numbers are free unless they are to stay `fixed`.

    Raises DeriveError where a parameter is left out, or there is none of that name.
    """
    known = {p.name: p for p in parameters}
    said = {t.name: t for t in taken}
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    strange = [n for n in said if n not in known and not several]
    if strange:
        raise DeriveError(f"its forward takes no {strange[0]}", op=name, fix=f"it takes {', '.join(known)}")
    missing = [n for n, p in known.items() if n not in said and p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if missing:
        raise DeriveError(f"what {missing[0]} is, is not said", op=name, fix=_FIX)
    order = list(said) if several else [n for n, p in known.items() if n in said or p.default is not p.empty]
    each = [said.get(n) or _plain(n, known[n].default) for n in order]
    operands = tuple(_operand(t, fixed) for t in each if t.kind != "fixed")
    axes: dict[Axis, SizeRule] = {}
    for operand in operands:
        for k, axis in enumerate(operand.axes):
            axes.setdefault(axis, SizeRule(axis, None if axis.fixed else operand.name, k))
    for t in each:
        if t.ranges_over and _axis(t.ranges_over, fixed) not in axes:
            raise DeriveError(
                f"{t.name} is index({t.ranges_over}), and no tensor has an axis {t.ranges_over}", op=name, fix=_FIX
            )
    given = tuple(Constant(t.value) if t.kind == "fixed" else t.name for t in each)
    return Opaque(
        name=name, doc="", operands=operands, equations=(), outputs=(), sizes=tuple(axes.values()),
        function=function, given=given,
    )  # fmt: skip


def _operand(t: Taken, fixed: bool) -> Operand:
    axes = tuple(_axis(a, fixed) for a in t.axes)
    if t.kind == "scalar":
        return Operand(t.name, "scalar", default=t.value, has_default=True)
    over = _axis(t.ranges_over, fixed) if t.ranges_over else None
    return Operand(t.name, t.kind, axes, over, assumed=t.assumed)


def _axis(name: str, fixed: bool) -> Axis:
    """The axis of that name; a number is the name of an axis of its own, of that length where it is fixed."""
    if name == PACK_NAME:
        return PACK
    return Axis(f"n{name}", 0, int(name) if fixed else None) if name.isdigit() else Axis(name)
