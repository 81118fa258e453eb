"""Lengths that a kernel is to know and that no tensor it takes has, from those that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sympy import Expr, expand

from derive.backends.cpu.statements.merges import Parts
from derive.backends.cpu.statements.normal import Unsupported
from derive.ir.equations import Op
from derive.ir.terms.axes import Axis, Size


def in_turn(op: Op, parts: Parts, known: set[str], wanted: list[str], code: Callable[[Expr], str]) -> list[str]:
    """Lengths that follow from others, in order: what one follows from stands before it. `code` says a length.

    Raises Unsupported where a length that is wanted follows from none that is known.
    """
    out: list[str] = []

    def follows(axis: str, asking: frozenset[str]) -> bool:
        """Whether the length is known, by a line of its own if it has to be."""
        ways = [] if axis in asking else list(_ways(axis, op, parts, code))
        if axis in known or axis.isdecimal():
            return True
        for needed, how in ways:
            if all(follows(a, asking | {axis}) for a in needed):
                known.add(axis)
                out.append(f'("{axis}", lambda s: {how}), ')
                return True
        return False

    for axis in (a for w in wanted for a in axes_of(w)):
        if not follows(axis, frozenset()):
            raise Unsupported(f"the length of {axis}, which no tensor has")
    return out


def _ways(axis: str, op: Op, parts: Parts, code: Callable[[Expr], str]) -> Iterator[tuple[list[str], str]]:
    """The lengths that an axis's length follows from, and how; of a piece, those of what is joined and the others."""
    rule = next((r for r in op.sizes if r.axis.base == axis), None)
    if rule is not None and rule.formula is not None:
        yield sorted({s.axis.base for s in rule.formula.atoms(Size)}), code(rule.formula)
    elif axis in parts:
        yield [*parts[axis]], " * ".join(a if a.isdecimal() else f's["{a}"]' for a in parts[axis])
    for whole in op.sizes:
        if whole.formula is None or not _has(whole.formula, axis):
            continue
        others = expand(whole.formula - Size(Axis(axis)))
        if not _has(others, axis):
            rest = Size(whole.axis) - others
            yield sorted({s.axis.base for s in rest.atoms(Size)}), code(rest)


def _has(length: Expr, axis: str) -> bool:
    return any(s.axis.base == axis for s in length.atoms(Size))


def axes_of(dim: str) -> tuple[str, ...]:
    """The axes of a dimension."""
    return tuple(dim.strip("()").split(", "))
