"""A number that a tensor is multiplied with goes on to its readers, where each of them multiplies it by one already.

`s = r / 2`, read as `2 * s * w` alone, is `r`; a tensor divided by the caller's `power`, which each of its readers
multiplies it with, is not divided. A pass is spared, and where both cancel another. What is no longer what its name
says is called `…_scaled`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

from derive.decisions import FAR
from derive.ir.nodes.arithmetic import ONE, quotient
from derive.ir.nodes.products import fraction, is_tensor
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import renamed
from derive.ir.nodes.walking import children, rebuilt, walk
from derive.ir.program import Assign, Call, Index, Node, Num, Program, Read, Statement
from derive.ir.terms.names import free_name


def numbers_on(program: Program) -> Program:
    """The program with numbers of tensors that nobody else is given in the readers that have one."""
    statements = list(program.statements)
    made = Counter(s.name for s in statements)
    for name in [s.name for s in statements if isinstance(s, Assign) and made[s.name] == 1]:
        if name not in program.returns and name not in program.added_to:
            statements = _moved_on(statements, name, program.names)
    return check(replace(program, statements=tuple(statements)))


def _moved_on(statements: list[Statement], name: str, taken: set[str]) -> list[Statement]:
    """The statements with one number of this tensor in all its readers; the same where one of them has none."""
    own = next(s for s in statements if s.name == name)
    for divides, side in enumerate(fraction(own.value)):
        for number in (f for f in side if not is_tensor(f) and f != ONE and not _is_far(f)):
            changed = [
                _without(s.value, number, bool(divides)) if s is own else _taking(s.value, name, number, bool(divides))
                for s in statements
            ]
            values = [v for v in changed if v is not None]
            if len(values) == len(statements):
                named = {name: free_name(f"{name}_scaled", taken, "_")}
                moved = [replace(s, value=v) for s, v in zip(statements, values, strict=True)]
                return [renamed(replace(s, name=named.get(s.name, s.name)), named) for s in moved]
    return statements


def _is_far(number: Node) -> bool:
    return isinstance(number, Num) and not 1 <= FAR * abs(float(number.value)) <= FAR**2


def _taking(node: Node, name: str, number: Node, divides: bool) -> Node | None:
    """A value with the number beside each element of the tensor; None where one has no number that takes it in."""
    if not any(isinstance(n, Read) and n.name == name for n in walk(node)):
        return node
    above, below = fraction(node)
    if isinstance(node, Call) and node.fn in ("mul", "div") and any(_is_read(f, name) for f in above):
        others = [f for f in above if not _is_read(f, name)]
        if len(others) < len(above) - 1 or any(_reads(f, name) for f in (*others, *below)):
            return None
        return _with_number(node, number, divides)
    if _is_read(node, name):
        return None
    parts: dict[Node, Node] = {}
    for child in children(node):
        if _reads(child, name):
            taken = None if isinstance(child, str) else _taking(child, name, number, divides)  # type: ignore[arg-type]
            if taken is None:
                return None
            parts[child] = taken  # type: ignore[index]
    return rebuilt(node, lambda n: parts.get(n, n))


def _is_read(node: Node | Index, name: str) -> bool:
    return isinstance(node, Read) and node.name == name


def _reads(node: Node | Index, name: str) -> bool:
    return not isinstance(node, str) and any(_is_read(n, name) for n in walk(node))


def _with_number(chain: Call, number: Node, divides: bool) -> Node | None:
    """The chain with the number in one of its own, or against the same on the other side."""
    above, below = fraction(chain)
    against = above if divides else below
    if number in against:
        against.remove(number)
        return quotient(above, below)
    if not isinstance(number, Num) or isinstance(number.value, float):
        return None
    for side, factor in ((above, 1), (below, -1)):
        for k, f in enumerate(side):
            if isinstance(f, Num) and isinstance(f.value, Fraction):
                power = -factor if divides else factor
                side[k] = Num(f.value * number.value**power)
                return quotient(above, below)
    return None


def _without(value: Node, number: Node, divides: bool) -> Node:
    sides = fraction(value)
    sides[divides].remove(number)
    return quotient(*sides)
