"""A value between two others in one pass over memory for three: `(1 - w)*a + w*b` is `torch.lerp(a, b, w)`.

PyTorch takes `a + w*(b - a)` below a half and `b - (b - a)*(1 - w)` from there on, which is exact at both ends. Where
an end is infinite that may be no number, so a forward does this only where one end tells that both are finite. It is
not rounded as the products are: what the backward makes again, perhaps to compare it, both make as it is written.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from derive.backends.torch.layout import is_product
from derive.backends.values import Dims, Value
from derive.ir.nodes.arithmetic import ONE, multiplied
from derive.ir.nodes.products import is_tensor, product_factors
from derive.ir.program import Call, Node, Num, Program, Read, Reduce
from derive.primitives import FINITE, names
from derive.schedule.signs import plain as with_one_sign

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_FINITE = names(lambda r: r.finite == FINITE and not r.chooses)
_OF_FINITE = names(lambda r: r.finite == FINITE) | {"add", "sub", "neg", "mul"}


@dataclass(frozen=True)
class _Between:
    """`(1 - weight)*start + weight*end`."""

    start: Node
    end: Node
    weight: Node

    @property
    def ends(self) -> tuple[Node, Node]:
        return self.start, self.end


def between(printer: Printer, node: Call, order: Dims) -> Value | None:
    """The call for a sum of two products whose weights add up to 1; None for any other node."""
    found = _found(node)
    if found is None or node in printer.told_by_sign or printer.name in printer.twice:
        return None
    if not all(n == ONE or (is_tensor(n) and printer.dtypes.is_real(n)) for n in found.ends):
        return None
    if is_tensor(found.weight) and not printer.dtypes.is_real(found.weight):
        return None
    if printer.exact and not any(_is_finite(printer, n) for n in found.ends):
        return None
    return printer.issued(node, "lerp", (*found.ends, found.weight), order)


def made_twice(forward: Program, backward: Program, equations: Collection[str]) -> frozenset[str]:
    """The statements of both that may compute what both make; of a forward that has it in others, all of its own."""
    own, others = ({s.name for s in program.statements} for program in (forward, backward))
    again = others & (own | set(equations))
    return frozenset(again if again <= own else again | own)


def _found(node: Call) -> _Between | None:
    """A sum or a difference as a value between two, for a weight that its products have."""
    if node.fn not in ("add", "sub"):
        return None
    for first, second in (node.args, node.args[::-1]):
        start, end = product_factors(first), product_factors(second)
        one_less = (f for f in start if isinstance(f, Call) and f.fn == "sub" and f.args[0] == ONE and f.args[1] in end)
        rest = next(one_less, None)
        if isinstance(rest, Call):
            start.remove(rest)
            end.remove(rest.args[1])
            if node.fn == "sub":
                (end if first is node.args[0] else start).insert(0, Num(Fraction(-1)))
            one, other = (with_one_sign(multiplied(side or [ONE])) for side in (start, end))
            return _Between(one, other, rest.args[1])
    return None


def _is_finite(printer: Printer, node: Node) -> bool:
    """Whether a value is bounded, or made of matrix products: nothing that stands for a mask."""
    if isinstance(node, Read):
        known = printer.program.assigned.get(node.name)
        return known is not None and _is_finite(printer, known.value)
    if isinstance(node, Reduce):
        return is_product(node)
    if not isinstance(node, Call):
        return not is_tensor(node)
    return node.fn in _FINITE or (node.fn in _OF_FINITE and all(_is_finite(printer, a) for a in node.args))
