"""What a backward in normal form is made of: definitions of tensors, in no order yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sympy import Expr

from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import tensor_names


@dataclass(frozen=True)
class Definition:
    """`name[axes] = value` with the value in normal form."""

    name: str
    axes: tuple[Axis, ...]
    value: Expr


def circular(definitions: Iterable[Definition]) -> bool:
    """Whether one of them is needed to compute itself."""
    left = {d.name: tensor_names(d.value) for d in definitions}
    while ready := [name for name, reads in left.items() if not reads & left.keys()]:
        for name in ready:
            del left[name]
    return bool(left)
