"""Values that are equal up to a number, or a sign: that is multiplied where it takes no pass.

- What all terms of a sum share is multiplied with the sum: `mean(x**2 / 2)` is `mean(x**2) / 2`. A number far from 1
  stays where the author has it, who may have kept the terms in range by it. So does one in a matrix product, which may
  take it along.
- What a tensor is multiplied with goes on to its readers, where each of them multiplies it by a number already: `s =
  r / 2`, read as `2 * s * w` alone, is `r`; a tensor divided by the caller's `power`, which each of its readers
  multiplies it with, is not divided. A pass is spared, and where both cancel another. What is no longer what its name
  says is called `…_scaled`.
- What is minus another tensor is that with a minus: `dz = -dx` for `dx = 2 * dy * w` and `dz = -2 * dy * w`. Where it
  is only added to others, place by place, the other is taken away there: `dx[1:] -= dz[:-1]`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

from derive.decisions import FAR
from derive.ir.nodes.arithmetic import ONE, number_apart, quotient, signless, times
from derive.ir.nodes.other_axes import with_axes
from derive.ir.nodes.products import fraction, is_matrix_product, is_tensor
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import renamed
from derive.ir.nodes.walking import bottom_up, by_axes, children, node_axes, reads, rebuilt, uses, walk
from derive.ir.program import Assign, Call, Index, Node, Num, Program, Read, Reduce, Scatter, Statement
from derive.ir.terms.names import free_name


def numbers_outside(program: Program) -> Program:
    """The program with numbers that all terms of a sum or mean share behind it."""
    statements = (replace(s, value=bottom_up(s.value, _outside)) if isinstance(s, Assign) else s
                  for s in program.statements)  # fmt: skip
    return replace(program, statements=tuple(statements))


def _outside(node: Node) -> Node:
    if not isinstance(node, Reduce) or node.kind not in ("sum", "mean"):
        return node
    number, rest = number_apart(node.body)
    product = is_matrix_product(replace(node, body=rest))
    plain = all(by_axes(n) for n in walk(rest) if isinstance(n, Read))
    whole = set(node.axes) <= set(node_axes(rest))
    if number == 1 or product or not plain or not whole or _is_far(Num(number)):
        return node
    return times(number, replace(node, body=rest))


def _is_far(number: Node) -> bool:
    return isinstance(number, Num) and not 1 <= FAR * abs(float(number.value)) <= FAR**2


# --- to the readers -------------------------------------------------------------------------------------------------


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


def _taking(node: Node, name: str, number: Node, divides: bool) -> Node | None:
    """A value with the number beside each element of the tensor; None where one has no number that takes it in."""
    if name not in reads(node):
        return node
    above, below = fraction(node)
    read = [f for f in above if _is_read(f, name)]
    if isinstance(node, Call) and node.fn in ("mul", "div") and read:
        others = [f for f in (*above, *below) if f not in read]
        return None if len(read) > 1 or any(name in reads(f) for f in others) else _with_number(node, number, divides)
    if _is_read(node, name):
        return None
    parts: dict[Node | Index, Node] = {}
    for child in (c for c in children(node) if name in reads(c)):
        taken = _taking(child, name, number, divides) if isinstance(child, Node) else None
        if taken is None:
            return None
        parts[child] = taken
    return rebuilt(node, lambda n: parts.get(n, n))


def _is_read(node: Node, name: str) -> bool:
    return isinstance(node, Read) and node.name == name


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


# --- signs ----------------------------------------------------------------------------------------------------------


def opposites(program: Program) -> Program:
    """The same program with each product of tensors, whatever its sign, computed once; numbers are written twice."""
    made: dict[tuple[tuple[Index, ...], Node], tuple[Assign, bool]] = {}
    out: list[Statement] = []
    for s in program.statements:
        if isinstance(s, Assign) and s.axes and s.name not in program.added_to:
            value, minus = signless(s.value)
            first, sign = made.setdefault((s.axes, value), (s, minus))
            if sign != minus and isinstance(value, Call) and value.fn in ("mul", "div"):
                s = replace(s, value=Call("neg", (Read(first.name, s.axes),)))
        out.append(s)
    program = replace(program, statements=tuple(out))
    for one in out:
        if isinstance(one, Assign) and _is_only_taken_away(one, program):
            program = _taken_away(one, program)
    return check(program)


def _is_only_taken_away(made: Assign, program: Program) -> bool:
    """Whether a tensor is minus another, which nothing adds to, and all that reads it adds it somewhere."""
    inner = made.value.args[0] if isinstance(made.value, Call) and made.value.fn == "neg" else None
    if not isinstance(inner, Read) or not by_axes(inner) or not all(isinstance(a, str) for a in made.axes):
        return False
    found = uses(made.name, program.statements)
    scattered = all(isinstance(s, Scatter) and s.kind == "sum" and s.value == read for s, read in found)
    at_slots = {n for s in program.statements for i in s.slots for n in reads(i)}
    elsewhere = {*program.returns, *program.added_to, *(s.onto for s in program.statements if isinstance(s, Scatter))}
    return bool(found) and scattered and made.name not in elsewhere | at_slots and inner.name not in program.added_to


def _taken_away(made: Assign, program: Program) -> Program:
    """The program without that tensor."""
    statements: list[Statement] = []
    for s in (s for s in program.statements if s is not made):
        if isinstance(s, Scatter) and isinstance(s.value, Read) and s.value.name == made.name:
            places = dict(zip(map(str, made.axes), s.value.index, strict=True))
            s = replace(s, value=with_axes(made.value, places))
        statements.append(s)
    return replace(program, statements=tuple(statements))
