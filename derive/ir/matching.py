"""Equality of sums up to the names of their free axes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from sympy import Expr

from derive.ir.terms.axes import Axis, free_axes, sorted_axes
from derive.ir.terms.elements import At, reads_of
from derive.ir.terms.reductions import Sigma


@lru_cache(maxsize=20_000)
def match(pattern: Sigma, candidate: Sigma) -> Mapping[Axis, Expr] | None:
    """What to put for the pattern's free axes so that it becomes the candidate, or None."""
    if len(pattern.over) != len(candidate.over):
        return None
    if pattern == candidate:
        return {a: a for a in free_axes(pattern)}
    elements = sorted(reads_of(pattern.body), key=lambda at: -len(at.index))
    theirs = reads_of(candidate.body)
    return _matched(pattern, candidate, elements, theirs, {})


def _compared(pattern: Sigma, candidate: Sigma, mapping: dict[Axis, Expr]) -> dict[Axis, Expr] | None:
    """`mapping` with what stands in conditions alone, as in `j >= i`, put on copies of it, if both are equal then."""
    left = sorted_axes(free_axes(pattern) - mapping.keys())
    if not left:
        return mapping if pattern.xreplace(dict(mapping)) == candidate else None
    theirs = sorted_axes(a for a in free_axes(candidate) if a.base == left[0].base)
    tried = (_compared(pattern, candidate, {**mapping, left[0]: a}) for a in theirs)
    return next((found for found in tried if found is not None), None)


def _matched(
    pattern: Sigma, candidate: Sigma, elements: list[At], theirs: tuple[At, ...], mapping: dict[Axis, Expr]
) -> dict[Axis, Expr] | None:
    """`mapping` with the pattern's elements put on the candidate's until it has all axes, if both are equal then."""
    if not elements or free_axes(pattern) <= mapping.keys():
        return _compared(pattern, candidate, mapping)
    lead, *rest = elements
    for at in theirs:
        both = list(zip(lead.index, at.index, strict=True)) if at.tensor == lead.tensor else []
        if at.tensor != lead.tensor or any(i != t for i, t in both if i.is_Integer or i in pattern.over):
            continue
        extended = dict(mapping)
        pairs = [(i, t) for i, t in both if isinstance(i, Axis) and i not in pattern.over]
        agree = all(extended.setdefault(i, t) == t for i, t in pairs)
        # what runs inside the candidate's sum cannot stand for an axis that is free outside the pattern's
        captured = any(t.free_symbols & set(candidate.over) for _, t in pairs)
        if agree and not captured:
            found = _matched(pattern, candidate, rest, theirs, extended)
            if found is not None:
                return found
    return None
