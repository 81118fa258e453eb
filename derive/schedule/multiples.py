"""A multiple of a tensor that there is anyway is not made where only the products that are gradients read it.

With `t = s / sqrt(d)` beside `s`, the gradient `t @ k` is `(s @ k) / sqrt(d)`: the number is multiplied with what has
the size of an input, and no second table stands beside the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from derive.decisions import MULTIPLES
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import multiplied, quotient
from derive.ir.nodes.products import fraction, is_matrix_product, is_tensor, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import axes_along, node_axes, reads, rebuilt, uses
from derive.ir.program import Assign, Node, Program, Read, Reduce, Statement


def without_multiples(program: Program, nominal: Nominal) -> Program:
    """The program with such numbers behind the sums."""
    apart = _all_apart(program)
    for s in program.statements:
        found = _multiple(s, program, apart)
        if found is not None:
            program = _read_instead(program, found, nominal)
            apart = _all_apart(program)
    return check(program)


@dataclass(frozen=True)
class _Multiple:
    """A statement that makes numbers times what another one makes."""

    statement: Assign
    base: Assign
    above: tuple[Node, ...]
    below: tuple[Node, ...]

    def times(self, node: Node) -> Node:
        return quotient([*self.above, node], list(self.below))


_Apart = tuple[tuple[tuple[Node, ...], ...], tuple[Node, ...], tuple[Node, ...]]
"""Of a product of quotients its tensors, above and below, and the numbers above and below."""


def _all_apart(program: Program) -> dict[str, _Apart]:
    return {name: _numbers_apart(s.value) for name, s in program.assigned.items()}


def _multiple(s: Statement, program: Program, apart: dict[str, _Apart]) -> _Multiple | None:
    """A statement as such a multiple, of the tensor that it reads or of the same product; None for any other."""
    known = program.assigned
    if not isinstance(s, Assign) or s.name not in known or s.name in program.returns:
        return None
    own, above, below = _numbers_apart(s.value)
    for base in known.values():
        if base.axes == s.axes and base != s:
            theirs, *others = apart[base.name]
            if own == ((Read(base.name, s.axes),), ()):
                return _Multiple(s, base, above, below)
            if own == theirs and not any(others) and reads(s.value).isdisjoint(program.added_to):
                return _Multiple(s, base, above, below)
    return None


def _numbers_apart(value: Node) -> _Apart:
    """What a product of quotients is made of."""
    sides = fraction(value)
    tensors = tuple(tuple(f for f in side if is_tensor(f)) for side in sides)
    above, below = (tuple(f for f in side if not is_tensor(f)) for side in sides)
    return tensors, above, below


def _read_instead(program: Program, found: _Multiple, nominal: Nominal) -> Program:
    """The program with the other tensor in every sum, and the numbers behind; the same where that does not serve."""
    name, sums = found.statement.name, list[Reduce]()

    def instead(node: Node) -> Node:
        if isinstance(node, Reduce) and is_matrix_product(node):
            factors = product_factors(node.body)
            own = [f for f in factors if isinstance(f, Read) and f.name == name]
            if len(own) == 1:
                sums.append(node)
                body = multiplied([Read(found.base.name, f.index) if f in own else f for f in factors])
                return found.times(replace(node, body=body))
        return rebuilt(node, instead)

    readers = {s.name for s, _ in uses(name, program.statements)}
    first = [found.base if s is found.statement else s for s in program.statements]  # where either of them stands
    rest = (s for k, s in enumerate(first) if s is not found.base or first.index(s) == k)
    new = tuple(replace(s, value=instead(s.value)) if s.name in readers else s for s in rest)
    size = sum(nominal.elements(node_axes(n)) for n in sums)
    small = size <= MULTIPLES * nominal.elements(axes_along(found.base.axes))
    serves = sums and small and readers <= set(program.returns) and not uses(name, new)
    return replace(program, statements=new) if serves else program
