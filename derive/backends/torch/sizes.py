"""How code says lengths, of an axis and of an index inside a merge, and ranges over an axis."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from sympy import Expr

from derive.backends.code import Code, call
from derive.backends.values import PACK, Dims, Value, is_pack
from derive.facts.lengths.length_code import size_code
from derive.ir.nodes.walking import index_axes
from derive.ir.program import Call, Index, Node, Num, PartOf, Place, SizeOf, Window, base
from derive.ir.terms.axes import Rest, Size

Print = Callable[[Node, Dims], Value]
"""Prints a node, so that it broadcasts against these dimensions."""

_COUNTS: dict[str, Callable[[int, int], int]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


@dataclass(frozen=True)
class Sizes:
    """How code says the length of an axis, a number, and a range over an axis."""

    of: Callable[[str], str]
    number: Callable[[Node], str]
    device: Callable[[], Code]
    checked: set[str]  # integer tensors whose range torch itself checks as it reads by them
    slow: Callable[[str], int]  # of the two axes of a window, the one with less is its place, the other its tap
    tight: Callable[[str, Window], bool]  # whether a window over a dimension is what gives one of its axes its length
    after: Callable[[str, Window], Expr | None]  # how many places of a dimension lie behind a window's last
    given: frozenset[str] = frozenset()  # the integer tensors that are inputs

    def ordered(self, window: Window) -> list[tuple[str, int]]:
        """The axis that says where a window is with its step, then the axis inside the window with its dilation."""
        return in_order(window, self.slow)

    def behind(self, dim: str, window: Window) -> str | None:
        """How many places of a dimension lie behind those of a window of one axis; None where it leaves some out."""
        rest = self.after(dim, window)
        if rest is None or rest.atoms(Rest):
            return None  # it is no number of places where none is left
        lengths = sorted(s.axis.base for s in rest.atoms(Size))  # the first asked for is said first
        return size_code(rest, {axis: self.of(axis) for axis in lengths})

    def ends(self, dim: str, window: Window) -> bool:
        """Whether a window of one axis takes every place of a dimension up to the last."""
        return self.after(dim, window) == 0

    def arange(self, axis: str, dtype: Code | None = None) -> Code:
        return call("torch.arange", self.of(axis), device=self.device(), dtype=dtype)


def fixed(node: Node, lengths: Mapping[str, str]) -> int | None:
    """The whole number that sums and differences of numbers and of lengths that are fixed make; None for any other."""
    if isinstance(node, SizeOf):
        length = lengths.get(base(node.axis), "")
        return int(length) if length.isdecimal() else None
    if isinstance(node, Num):
        return int(node.value) if isinstance(node.value, Fraction) and node.value.denominator == 1 else None
    if not isinstance(node, Call) or node.fn not in _COUNTS:
        return None
    a, b = (fixed(n, lengths) for n in node.args)
    return None if a is None or b is None else _COUNTS[node.fn](a, b)


def in_order(window: Window, slow: Callable[[str], int]) -> list[tuple[str, int]]:
    """The axes of a window, its place first; where nothing tells, that is what takes longer steps, as a stride is."""
    return sorted(window.steps, key=lambda s: (slow(s[0]), -abs(s[1])))


def length(i: Index, sizes: Sizes) -> str:
    """The length of an index inside a merge, as an argument."""
    if isinstance(i, Place):
        return sizes.number(i.length)
    if isinstance(i, PartOf):
        return sizes.number(i.lengths[i.position])
    return ", ".join(f"*{sizes.of(a)}" if is_pack(a) else sizes.of(a) for a in index_axes(i))


def packs(i: Index) -> bool:
    """Whether an index stands for any number of dimensions: `...`, or what of a merge is `...`."""
    return is_pack(i) if isinstance(i, str) else isinstance(i, PartOf) and i.lengths[i.position] == SizeOf(PACK)
