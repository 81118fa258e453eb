"""What a backward in normal form is made of: definitions of tensors, in no order yet."""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Expr

from derive.terms.axes import Axis


@dataclass(frozen=True)
class Definition:
    """`name[axes] = value` with the value in normal form."""

    name: str
    axes: tuple[Axis, ...]
    value: Expr
