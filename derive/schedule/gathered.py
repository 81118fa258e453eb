"""What is only read at gathered places is computed at these places alone: `log(q[n, y[n]])`, not all of `log(q)`."""

from __future__ import annotations

from dataclasses import replace

from derive.ir.nodes.other_axes import value_at
from derive.ir.nodes.products import is_tensor
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import axes_along, reads, walk
from derive.ir.program import Assign, Call, Index, Num, Program, Read, Scal, Scatter, SizeOf, Statement


def after_gathers(program: Program) -> Program:
    """The same program, with such pointwise tensors at the places where they are read."""
    statements, added_to = list(program.statements), program.added_to
    gathered = _gathered(statements)
    for k, s in reversed([*enumerate(statements)]):
        if s.name not in gathered or not isinstance(s, Assign) or added_to & {s.name, *reads(s.value)}:
            continue
        if not _is_pointwise(s):
            continue
        later = statements[k + 1 :]
        place = None if s.name in program.returns else _only_place(s, later)
        if place is not None:
            first = next(j for j, r in enumerate(later) if s.name in reads(r.value))  # the index is known by then
            axes = tuple(dict.fromkeys(axes_along(place)))
            made = replace(s, axes=axes, value=value_at(s, place))
            rest = [replace(r, value=put(r.value, Read(s.name, place), Read(s.name, axes))) for r in later[first:]]
            statements = [*statements[:k], *later[:first], made, *rest]
            gathered = _gathered(statements)
    return check(replace(program, statements=tuple(statements)))


def _gathered(statements: list[Statement]) -> set[str]:
    """The tensors that are read at gathered places."""
    read = (n for s in statements for n in walk(s.value) if isinstance(n, Read))
    return {n.name for n in read if any(isinstance(i, Read) for i in n.index)}


def _is_pointwise(s: Assign) -> bool:
    """Whether every element is made of elements at its own place, and of numbers."""
    plain = all(isinstance(i, str) for i in s.axes) and is_tensor(s.value)
    return plain and all(isinstance(n, Call | Read | Num | Scal | SizeOf | str) for n in walk(s.value))


def _only_place(s: Assign, later: list[Assign | Scatter]) -> tuple[Index, ...] | None:
    """The one place, with a gather in it and fewer axes than the tensor, where all that comes later reads it."""
    values = [n for r in later for n in walk(r.value)]
    slots = [n for r in later for i in r.slots for n in walk(i)]
    found = {n.index for n in values if isinstance(n, Read) and n.name == s.name}
    elsewhere = any(isinstance(n, Read) and n.name == s.name for n in slots)
    elsewhere = elsewhere or any(isinstance(r, Scatter) and r.onto == s.name for r in later)
    if len(found) != 1 or elsewhere:
        return None
    (place,) = found
    axes = set(axes_along(place))
    gathers = any(isinstance(i, Read) for i in place)
    return place if gathers and len(axes) < len(s.axes) and not any("'" in a for a in axes) else None
