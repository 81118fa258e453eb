"""Index bookkeeping of the chain rule: what stands over an equation's axes is carried to those of a tensor it reads.

These few rules are all of it: an axis that an operand lacks is summed (the forward broadcast it); an axis that a
reduction summed is broadcast back; a gather becomes a scatter-add and a window shifts back (both a delta between the
operand's index and where it was read); a diagonal scatters onto the diagonal; merged axes are taken apart, and parts
merged.
"""

from __future__ import annotations

from sympy import Expr, Integer, Mul

from derive.ir.algebra import sigma
from derive.ir.equations import Equation
from derive.ir.terms.axes import Axis, Size, free_axes, sorted_axes
from derive.ir.terms.elements import At, Delta
from derive.ir.terms.indices import Merge, Part

_SUMMED = 900  # copies that stand for an equation's own axes while they are being summed


def pull_back(equation: Equation, read: At, value: Expr, axes: tuple[Axis, ...]) -> tuple[Expr, tuple[str, ...]]:
    """Carry `value`, which stands over the equation's axes, to the axes of the tensor that was read."""
    rename: dict[Expr, Expr] = {}
    deltas: list[tuple[Axis, Expr]] = []
    rules: list[str] = []
    for slot, (axis, i) in enumerate(zip(axes, read.index, strict=True)):
        if isinstance(i, Axis) and i not in rename:
            rename[i] = axis
        elif isinstance(i, Merge) and not any(a in rename for a in i.args):
            lengths = [Size(a) for a in i.args]
            rename |= {a: Part(axis, k, *lengths) for k, a in enumerate(i.args)}
            rules.append("merged axes are taken apart")
        elif isinstance(i, Part) and isinstance(i.whole, Axis):
            whole = _whole(i, read.index, axes, slot)
            if whole is not None:
                rename[i.whole] = whole
                rules.append("parts are merged again")
            elif i.whole not in rename:
                deltas.append((axis, i))
        else:
            deltas.append((axis, i))
            rules.append(_delta_rule(i))
    own = sorted_axes((set(equation.axes) | set(equation.over) | free_axes(value)) - set(rename))
    fresh = {a: a.copied(_SUMMED + k) for k, a in enumerate(own)}
    rename |= fresh
    spread = Mul(*(Delta(axis, i.xreplace(rename)) for axis, i in deltas))
    if own:
        rules.append(f"summed over {', '.join(a.base for a in own)}, which {read.name} lacks")
    kept = [a.base for a in equation.over if a not in own]
    if kept:
        rules.append(f"broadcast back over {', '.join(kept)}")
    return sigma(value.xreplace(rename) * spread, fresh.values()), tuple(rules)


def _whole(part: Part, index: tuple[Expr, ...], axes: tuple[Axis, ...], slot: int) -> Expr | None:
    """The merge that undoes a full run of parts starting here."""
    count = len(part.lengths)
    run = index[slot : slot + count]
    if part.position == 0 and run == tuple(Part(part.whole, k, *part.lengths) for k in range(count)):
        return Merge(*axes[slot : slot + count])
    return None


def _delta_rule(i: Expr) -> str:
    if i.atoms(At):
        return "a gather becomes a scatter-add"
    if isinstance(i, Axis):
        return "a diagonal scatters onto the diagonal"
    return "one position is scattered to" if isinstance(i, Integer) else "a window shifts back"
