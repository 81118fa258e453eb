"""A length for every axis, so that costs can be compared: 32 where an input carries it, and what follows from that.

Lengths agree with one another as an op's own inputs would: a merged axis is as long as its parts together, a window's
kernel is short, and so is what two products are taken through; what an argument counts (groups, heads) is few. Nothing
depends on the figures themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from sympy import Expr, Integer

from derive.decisions import BLOWN_UP, FEW, NOMINAL
from derive.facts.lengths.short_axes import filters, queries, ranks, taps
from derive.ir.equations import Op, SizeRule
from derive.ir.program import base
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.indices import Merge
from derive.ir.terms.windows import affine, is_gather, is_window


@dataclass(frozen=True)
class Nominal:
    """The length of each axis (32 where none is given), and the axes of each operand and output."""

    lengths: Mapping[str, float] = field(default_factory=dict)
    carriers: tuple[frozenset[str], ...] = ()

    def elements(self, axes: Iterable[str]) -> float:
        """The elements of a tensor over these axes."""
        return prod(self.lengths.get(base(a), float(NOMINAL)) for a in set(axes))

    @property
    def unweighted(self) -> Nominal:
        """The lengths alone, for counts that are shown to a reader."""
        return Nominal(self.lengths)

    def longest(self, axes: Iterable[str]) -> str:
        """The axis of most places, of several the first; no name where there is none."""
        return max(axes, key=lambda a: self.elements((a,)), default="")

    def weighted(self, axes: Iterable[str]) -> float:
        """The same, and more for a tensor of which no operand or output has all axes."""
        own = {base(a) for a in set(axes)}
        held = not self.carriers or any(own <= c for c in self.carriers)
        return self.elements(axes) * (1.0 if held else BLOWN_UP)


ALIKE = Nominal()
"""Every axis as long as any other: where nothing is known of them."""


@lru_cache(maxsize=64)
def nominal(op: Op) -> Nominal:
    """The lengths of an op's axes, and which axes its operands and outputs carry (a merged one under its parts too)."""
    splits = _splits(op)
    lengths = lengths_of(op)
    carried: list[frozenset[str]] = []
    for operand in op.operands:
        if operand.is_tensor:
            carried += _variants([a.base for a in operand.axes], splits)
    for name in op.outputs:
        equation = op.equation(name)
        if equation is not None:
            carried += _variants([op.axis_of(i) for i in equation.index], splits)
            carried.append(frozenset(a.base for a in equation.axes))
    return Nominal(lengths, tuple(dict.fromkeys(carried)))


def _splits(op: Op) -> dict[str, tuple[Axis, ...]]:
    """The merges that stand for a dimension: the name of the dimension, and the axes that it is made of."""
    found = dict(op.merged)
    for equation in op.equations:
        for at in equation.reads:
            for i, dim in zip(at.index, op.tensors.get(at.name, ()), strict=False):
                if isinstance(i, Merge) and isinstance(dim, Axis):
                    found[dim.base] = tuple(i.args)
                elif isinstance(i, Axis) and isinstance(dim, Merge):
                    found[i.base] = tuple(dim.args)
    return found


def _variants(axes: Iterable[str], splits: dict[str, tuple[Axis, ...]]) -> list[frozenset[str]]:
    """The axes as they are, and with every merged one taken apart."""
    own = list(axes)
    apart = [p.base for a in own for p in splits.get(a, ())] + [a for a in own if a not in splits]
    return [frozenset(own), frozenset(apart)]


def lengths_of(
    op: Op,
    usual: float | Callable[[str], float] = NOMINAL,
    few: float = FEW,
    given: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """A length for every axis, in agreement: the given ones, what follows from them, `few` or the `usual` otherwise.

    The usual length is one for all axes, or a function of an axis' name.
    """
    lengths = dict(given or {})
    usual_of = usual if callable(usual) else lambda _: usual
    rules = {r.axis.base: r for r in op.sizes}
    splits = _splits(op)
    for name, rule in rules.items():
        if rule.given is not None:
            lengths.setdefault(name, few)
        elif rule.formula is not None and not rule.formula.atoms(Size):
            lengths[name] = float(rule.formula)
    compared = queries(op.equations)
    for name in _kernels(op, rules):
        lengths.setdefault(name, usual_of(name) - few + 1 if name in compared else few)  # windows of a few places
    for name in ranks(op):
        lengths.setdefault(name, few)
    for name, rule in rules.items():
        if rule.operand is not None and name not in splits:
            lengths.setdefault(name, usual_of(name))
    for whole, parts in sorted(splits.items(), key=lambda split: split[0] not in lengths):  # what is given, first
        _shared_out(whole, [p.base for p in parts], lengths, usual_of(whole))
    for r in op.requirements:  # three gates of a size fit into what they are read of
        known = isinstance(r.left, Size) and all(s.axis.base in lengths for s in (r.left, *r.right.atoms(Size)))
        if known and (name := r.left.axis.base) not in (given or {}):
            lengths[name] = max(lengths[name], _number(r.right, lengths))
    for name, rule in rules.items():  # what a window leaves
        if rule.formula is not None and name not in lengths:
            lengths[name] = _number(rule.formula, lengths)
    return lengths


def _kernels(op: Op, rules: Mapping[str, SizeRule]) -> Iterator[str]:
    """The axes of windows that an input carries or an argument gives, and of two such the one that is summed."""
    position = {operand.name: k for k, operand in enumerate(op.operands)}
    carried = {name: position[rule.operand] for name, rule in rules.items() if rule.operand in position}
    yield from sorted(filters(op.equations, carried))
    summed = taps(op.equations)
    for equation in op.equations:
        for at in equation.reads:
            for i in at.index:
                if is_window(i) and not is_gather(i):
                    axes = [a.base for a, _ in affine(i).steps]
                    kernel = [a for a in axes if rules[a].formula is None or rules[a].axis.fixed is not None]
                    forwards = all(step > 0 for _, step in affine(i).steps)
                    yield from kernel if len(kernel) < len(axes) else sorted(summed & set(axes)) if forwards else ()


def _shared_out(whole: str, parts: list[str], lengths: dict[str, float], usual: float) -> None:
    """A part that nothing gives is what is left of the merged length."""
    known = prod(lengths[p] for p in parts if p in lengths)
    for name in (p for p in parts if p not in lengths):
        lengths[name] = max(2.0, lengths.get(whole, usual) // known)
        known *= lengths[name]
    lengths[whole] = known


def _number(formula: Expr, lengths: Mapping[str, float]) -> float:
    return float(formula.xreplace({size: Integer(int(lengths[size.axis.base])) for size in formula.atoms(Size)}))
